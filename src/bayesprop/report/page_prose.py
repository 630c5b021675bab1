"""What every report says in sentences: the rows it judges, the fit, the effects."""

from __future__ import annotations

from dataclasses import dataclass

from bayesprop.report.calibration import MIN_ROWS
from bayesprop.report.linear_weights import WeightLine
from bayesprop.report.page_contents import PageContents
from bayesprop.report.words import alike, join, label, number, percent, plural

ROWS = {"held-out": "held-out row", "training": "training row", "table": "row"}
_GUARDS = {
    "weights_undone": (
        "Weight updates undone",
        "An update would have made a variance negative or non-finite, so that weight kept its "
        "previous mean and variance. A few are harmless; more than 1 % point to extreme values "
        "in the table.",
    ),
    "noise_kept": (
        "Noise updates skipped",
        "A row would have left the noise without a finite variance, so the noise estimate was "
        "kept. It takes a row far from its prediction, many standard deviations: an outlier.",
    ),
    "prior_kept": (
        "Prior refreshes skipped",
        "After an epoch, a weight's share of the prior could not be recomputed within its valid "
        "region and was kept. This slows the adaptation of the prior, not that of the weights.",
    ),
    "steps_damped": (
        "Mini-batch steps shortened",
        "A mini-batch would have more than halved what is known of the noise, so its step was "
        "shortened. If this is frequent, take a smaller batch.",
    ),
    "prior_uninformed": (
        "Prior refreshes put off",
        "After an epoch, the data said next to nothing about a weight, so it kept its share of the "
        "prior. No trouble: it counts weights that the table cannot determine, many of them with "
        "several hidden layers.",
    ),
    "dead_units": (
        "Hidden units asleep",
        "What leaves such a unit kept its prior: the table gave it nothing to say. No trouble: it "
        "is how a network that is larger than its table needs stays simple. Below 150 rows a "
        "linear model beside the network may say it all.",
    ),
    "members_restarted": (
        "Networks restarted",
        "A network of the ensemble had given up on rows that the others fit, and was trained from "
        "another start. No trouble, if they are few.",
    ),
    "residual_rows": (
        "Rows that the networks left",
        "At rows that the networks had not seen, their errors had a pattern, which a Gaussian "
        "process of so many rows adds to their mean. No trouble: the table holds more detail than "
        "networks of this size.",
    ),
    "replicated_inputs": (
        "Inputs remembered",
        "Rows of the same inputs agree more closely than the noise allows for, so that the next "
        "target at inputs of the table is expected like the last; new inputs gain nothing from it. "
        "Copies made by mistake would look the same: if there are any, remove them.",
    ),
    "epochs_undone": (
        "Epochs undone",
        "An epoch left the finite numbers, so the weights are those from before it, and training "
        "stopped there. Lower the learning rate.",
    ),
    "rows_refused": (
        "Rows refused",
        "An update was not finite, so the row changed nothing. Look for extreme values in the "
        "table.",
    ),
    "steps_shortened": (
        "Steps shortened",
        "A row asked for a change of a binary weight too large to be trusted, so its step was "
        "shortened. Frequent where few inputs meet, and no hidden units.",
    ),
    "weights_at_bound": (
        "Weights as good as certain",
        "Binary weights that can learn no more. If they are most, take fewer epochs or more units.",
    ),
    "diverged": (
        "Draws that diverged",
        "A trajectory ran off, so that a part of the posterior may be missing from the draws. "
        "Raise target_acceptance, or give the weights a narrower prior.",
    ),
    "not_converged": (
        "Not converged",
        "The search stopped before its optimum. Raise max_steps.",
    ),
}
_TRACES = {
    "mean_log_z": (
        "Log Z",
        "Mean log probability of a row just before the model absorbed it, in standardised units. "
        "It should rise and level off; still rising means that more epochs would help.",
    ),
    "noise_std": (
        "Noise std",
        "The scatter that the model attributes to noise, in the units of the target.",
    ),
    "epistemic_share": (
        "Epistemic share",
        "Share of the predicted variance, on training rows, that more data would remove.",
    ),
    "variance_removed": (
        "Variance removed",
        "Share of the outputs' variance that a row removes: what there is still to learn from it.",
    ),
    "loss": (
        "Loss",
        "What the fit minimises. It should fall and level off; still falling means that more "
        "epochs would help. It rises where the price of complexity enters by degrees.",
    ),
    "data_loss": (
        "Loss of the data",
        "The part of it that the training rows make. It rises as the price of complexity enters: "
        "the model lets go of what it had learnt by heart.",
    ),
    "kl": (
        "KL divergence",
        "How far the weights have moved from their prior: what the model has learnt, and pays for.",
    ),
    "mean_log_likelihood": (
        "Mean log-likelihood",
        "Of the training rows, in standardised units. It should rise and level off.",
    ),
    "validation_loss": (
        "Validation loss",
        "On rows that the fit did not train on. The weights kept are those at its lowest point; "
        "rising after it is overfitting.",
    ),
}
_EVIDENCE = {
    "prequential": "prequential (every row predicted before it was absorbed)",
    "ep": "by expectation propagation",
}


@dataclass(frozen=True)
class Guard:
    """How often a guard fired, and what that means."""

    name: str
    count: str
    meaning: str
    fired: bool


def rows_judged(contents: PageContents) -> str:
    """Name the rows that the metrics are computed on."""
    return plural(contents.n_rows, ROWS[contents.kind])


def rows_tile(contents: PageContents) -> tuple[str, str, str]:
    """Give name, value and note of the number of rows."""
    training = f"{contents.fit.n_rows:,} to train on"
    note = "none held out" if contents.kind == "training" else training
    return f"{ROWS[contents.kind].capitalize()}s", f"{contents.n_rows:,}", note


def facts(contents: PageContents) -> str:
    """Say in a line what the page is about."""
    trained = plural(contents.fit.n_rows, "training row")
    judged = "" if contents.kind == "training" else f"judged on {rows_judged(contents)}"
    parts = (
        label(contents.about.source, 80) if contents.about.source else "",
        trained,
        judged,
        contents.about.created,
    )
    return " · ".join(part for part in parts if part)


def too_few(contents: PageContents) -> str:
    """Say why a figure is missing."""
    return f"This picture needs at least {MIN_ROWS} rows; there are {contents.n_rows}."


def notices(contents: PageContents) -> list[str]:
    """Say what a reader must know before believing a figure."""
    found = []
    if contents.kind == "training":
        found.append(
            "No rows were held out: every figure below is measured on the rows that the model "
            "was fitted to, which flatters it. Hold rows out (--test-fraction 0.1) to see how it "
            "does on new ones."
        )
    if contents.kind == "table":
        found.append(
            "The figures below are measured on the table given to the report. If the model was "
            "fitted to some of its rows, they flatter it."
        )
    said = (*contents.about.remarks, *contents.fit.warnings)
    return [*found, *(label(text, 400) for text in said)]


def comparison(contents: PageContents, baseline: str, name: str) -> list[str]:
    """Say whether the model beats a baseline in log-likelihood; `name` as in "a linear model"."""
    found = next((c for c in contents.comparisons if c.baseline == baseline), None)
    # On training rows the more flexible model wins, whatever it is worth.
    if found is None or contents.kind == "training":
        return []
    gain, error = alike([abs(found.gain), found.error], found.error, 1)
    size = f"{gain} ± {error} nats a row"
    if not found.is_clear:
        return [
            f"In log-likelihood it cannot be told from {name} on these rows (the "
            f"difference is {size}): the simpler model may do."
        ]
    if found.gain > 0:
        return [f"In log-likelihood it beats {name} by {size}, more than chance explains."]
    return [
        f"In log-likelihood {name} beats it by {size}: prefer the simpler model, or give "
        "this one more rows or epochs."
    ]


def traces(contents: PageContents) -> list[tuple[str, str]]:
    """Title and explanation of every diagnostic of training; its own name where it is unknown."""
    return [_TRACES.get(name, (_in_words(name), "")) for name in contents.fit.trace]


def guards(contents: PageContents) -> list[Guard]:
    """Put every guard count in words."""
    fit, found = contents.fit, []
    for key, count in fit.guards.items():
        name, meaning = _GUARDS.get(key, (_in_words(key), ""))
        attempts = _attempts(contents, key)
        share = f" ({percent(count / attempts, 1)} of {attempts:,})" if count and attempts else ""
        found.append(Guard(name, f"{count:,}{share}", meaning, count > 0))
    return found


def _in_words(name: str) -> str:
    words = label(name, 40).replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"


def _attempts(contents: PageContents, guard: str) -> int:
    """How often a guard could have fired; 0 if unknown."""
    fit = contents.fit
    if guard == "weights_undone":
        return fit.n_updates
    # The prior factor of every weight is refreshed once an epoch, not once a row.
    return fit.n_updates // max(fit.n_rows, 1) if guard.startswith("prior_") else 0


def guard_sentence(contents: PageContents) -> str:
    """Say whether any guard fired."""
    fired = [guard.name.lower() for guard in guards(contents) if guard.fired]
    if not contents.fit.guards:
        return "This method counts no guarded updates."
    if not fired:
        return "No numerical guard fired: every update was applied as computed."
    return f"Numerical guards fired: {join(fired)}."


def fit_sentence(contents: PageContents) -> str:
    """Say what the fit was: rows, epochs, time, evidence."""
    fit = contents.fit
    evidence = [
        f"{_EVIDENCE.get(name, label(name))} {number(value, 4)} nats"
        for name, value in sorted(fit.log_evidence.items(), reverse=True)
    ]
    text = (
        f"Fitted to {plural(fit.n_rows, 'row')} in {plural(fit.n_epochs, label(fit.step))} and "
        f"{number(fit.seconds, 2)} seconds."
    )
    return f"{text} Estimated log evidence: {join(evidence)}." if evidence else text


def effects_sentence(contents: PageContents) -> str:
    """Say how the effects were measured."""
    found = contents.effects
    if not found.shown:
        return "No feature varies, so there is no effect to show."
    return (
        "Each picture sets one feature to a range of values in "
        f"{plural(found.n_background, 'row')} of the table, leaves the other features "
        "as they are, and averages the predictions. "
        "Ordered by how much the average moves."
    )


def other_effects(contents: PageContents) -> str:
    """List the features that have no picture, with the movement of each."""
    others = contents.effects.others
    if not others:
        return ""
    listed = [f"{label(name, 40)} ({number(moved, 2)})" for name, moved in others[:40]]
    more = len(others) - len(listed)
    if more:
        listed.append(f"{more:,} more that move it less")
    how = ", measured on a coarser grid" if contents.effects.screened else ""
    return f"The others, with the movement of the average prediction{how}: {join(listed)}."


def weight_numbers(line: WeightLine) -> list[str]:
    """Write a weight and its interval with as many decimals as the interval deserves."""
    return alike([line.mean, line.low, line.high], (line.high - line.low) / 3.0)

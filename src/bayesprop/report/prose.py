"""What a report says in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from bayesprop.report.calibration import MIN_ROWS
from bayesprop.report.contents import ReportContents
from bayesprop.report.scoring import Score
from bayesprop.report.words import alike, join, label, number, percent, plural, with_unit

_ROWS = {"held-out": "held-out row", "training": "training row", "table": "row"}
_BASELINES = {"linear": "a Bayesian linear model", "constant": "the training mean alone"}
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
}
_SHORT = {"linear": "linear", "constant": "training mean"}
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


def rows_judged(contents: ReportContents) -> str:
    """Name the rows that the metrics are computed on."""
    return plural(contents.n_rows, _ROWS[contents.kind])


def facts(contents: ReportContents) -> str:
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


def tiles(contents: ReportContents) -> list[tuple[str, str, str]]:
    """Give the four figures to remember: name, value, note."""
    score = _score(contents, "RMSE")
    beside = [
        f"{_SHORT[name]} {number(score.values[i])}"
        for i, name in enumerate(contents.models)
        if name in _SHORT
    ]
    held, width = _at_90(contents)
    rows = f"{contents.fit.n_rows:,} to train on"
    return [
        ("RMSE", with_unit(number(score.values[0]), contents.about.unit), "; ".join(beside)),
        ("Held by 90 % intervals", held, f"mean width {width}"),
        ("Epistemic share", percent(contents.epistemic_share), "of the predicted variance"),
        (
            f"{_ROWS[contents.kind].capitalize()}s",
            f"{contents.n_rows:,}",
            "none held out" if contents.kind == "training" else rows,
        ),
    ]


def drawn(contents: ReportContents) -> str:
    """Say so where not every row is drawn."""
    n = len(contents.cloud.actual)
    return f" {n:,} of {contents.n_rows:,} rows drawn." if n < contents.n_rows else ""


def too_few(contents: ReportContents) -> str:
    """Say why a figure is missing."""
    return f"This picture needs at least {MIN_ROWS} rows; there are {contents.n_rows}."


def traces(contents: ReportContents) -> list[tuple[str, str]]:
    """Title and explanation of every diagnostic of training."""
    return [
        _TRACES.get(name, (label(name, 40).replace("_", " ").capitalize(), ""))
        for name in contents.fit.trace
    ]


def notices(contents: ReportContents) -> list[str]:
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
    return [*found, *(label(text, 400) for text in (*contents.remarks, *contents.fit.warnings))]


def summary(contents: ReportContents) -> list[str]:
    """Say in a few sentences how good the predictions are and how far to trust them."""
    return [
        " ".join((_accuracy(contents), _beside_baselines(contents))).strip(),
        _intervals(contents),
        _uncertainty(contents),
        *_comparison(contents),
    ]


def _score(contents: ReportContents, name: str) -> Score:
    return next(score for score in contents.scores if score.name == name)


def _accuracy(contents: ReportContents) -> str:
    rmse = with_unit(number(_score(contents, "RMSE").values[0]), contents.about.unit)
    median = with_unit(number(contents.median_error), contents.about.unit)
    far = (
        ""
        if len(contents.about.unit) <= 20
        else f" The unit is: {label(contents.about.unit, 120)}."
    )
    return (
        f"On {rows_judged(contents)}, predictions of {label(contents.about.target)} are off by "
        f"about {rmse} (RMSE); half of them by less than {median}.{far}"
    )


def _beside_baselines(contents: ReportContents) -> str:
    rmse = _score(contents, "RMSE").values
    beside = [
        f"{_BASELINES[name]} by {number(rmse[i])}"
        for i, name in enumerate(contents.models)
        if name in _BASELINES
    ]
    if not beside:
        return ""
    text = join(beside)
    return f"{text[0].upper()}{text[1:]}." if len(beside) == 1 else f"For comparison: {text}."


def _intervals(contents: ReportContents) -> str:
    held, width = _at_90(contents)
    return (
        f"The {percent(0.9)} intervals held {held} of the rows and are {width} wide on average. "
        f"{contents.calibration.verdict.headline}"
    )


def _at_90(contents: ReportContents) -> tuple[str, str]:
    """Coverage and mean width of the 90 % intervals."""
    found = {score.name: score.values[0] for score in contents.scores}
    width = number(found[f"Width of {percent(0.9)} intervals"])
    return percent(found[f"Coverage of {percent(0.9)} intervals"]), with_unit(
        width, contents.about.unit
    )


def _uncertainty(contents: ReportContents) -> str:
    return (
        f"On average {percent(contents.epistemic_share)} of the predicted variance is epistemic: "
        "the model's own uncertainty, which more data would reduce. The rest is noise: scatter "
        "that these features do not explain."
    )


def _comparison(contents: ReportContents) -> list[str]:
    found = next((c for c in contents.comparisons if c.baseline == "linear"), None)
    # On training rows the more flexible model wins, whatever it is worth.
    if found is None or contents.kind == "training":
        return []
    gain, error = alike([abs(found.gain), found.error], found.error, 1)
    size = f"{gain} ± {error} nats a row"
    if not found.is_clear:
        return [
            f"In log-likelihood it cannot be told from a linear model on these rows (the "
            f"difference is {size}): the simpler model may do."
        ]
    if found.gain > 0:
        return [f"In log-likelihood it beats a linear model by {size}, more than chance explains."]
    return [
        f"In log-likelihood a linear model beats it by {size}: prefer the simpler model, or give "
        "this one more rows or epochs."
    ]


def guards(contents: ReportContents) -> list[Guard]:
    """Put every guard count in words."""
    fit, found = contents.fit, []
    for key, count in fit.guards.items():
        name, meaning = _GUARDS.get(key, (label(key).replace("_", " ").capitalize(), ""))
        attempts = _attempts(contents, key)
        share = f" ({percent(count / attempts, 1)} of {attempts:,})" if count and attempts else ""
        found.append(Guard(name, f"{count:,}{share}", meaning, count > 0))
    return found


def _attempts(contents: ReportContents, guard: str) -> int:
    """How often a guard could have fired; 0 if unknown."""
    fit = contents.fit
    if guard == "weights_undone":
        return fit.n_updates
    # The prior factor of every weight is refreshed once an epoch, not once a row.
    return fit.n_updates // max(fit.n_rows, 1) if guard.startswith("prior_") else 0


def fit_sentence(contents: ReportContents) -> str:
    """Say what the fit was: rows, epochs, time, evidence."""
    fit = contents.fit
    evidence = [
        f"{_EVIDENCE.get(name, label(name))} {number(value, 4)} nats"
        for name, value in sorted(fit.log_evidence.items(), reverse=True)
    ]
    text = (
        f"Fitted to {plural(fit.n_rows, 'row')} in {plural(fit.n_epochs, 'epoch')} and "
        f"{number(fit.seconds, 2)} seconds."
    )
    return f"{text} Estimated log evidence: {join(evidence)}." if evidence else text


def guard_sentence(contents: ReportContents) -> str:
    """Say whether any guard fired."""
    fired = [guard.name.lower() for guard in guards(contents) if guard.fired]
    if not contents.fit.guards:
        return "This method counts no guarded updates."
    if not fired:
        return "No numerical guard fired: every update was applied as computed."
    return f"Numerical guards fired: {join(fired)}."


def effects_sentence(contents: ReportContents) -> str:
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


def other_effects(contents: ReportContents) -> str:
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

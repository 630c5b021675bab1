"""How a fit went, in sentences: its length, its course, its guards."""

from __future__ import annotations

from dataclasses import dataclass

from bayesprop.model.fit_report import FitReport
from bayesprop.report.words import join, label, number, percent, plural

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


def fit_sentence(fit: FitReport) -> str:
    """Say what the fit was: rows, epochs, time, evidence."""
    evidence = [
        f"{_EVIDENCE.get(name, label(name))} {number(value, 4)} nats"
        for name, value in sorted(fit.log_evidence.items(), reverse=True)
    ]
    text = (
        f"Fitted to {plural(fit.n_rows, 'row')} in {plural(fit.n_epochs, label(fit.step))} and "
        f"{number(fit.seconds, 2)} seconds."
    )
    return f"{text} Estimated log evidence: {join(evidence)}." if evidence else text


def traces(fit: FitReport) -> list[tuple[str, str]]:
    """Title and explanation of every diagnostic of training; its own name where it is unknown."""
    return [_TRACES.get(name, (_in_words(name), "")) for name in fit.trace]


def guards(fit: FitReport) -> list[Guard]:
    """Put every guard count in words."""
    words = []
    for key, count in fit.guards.items():
        name, meaning = _GUARDS.get(key, (_in_words(key), ""))
        attempts = _attempts(fit, key)
        share = f" ({percent(count / attempts, 1)} of {attempts:,})" if count and attempts else ""
        words.append(Guard(name, f"{count:,}{share}", meaning, count > 0))
    return words


def guard_sentence(fit: FitReport) -> str:
    """Say whether any guard fired."""
    fired = [guard.name.lower() for guard in guards(fit) if guard.fired]
    if not fit.guards:
        return "This method counts no guarded updates."
    if not fired:
        return "No numerical guard fired: every update was applied as computed."
    return f"Numerical guards fired: {join(fired)}."


def _in_words(name: str) -> str:
    words = label(name, 40).replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"


def _attempts(fit: FitReport, guard: str) -> int:
    """How often a guard could have fired; 0 if unknown."""
    if guard == "weights_undone":
        return fit.n_updates
    # The prior factor of every weight is refreshed once an epoch, not once a row.
    return fit.n_updates // max(fit.n_rows, 1) if guard.startswith("prior_") else 0

"""What the report of a classifier says in sentences."""

from __future__ import annotations

import numpy as np

from bayesprop.report.class_contents import ClassContents
from bayesprop.report.class_scoring import ACCURACY
from bayesprop.report.class_unsure import AnsweredRow
from bayesprop.report.effects import Effect
from bayesprop.report.page_prose import comparison, rows_judged, rows_tile
from bayesprop.report.scoring import Score
from bayesprop.report.words import join, label, number, percent, plural

_BASELINES = {
    "logistic": "a logistic regression",
    "constant": "always giving the commonest class of the training rows",
}
_SHORT = {"logistic": "logistic", "constant": "commonest class"}
_LEFT_OUT = 0.1


def tiles(contents: ClassContents) -> list[tuple[str, str, str]]:
    """Give the figures to remember: name, value, note."""
    accuracy = _accuracy(contents)
    beside = [
        f"{_SHORT[name]} {percent(accuracy.values[i], 1)}"
        for i, name in enumerate(contents.models)
        if name in _SHORT
    ]
    without = _errors_without(contents)
    found = [
        ("Right answers", percent(accuracy.values[0], 1), "; ".join(beside)),
        ("Right by its own account", percent(contents.mean_confidence, 1), "mean confidence"),
    ]
    if without is not None:
        name = f"Wrong without the least sure {percent(_LEFT_OUT)}"
        found.append(
            (name, percent(without, 1), f"{percent(1.0 - accuracy.values[0], 1)} with them")
        )
    return [
        *found,
        ("Epistemic share", percent(contents.epistemic_share), "of the predicted entropy"),
        rows_tile(contents),
    ]


def summary(contents: ClassContents) -> list[str]:
    """Say in a few sentences how good the answers are and how far to trust them."""
    return [
        " ".join((_answers(contents), _beside_baselines(contents))).strip(),
        *_positive(contents),
        *_worst_class(contents),
        *_abstaining(contents),
        _uncertainty(contents),
        *comparison(contents, "logistic", "a logistic regression"),
    ]


def moved(effect: Effect) -> str:
    """Say how much a feature moves a probability."""
    points = number(100.0 * effect.curve.movement, 2)
    return f"Moves the probability of {label(effect.curve.of, 30)} by {points} points on average."


def answers(row: AnsweredRow) -> str:
    """List the most probable classes of a row."""
    return ", ".join(f"{label(name, 24)} ({percent(p)})" for name, p in row.top)


def few_classes(contents: ClassContents) -> str:
    """Say which classes a table leaves out."""
    left_out = len(contents.classes) - len(contents.class_scores)
    if not left_out:
        return ""
    return (
        f"The {len(contents.class_scores)} classes whose rows are found worst; the other "
        f"{left_out:,} are not shown."
    )


def _accuracy(contents: ClassContents) -> Score:
    return next(score for score in contents.scores if score.name == ACCURACY)


def _answers(contents: ClassContents) -> str:
    found = _accuracy(contents)
    spread = "" if found.errors[0] is None else f" ± {percent(found.errors[0], 1)}"
    return (
        f"On {rows_judged(contents)}, the most probable class is the right "
        f"{label(contents.about.target)} in {percent(found.values[0], 1)}{spread}."
    )


def _beside_baselines(contents: ClassContents) -> str:
    values = _accuracy(contents).values
    beside = [
        f"{_BASELINES[name]} is right in {percent(values[i], 1)}"
        for i, name in enumerate(contents.models)
        if name in _BASELINES
    ]
    return f"For comparison: {join(beside)}." if beside else ""


def _positive(contents: ClassContents) -> list[str]:
    """Say what the two kinds of error of a two-class model are."""
    if not contents.positive:
        return []
    name, score = label(contents.positive, 40), contents.class_scores[1]
    head = f"The positive class is {name}, the second in sorted order"
    if not score.n_actual:
        return [f"{head}; none of these rows is of it."]
    found = f"the model finds {percent(score.recall)} of its {plural(score.n_actual, 'row')}"
    right = (
        f"of the {plural(score.n_answered, 'row')} where it answers {name},"
        f" {percent(score.precision)} are"
        if score.n_answered
        else f"it never answers {name}"
    )
    return [f"{head}: {found}; {right}."]


def _worst_class(contents: ClassContents) -> list[str]:
    """Name the class found worst, where there are several and it stands out from chance."""
    scores = [one for one in contents.class_scores if one.n_actual]
    if contents.positive or not scores:
        return []
    worst = min(scores, key=lambda one: one.recall)
    overall = _accuracy(contents).values[0]
    error = float(np.sqrt(overall * (1.0 - overall) / worst.n_actual))
    if worst.recall > overall - 3.0 * error:
        return []
    return [
        f"It does worst on {label(worst.name, 40)}: it finds {percent(worst.recall)} of "
        f"{plural(worst.n_actual, 'row')}."
    ]


def _errors_without(contents: ClassContents) -> float | None:
    """Share of wrong answers when the least sure tenth is left out."""
    found = contents.abstaining
    if found is None:
        return None
    at = int(np.argmin(np.abs(found.answered - (1.0 - _LEFT_OUT))))
    return float(found.error[at])


def _abstaining(contents: ClassContents) -> list[str]:
    without, now = _errors_without(contents), 1.0 - _accuracy(contents).values[0]
    if without is None or now == 0.0:
        return []
    verb = "fall" if without < now else "go"
    return [
        f"If it abstains on the least sure {percent(_LEFT_OUT)} of the rows, its errors {verb} "
        f"from {percent(now, 1)} to {percent(without, 1)}."
    ]


def _uncertainty(contents: ClassContents) -> str:
    if contents.epistemic_share <= 0.0:
        return (
            "It has no doubt about its own weights, so all of its uncertainty counts as noise: "
            "none is epistemic, which more data would reduce."
        )
    return (
        f"{percent(contents.epistemic_share)} of the predicted entropy is epistemic: the model's "
        "own uncertainty, which more data would reduce. The rest is noise: classes that these "
        "features do not tell apart."
    )


def weights_sentence(contents: ClassContents) -> str:
    """Say what a weight of the logits is."""
    what = (
        f"the log odds of {label(contents.positive, 40)}"
        if contents.positive
        else "the logit of its class, of which only differences between classes count"
    )
    return (
        f"One unit more of a column, the others as they are, adds its weight to {what}; the "
        "interval holds 90 % of what the rows leave possible."
    )

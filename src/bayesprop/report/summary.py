"""The head of a page: the figures to remember, and in a few sentences how far to trust them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesprop.report.contents import Contents
from bayesprop.report.details import ClassDetails, NumberDetails
from bayesprop.report.effects import Effect
from bayesprop.report.prose import comparison, rows_judged, rows_tile
from bayesprop.report.scoring import ACCURACY, Score
from bayesprop.report.words import join, label, number, percent, plural, with_unit

_BASELINES = {"linear": "a Bayesian linear model", "constant": "the training mean alone"}
_SHORT = {"linear": "linear", "constant": "training mean"}
_CLASS_BASELINES = {
    "logistic": "a logistic regression",
    "constant": "always giving the commonest class of the training rows",
}
_CLASS_SHORT = {"logistic": "logistic", "constant": "commonest class"}
_LEFT_OUT = 0.1


def tiles_of_numbers(contents: Contents[NumberDetails]) -> list[tuple[str, str, str]]:
    """Give the four figures to remember: name, value, note."""
    score = _score(contents, "RMSE")
    beside = [f"{_SHORT[name]} {number(value)}" for name, value in _baselines(contents, score)]
    held, width = _at_90(contents)
    return [
        ("RMSE", with_unit(number(score.values[0]), contents.about.unit), "; ".join(beside)),
        ("Held by 90 % intervals", held, f"mean width {width}"),
        ("Epistemic share", percent(contents.epistemic_share), "of the predicted variance"),
        rows_tile(contents),
    ]


def summary_of_numbers(contents: Contents[NumberDetails]) -> list[str]:
    """Say in a few sentences how good the predictions are and how far to trust them."""
    return [
        " ".join((_errors(contents), _errors_of_baselines(contents))).strip(),
        _intervals(contents),
        _uncertainty_of_numbers(contents),
        *comparison(contents, "linear", "a linear model"),
    ]


def movement_of_numbers(effect: Effect) -> str:
    """Say how much a feature moves the prediction."""
    return f"Moves the average by {number(effect.curve.movement)}."


def _errors(contents: Contents[NumberDetails]) -> str:
    rmse = with_unit(number(_score(contents, "RMSE").values[0]), contents.about.unit)
    median = with_unit(number(contents.details.median_error), contents.about.unit)
    far = (
        ""
        if len(contents.about.unit) <= 20
        else f" The unit is: {label(contents.about.unit, 120)}."
    )
    return (
        f"On {rows_judged(contents)}, predictions of {label(contents.about.target)} are off by "
        f"about {rmse} (RMSE); half of them by less than {median}.{far}"
    )


def _errors_of_baselines(contents: Contents[NumberDetails]) -> str:
    beside = [
        f"{_BASELINES[name]} by {number(value)}"
        for name, value in _baselines(contents, _score(contents, "RMSE"))
    ]
    if not beside:
        return ""
    text = join(beside)
    return f"{text[0].upper()}{text[1:]}." if len(beside) == 1 else f"For comparison: {text}."


def _intervals(contents: Contents[NumberDetails]) -> str:
    held, width = _at_90(contents)
    return (
        f"The {percent(0.9)} intervals held {held} of the rows and are {width} wide on average. "
        f"{contents.verdict.headline}"
    )


def _at_90(contents: Contents[NumberDetails]) -> tuple[str, str]:
    """Coverage and mean width of the 90 % intervals."""
    values = {score.name: score.values[0] for score in contents.scores}
    width = number(values[f"Width of {percent(0.9)} intervals"])
    return percent(values[f"Coverage of {percent(0.9)} intervals"]), with_unit(
        width, contents.about.unit
    )


def _uncertainty_of_numbers(contents: Contents[NumberDetails]) -> str:
    return (
        f"On average {percent(contents.epistemic_share)} of the predicted variance is epistemic: "
        "the model's own uncertainty, which more data would reduce. The rest is noise: scatter "
        "that these features do not explain."
    )


def weights_of_numbers(contents: Contents[NumberDetails]) -> str:
    """Say what a weight of the line is."""
    return (
        f"One unit more of a column, the others as they are, adds its weight to the predicted "
        f"{label(contents.about.target, 40)}; the interval holds 90 % of what the rows leave "
        "possible."
    )


def tiles_of_classes(contents: Contents[ClassDetails]) -> list[tuple[str, str, str]]:
    """Give the figures to remember: name, value, note."""
    accuracy = _score(contents, ACCURACY)
    beside = [
        f"{_CLASS_SHORT[name]} {percent(value, 1)}"
        for name, value in _baselines(contents, accuracy)
    ]
    without = _errors_without(contents)
    tiles = [
        ("Right answers", percent(accuracy.values[0], 1), "; ".join(beside)),
        (
            "Right by its own account",
            percent(contents.details.mean_confidence, 1),
            "mean confidence",
        ),
    ]
    if without is not None:
        name = f"Wrong without the least sure {percent(_LEFT_OUT)}"
        tiles.append(
            (name, percent(without, 1), f"{percent(1.0 - accuracy.values[0], 1)} with them")
        )
    return [
        *tiles,
        ("Epistemic share", percent(contents.epistemic_share), "of the predicted entropy"),
        rows_tile(contents),
    ]


def summary_of_classes(contents: Contents[ClassDetails]) -> list[str]:
    """Say in a few sentences how good the answers are and how far to trust them."""
    return [
        " ".join((_answers(contents), _answers_of_baselines(contents))).strip(),
        *_positive(contents),
        *_worst_class(contents),
        *_abstaining(contents),
        _uncertainty_of_classes(contents),
        *comparison(contents, "logistic", "a logistic regression"),
    ]


def movement_of_classes(effect: Effect) -> str:
    """Say how much a feature moves a probability."""
    points = number(100.0 * effect.curve.movement, 2)
    return f"Moves the probability of {label(effect.curve.of, 30)} by {points} points on average."


def _answers(contents: Contents[ClassDetails]) -> str:
    accuracy = _score(contents, ACCURACY)
    spread = "" if accuracy.errors[0] is None else f" ± {percent(accuracy.errors[0], 1)}"
    return (
        f"On {rows_judged(contents)}, the most probable class is the right "
        f"{label(contents.about.target)} in {percent(accuracy.values[0], 1)}{spread}."
    )


def _answers_of_baselines(contents: Contents[ClassDetails]) -> str:
    beside = [
        f"{_CLASS_BASELINES[name]} is right in {percent(value, 1)}"
        for name, value in _baselines(contents, _score(contents, ACCURACY))
    ]
    return f"For comparison: {join(beside)}." if beside else ""


def _positive(contents: Contents[ClassDetails]) -> list[str]:
    """Say what the two kinds of error of a two-class model are."""
    if not contents.details.positive:
        return []
    name, score = label(contents.details.positive, 40), contents.details.class_scores[1]
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


def _worst_class(contents: Contents[ClassDetails]) -> list[str]:
    """Name the class found worst, where there are several and it stands out from chance."""
    scores = [one for one in contents.details.class_scores if one.n_actual]
    if contents.details.positive or not scores:
        return []
    worst = min(scores, key=lambda one: one.recall)
    overall = _score(contents, ACCURACY).values[0]
    error = float(np.sqrt(overall * (1.0 - overall) / worst.n_actual))
    if worst.recall > overall - 3.0 * error:
        return []
    return [
        f"It does worst on {label(worst.name, 40)}: it finds {percent(worst.recall)} of "
        f"{plural(worst.n_actual, 'row')}."
    ]


def _errors_without(contents: Contents[ClassDetails]) -> float | None:
    """Share of wrong answers when the least sure tenth is left out."""
    curve = contents.details.abstaining
    if curve is None:
        return None
    at = int(np.argmin(np.abs(curve.answered - (1.0 - _LEFT_OUT))))
    return float(curve.error[at])


def _abstaining(contents: Contents[ClassDetails]) -> list[str]:
    without, now = _errors_without(contents), 1.0 - _score(contents, ACCURACY).values[0]
    if without is None or now == 0.0:
        return []
    verb = "fall" if without < now else "go"
    return [
        f"If it abstains on the least sure {percent(_LEFT_OUT)} of the rows, its errors {verb} "
        f"from {percent(now, 1)} to {percent(without, 1)}."
    ]


def _uncertainty_of_classes(contents: Contents[ClassDetails]) -> str:
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


def weights_of_classes(contents: Contents[ClassDetails]) -> str:
    """Say what a weight of the logits is."""
    what = (
        f"the log odds of {label(contents.details.positive, 40)}"
        if contents.details.positive
        else "the logit of its class, of which only differences between classes count"
    )
    return (
        f"One unit more of a column, the others as they are, adds its weight to {what}; the "
        "interval holds 90 % of what the rows leave possible."
    )


def _score(contents: Contents[Any], name: str) -> Score:
    return next(score for score in contents.scores if score.name == name)


def _baselines(contents: Contents[Any], score: Score) -> list[tuple[str, float]]:
    """Name and score of every baseline."""
    return list(zip(contents.models, score.values, strict=True))[1:]

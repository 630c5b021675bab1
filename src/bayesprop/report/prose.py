"""What the report of a regressor says in sentences."""

from __future__ import annotations

from bayesprop.report.contents import ReportContents
from bayesprop.report.effects import Effect
from bayesprop.report.page_prose import comparison, rows_judged, rows_tile
from bayesprop.report.scoring import Score
from bayesprop.report.words import join, label, number, percent, with_unit

_BASELINES = {"linear": "a Bayesian linear model", "constant": "the training mean alone"}
_SHORT = {"linear": "linear", "constant": "training mean"}


def tiles(contents: ReportContents) -> list[tuple[str, str, str]]:
    """Give the four figures to remember: name, value, note."""
    score = _score(contents, "RMSE")
    beside = [
        f"{_SHORT[name]} {number(score.values[i])}"
        for i, name in enumerate(contents.models)
        if name in _SHORT
    ]
    held, width = _at_90(contents)
    return [
        ("RMSE", with_unit(number(score.values[0]), contents.about.unit), "; ".join(beside)),
        ("Held by 90 % intervals", held, f"mean width {width}"),
        ("Epistemic share", percent(contents.epistemic_share), "of the predicted variance"),
        rows_tile(contents),
    ]


def drawn(contents: ReportContents) -> str:
    """Say so where not every row is drawn."""
    n = len(contents.cloud.actual)
    return f" {n:,} of {contents.n_rows:,} rows drawn." if n < contents.n_rows else ""


def summary(contents: ReportContents) -> list[str]:
    """Say in a few sentences how good the predictions are and how far to trust them."""
    return [
        " ".join((_accuracy(contents), _beside_baselines(contents))).strip(),
        _intervals(contents),
        _uncertainty(contents),
        *comparison(contents, "linear", "a linear model"),
    ]


def moved(effect: Effect) -> str:
    """Say how much a feature moves the prediction."""
    return f"Moves the average by {number(effect.curve.movement)}."


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


def weights_sentence(contents: ReportContents) -> str:
    """Say what a weight of the line is."""
    return (
        f"One unit more of a column, the others as they are, adds its weight to the predicted "
        f"{label(contents.about.target, 40)}; the interval holds 90 % of what the rows leave "
        "possible."
    )

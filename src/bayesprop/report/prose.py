"""What every report says in sentences: the rows it judges, the effects, the weights."""

from __future__ import annotations

from typing import Any

from bayesprop.report.calibration import MIN_ROWS
from bayesprop.report.contents import Contents
from bayesprop.report.details import ClassDetails, NumberDetails
from bayesprop.report.linear_weights import WeightLine
from bayesprop.report.words import alike, join, label, number, plural

ROWS = {"held-out": "held-out row", "training": "training row", "table": "row"}


def rows_judged(contents: Contents[Any]) -> str:
    """Name the rows that the metrics are computed on."""
    return plural(contents.n_rows, ROWS[contents.kind])


def rows_tile(contents: Contents[Any]) -> tuple[str, str, str]:
    """Give name, value and note of the number of rows."""
    training = f"{contents.fit.n_rows:,} to train on"
    note = "none held out" if contents.kind == "training" else training
    return f"{ROWS[contents.kind].capitalize()}s", f"{contents.n_rows:,}", note


def facts(contents: Contents[Any]) -> str:
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


def too_few(contents: Contents[Any]) -> str:
    """Say why a figure is missing."""
    return f"This picture needs at least {MIN_ROWS} rows; there are {contents.n_rows}."


def notices(contents: Contents[Any]) -> list[str]:
    """Say what a reader must know before believing a figure."""
    texts = []
    if contents.kind == "training":
        texts.append(
            "No rows were held out: every figure below is measured on the rows that the model "
            "was fitted to, which flatters it. Hold rows out (--test-fraction 0.1) to see how it "
            "does on new ones."
        )
    if contents.kind == "table":
        texts.append(
            "The figures below are measured on the table given to the report. If the model was "
            "fitted to some of its rows, they flatter it."
        )
    remarks = (*contents.about.remarks, *contents.fit.warnings)
    return [*texts, *(label(text, 400) for text in remarks)]


def comparison(contents: Contents[Any], baseline: str, name: str) -> list[str]:
    """Say whether the model beats a baseline in log-likelihood; `name` as in "a linear model"."""
    compared = next((c for c in contents.comparisons if c.baseline == baseline), None)
    # On training rows the more flexible model wins, whatever it is worth.
    if compared is None or contents.kind == "training":
        return []
    gain, error = alike([abs(compared.gain), compared.error], compared.error, 1)
    size = f"{gain} ± {error} nats a row"
    if not compared.is_clear:
        return [
            f"In log-likelihood it cannot be told from {name} on these rows (the "
            f"difference is {size}): the simpler model may do."
        ]
    if compared.gain > 0:
        return [f"In log-likelihood it beats {name} by {size}, more than chance explains."]
    return [
        f"In log-likelihood {name} beats it by {size}: prefer the simpler model, or give "
        "this one more rows or epochs."
    ]


def effects_sentence(contents: Contents[Any]) -> str:
    """Say how the effects were measured."""
    effects = contents.effects
    if not effects.shown:
        return "No feature varies, so there is no effect to show."
    return (
        "Each picture sets one feature to a range of values in "
        f"{plural(effects.n_background, 'row')} of the table, leaves the other features "
        "as they are, and averages the predictions. "
        "Ordered by how much the average moves."
    )


def other_effects(contents: Contents[Any]) -> str:
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


def drawn(contents: Contents[NumberDetails]) -> str:
    """Say so where not every row is drawn."""
    n = len(contents.details.cloud.actual)
    return f" {n:,} of {contents.n_rows:,} rows drawn." if n < contents.n_rows else ""


def few_classes(contents: Contents[ClassDetails]) -> str:
    """Say which classes a table leaves out."""
    left_out = len(contents.details.classes) - len(contents.details.class_scores)
    if not left_out:
        return ""
    return (
        f"The {len(contents.details.class_scores)} classes whose rows are found worst; the other "
        f"{left_out:,} are not shown."
    )

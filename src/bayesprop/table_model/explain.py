"""Why a row is predicted as it is, and why it is uncertain, in figures and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.evaluation.shapley import MOST_NAMED, Explainer, Quantities, quantities, raising
from bayesprop.evaluation.words import join, label, number, percent, value, with_unit
from bayesprop.model.progress import current
from bayesprop.table.date_forms import DURATION_FORMS, HOURS, durations_as
from bayesprop.table.errors import refusals_of_estimator
from bayesprop.table.target import class_text
from bayesprop.table.values import is_number
from bayesprop.table_model.sources import Table, like

if TYPE_CHECKING:
    from bayesprop.table_model.model import TableModel

AVERAGE, UNMEASURED = "(average)", "(missing values)"
_MOST_DECIMALS, _LEAST_SHOWN = 5, 1e-6
_MIDNIGHT = " 00:00:00"
_LEAST_PART = 0.01
"""Of a variance, or nats: parts of the uncertainty below it are not explained in words."""


class Explanations(NamedTuple):
    """What every column of n rows contributes to their predictions.

    frame
        One line a row and column: "row" from 1, "column", "value" as text, and the contributions
        to every quantity; with them the average, and what missing values add. The lines of a row
        add up to its prediction.
    columns
        Names of the p columns.
    values
        Of the table, as text, (n, p).
    contributions
        To each quantity, by its name, (n, p), in its unit: "mean", "epistemic_var", "noise_var"; of
        classes "p(CLASS)", "mutual_information", "expected_entropy" (nats).
    base
        Each quantity where no column is known, with what missing values add, (n,).
    why
        Sentences on each row.
    """

    frame: Any
    columns: tuple[str, ...]
    values: list[list[str]]
    contributions: Quantities
    base: Quantities
    why: list[str]

    def shap(self, quantity: str) -> Any:
        """Return the contributions to one quantity as the package shap plots them."""
        if quantity not in self.contributions:
            known = ", ".join(self.contributions)
            raise ValueError(f"quantity must be one of {known}; got {quantity!r}")
        from shap import Explanation  # pyright: ignore[reportMissingImports]

        return Explanation(
            self.contributions[quantity],
            base_values=self.base[quantity],
            data=np.array(self.values, object),
            feature_names=list(self.columns),
        )


def explained(
    model: TableModel,
    frame: pl.DataFrame,
    X: Float[np.ndarray, "n d"],
    predictive: Predictive | ClassPredictive,
    source: Table | None = None,
) -> Explanations:
    """Explain what was predicted of the rows of a frame, which are encoded as X.

    source
        The table, whose kind of frame is returned.
    """
    progress = current()
    with refusals_of_estimator(ValueError):
        explainer = Explainer(model.saved.fitted, model.encoding)
    predicted, each = quantities(predictive), []
    for k, x in enumerate(X):
        progress.report(k, len(X), "explanations")
        each.append(explainer.of_row(x))
    contributions, average = (
        {name: np.array([one[part][name] for one in each]) for name in predicted} for part in (0, 1)
    )
    base = {name: predicted[name] - of.sum(axis=1) for name, of in contributions.items()}
    has_gap = np.isnan(X).any(axis=1)  # or else the average takes what rounding leaves
    average = {name: np.where(has_gap, of, base[name]) for name, of in average.items()}
    texts = [_as_text(frame, name) for name in explainer.columns]
    values = [list(row) for row in zip(*texts, strict=True)]
    unseen = model.encoding.unseen(frame)
    unseen = np.column_stack([unseen.get(one, np.zeros(len(X), bool)) for one in explainer.columns])
    words = _Words(model, explainer, predictive, contributions, average)
    why = [words.of_row(k, x, values[k], unseen[k]) for k, x in enumerate(X)]
    own = {name: np.column_stack([average[name], base[name] - average[name], of])
           for name, of in contributions.items()}  # fmt: skip
    names = (AVERAGE, UNMEASURED, *explainer.columns)
    lines = pl.DataFrame(
        {
            "row": np.repeat(np.arange(1, 1 + len(X)), len(names)),
            "column": names * len(X),
            "value": [text for row in values for text in ("", "", *row)],
            **{name: of.ravel() for name, of in own.items()},
        }
    )
    is_shown = np.ones((len(X), len(names)), bool)
    is_shown[:, names.index(UNMEASURED)] = has_gap
    lines = lines.filter(is_shown.ravel())
    frame = like(source, lines, lines["row"].to_numpy() - 1)
    return Explanations(frame, explainer.columns, values, contributions, base, why)


class _Words:
    """Words explanations of rows; quantities are those of all rows."""

    def __init__(
        self,
        model: TableModel,
        explainer: Explainer,
        predictive: Any,
        contributions: Quantities,
        average: Quantities,
    ) -> None:
        self.model, self.explainer, self.predictive = model, explainer, predictive
        self.predicted = quantities(predictive)
        self.contributions, self.average = contributions, average
        self.is_class = isinstance(predictive, ClassPredictive)

    def of_row(
        self,
        k: int,
        x: Float[np.ndarray, " d"],
        values: Sequence[str],
        unseen: Bool[np.ndarray, " p"],
    ) -> str:
        """Return the sentences on one row."""
        names = [label(name, 30) for name in self.explainer.columns]
        cells = [
            f"{name} = {label(_short(text), 30)}" if text else f"{name} missing"
            for name, text in zip(names, values, strict=True)
        ]
        sentences = [self._of_answer(k, cells)]
        doubts = zip([*self.predicted][-2:], ("Epistemic uncertainty", "Noise"), strict=True)
        sentences += [self._of_doubt(k, name, words, cells) for name, words in doubts]
        usual = [self._usual(j, x) for j in range(len(cells))]
        beyond = [cells[j] + one for j, one in enumerate(usual) if one or unseen[j]]
        if beyond:
            lie = "lies" if len(beyond) == 1 else "lie"
            sentences.append(f"{join(beyond)} {lie} beyond the training rows.")
        removed = [(share, j) for j, share in self.explainer.removed(x).items() if not unseen[j]]
        largest = sorted(removed, key=lambda one: -one[0])[:MOST_NAMED]
        each = [
            f"{names[j]} would remove {percent(share)}"
            for share, j in largest
            if share >= min(_LEAST_PART, largest[0][0])
        ]
        if each:
            sentences.append(f"Of the uncertainty, measuring {join(each)}.")
        return " ".join(filter(None, sentences))

    def _of_answer(self, k: int, cells: Sequence[str]) -> str:
        target = label(self.model.encoding.target_name, 30)
        if self.is_class:
            answer = class_text(self.predictive.label[k].item())
            name, write = f"p({answer})", percent
            begin = f"{target} is {label(answer, 30)} with probability"
        else:
            name, write, begin = "mean", value, f"{target} is predicted as"
        of = self.contributions[name][k]
        largest = np.argsort(-np.abs(of), kind="stable")[:MOST_NAMED]
        rest = float(of.sum() - of[largest].sum())
        least = _LEAST_SHOWN * float(np.abs(of).max())
        each = [f"{cells[j]} ({_signed(of[j])})" for j in largest if abs(of[j]) > least]
        others = "column" + "s" * (len(of) > MOST_NAMED + 1)
        each += [f"the other {others} ({_signed(rest)})"] if np.delete(of, largest).any() else []
        predicted, average = (
            write(float(part[name][k])) for part in (self.predicted, self.average)
        )
        unit = "" if self.is_class else self._unit
        because = f": {join(each)}" if each else ""
        return f"{begin} {with_unit(predicted, unit)}, the average is {average}{because}."

    @property
    def _unit(self) -> str:
        marks = self.model.encoding.marks
        is_duration = marks is not None and marks.written in DURATION_FORMS
        return "s" if is_duration else self.model.notes.unit

    def _of_doubt(self, k: int, name: str, words: str, cells: Sequence[str]) -> str:
        """Name the columns that raise a part of the uncertainty most."""
        whole, of = float(self.predicted[name][k]), self.contributions[name][k]
        each = [cells[j] for j in raising(of, whole)]
        if not each or whole < _LEAST_PART * (1.0 if self.is_class else self.predictive.var[k]):
            return ""
        size = f"{number(whole)} nats" if self.is_class else f"± {number(whole**0.5)}"
        return f"{words} ({size}) is raised most by {join(each)}."

    def _usual(self, j: int, x: Float[np.ndarray, " d"]) -> str:
        """Write the range of nearly all training rows, where a number lies outside."""
        at = int(np.argmax(self.explainer.place == j))
        low, high = self.explainer.inputs.knots[[0, -1], at]
        if self.model.encoding.columns[j].kind != "numeric" or not (x[at] < low or x[at] > high):
            return ""
        return f" (nearly all rows: {value(float(low))} to {value(float(high))})"


def _as_text(frame: pl.DataFrame, name: str) -> list[str]:
    """Return the values of a column as text, empty where they are missing or there is none."""
    if name not in frame.columns:
        return [""] * len(frame)
    values = frame[name]
    if values.dtype.is_float():
        return [f"{x:.10g}" if x is not None and x == x else "" for x in values]
    if values.dtype == pl.Duration:
        values = durations_as(HOURS, values.dt.total_microseconds() / 1e6, np.zeros(len(values)))
    texts = values.cast(pl.String, strict=False).fill_null("")
    if values.dtype == pl.Datetime:
        texts = texts.str.replace(r"\.0+", "").str.strip_suffix(_MIDNIGHT)
    return texts.to_list()


def _short(text: str) -> str:
    """Write a number with many decimals with four digits."""
    _, point, decimals = text.partition(".")
    if not point or len(decimals) < _MOST_DECIMALS or not is_number(pl.Series([text])).all():
        return text
    return value(float(text))


def _signed(amount: float) -> str:
    return ("+" if amount > 0.0 else "") + number(float(amount))

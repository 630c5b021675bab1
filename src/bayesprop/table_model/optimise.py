"""From a table of experiments to those to run next: fit, candidates, suggestions, their page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import polars as pl

from bayesprop.active_learning.acquisition import RANDOM, THOMPSON
from bayesprop.active_learning.goal import Direction, Goal, centres
from bayesprop.catalogue import REGRESSION
from bayesprop.evaluation.words import join, number, percent, value
from bayesprop.report.effects import effects, features_of, moments
from bayesprop.report.search_page import Search
from bayesprop.table.columns import NumericColumn
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import InputError, Message, one_line
from bayesprop.table.values import WRITTEN, as_integers, as_written, cleaned, typed
from bayesprop.table_model.conditions import (
    Condition,
    Needed,
    Requirement,
    meets,
    one_or_several,
    requirements,
)
from bayesprop.table_model.from_python import fit
from bayesprop.table_model.listener import current_listener
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.sources import Table, column, like, read_any
from bayesprop.table_model.suggest import (
    Suggestions,
    SuggestRequest,
    measured_rows,
    scores_of,
    suggest,
)
from bayesprop.targets.bijectors import NUMBERS

MADE = 10_000
"""Candidates that are made where no others are given."""
_N_BEST, _N_NEAR = 8, 400
_STEPS = (0.1, 0.03, 0.01)
_CHANGED, _OTHER_LEVEL = 0.4, 0.3
_DIGITS = 4  # of the range of a column
_WHERE_MADE = "the rows that were made"
_OF_TARGET = ("unit", "target_kind", "task", "order", "positive", "exposure", "cost", "rate")
"""Settings of `fit` that are about one target."""
_PROSPECTS = (
    ("chance", "Chance to beat the best", percent),
    ("expected_gain", "Expected gain", number),
    ("met", "Probability of meeting all", percent),
)
"""Of `Suggestions.records`."""


class Optimiser:
    """Ask which rows to measure next for the largest or smallest target, and tell the results.

    The model is fitted anew to all measured rows after each `tell`, as `bayesprop.fit` does it, but
    without rows held out.

    Attributes
    ----------
    model : TableModel
        The one fitted to all rows so far.
    measured : polars.DataFrame
        These rows; those without a target count as planned: they are not suggested again, and
        others are chosen as if their results were known.
    outputs : list of str
        Columns that conditions are about, which a model of its own predicts each.

    Examples
    --------
    >>> import polars as pl
    >>> from bayesprop import Optimiser
    >>> trials = pl.DataFrame({"heat": range(20, 90, 5)})
    >>> trials = trials.with_columns(result=60 - (pl.col("heat") - 57) ** 2 / 40)
    >>> search = Optimiser(trials, target="result", goal="max", method="linear")
    >>> next_rows = search.ask(2).frame
    >>> len(search.tell([{"heat": 57, "result": 60.0}]).measured)
    15
    """

    def __init__(
        self,
        table: Table,
        *,
        target: str,
        goal: str = "max",
        candidates: Table | None = None,
        make: int | None = None,
        ranges: Mapping[str, Sequence[float]] | None = None,
        target_value: float | None = None,
        acquisition: str | None = None,
        where: str | Sequence[str] = (),
        requires: Needed | Sequence[Needed] = (),
        cost: str | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        """Fit a model to the rows measured so far.

        table
            As `fit` takes it.
        target
            Column whose best value is sought.
        goal, target_value, acquisition, where, cost
            As `TableModel.suggest` takes them.
        requires
            Conditions on further outputs, as `TableModel.suggest` takes them, or on columns of the
            table that are measured with the target: "purity >= 0.95". Of each such column a model
            is fitted, as that of the target is.
        candidates
            Table of rows that could be measured. None: rows are made, whose numbers lie in the
            ranges of the measured rows and whose other values are among theirs.
        make
            Number of rows to make; None: 10,000. Rows near the best ones come on top.
        ranges
            Where made numbers may lie, as {"heat": (20, 90)}; two equal bounds fix a number. None:
            in the ranges measured.
        seed
            Fixes every random draw.
        settings
            What else `fit` takes, such as `method`, `drop` and `unit`. A `target_kind` is
            guessed only of a target with limits ("<0.5"), else it is "numbers".
        """
        for name, given in {"make": make, "ranges": ranges}.items():
            if given and candidates is not None:
                raise InputError(Message.of("make.candidates", settings=name))
        is_whole = isinstance(make, int | np.integer) and not isinstance(make, bool)
        if make is not None and (not is_whole or make < 1):
            raise InputError(Message.of("make.number", got=one_line(repr(make))))
        where = one_or_several(where)
        for one in where:
            Condition.of(one)
        asked = acquisition, "auto", cost, where, None, seed, str(goal), target_value
        self._requires = one_or_several(requires)
        self._request = SuggestRequest(1, *asked, None, self._requires)
        self._request.check()
        texts = [one for one in self._requires if isinstance(one, str)]
        names = [Condition.of(one, "requires.form").name for one in texts]
        self.outputs = [one for one in dict.fromkeys(names) if not Path(one).is_file()]
        if target in self.outputs:
            raise InputError(Message.of("requires.target", target))
        if self.outputs:
            current_listener().note(Message.of("requires.outputs", *self.outputs))
        self._candidates, self._make = candidates, MADE if make is None else int(make)
        drop = settings.get("drop", ())
        drop = [*((drop,) if isinstance(drop, str | int) else drop), *self.outputs]
        own = {"target": target, "seed": seed, "drop": drop}
        self._settings = {"test_fraction": 0.0, "task": REGRESSION, **settings, **own}
        kinds = (settings.get(name) for name in ("target_kind", "exposure"))
        self._takes_numbers = all(one is None for one in kinds)
        if self._takes_numbers:
            self._settings["target_kind"] = NUMBERS
        self._ranges, self._n_asked = _bounds(ranges), 0
        self._table = table
        is_file = isinstance(table, str | Path) and str(table) != "-"
        self._learn(table if is_file else read_any(table))

    def ask(self, n: int = 5) -> Suggestions:
        """Choose n rows to measure next, best first, and say why.

        Its `frame` is of the kind of the candidates, or of the table where rows are made.
        """
        measured = self.measured if self._request.target_value is None else None
        request = self._request._replace(n=n, seed=self._request.seed + self._n_asked)
        request = request._replace(measured=measured, requires=self._required, known=self.measured)
        table = self._candidates
        if table is None:
            request = request._replace(source=_WHERE_MADE)
            table = self._made(request)
        self._n_asked += 1
        suggested = suggest(self.model, table, request)
        if self._candidates is None:
            frame = like(self._table, self._with_units(suggested.frame), None)
            suggested = suggested._replace(frame=frame)
        return suggested

    def tell(self, rows: Table) -> Self:
        """Learn measured rows, which hold the target, by a fit to all rows.

        rows
            A table as `fit` takes it, with all columns that the model uses; columns that the first
            one had not are left out. Rows without a result count as planned.
        """
        new = read_any(rows, self.model.encoding.text_columns)
        column(new, self.model.encoding.target_name, rows)
        columns = [one.name for one in self.model.encoding.columns]
        if absent := [name for name in columns if name not in new.columns]:
            raise InputError(Message.of("columns.lacking", *absent, n=len(absent)))
        new = new.select(name for name in self.measured.columns if name in new.columns)
        self._learn(pl.concat([self.measured, new], how="diagonal_relaxed"))
        return self

    def report(self, out: str | Path, suggested: Suggestions) -> None:
        """Write one HTML page: the course of the search, the rows suggested, what moves the best.

        suggested
            What `ask` returned.
        """
        from bayesprop.report.search_page import write_search

        if not isinstance(suggested, Suggestions):
            raise InputError(Message.of("report.suggested", got=type(suggested).__name__))
        goal = Goal(cast(Direction, self._request.goal))
        with current_listener().doing("writing the report"):
            search = search_of(self.model, self.measured, goal, self._required, suggested)
            write_search(out, search)

    def _with_units(self, made: pl.DataFrame) -> pl.DataFrame:
        """Write made numbers as the table has them: "62.5 °C"."""
        written = {
            one.name: as_written(made[one.name], self.measured[one.name], one.written)
            for one in self.model.encoding.columns
            if isinstance(one, NumericColumn)
            and one.written in WRITTEN
            and made[one.name].dtype.is_numeric()
        }
        return made.with_columns(**written)

    def _learn(self, table: Table) -> None:
        model = fit(table, **self._settings)
        if self._takes_numbers and model.encoding.limits:  # "<0.5"
            self._takes_numbers, self._settings["target_kind"] = False, None
            model = fit(table, **self._settings)
        measured = model.read(table)
        plain = {name: one for name, one in self._settings.items() if name not in _OF_TARGET}
        models = {}
        for name in self.outputs:
            drop = [one for one in plain["drop"] if one != name]
            own = {"target": name, "drop": [*drop, plain["target"]]}
            models[name] = fit(measured, **plain | own)
        self._required = requirements(self._requires, models)
        self.model: TableModel = model
        self.measured: pl.DataFrame = measured

    def _made(self, request: SuggestRequest) -> pl.DataFrame:
        """Make candidates: some anywhere, and those near the best, nearer in every round."""
        rng = np.random.default_rng((request.seed, 4))
        space = Space.of(self.model.encoding, self.measured, self._ranges)
        made = _allowed(space.drawn(self._make, rng), request)
        if not len(made):
            raise InputError(Message.of("make.where"))
        if request.by in (THOMPSON, RANDOM):  # whose score is another one at each draw
            return made
        scores = scores_of(request, self.model, made)
        for step in _STEPS:
            best = made[np.argsort(-scores, kind="stable")[:_N_BEST]]
            near = _allowed(space.near(best, _N_NEAR, step, rng), request)
            if len(near):
                scores = np.concatenate([scores, scores_of(request, self.model, near)])
                made = pl.concat([made, near])
        return made


def _bounds(ranges: Mapping[str, Sequence[float]] | None) -> dict[str, tuple[float, float]]:
    """Return the bounds of columns; InputError where these are no two numbers each."""
    try:
        pairs = {str(name): tuple(map(float, both)) for name, both in (ranges or {}).items()}
        return {name: (low, high) for name, (low, high) in pairs.items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(Message.of("ranges.form", got=one_line(repr(ranges)))) from None


def _allowed(frame: pl.DataFrame, request: SuggestRequest) -> pl.DataFrame:
    met = [meets(frame, text, _WHERE_MADE) for text in request.where]
    return frame.filter(np.all([np.ones(len(frame), dtype=bool), *met], axis=0))


def _numbers_in(text: pl.Series, column: NumericColumn) -> pl.Series:
    """Return the numbers of text, those with a unit too; text where `as_written` cannot undo it.

    Most are numbers where some are stray words, which are missing.
    """
    if column.written in WRITTEN:
        known = text.drop_nulls()
        numbers = column.numbers(known).drop_nulls()
        again = column.numbers(as_written(numbers, known, column.written))
        return as_integers(numbers) if numbers.equals(again) else text
    plain = cleaned(text)
    numbers = typed(plain.filter(plain.cast(pl.Float64, strict=False).is_not_null()))
    return numbers if 2 * len(numbers) > len(text) else text


class _Axis(NamedTuple):
    """Values of one column: numbers in a range, or the levels that were measured."""

    low: float
    high: float
    n_decimals: int
    is_whole: bool
    levels: pl.Series

    @classmethod
    def of(
        cls, series: pl.Series, bounds: Sequence[float] | None, column: NumericColumn | None
    ) -> Self:
        """Take the values of a column; `column` reads its numbers, None: it holds levels."""
        if column is not None and series.dtype == pl.String:
            series = _numbers_in(series, column)
        levels, name = series.drop_nulls().unique(maintain_order=True), series.name
        if column is None or not series.dtype.is_numeric():
            if bounds is not None:
                raise InputError(Message.of("ranges.column", name))
            return cls(0.0, 0.0, 0, False, levels)
        numbers = levels.cast(pl.Float64).to_numpy()
        if bounds is None and len(levels) < 3:
            return cls(0.0, 0.0, 0, False, levels)
        low, high = map(float, bounds or (np.nanmin(numbers), np.nanmax(numbers)))
        is_whole, asked = series.dtype.is_integer(), {"low": f"{low:g}", "high": f"{high:g}"}
        if is_whole and math.isfinite(low) and math.isfinite(high):
            low, high = math.ceil(low), math.floor(high)
        if not -math.inf < low <= high < math.inf:
            kind = "whole number" if is_whole else "number"
            raise InputError(Message.of("ranges.order", name, kind=kind, **asked))
        if low == high:
            return cls(0.0, 0.0, 0, False, pl.Series([low], dtype=pl.Float64).cast(series.dtype))
        n_decimals = _DIGITS - 1 - math.floor(math.log10(high - low))
        unit = 10.0**-n_decimals
        if not is_whole and bounds is None:
            low, high = math.ceil(low / unit) * unit, math.floor(high / unit) * unit
        return cls(low, high, n_decimals, is_whole, levels)

    def rounded(self, x: np.ndarray) -> pl.Series:
        """Return numbers in the range, to digits that an experiment can have."""
        if self.is_whole:
            return pl.Series(np.rint(np.clip(x, self.low, self.high)).astype(np.int64))
        return pl.Series(np.round(np.clip(x, self.low, self.high), self.n_decimals))

    def drawn(self, n: int, rng: np.random.Generator) -> pl.Series:
        """Draw n values, all alike likely."""
        if self.low == self.high:
            return self.levels.gather(rng.integers(len(self.levels), size=n))
        half = 0.5 if self.is_whole else 0.0  # so that the ends are as likely
        return self.rounded(rng.uniform(self.low - half, self.high + half, n))

    def near(self, values: pl.Series, step: float, rng: np.random.Generator) -> pl.Series:
        """Change some values by a step, a share of the range, or to another level."""
        n, draw = len(values), rng.random(len(values))
        if self.low == self.high:
            is_other = pl.Series(draw < _CHANGED * _OTHER_LEVEL)
            return self.drawn(n, rng).zip_with(is_other, values)
        length = np.maximum(step * (self.high - self.low), 0.6 * self.is_whole)
        moves = rng.standard_normal(n) * length
        return self.rounded(values.cast(pl.Float64).to_numpy() + moves * (draw < _CHANGED))


class Space(NamedTuple):
    """Where experiments can lie: the columns that a model uses, as they were measured."""

    axes: dict[str, _Axis]

    @classmethod
    def of(
        cls,
        encoding: TableEncoding,
        measured: pl.DataFrame,
        ranges: Mapping[str, Sequence[float]],
    ) -> Self:
        """Take ranges of numbers, those given or measured, and the levels of everything else.

        Columns that were the same in every row stay so, though the model drops them.
        """
        columns: dict[str, NumericColumn | None] = {
            one.name: one if isinstance(one, NumericColumn) else None for one in encoding.columns
        }
        same = [one.columns for one in encoding.report if one.code == "dropped.constant"]
        columns |= dict.fromkeys(itertools.chain(*same))
        if unknown := [name for name in ranges if name not in columns]:
            raise InputError(Message.of("ranges.column", *unknown))
        axes = {
            name: _Axis.of(measured[name], ranges.get(name), column)
            for name, column in columns.items()
        }
        if empty := [name for name, axis in axes.items() if not len(axis.levels)]:
            raise InputError(Message.of("make.empty", *empty))
        return cls(axes)

    def drawn(self, n: int, rng: np.random.Generator) -> pl.DataFrame:
        """Draw n rows, columns independently."""
        return pl.DataFrame([axis.drawn(n, rng).alias(name) for name, axis in self.axes.items()])

    def near(
        self, rows: pl.DataFrame, n: int, step: float, rng: np.random.Generator
    ) -> pl.DataFrame:
        """Change rows a little, n new ones, in some of their columns."""
        rows = rows[np.resize(np.arange(len(rows)), n)]
        return pl.DataFrame(
            [axis.near(rows[name], step, rng).alias(name) for name, axis in self.axes.items()]
        )


def search_of(
    model: TableModel,
    table: pl.DataFrame,
    goal: Goal,
    requires: Sequence[Requirement],
    suggested: Suggestions,
) -> Search:
    """Return the contents of the page.

    table
        The rows so far, planned ones included.
    """
    estimator, encoding = model.estimator, model.encoding
    rows, is_met = measured_rows(model, table, requires)
    at, counts = rows.numbers - 1, is_met | ~is_met.any()
    means = centres(estimator, rows.X)
    best = int(np.argmax(np.where(counts, goal.sign * means, -np.inf)))
    values, is_met_of_all = np.full(len(table), np.nan), np.zeros(len(table), dtype=bool)
    values[at], is_met_of_all[at] = rows.y, is_met
    planned, chosen = table.filter(np.isnan(values)), model.read(suggested.frame)
    expected = np.concatenate([_expected(model, one) for one in (planned, chosen) if len(one)])
    mean, low, high = expected[-len(chosen) :].T.tolist()
    names, records = [one.name for one in encoding.columns], suggested.records
    columns = [(name, map(_text, chosen[name])) for name in names]
    columns += [(f"Expected {encoding.target_name}", map(value, mean))]
    columns += [("90 % interval", map("{} to {}".format, map(value, low), map(value, high)))]
    columns += [
        (head, [write(one[name]) for one in records])
        for name, head, write in _PROSPECTS
        if name in records[0]
    ]
    heads, cells = zip(*columns, strict=True)
    X = estimator.fitted_.filled(rows.X) if np.isnan(rows.X).any() else rows.X
    learnt = getattr(estimator.task_, "map", None)
    support = (-np.inf, np.inf) if learnt is None else learnt.support
    own = table.select(names).row(int(at[best]))
    return Search(
        target=encoding.target_name,
        unit=model.notes.unit,
        source=model.notes.source,
        command=model.notes.command,
        sign=goal.sign,
        requires=join([one.words for one in requires]),
        values=values,
        is_met=is_met_of_all,
        best=int(at[best]),
        best_mean=float(means[best]),
        best_row=join([f"{name} = {_text(one)}" for name, one in zip(names, own, strict=True)]),
        expected=expected,
        heads=heads,
        rows=[*zip(*cells, strict=True)],
        effects=effects(
            estimator.predict_dist, X, features_of(encoding, X), moments(support), at=X[best]
        ),
    )


def _expected(model: TableModel, frame: pl.DataFrame) -> np.ndarray:
    predictive = model.predict_dist(frame)
    return np.column_stack([predictive.mean, predictive.interval(0.9)])


def _text(cell: str | float | None) -> str:
    if cell is None:
        return "(missing)"
    return value(cell) if isinstance(cell, float) else str(cell)

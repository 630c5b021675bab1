"""What the target decides about columns: which numbers name things, which levels are replaced.

Gaps that tell of the target are marked. Whole numbers name things, such as plots and patients,
where rows of one number are alike as no curve over the numbers says, nor the other columns. Levels
of text stand in a column each, or where they are many for what they tell of the target; text
stands for what its spelling tells, where that is more than its levels and other columns do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int, Shaped

from bayesprop.table.columns import FEW_LEVELS, CategoryColumn, NumericColumn
from bayesprop.table.encoded import FittedColumn, are_numbered, levels_of
from bayesprop.table.errors import Message, listing
from bayesprop.table.target import Label, class_text
from bayesprop.table.target_encoded import TargetEncodedColumn, TextColumn
from bayesprop.table.values import as_levels, as_numbers

_FEWEST = 6
"""Different numbers; a curve through fewer says all that they tell."""
_MOST_TRIED = 100
"""Columns: more are pixels, or counts."""
_MOST_COLUMNS, _MOST_LEVELS = 300, 50
"""Beyond these what other columns say is left out, and what one of them says."""
_MOST_ALONE, _LEAST_NUMBER_GAIN = 0.05, 0.05
"""Share of rows without another of their number; share of the variance that the rows of a number
tell beyond the curve."""
_MOST_KNOTS, _NUMBERS_A_KNOT = 9, 4
_BY_CHANCE = 1e-4
_EXACT = 2.0**53
"""Below it floats hold every whole number."""
_TINY = 1e-12
_MOST_ROWS = 10_000
"""Rows by which this is judged, drawn from more."""
_LEAST_GAIN, _ERRORS = 0.01, 1.5
"""Share of the variance of what other columns leave of a target that spelling tells beyond levels,
and standard errors that it is above that."""
N_FOLDS = 10
PULLS = 2.0 ** np.arange(-11, 12)
"""Rows of the mean of all that are counted beside those of a level."""
_TELLING, _LEAST_ROWS = 1e-3, 8
"""Probability of such a difference by chance, and rows on either side from which it is asked."""
_LEAST_SHARE = 0.05
"""Share of the target's variance for which a number of rows is asked about."""
MAX_LEVELS = 50
"""Columns that one column of text may become."""
_MANY_ROWS, _ROWS_A_NUMBER = 1_000, 10
"""Rows of each number, on average, that a shorter table has where means stand beside numbers: where
they are fewer, processes over the numbers as they are tell more (Crime, Sitka of R's packages)."""


def folds_of(n: int, groups: Shaped[np.ndarray, " n"] | None) -> Int[np.ndarray, " n"]:
    """Deal rows, or whole groups, out to folds."""
    number = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    deal = np.random.default_rng(0).permutation(number.max(initial=0) + 1)
    return deal[number] % N_FOLDS


def nominal_columns_of(
    fitted: Sequence[FittedColumn],
    frame: pl.DataFrame,
    y: Float[np.ndarray, "n k"],
    amounts: Collection[str] = (),
) -> set[str]:
    """Return the columns of numbers that name things, by the target or by what other columns leave.

    y
        The target as numbers, NaN where a row has none.
    amounts
        Columns that name nothing.
    """
    rows = np.flatnonzero(~np.isnan(y[:, 0]))
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_ROWS])
    frame, y = frame[rows], y[rows]
    columns = {one.name: one.column for one in fitted if one.column is not None}
    numbers = {
        name: column.numbers(frame[name]).fill_null(np.nan).to_numpy()
        for name, column in columns.items()
        if isinstance(column, NumericColumn) and column.is_plain and name not in amounts
    }
    numbers = {name: x for name, x in numbers.items() if may_be_nominal(x)}
    if not 0 < len(numbers) <= _MOST_TRIED:
        return set()
    residuals = residuals_without(of_few_levels(fitted, frame), y, numbers)
    return {
        name for name, x in numbers.items() if is_nominal(x, y) or is_nominal(x, residuals[name])
    }


def of_few_levels(
    fitted: Sequence[FittedColumn], frame: pl.DataFrame
) -> dict[str, Float[np.ndarray, "n c"]]:
    """Encode the columns that are used, but those of many levels."""
    columns = {one.name: one.column for one in fitted if one.column is not None}
    return {
        name: column.encode(frame[name]).X
        for name, column in columns.items()
        if not isinstance(column, CategoryColumn) or len(column.levels) <= _MOST_LEVELS
    }


def may_be_nominal(x: Float[np.ndarray, " n"]) -> bool:
    """Whether numbers are whole, of some kinds, and nearly none alone."""
    known = x[~np.isnan(x)]
    if not ((known == np.round(known)) & (np.abs(known) < _EXACT)).all():
        return False
    count = np.unique(known, return_counts=True)[1]
    return len(count) >= _FEWEST and (count == 1).sum() <= _MOST_ALONE * len(known)


def residuals_without(
    encoded: Mapping[str, Float[np.ndarray, "n c"]], y: Float[np.ndarray, "n k"], of: Iterable[str]
) -> dict[str, Float[np.ndarray, "n k"]]:
    """Return what ridge regression on all columns but one leaves of targets, for each of some.

    Both standardised; unit penalties a column, gaps at the mean. One that is not among the columns
    is left by all of them.
    """
    y, widths = _standardised(y), [x.shape[1] for x in encoded.values()]
    d = sum(widths)
    if not 0 < d <= _MOST_COLUMNS:
        return dict.fromkeys(of, y)
    X = _standardised(np.column_stack([*encoded.values()]))
    own = np.repeat(np.array([*encoded], object), widths)
    squares, products = X.T @ X + d * np.eye(d), X.T @ y

    def residual(name: str) -> np.ndarray:
        others = np.flatnonzero(own != name)
        return y - X[:, others] @ np.linalg.solve(squares[np.ix_(others, others)], products[others])

    return {name: residual(name) for name in of}


def _standardised(values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Return columns of mean 0 and variance 1, of any scale; 0 where constant or missing."""
    gap = np.isnan(values)
    values = np.where(gap, 0.0, values)
    values = values / np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
    mean = values.sum(axis=0) / np.maximum((~gap).sum(axis=0), 1)
    values = np.where(gap, 0.0, values - mean)
    std = values.std(axis=0)
    return np.where(std > _TINY, values / np.maximum(std, _TINY), 0.0)


def is_nominal(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> bool:
    """Whether the other rows of a number tell as much beyond a curve over all numbers as that does.

    The curve is piecewise linear, of equally many numbers a piece. What the rows of a number
    leave of it is predicted by the shrunken mean of the others (James & Stein 1961). Standard
    errors are those of numbers, not of rows.

    y
        What is to be told, one column or more, without gaps.
    """
    known = ~np.isnan(x)
    x, y = x[known], y[known]
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    residual = _curve_residuals(x, y)
    gain = np.mean(_gains(residual, place, count), axis=1)
    over_chance = np.bincount(place, gain - gain.mean())
    error = np.sqrt(np.sum(over_chance**2)) / len(x)
    is_beyond = gain.mean() > 1.0 - np.mean(residual**2)
    return bool(is_beyond and gain.mean() - _ERRORS * error > _LEAST_NUMBER_GAIN)


def explained_by_curve(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> float:
    """Return the share of a target's variance that a curve tells, 0 where chance may have done it.

    The largest of several columns, by an F test.
    """
    from scipy import stats

    known = ~np.isnan(x) & ~np.isnan(y[:, 0])
    x, y = x[known], y[known]
    n_free = len(x) - _MOST_KNOTS
    if n_free < 1:
        return 0.0
    variance, residual = (
        np.mean(one**2, axis=0) for one in (_standardised(y), _curve_residuals(x, y))
    )
    share = float(np.max(variance - residual))
    ratio = share / max(1.0 - share, _TINY) * n_free / (_MOST_KNOTS - 1)
    by_chance = y.shape[1] * stats.f.sf(ratio, _MOST_KNOTS - 1, n_free)
    return share if by_chance < _BY_CHANCE else 0.0


def _curve_residuals(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> np.ndarray:
    """Return what a piecewise-linear curve of least squares leaves of standardised targets."""
    x, y = _standardised(x[:, None])[:, 0], _standardised(y)
    numbers = np.unique(x)
    n_knots = min(_MOST_KNOTS, 2 + len(numbers) // _NUMBERS_A_KNOT)
    knots = numbers[np.linspace(0, len(numbers) - 1, n_knots).astype(int)]
    bends = np.maximum(x[:, None] - knots[:-1], 0.0)
    basis = np.column_stack([np.ones_like(x), bends])
    return y - basis @ np.linalg.lstsq(basis, y)[0]


def _gains(
    residual: Float[np.ndarray, "n k"], place: np.ndarray, count: np.ndarray
) -> Float[np.ndarray, "n k"]:
    """Return what squared residuals lose where the other rows of a number predict them."""
    n, n_numbers = len(residual), len(count)
    total = np.column_stack([np.bincount(place, column) for column in residual.T])
    mean = total / count[:, None]
    within = np.sum((residual - mean[place]) ** 2, axis=0) / max(n - n_numbers, 1)
    between = np.average(mean**2, axis=0, weights=count) - within * n_numbers / n
    alike = within / np.maximum(between, _TINY)
    others = (total[place] - residual) / (count[place, None] - 1 + np.maximum(alike, _TINY))
    return residual**2 - (residual - others) ** 2


@dataclass(frozen=True)
class Target:
    """The target of a table as numbers, NaN where a row has none, and what these are.

    fitted
        How the columns of `frame` are encoded.
    """

    y: Float[np.ndarray, "n k"]
    labels: list[str]
    fitted: Sequence[FittedColumn]
    frame: pl.DataFrame

    @cached_property
    def residual(self) -> Float[np.ndarray, "n k"]:
        """What ridge regression on other columns than text of many levels leaves, of any unit."""
        residual, known = np.full_like(self.y, np.nan), ~np.isnan(self.y[:, 0])
        y = self.y[known]
        y = y / max(np.abs(y).max(initial=0.0), np.finfo(float).tiny)
        few = of_few_levels(self.fitted, self.frame.filter(known))
        residual[known] = residuals_without(few, y, [""])[""] * y.std(axis=0)
        return residual


def informative_text(series: pl.Series, target: Target, **own: Any) -> TextColumn | None:
    """Return text as what its spelling tells of the target; None where that is not enough.

    own
        As `TextColumn.fit` takes it.
    """
    known = as_levels(series).is_not_null().to_numpy() & ~np.isnan(target.residual[:, 0])
    rows = np.random.default_rng(0).permutation(np.flatnonzero(known))
    rows = np.sort(rows[:_MOST_ROWS])
    some, residual = series[rows], target.residual[rows]
    column = TextColumn.fit(some, residual, target.labels)
    if column is None or not _is_informative(column, some, residual):
        return None
    return TextColumn.fit(series, target.y, target.labels, **own)


def _is_informative(column: TextColumn, series: pl.Series, y: Float[np.ndarray, "n k"]) -> bool:
    """Compare squared errors at rows of folds left out; rows of one text are as one."""
    y = y - y.mean(axis=0)
    if not y.any():
        return False
    y = y / np.sqrt(np.mean(y**2))
    place = np.unique(as_levels(series).to_numpy(), return_inverse=True)[1]
    fold = folds_of(len(series), None)
    predicted = column.cross_fitted(series, y, fold)
    gain = least_error_of_levels(place, y, fold) - np.mean((y - predicted) ** 2, axis=1)
    over_chance = np.bincount(place, gain - gain.mean())
    standard_error = np.sqrt(np.sum(over_chance**2)) / len(gain)
    return bool(gain.mean() - _ERRORS * standard_error > _LEAST_GAIN)


def least_error_of_levels(
    place: Int[np.ndarray, " n"], y: Float[np.ndarray, "n k"], fold: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return squared errors of a constant, or of the means of levels where these do better.

    Means of the rows of other folds, pulled to that of all as does best.
    """
    own = N_FOLDS * place + fold

    def others(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, values)[place] - np.bincount(own, values)[own]

    count = others(np.ones(len(y)))[:, None]
    total = np.column_stack([others(column) for column in y.T])
    errors = [np.mean((y - total / (count + pull)) ** 2, axis=1) for pull in PULLS]
    return min([np.mean(y**2, axis=1), *errors], key=np.mean)


def marked_where_telling(
    fitted: FittedColumn, series: pl.Series, target: pl.Series, *, is_class: bool
) -> FittedColumn:
    """Mark the gaps of a column if rows with and without differ in their target; else say so.

    A constant column is dropped if its gaps say nothing.

    target
        Numbers or codes of classes; rows without one are left out.
    """
    column = fitted.column
    if column is None or not column.missing:
        return fitted
    present = target.is_not_null().to_numpy()
    gap = as_levels(series).is_null().to_numpy()
    is_marked = _is_telling(gap[present], target.drop_nulls().to_numpy(), is_class=is_class)
    if fitted.is_constant and not is_marked:
        return fitted._replace(column=None)
    code = "column.telling_gaps" if is_marked else "column.gaps"
    remark = Message.of(code, fitted.name, n=gap.sum())
    before = () if fitted.is_constant else fitted.remarks
    column = replace(column, marked=is_marked)
    return fitted._replace(column=column, remarks=(*before, remark), is_constant=False)


def _is_telling(gap: np.ndarray, y: np.ndarray, *, is_class: bool) -> bool:
    """Compare targets with and without a value: by their ranks (Mann & Whitney 1947), or counts."""
    from scipy import stats

    if min(gap.sum(), (~gap).sum()) < _LEAST_ROWS:
        return False
    if not is_class:
        return bool(stats.mannwhitneyu(y[gap], y[~gap]).pvalue < _TELLING)
    counts = np.stack([np.bincount(y[gap == side], minlength=int(y.max()) + 1) for side in (0, 1)])
    counts = counts[:, counts.sum(axis=0) > 0]
    if counts.shape[1] < 2:
        return False
    result: Any = stats.chi2_contingency(counts)
    return bool(result.pvalue < _TELLING)


def question_if_informative(
    fitted: FittedColumn, series: pl.Series, y: Float[np.ndarray, "n k"]
) -> FittedColumn:
    """Ask about a column dropped for numbering the rows, where the target goes with it."""
    if not fitted.is_row_number:
        return fitted
    share = explained_by_curve(as_numbers(series).fill_null(np.nan).to_numpy(), y)
    if share < _LEAST_SHARE:
        return fitted
    question = Message.of("dropped.telling_row_numbers", fitted.name, share=share)
    return fitted._replace(remarks=(), questions=(question,))


def numbers_of(
    target: str, values: pl.Series, classes: tuple[Label, ...]
) -> tuple[list[str], Float[np.ndarray, "n k"]]:
    """Return a target as numbers whose means tell of it, NaN where missing, and their names."""
    y = values.cast(pl.Float64).to_numpy()[:, None]
    if not classes:
        return [f"mean {target}"], y
    places = [1] if len(classes) == 2 else list(range(len(classes)))
    shares = [f"share of {class_text(classes[k])}" for k in places]
    return shares, np.where(np.isnan(y), np.nan, y == np.array(places))


def levels_if_nominal(
    fitted: FittedColumn, series: pl.Series, nominal: Collection[str]
) -> FittedColumn:
    """Take whole numbers that name things for levels, if of many of them there are rows enough."""
    column = fitted.column
    if column is None or fitted.name not in nominal:
        return fitted
    text = levels_of(series, is_numbers=True).drop_nulls()
    levels, own = tuple(text.unique().sort()), (column.missing, column.marked, column.words)
    categories = CategoryColumn(fitted.name, *own, levels=levels, is_numbers=True)
    are_rare = len(text) < min(_MANY_ROWS, _ROWS_A_NUMBER * len(levels))
    return (
        fitted if are_rare and _are_many(categories, series) else fitted._replace(column=categories)
    )


def text_if_informative(fitted: FittedColumn, series: pl.Series, target: Target) -> FittedColumn:
    """Take text that names the rows for its spelling, where that tells of the target."""
    if not fitted.is_name or are_numbered(text := as_levels(series)):
        return fitted
    column = informative_text(text, target, missing=text.null_count() > 0)
    if column is None:
        return fitted
    n, labels = text.drop_nulls().n_unique(), listing(target.labels, 3)
    remark = Message.of("column.spelling", text.name, n=n, labels=labels)
    return fitted._replace(column=column, remarks=(remark,))


def target_encoded_if_many(fitted: FittedColumn, series: pl.Series, target: Target) -> FittedColumn:
    """Let levels that are many, or many a row, stand for what they or their spelling tell."""
    column = fitted.column
    if not isinstance(column, CategoryColumn):
        return fitted
    is_numbers, n = column.is_numbers, len(column.levels)
    code, encoded = "column.names", column
    if _are_many(column, series):
        y, labels = target.y, target.labels
        own = {name: getattr(column, name) for name in ("missing", "marked", "words")}
        known = ~np.isnan(y[:, 0])
        text = None if is_numbers else informative_text(series, target, **own)
        if text is not None:
            encoded, code = text, "column.many_levels_by_spelling"
        else:
            encoded = TargetEncodedColumn.fit(
                series.filter(known), y[known], labels, is_numbers=is_numbers, **own
            )
            n = len(encoded.texts)
            code = "column.many_names" if is_numbers else "column.many_levels"
    elif not is_numbers:
        return fitted
    remark = Message.of(code, fitted.name, n=n, labels=listing(target.labels, 3))
    return fitted._replace(column=encoded, remarks=(remark, *fitted.remarks))


def _are_many(column: CategoryColumn, series: pl.Series) -> bool:
    text = levels_of(series, is_numbers=column.is_numbers)
    n_known = len(text) - text.null_count()
    return len(column.levels) > max(FEW_LEVELS, min(MAX_LEVELS, n_known / 2))

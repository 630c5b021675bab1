"""Split the rows of a table into training and held-out rows: random, by group or by time.

A last row of totals or means, as sheets end, is left out.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.codec import label_texts
from bayesprop.table.columns import Schema, finite, infinities, understood
from bayesprop.table.date_forms import dated, parsed, read_dates, with_durations
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import (
    Message,
    TableError,
    at_rows,
    joined,
    left_out_rows,
    listed,
    one_line,
    quoted,
    row_name,
    rows_of,
    together,
)
from bayesprop.table.target import (
    Marks,
    choose_task,
    class_codes,
    duration_marks,
    fit_classes,
    is_limited,
    known_values,
    marks_of,
    target_numbers,
)
from bayesprop.table.values import as_numbers, cleaned, column_of, decided, names_in

_WORD = re.compile(
    r"((grand|overall|column) )?totals?|sums?|(overall )?(average|mean)s?|avg|[ΣØ∑]"
    r"|summe|gesamt(summe|ergebnis)?|insgesamt|durchschnitt|mittelwert|mittel"
    r"|total général|somme|moyenne|total general|suma|promedio|media|total geral|soma|média"
    r"|totale|somma|totaal|gemiddelde|razem|średnia|итого|всего|сумма|среднее"
    r"|合計|平均|合计|总计|平均值|합계|평균",
    re.I,
)
_LEAST_ABOVE, _LEAST_COLUMNS = 3, 2
_LEAST_VALUES = 1e6
"""Values that sums could have had, all together, from which they need no word beside them."""
_ALIKE = 0.01
"""Difference of shares of two sums, beside the largest, up to which one column is the other in
another unit."""
MOST_HELD_OUT, USUAL_SHARE = 0.9, 0.1
WITHIN = "\x1f"
"""Between the labels of a group and of the group that it is nested in: no text has it."""

Factors = tuple[tuple[str, ...], ...]
"""Columns whose values together name the groups of every factor: of classes school and class."""

Grouping = str | tuple[str | tuple[str, ...], ...] | None
"""Columns of groups as they are asked for, "school/class" among them, or as Factors."""


class Totals(NamedTuple):
    """A remark on the last row, and whether it is certainly a total."""

    remark: Message
    is_sure: bool


def totals(frame: pl.DataFrame) -> Totals | None:
    """Look for totals or means in the last row of a table; None where it is a row as any other.

    It is sure by two columns of numbers that are sums or means to rounding where a text says so;
    without one by two sums at least, of most columns, that are larger than all above, cannot be
    chance, are not the same in two units, and have no text beside them that a row above has, too.
    """
    above, n_above = frame[:-1], len(frame) - 1
    if n_above < _LEAST_ABOVE:
        return None
    texts = {one.name: one[-1] for one in frame if one.dtype == pl.String and one[-1] is not None}
    words = [
        text
        for name, text in texts.items()
        if _WORD.fullmatch(text.strip(" .:*")) and not (above[name] == text).any()
    ]
    numbers = [one for one in frame if one.dtype.is_numeric()]
    numbers = [one for one in numbers if one[-1] is not None and math.isfinite(one[-1])]
    sums = [one for one in numbers if one[-1] and _is(one[-1], float(one[:-1].sum()))]
    means = [one for one in numbers if words and _is_mean(one)]
    row = row_name(n_above)
    if len(sums) + len(means) >= _LEAST_COLUMNS and (
        words or (_are_telling(sums, len(numbers)) and not _repeats(above, texts))
    ):
        what = " and ".join(word for word, some in (("sums", sums), ("means", means)) if some)
        names = [one.name for one in (*sums, *means)]
        word = f", {quoted(words[0])}," if words else ""
        own = {"row": row, "word": word, "what": what}
        return Totals(Message.of("left_out.totals", *names, **own), is_sure=True)
    if words:
        maybe = Message.of("rows.maybe_totals", row=row, word=words[0])
        return Totals(maybe, is_sure=False)
    return None


def _is(value: float, exact: float) -> bool:
    """Whether a number is another one to its last digit."""
    return math.isclose(value, exact, rel_tol=1e-9, abs_tol=0.5 * _last_digit(value))


def _last_digit(value: float) -> float:
    return 10.0 ** min(cast(int, Decimal(f"{value:.15g}").as_tuple().exponent), 0)


def _is_mean(column: pl.Series) -> bool:
    above = column[:-1]
    return above.min() != above.max() and _is(column[-1], float(above.sum()) / above.count())


def _are_telling(sums: list[pl.Series], n_numbers: int) -> bool:
    """Whether sums can be no chance, although nothing says what they are."""
    distinct: list[np.ndarray] = []
    n_values = 1.0
    for one in sums:
        share = one[:-1].cast(pl.Float64).fill_null(0.0).to_numpy() / one[-1]
        largest = np.abs(share).max()
        is_new = all(np.abs(share - other).max() > _ALIKE * largest for other in distinct)
        if largest < 1.0 and is_new:
            distinct.append(share)
            n_values *= abs(one[-1]) / _last_digit(one[-1])
    is_most = 2 * len(sums) > n_numbers
    return is_most and len(distinct) >= _LEAST_COLUMNS and n_values >= _LEAST_VALUES


def _repeats(above: pl.DataFrame, texts: dict[str, str]) -> bool:
    return any((above[name] == text).any() for name, text in texts.items())


@dataclass(frozen=True)
class HoldOut:
    """Which rows and columns are used, and how rows are held out.

    test_fraction
        Share of the rows with a target, 0 to 0.9; None: a tenth.
    seed
        Of what is drawn.
    group
        Columns of what belongs together, such as a patient, or of "school/class" both and that
        classes are within schools: whole groups of the first are held out. They are no features,
        for a new group says nothing by its name. As `factors_of` takes them.
    time
        Column that orders the rows: the latest are held out. A number stays a feature; a date does
        not.
    weights
        Column of row weights; rows of weight 0 teach nothing, and judge nothing.
    drop
        Columns to leave out; "a,b" are two where no column is called so.
    exposure
        Column that counts grow with.
    missing
        Words that stand for missing values, and no others; None: decided one column at a time.
    kinds
        Columns by name that hold a "duration" or a "time" of day, however they look.
    std_of
        Of columns of numbers whose values have errors, as `TableEncoding.encode` takes it.
    """

    test_fraction: float | None = None
    seed: int = 0
    group: Grouping = None
    time: str | None = None
    weights: str | None = None
    drop: Collection[str] = ()
    exposure: str | None = None
    missing: tuple[str, ...] | None = None
    kinds: Mapping[str, str] | None = None
    std_of: Mapping[str, str | float] | None = None

    @property
    def share(self) -> float:
        """The share held out."""
        return USUAL_SHARE if self.test_fraction is None else self.test_fraction


class Division(NamedTuple):
    """The rows that a fit can use, and which of them are held out.

    frame, numbers, weight, groups
        Of these rows, in the order of the table; numbers count from 1, weight is None for equal
        weights, groups where rows have none, else their labels by every factor.
    target
        Of every row that has one, by which the table is known again.
    amounts
        Columns whose numbers name nothing: time, and what counts grow with; all, where rows have
        groups.
    remarks
        On the task and on what was left out.
    marks
        How a target was written that is numbers here; None: plain.
    schema
        What the columns hold, but the target.
    missing, std_of
        As of `HoldOut`.
    are_exchangeable
        Whether no column orders the rows in time.
    """

    task: str
    frame: pl.DataFrame
    numbers: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None
    groups: Shaped[np.ndarray, "n f"] | None
    is_test: Bool[np.ndarray, " n"]
    target: pl.DataFrame
    amounts: tuple[str, ...]
    remarks: list[Message]
    marks: Marks | None
    schema: Schema
    missing: tuple[str, ...] | None = None
    are_exchangeable: bool = True
    std_of: Mapping[str, str | float] | None = None

    @property
    def inputs(self) -> pl.DataFrame:
        """The columns of `frame` but those of standard deviations."""
        return self.frame.drop(_columns_of_std(self.std_of))

    @property
    def group(self) -> Shaped[np.ndarray, " n"] | None:
        """Labels of what is held out together: groups of the first factor."""
        return None if self.groups is None else self.groups[:, 0]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of training rows and held-out rows."""
        return {"train": int(np.sum(~self.is_test)), "held_out": int(np.sum(self.is_test))}

    def encoded(self, encoding: TableEncoding) -> tuple[EncodedRows, EncodedRows]:
        """Return the rows to learn from and those held out as numbers.

        The former as `cross_fitted` has them.
        """
        with rows_of(self.numbers - 1):
            features, remarks, std, _ = encoding.encode(self.frame, std_of=self.std_of)
        train = ~self.is_test
        if std is not None:
            encoding.check_std(features[train], std[train])
        groups = None if self.group is None else self.group[train]
        features[train] = encoding.cross_fitted(features[train], self.frame.filter(train), groups)
        target = encoding.target(self.frame)
        others = self.weight, remarks, self.groups, self.are_exchangeable, std
        rows = EncodedRows(features, target, self.numbers, *others)
        return rows.of(~self.is_test), rows.of(self.is_test)

    def in_folds(self, n_folds: int, seed: int) -> Sequence[Division]:
        """Hold every row out once, in folds of groups, or with the same share of every class.

        A class of a single row is never held out.
        """
        from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

        rows, target = np.arange(len(self.frame)), self.frame[self.target.columns[0]]
        if self.group is not None:
            n_folds = min(n_folds, len(np.unique(self.group)))
            folds = GroupKFold(n_folds, shuffle=True, random_state=seed)
            parts = [out for _, out in folds.split(rows, groups=self.group)]
        elif self.task == "classification":
            codes = class_codes(target, fit_classes(target)).to_numpy()
            counts = np.bincount(codes)
            rows = rows[counts[codes] > 1]
            folds = StratifiedKFold(min(n_folds, counts.max()), shuffle=True, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # classes of fewer rows than folds
                parts = [rows[out] for _, out in folds.split(rows, codes[rows])]
        else:
            folds = KFold(min(n_folds, len(rows)), shuffle=True, random_state=seed)
            parts = [out for _, out in folds.split(rows)]
        divisions = [self._replace(is_test=np.isin(np.arange(len(target)), out)) for out in parts]
        if self.task == "classification":
            for one in divisions:
                _check_classes(target, one.is_test)
        return divisions

    def encoding(self) -> TableEncoding:
        """Choose an encoding from the rows to learn from."""
        target = self.target.columns[0]
        train = self.inputs.filter(~self.is_test)
        fitted = TableEncoding.fit(train, target, self.task, self.schema, self.amounts, self.marks)
        return replace(fitted, missing=self.missing)


def divide(
    frame: pl.DataFrame,
    target: str,
    task: str | None,
    hold_out: HoldOut,
    where: str = "the table",
) -> Division:
    """Hold rows out; both parts keep the order of the table.

    At random, the same share of every class is held out, as nearly as whole rows allow, and at
    least one row of it is always left to learn from. Whatever a fit to a part of the table would
    refuse is refused here, so that messages name rows of the file.

    where
        What messages call the table.
    """
    factors = factors_of(hold_out.group, frame.columns)
    group_columns = list(dict.fromkeys(name for factor in factors for name in factor))
    hold_out = replace(hold_out, drop=names_in(hold_out.drop, frame.columns))
    _check_columns(frame, target, hold_out, group_columns, where)
    last, frame = totals(frame), frame.drop(set(hold_out.drop))
    frame, on_marks = decided(frame, hold_out.missing, is_typed=True)
    given = column_of(frame, target)
    frame, on_durations = with_durations(frame, hold_out.kinds or {}, target, group_columns)
    _check_values(frame, target, task, hold_out, group_columns, where)
    series = column_of(frame, target)
    task, remark = choose_task(series, task)
    marks = marks_of(series) if task == "regression" else None
    if series.dtype == pl.Duration:
        marks = duration_marks(given)
    values = target_numbers(series) if task == "regression" else known_values(series)
    if marks is not None:  # the marks of a part of the rows may look otherwise
        frame = frame.with_columns(values)
    groups = labels_of(frame, factors, groups_of) if factors else None
    moment = None if hold_out.time is None else moments_of(frame[hold_out.time])
    weight = weights_of(frame, hold_out.weights, target, where)
    frame = frame.drop(group_columns, *filter(None, [hold_out.weights]))
    places = np.flatnonzero(values.is_not_null().to_numpy())
    n_limits = int((values.is_null() & series.is_not_null()).sum()) if is_limited(series) else 0
    n_missing = len(frame) - len(places) - n_limits
    remarks = [
        *filter(None, [remark]),
        *on_marks,
        *on_durations,
        *left_out_rows(n_missing, target, n_limits),
    ]
    target_of_all = frame[places].select(target)
    if last is not None and len(places) and places[-1] == len(frame) - 1:
        remarks.append(last.remark)
        places = places[: len(places) - last.is_sure]
    if weight is not None and not np.all(weighs := weight[places] > 0.0):
        remarks.append(Message.of("left_out.no_weight", n=np.sum(~weighs)))
        places = places[weighs]
    n, n_test = len(places), round(hold_out.share * len(places))
    if n - n_test < 2:
        out = f" ({n_test} of them held out)" if n_test else ""
        raise TableError(Message.of("rows.too_few", where=where, n=n, out=out))
    frame = frame[places]
    infinite = infinities(frame.drop(target))
    frame = frame.with_columns(map(finite, frame.select(list(infinite))))
    remarks += infinite.values()
    weight, groups, moment = (None if a is None else a[places] for a in (weight, groups, moment))
    if groups is not None:
        is_test = whole_groups(groups[:, 0], n_test, hold_out.seed, group_columns[0])
    elif moment is not None:
        is_test = latest(moment, n_test, str(hold_out.time))
    else:
        is_test = at_random(frame[target], task, n_test, hold_out.seed)
    if task == "classification":
        _check_classes(frame[target], is_test)
    amounts = tuple(name for name in (hold_out.time, hold_out.exposure) if name is not None)
    if groups is not None:  # another group has other plots and patients
        amounts = tuple(frame.columns)
    rows = frame, places + 1, weight, groups, is_test, target_of_all
    schema = understood(frame.drop(target, *_columns_of_std(hold_out.std_of)))
    known = amounts, remarks, marks, schema, hold_out.missing
    return Division(task, *rows, *known, moment is None, hold_out.std_of)


def _columns_of_std(std_of: Mapping[str, str | float] | None) -> set[str]:
    """Return the columns that hold standard deviations."""
    return {source for source in (std_of or {}).values() if isinstance(source, str)}


def _check_values(
    frame: pl.DataFrame,
    target: str,
    task: str | None,
    hold_out: HoldOut,
    groups: Sequence[str],
    where: str,
) -> None:
    """Refuse whatever a fit to a part of the table would, all of it at once."""
    readers = (*((groups_of, name) for name in groups), (moments_of, hold_out.time))
    steps: list[Callable] = [
        partial(_check_target, column_of(frame, target), task),
        *(partial(read, frame[name]) for read, name in readers if name is not None),
        partial(weights_of, frame, hold_out.weights, target, where),
    ]
    aside = (target, *groups, hold_out.weights)
    try:
        together(*steps)
    except TableError as error:
        others = understood(frame.select(one.name for one in frame if one.name not in aside))
        asked = joined(text for one in others.values() for text in one.questions)
        raise TableError(*error.problems, *asked) from None


def _check_target(series: pl.Series, task: str | None) -> None:
    if choose_task(series, task).task == "regression":
        target_numbers(series)
    elif len(series) > 1:
        fit_classes(series)


def _check_columns(
    frame: pl.DataFrame, target: str, hold_out: HoldOut, groups: Sequence[str], where: str
) -> None:
    share = hold_out.share  # nan passes the parser of an older typer
    if not (isinstance(share, Real) and 0.0 <= float(share) <= MOST_HELD_OUT):
        got = one_line(str(share))
        raise TableError(Message.of("hold_out.share", most=MOST_HELD_OUT, got=got))
    if groups and hold_out.time is not None:
        raise TableError(Message.of("hold_out.group_and_time"))
    for name in hold_out.drop:
        column_of(frame, name, where)
        if name in (target, hold_out.weights, *groups, hold_out.time):
            raise TableError(Message.of("drop.used", name))
    for argument, name in (*(("group", name) for name in groups), ("time", hold_out.time)):
        if name is not None:
            column_of(frame, name, where)
            if name in (target, hold_out.weights):
                raise TableError(Message.of(f"{argument}.used", name))
    std_of = hold_out.std_of or {}
    used = {target, hold_out.weights, *groups, hold_out.time, hold_out.exposure}
    used |= {*hold_out.drop, *std_of}
    for name, source in std_of.items():
        column_of(frame, name, where)
        if isinstance(source, str):
            column_of(frame, source, where)
        if source in used:
            raise TableError(Message.of("std_of.used", str(source), of=name))


def _check_classes(target: pl.Series, is_test: Bool[np.ndarray, " n"]) -> None:
    known = set(known_values(target.filter(~is_test)).drop_nulls().unique())
    unknown = set(known_values(target.filter(is_test)).drop_nulls().unique()) - known
    if unknown:
        classes = listed(sorted(map(str, unknown)), 3)
        raise TableError(Message.of("hold_out.class_without_rows", target.name, classes=classes))


def factors_of(group: Grouping, columns: Collection[str]) -> Factors:
    """Return the columns of every factor: of "a/b" those of a, and of b within a.

    A text with a slash is one name where a column is called so.
    """
    texts, factors = [group] if isinstance(group, str) else group or (), []
    for text in texts:
        if isinstance(text, tuple):
            factors.append(text)
            continue
        names = [text] if text in columns else [name.strip() for name in text.split("/")]
        factors += [tuple(names[: k + 1]) for k in range(len(names))]
    return tuple(dict.fromkeys(factors))


def labels_of(
    frame: pl.DataFrame,
    factors: Factors,
    read: Callable[[pl.Series], Shaped[np.ndarray, " n"]] = label_texts,
) -> Shaped[np.ndarray, "n f"]:
    """Label rows by every factor; "" where the frame lacks a column, or a row its value."""
    absent = np.full(len(frame), "")
    names = {name for factor in factors for name in factor}
    by = {name: read(frame[name]) if name in frame.columns else absent for name in names}
    return np.stack([_within([by[name] for name in factor]) for factor in factors], axis=1)


def _within(labels: Sequence[Shaped[np.ndarray, " n"]]) -> Shaped[np.ndarray, " n"]:
    """Join the labels of every row; "" where one is missing."""
    rows = zip(*(one.tolist() for one in labels), strict=True)
    return np.array([WITHIN.join(row) if all(row) else "" for row in rows], str)


def groups_of(column: pl.Series) -> Shaped[np.ndarray, " n"]:
    """Return a column's values as labels of groups; TableError where one is missing."""
    labels = label_texts(column)
    if (labels == "").any():
        where = at_rows(column, pl.Series(labels == ""))
        raise TableError(Message.of("group.missing", column.name, where=where))
    return labels


def moments_of(column: pl.Series) -> Float[np.ndarray, " n"]:
    """Return what orders rows in time: numbers, or dates and times."""
    if column.dtype.is_temporal() and column.dtype != pl.Duration:
        times = read_dates(column, "").to_physical().cast(pl.Float64)
    elif column.dtype == pl.String:
        times = _parsed(cleaned(column))
    else:
        times = as_numbers(column)
    if times.null_count():
        where = at_rows(column, times.is_null())
        raise TableError(Message.of("time.unread", column.name, where=where))
    return times.to_numpy()


def _parsed(text: pl.Series) -> pl.Series:
    """Read numbers or dates; null for anything else."""
    numbers = text.cast(pl.Float64, strict=False)
    if not numbers.null_count() or (reading := dated(text)) is None:
        return numbers
    return parsed(text, reading.form).to_physical().cast(pl.Float64)


def weights_of(
    frame: pl.DataFrame, name: str | None, target: str, where: str
) -> Float[np.ndarray, " n"] | None:
    """Read the column of row weights, None where there is none."""
    if name is None:
        return None
    column = column_of(frame, name, where)
    if name == target:
        raise TableError(Message.of("weights.target", name))
    weight = as_numbers(column).fill_null(float("nan")).to_numpy()
    bad = ~(np.isfinite(weight) & (weight >= 0.0))
    if np.any(bad):
        at = at_rows(column, pl.Series(bad))
        raise TableError(Message.of("weights.bad", name, where=at))
    if not np.any(weight > 0.0):
        raise TableError(Message.of("weights.zero", name))
    return weight


def at_random(target: pl.Series, task: str, n_test: int, seed: int) -> Bool[np.ndarray, " n"]:
    """Choose `n_test` rows at random; of every class the same share, as nearly as rows allow."""
    order = np.random.default_rng(seed).permutation(len(target))
    is_test = np.zeros(len(target), dtype=bool)
    if task != "classification":
        is_test[order[:n_test]] = True
        return is_test
    codes = class_codes(target, fit_classes(target)).to_numpy()[order]
    for code, n_of_class in enumerate(shares(np.bincount(codes), n_test)):
        is_test[order[codes == code][:n_of_class]] = True
    return is_test


def shares(counts: Int[np.ndarray, " c"], n_test: int) -> Int[np.ndarray, " c"]:
    """Share `n_test` rows out among classes by their size, by largest remainders.

    One row of every class is kept back, so that a class of a single row, which scikit-learn's
    stratified split refuses, is never held out; fewer than `n_test` come out where nothing else is
    left.
    """
    exact = counts * (n_test / counts.sum())
    taken = np.minimum(np.floor(exact).astype(np.int64), counts - 1)
    for code in np.argsort(taken - exact, kind="stable"):
        if taken.sum() < n_test and taken[code] < counts[code] - 1:
            taken[code] += 1
    return taken


def whole_groups(
    group: Shaped[np.ndarray, " n"], n_test: int, seed: int, name: str
) -> Bool[np.ndarray, " n"]:
    """Choose groups at random that hold together about `n_test` rows; two are left at least.

    TableError where they are too few.
    """
    names, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    n_out = 1 if n_test else 0
    if len(names) < 2 + n_out:
        raise TableError(Message.of("group.too_few", name, least=2 + n_out, n=len(names)))
    order = np.random.default_rng(seed).permutation(len(names))
    filled = np.cumsum(sizes[order])[: len(names) - 2]
    if n_out:
        n_out = 1 + int(np.argmin(np.abs(filled - n_test)))
    return np.isin(number, order[:n_out])


def latest(moment: Float[np.ndarray, " n"], n_test: int, name: str) -> Bool[np.ndarray, " n"]:
    """Choose about the `n_test` last rows, so that no moment is on both sides."""
    if not n_test:
        return np.zeros(len(moment), bool)
    starts = np.unique(moment)[1:]
    n_after = len(moment) - np.searchsorted(np.sort(moment), starts)
    usable = len(moment) - n_after >= 2
    if not usable.any():
        raise TableError(Message.of("time.constant", name))
    starts, n_after = starts[usable], n_after[usable]
    return moment >= starts[np.argmin(np.abs(n_after - n_test))]

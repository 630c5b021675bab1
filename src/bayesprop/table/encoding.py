"""Which rows of a table a fit can use, and how they become numbers: stored, and repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.table.columns import CategoryColumn, NumericColumn, Schema, fit_rows, understood
from bayesprop.table.encoded import Encoded, EncodedColumn, FittedColumn, LevelsColumn, stand_in
from bayesprop.table.errors import (
    Message,
    StrayError,
    TableError,
    close_to,
    joined,
    left_out_rows,
    listing,
    together,
)
from bayesprop.table.supervised import (
    Target,
    folds_of,
    levels_if_nominal,
    marked_where_telling,
    nominal_columns_of,
    numbers_of,
    question_if_informative,
    target_encoded_if_many,
    text_if_informative,
)
from bayesprop.table.target import (
    Label,
    Marks,
    choose_task,
    class_codes,
    fit_classes,
    marks_of,
    target_numbers,
)
from bayesprop.table.target_encoded import TargetEncodedColumn, TextColumn
from bayesprop.table.values import as_levels, column_of, is_missing

T = TypeVar("T")


class EncodedRows(NamedTuple):
    """Encoded rows with a target.

    numbers
        Of the rows in their table, from 1.
    weight
        None for equal weights.
    remarks
        On what was left out, filled or not known.
    groups
        Labels of what belongs together by every factor, such as patient and site; None where
        nothing does.
    are_exchangeable
        Whether new rows come as these did: not where a column orders them in time.
    X_std
        As of `Encoded`.
    """

    X: Float[np.ndarray, "n k"]
    y: Shaped[np.ndarray, " n"]
    numbers: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None = None
    remarks: Sequence[Message] = ()
    groups: Shaped[np.ndarray, "n f"] | None = None
    are_exchangeable: bool = True
    X_std: Float[np.ndarray, "n k"] | None = None

    @property
    def group(self) -> Shaped[np.ndarray, " n"] | None:
        """Labels of what is held out together: groups of the first factor."""
        return None if self.groups is None else self.groups[:, 0]

    @property
    def filled(self) -> Float[np.ndarray, "n k"]:
        """X with the median of its column in every gap: for a look at columns, not for a fit."""
        gap = np.isnan(self.X)
        if not gap.any():
            return self.X
        return np.where(gap, np.nanmedian(self.X, axis=0), self.X)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The keyword of the weights, if there are any."""
        return {} if self.weight is None else {"sample_weight": self.weight}

    def of(self, chosen: np.ndarray) -> EncodedRows:
        """Select rows (a mask or index array)."""
        X, y, numbers = (part[chosen] for part in self[:3])
        others = {"weight": self.weight, "groups": self.groups, "X_std": self.X_std}
        others = {name: None if a is None else a[chosen] for name, a in others.items()}
        return self._replace(X=X, y=y, numbers=numbers, **others)


@dataclass(frozen=True)
class TableEncoding:
    """How the columns of a training table become numbers; the same way for every later table.

    Numbers stay as they are, and true and false become 1 and 0. Text becomes one 0/1 column a
    level, or where they are more than 50 what each, or its spelling, tells of the target; of whole
    numbers that name things these stand beside. Dates become years, season, weekday and hour. A
    missing value is NaN in the columns of its own, and so is a level that the training table did
    not have, of those with a column: an estimator draws what they may be. Gaps that tell of the
    target are marked in a column beside. Columns that are constant, that number the rows, or that
    name them by text whose spelling tells nothing are dropped. A column that is not understood is
    left out, and a value that its column does not hold is missing, each with a sentence.

    columns
        The columns that are used, in the order of the training table.
    report
        Remarks on what was filled, grouped or dropped.
    classes
        The labels that the target may have, sorted; empty where the target is a number.
    questions
        Those of the report that ask the owner of the table something.
    marks
        How the numbers of the target were written, and their unit; None: plain.
    missing
        Words that stand for missing values, and no others; None: decided one column at a time.
    """

    target_name: str
    columns: tuple[EncodedColumn, ...]
    report: list[Message] = field(default_factory=list)
    classes: tuple[Label, ...] = ()
    questions: list[Message] = field(default_factory=list, compare=False)
    marks: Marks | None = None
    missing: tuple[str, ...] | None = None

    @classmethod
    def fit(
        cls,
        frame: pl.DataFrame,
        target: str,
        task: str | None = None,
        schema: Schema | None = None,
        amounts: Collection[str] = (),
        marks: Marks | None = None,
    ) -> TableEncoding:
        """Choose an encoding from training rows.

        task
            "regression" or "classification"; None: as `choose_task` says.
        schema
            What the columns hold of which these are some rows; None: they are the whole table.
        amounts
            Columns whose numbers name nothing.
        marks
            How a target was written that is plain numbers here.
        """
        series = column_of(frame, target)
        is_class = (task or choose_task(series).task) == "classification"
        classes = fit_classes(series) if is_class else ()
        codes = class_codes(series, classes) if is_class else target_numbers(series)
        marks = None if is_class else marks or marks_of(series)
        inputs = frame.drop(target)
        if schema is None:
            fitted = list(understood(inputs).values())
        else:
            fitted = [fit_rows(schema[rows.name], rows) for rows in inputs]
        frame = frame.with_columns(
            one.column.without_words(frame[one.name]) for one in fitted if one.column is not None
        )
        labels, y = numbers_of(target, codes, classes)
        fitted = [question_if_informative(one, frame[one.name], y) for one in fitted]
        of_texts = Target(y, labels, fitted, frame)
        fitted = [text_if_informative(one, frame[one.name], of_texts) for one in fitted]
        of_numbers = () if is_class else stand_in(codes.alias(target), "target")
        questions = joined([*of_numbers, *(text for one in fitted for text in one.questions)])
        fitted = [
            marked_where_telling(one, frame[one.name], codes, is_class=is_class) for one in fitted
        ]
        fitted = _without_doubles(fitted, frame)
        nominal = nominal_columns_of(fitted, frame, y, amounts)
        fitted = [levels_if_nominal(one, frame[one.name], nominal) for one in fitted]
        fitted = [target_encoded_if_many(one, frame[one.name], of_texts) for one in fitted]
        columns = tuple(one.column for one in fitted if one.column is not None)
        of_target = [*(marks.remarks if marks is not None else []), *of_numbers]
        of_columns = (text for one in fitted for text in (*one.remarks, *one.questions))
        report = joined([*of_target, *of_columns])
        if not columns:
            raise TableError(Message.of("columns.none", target), *report)
        return cls(target, columns, report, classes, questions, marks)

    @property
    def task(self) -> str:
        """What is predicted: "regression" or "classification"."""
        return "classification" if self.classes else "regression"

    @property
    def limits(self) -> list[float]:
        """Censoring limits of the target."""
        return [] if self.marks is None else self.marks.limits

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the matrix; unique."""
        names: dict[str, None] = {}
        for name in (name for column in self.columns for name in column.feature_names):
            unique, i = name, 2
            while unique in names:
                unique, i = f"{name} ({i})", i + 1
            names[unique] = None
        return list(names)

    @property
    def nominal_columns(self) -> tuple[str, ...]:
        """Columns whose numbers name things."""
        levels = (one for one in self.columns if isinstance(one, LevelsColumn))
        return tuple(one.name for one in levels if one.is_numbers)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns whose levels are known, and the target if it is words or numbers with marks.

        They are to be read as text: "1.10" is another level than "1.1". So are numbers with marks,
        whose commas mean what they meant in training.
        """
        words = [column.name for column in self.columns if column.is_read_as_text]
        is_word = bool(self.classes) and all(isinstance(label, str) for label in self.classes)
        return (*words, *([self.target_name] if is_word or self.marks is not None else []))

    def encode(
        self,
        frame: pl.DataFrame,
        *,
        allow_absent: bool = False,
        std_of: Mapping[str, str | float] | None = None,
    ) -> Encoded:
        """Return a table's rows as numbers, with remarks on unseen levels and filled gaps.

        Columns are found by name; others are ignored. TableError names all that are absent or
        unusable.
        Gaps are NaN, and with `allow_absent` so are columns that the table lacks.

        std_of
            Of a column of numbers: the column of the standard deviations of its errors, or one
            number, in its unit.
        """
        frame = is_missing(frame, self.missing or ())
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent and not (allow_absent and len(absent) < len(self.columns)):
            needed = {self.target_name, *(column.name for column in self.columns)}
            others = [name for name in frame.columns if name not in needed]
            close, is_some = close_to(absent[0], others), len(absent) < len(self.columns)
            remedy = "_but_meant" if close else "_but_some" if is_some else ""
            own = {"n": len(absent), "meant": close}
            raise TableError(Message.of(f"columns.lacking{remedy}", *absent, **own))
        frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
        encoded = [column.encode_known(frame[column.name]) for column in self.columns]
        matrix = np.ascontiguousarray(np.column_stack([one.X for one in encoded]))
        pairs = zip(self.columns, encoded, strict=True)
        said = [text for own, one in pairs if own.name not in absent for text in one.warnings]
        are = "is" if len(absent) == 1 else "are"
        gone = [Message.of("columns.absent", *absent, n=len(absent), are=are)] if absent else []
        std = self._input_std(frame, matrix, std_of) if std_of else None
        return Encoded(matrix, [*gone, *joined(said)], std)

    def _input_std(
        self,
        frame: pl.DataFrame,
        X: Float[np.ndarray, "n k"],
        std_of: Mapping[str, str | float],
    ) -> Float[np.ndarray, "n k"]:
        """Return the std of every encoded value, 0 where one is missing; TableError names others.

        `frame` has nulls for the words that stand for missing values; `std_of` is as `encode` takes
        it.
        """
        numbers = {column.name: (column, own.start) for column, own in self._of(NumericColumn)}
        std = np.zeros_like(X)
        for name, source in std_of.items():
            if name not in numbers or frame[name].dtype == pl.Boolean:
                raise TableError(Message.of("std_of.kind", name, names=listing([*numbers])))
            column, at = numbers[name]
            if isinstance(source, str):
                if source not in frame.columns:
                    raise TableError(Message.of("std_of.absent", source, of=name))
                series = column.numbers(frame[source])
                values = series.fill_null(np.nan).to_numpy()
            else:
                series, values = None, np.full(len(frame), source, np.float64)
            is_bad = ~np.isnan(X[:, at]) & ~((values >= 0.0) & np.isfinite(values))
            if is_bad.any():
                if series is None:
                    raise TableError(Message.of("std_of.number", name, got=source))
                holds = f"standard deviations of at least 0, one for every value of {name}"
                raise StrayError(series, holds, pl.Series(is_bad), "std_of.stray")
            std[:, at] = np.where(np.isnan(X[:, at]), 0.0, values)
        return std

    def check_std(self, X: Float[np.ndarray, "n k"], std: Float[np.ndarray, "n k"]) -> None:
        """Raise TableError where the errors of a column vary as much as its training values."""
        for column, own in self._of(NumericColumn):
            known = ~np.isnan(X[:, own.start])
            values, errors = X[known, own.start], std[known, own.start]
            error, spread = np.sqrt(np.mean(errors**2)), np.std(values)
            if error >= spread > 0.0:
                own = {"error": float(error), "spread": float(spread)}
                raise TableError(Message.of("std_of.large", column.name, **own))

    def cross_fitted(
        self,
        X: Float[np.ndarray, "n k"],
        frame: pl.DataFrame,
        groups: Shaped[np.ndarray, " n"] | None,
    ) -> Float[np.ndarray, "n k"]:
        """Return the encoded rows of a fit, where levels stand for what other rows tell of them.

        X, frame
            The rows as `encode` returns them, by which a row's own target would reach it, and as
            they are.
        groups
            What belongs together, and stays in one fold.
        """
        X = X.copy()
        _, y = numbers_of(self.target_name, self._targets(frame), self.classes)
        fold = folds_of(len(frame), groups)
        for column, own in self._of(TargetEncodedColumn, TextColumn):
            X[:, own] = column.cross_fitted(frame[column.name], y, fold)
        return X

    def _of(self, *kinds: type[T]) -> Iterator[tuple[T, slice]]:
        """Yield the columns of some kinds, and their places in a matrix."""
        first = 0
        for column in self.columns:
            own = slice(first, first := first + len(column.feature_names))
            if isinstance(column, kinds):
                yield column, own

    def unseen(self, frame: pl.DataFrame) -> dict[str, Bool[np.ndarray, " n"]]:
        """Return where a level stands that the fit did not have, by the columns of levels."""
        frame = is_missing(frame, self.missing or ())
        return {
            column.name: column.is_unseen(frame[column.name])
            for column, _ in self._of(LevelsColumn)
            if column.name in frame.columns
        }

    def gap_shares(self, X: Float[np.ndarray, "n k"]) -> dict[str, float]:
        """Return the share of encoded rows that lack a value, of the columns with such rows."""
        gaps = {own.name: np.isnan(X[:, at.start]).mean() for own, at in self._of(EncodedColumn)}
        return {name: float(share) for name, share in gaps.items() if share > 0.0}

    def target(self, frame: pl.DataFrame) -> Shaped[np.ndarray, " n"]:
        """Return the target of the rows that have one: numbers, or labels out of `classes`.

        TableError if it is absent, no number or an unknown class.
        """
        known = self._targets(frame).drop_nulls().to_numpy()
        return np.array(self.classes)[known] if self.classes else known.astype(np.float64)

    def _targets(self, frame: pl.DataFrame) -> pl.Series:
        """Return numbers or places in `classes`, null where they are missing."""
        column = column_of(frame, self.target_name).to_frame()
        series = is_missing(column, self.missing or ()).to_series()
        if self.classes:
            return class_codes(series, self.classes)
        return target_numbers(series, self.marks)

    def rows(
        self,
        frame: pl.DataFrame,
        *,
        allow_absent: bool = False,
        averages_unseen: bool = False,
        std_of: Mapping[str, str | float] | None = None,
    ) -> EncodedRows:
        """Encode the rows of a whole table that have a target; `encode` says how.

        averages_unseen
            Whether levels of many that the fit did not have are average ones of no rows: where they
            are learnt beside a sample that chose the encoding, drawn ones would hide what others
            tell.
        """
        # Whole, so that messages name rows of the table.
        encoded, target = together(
            lambda: self.encode(frame, allow_absent=allow_absent, std_of=std_of),
            lambda: self.target(frame),
        )
        if averages_unseen:
            unseen = self.unseen(frame)
            for column, own in self._of(TargetEncodedColumn):
                encoded.X[:, own] = column.averaged(encoded.X[:, own], unseen[column.name])
        places = np.flatnonzero(self._targets(frame).is_not_null().to_numpy())
        remarks = [*left_out_rows(len(frame) - len(places), self.target_name), *encoded.warnings]
        std = None if encoded.X_std is None else encoded.X_std[places]
        return EncodedRows(encoded.X[places], target, places + 1, None, remarks, X_std=std)

    def validate(self) -> None:
        """Raise ValueError unless columns differ, and classes differ and are sorted."""
        if not self.columns or len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("the columns of a table encoding must be there and differ")
        if len(self.classes) == 1 or len(set(map(type, self.classes))) > 1:
            raise ValueError("the classes of a table encoding must be two or more of one kind")
        if list(self.classes) != sorted(set(self.classes)):
            raise ValueError("the classes of a table encoding must differ and be sorted")


def _without_doubles(fitted: list[FittedColumn], frame: pl.DataFrame) -> list[FittedColumn]:
    """Drop columns that repeat an earlier one in every row, levels by whatever name."""
    kept: dict[tuple | None, str] = {}
    encodings = []
    for one in fitted:
        series = frame[one.name]
        key = None if one.column is None else _digest(series, one.column)
        first = kept.setdefault(key, one.name)
        if key is not None and first != one.name:
            code = "double" if series.equals(frame[first]) else "double_levels"
            one = FittedColumn.dropped(code, one.name, other=first)
        encodings.append(one)
    return encodings


def _digest(series: pl.Series, column: EncodedColumn) -> tuple:
    """Return what two different columns do not share: of levels, where each occurs first."""
    n_gaps = series.null_count()
    if isinstance(column, CategoryColumn):
        _, first, place = np.unique(
            as_levels(series).fill_null("\0"), return_index=True, return_inverse=True
        )
        series = pl.Series(series.name, first[place])
    digest = hashlib.sha256(series.hash().to_numpy().tobytes()).digest()
    return type(column), series.dtype, n_gaps, digest

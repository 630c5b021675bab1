"""`bayesprop.fit` and `bayesprop.load`: a table's model in one line of Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import polars as pl
from numpy.typing import ArrayLike

from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.model.task import ORDERED
from bayesprop.store import SavedModel, load_model
from bayesprop.table.errors import InputError, Message, TableWarning
from bayesprop.table.target import Label
from bayesprop.table_model.learning import fit_table, is_partitioned, rows_to_learn
from bayesprop.table_model.listener import current_listener
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.request import FRAME, FitRequest
from bayesprop.table_model.sources import (
    Table,
    index_remarks,
    levels_of_numbers,
    read_any,
    table_name,
    with_target,
)


def fit(
    table: Table,
    y: ArrayLike | None = None,
    *,
    target: str | int | None = None,
    method: str | None = None,
    task: str | None = None,
    target_kind: str | None = None,
    exposure: str | int | None = None,
    order: Sequence[str | float] | None = None,
    seed: int = 0,
    weights: str | int | None = None,
    drop: str | int | Sequence[str | int] = (),
    group: str | int | Sequence[str | int] | None = None,
    time: str | int | None = None,
    missing: Sequence[str | float] | None = None,
    kinds: Mapping[str, str] | None = None,
    std_of: Mapping[str, str | float] | None = None,
    test_fraction: float | None = None,
    test: Table | None = None,
    positive: Label | None = None,
    cost: str | Mapping[str, float] | None = None,
    rate: str | None = None,
    unit: str | None = None,
    with_peers: bool = False,
    shards: int | None = None,
    rounds: int | None = None,
    cluster: str | None = None,
    checkpoint: str | Path | None = None,
    **settings: Any,
) -> TableModel:
    """Fit a model to a table, and evaluate it on held-out rows.

    Columns may be numbers, text, categories, dates, `12%` and `€ 1,200`, with gaps: they are
    understood as `bayesprop fit` understands them. `print` of what is returned says how, what was
    dropped, and how good the predictions are; nothing of this comes as a Python warning.

    table
        A data frame (pandas, polars and others), a file ("houses.csv", "book.xlsx::prices"), or
        the name of a bundled data set. The index of a frame is no column. Also a folder or pattern
        of Parquet files, a polars LazyFrame, a pyarrow dataset or an iterable of record batches:
        beyond 10^7 cells these are never held in memory, see `docs/use/scale.md`. Of a dask
        DataFrame the partitions are the shards, see `docs/use/merge.md`.
    y
        The target, where the table, which is then read whole, holds the other columns only; its
        name or "y" names it.
    target
        Column to predict; a known data set has its own.
    method
        One of those that `bayesprop methods` lists. None: the default.
    task
        "regression" or "classification". None: text, true/false, categories and whole numbers of
        two kinds are classes.
    target_kind
        "numbers", "positive", "nonnegative", "censored", "share" or "count": what a number can be;
        "classes" or "ordered": whether classes have an order. None: guessed, of classes by ordered
        categories alone.
    exposure
        Column that counts grow with: how long, or on how many, each row was counted.
    order
        Ordered classes from the lowest to the highest; words need it, numbers sort themselves.
    seed
        Fixes every random draw.
    weights
        Column of row weights, not a feature.
    drop
        Columns to leave out.
    group
        Column of what belongs together (patient), or several: crossed ones (["patient", "site"]),
        or nested ones ("school/class"). Whole groups of the first are held out. The default learns
        effects of all on numbers, by which it predicts tables that have the columns.
    time
        Column of numbers or dates: the latest rows are held out.
    missing
        Words and numbers that stand for missing values, such as ["NA", "?", -999]; [] for nulls and
        empty cells alone. None: in frames nulls, and marks such as "?" among numbers; in text files
        decided one column at a time. Remarks say how.
    kinds
        Columns that hold durations or times of day, as {"lap": "duration", "start": "time"}. None:
        by their type, values and name, see `docs/use/cli.md`.
    std_of
        Of columns of numbers whose values have errors: {"dose": "dose_sd"}, the column of their
        standard deviations, which is then no input, or {"dose": 0.5}, one number, in the unit of
        the column. What is learnt is of true values, and tables to predict have the same errors,
        unless `predict` is told otherwise.
    test_fraction
        Share of rows held out, 0 to 0.9. None: 0.1; below 300 rows they are judged in five folds.
    test
        Rows of one's own to judge by, as `table`; all of `table` is then learnt.
    positive
        Of two classes, the one that decisions are about. None: the rarer.
    cost, rate
        How two classes are decided: "fn=10,fp=1" or {"fn": 10, "fp": 1}, what a missed positive
        and a false alarm cost; or "recall=0.9", "precision=0.8", "flagged=0.1".
    unit
        Of the target, for the summary and the report.
    with_peers
        Whether scikit-learn's boosting and Gaussian process are fitted beside it, for the report.
    shards, rounds
        Parts into which the rows are dealt, each learnt apart in every round (10 of them), see
        `docs/use/merge.md`: of linear, logistic, pbp and closed-form-vi.
    cluster
        Address of a Dask scheduler ("tcp://HOST:8786") whose workers learn them. None: threads.
    checkpoint
        File that keeps the last round: the same call goes on from there.
    settings
        Hyper-parameters of the method, such as `n_epochs=40`.

    Raises ValueError, in one line that names the column or argument.
    """
    asked = dict(locals())
    del asked["y"]
    if y is not None and target is not None:
        raise InputError(Message.of("y.and_target"))
    if is_partitioned(table):
        if shards is not None:
            raise InputError(Message.of("shards.dask"))
        asked["shards"] = table.npartitions
    request = FitRequest.of(**asked)
    listener = current_listener()
    with ExitStack() as stack:
        with (
            listener.doing(f"reading {table_name(request.table)}"),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always", TableWarning)
            if y is None:
                frame, all_rows = stack.enter_context(rows_to_learn(request, table))
            else:
                frame, all_rows = read_any(table, missing=request.missing), None
        if y is not None:
            frame = with_target(frame, y)
            request = replace(request, target=frame.columns[-1])
        frame, request = _with_plain_labels(frame, request, table if y is None else y)
        remarks = [one.message.args[0] for one in caught if isinstance(one.message, TableWarning)]
        remarks += index_remarks(table, y)
        listener.remark(remarks)
        fitted = fit_table(request, frame, all_rows)
    fitted.warnings[:0] = remarks
    metadata = fitted.metadata(listener.command or _call(request))
    return TableModel.of(SavedModel.of(fitted.estimator, fitted.encoding, metadata), fitted)


def load(path: str | Path) -> Any:
    """Open a model file: a `TableModel` if it knows its table, else the fitted estimator.

    `bayesprop fit` and `TableModel.save` write the former, `save` of an estimator the latter. Runs
    no code of the file; ModelFileError, in one line, where it is not a whole and unaltered one.
    """
    saved = load_model(path)
    return saved.estimator if saved.table is None else TableModel.of(saved)


def _with_plain_labels(
    frame: pl.DataFrame, request: FitRequest, source: Any
) -> tuple[pl.DataFrame, FitRequest]:
    """Let classes be the numbers or truth values that a category of pandas holds, in its order.

    source
        The frame or the target that was given.
    """
    name = request.target
    if name not in frame.columns or request.task == REGRESSION:
        return frame, request
    place = frame.columns.index(name)
    is_frame = hasattr(source, "iloc") and hasattr(source, "columns")
    plain_levels = levels_of_numbers(source.iloc[:, place] if is_frame else source, name)
    if plain_levels is None:
        return frame, request
    values, order = plain_levels
    if request.order is None and order and request.target_kind in (None, ORDERED):
        request = replace(request, order=order)
    return frame.with_columns(values), replace(request, task=CLASSIFICATION)


def _call(request: FitRequest) -> str:
    """Return the call that fits so again."""
    table = "df" if request.table == FRAME else repr(request.table)
    given = {
        one.name: getattr(request, one.name)
        for one in fields(request)
        if one.name not in ("table", "settings", "test")
        and getattr(request, one.name) != one.default
    }
    words = [f"{name}={value!r}" for name, value in {**given, **request.settings}.items()]
    if request.test is not None:
        words.append(f"test={request.test!r}" if isinstance(request.test, str) else "test=test")
    return f"bayesprop.fit({', '.join([table, *words])})"

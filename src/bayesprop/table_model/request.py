"""What is asked of a fit to a table, by the command line or from Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bayesprop.table_model.deciding import Asked
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.settings import Settings


@dataclass(frozen=True, kw_only=True)
class RowRequest:
    """Which rows and columns of a table a fit learns from, and which judge it.

    table
        What it is called: a file, a data set, or any name.
    target, task, target_kind
        None: the data set's own, or as the column looks.
    exposure
        Column that counts grow with.
    weights, group, time, drop
        Columns.
    test_fraction
        None: a tenth, or folds where rows are few.
    """

    table: str
    target: str | None = None
    task: str | None = None
    target_kind: str | None = None
    exposure: str | None = None
    weights: str | None = None
    drop: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None
    test_fraction: float | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class FitRequest(RowRequest):
    """A fit: by which method, judged by which rows, and how two classes are told apart.

    test
        Rows of one's own to judge by: a table as `table` is named, or a frame.
    with_peers
        Whether scikit-learn's boosting and Gaussian process are fitted beside it, for the report.
    """

    method: str | None = None
    settings: Settings = field(default_factory=Settings)
    test: Any = None
    positive: str | None = None
    asked: Asked = field(default_factory=Asked)
    unit: str | None = None
    with_peers: bool = False

    def __post_init__(self) -> None:
        if self.test is None:
            return
        if self.time is not None:
            raise InputError("--test and --time are two ways to judge a fit: give one of them")
        if isinstance(self.test, str) and self.table == self.test:
            raise InputError(f"--test {self.test}: these are the rows that are learnt")

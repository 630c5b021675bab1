"""A model file opened for a table, and what is checked before anything is computed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop.cli.failures import InputError, did_you_mean, listing, one_line
from bayesprop.cli.notes import Notes, read_notes
from bayesprop.cli.rows import Rows, known_rows, predict_rows
from bayesprop.datasets import registry
from bayesprop.store import load_model
from bayesprop.table.read import read_table

if TYPE_CHECKING:
    import polars as pl

    from bayesprop.store import SavedModel
    from bayesprop.table.encoding import TableEncoding


@dataclass(frozen=True)
class OpenedModel:
    """A model that knows its table, and the notes of its fit."""

    saved: SavedModel
    encoding: TableEncoding
    notes: Notes

    @property
    def estimator(self) -> Any:
        """The fitted estimator."""
        return self.saved.estimator

    def read(self, source: str) -> pl.DataFrame:
        """Read a table: what the model knows as text stays text."""
        return read_table(source, self.encoding.text_columns)

    def rows_of(self, frame: pl.DataFrame, source: str) -> Rows:
        """Encode the rows that have a target; InputError if there are none."""
        require_column(frame, self.encoding.target_name, source)
        rows = known_rows(self.encoding, frame)
        if not len(rows.y):
            target = self.encoding.target_name
            raise InputError(f"no row of {table_name(source)} has a value of {target}")
        return rows

    def rows_to_judge(self, source: str) -> Rows:
        """Read the rows of a table that have a target; remark on those that the model knows."""
        rows = self.rows_of(self.read(source), source)
        seen = self.seen_before(rows.y, source)
        if seen is None:
            return rows
        where = "; `bayesprop inspect` shows the held-out ones" if self.notes.held_out else ""
        return rows._replace(remarks=[f"{seen}: the figures flatter it{where}", *rows.remarks])

    def predict(self, rows: Rows) -> Any:
        """Predict some rows; InputError where the prediction is not finite."""
        return predict_rows(self.estimator, rows.X, self.encoding, rows.numbers)

    def seen_before(self, target: np.ndarray, source: str) -> str | None:
        """Say what the model has learnt of a table, None where that is nothing that is known."""
        sentence = self.notes.seen_before(fingerprint(target))
        return sentence and sentence.format(len(target), table_name(source))


def open_model(path: Path) -> OpenedModel:
    """Load a model file; refuse one that does not know its table."""
    saved = load_model(path)
    if saved.table is None:
        raise InputError(
            f"{path} was saved from Python without the encoding of its table; "
            "use bayesprop.load and its predict, or fit it with `bayesprop fit`"
        )
    return OpenedModel(saved, saved.table, read_notes(saved))


def fingerprint(target: np.ndarray) -> str:
    """Return a digest by which the table of a fit is known again, whatever its file is called."""
    return hashlib.sha256(np.ascontiguousarray(target).tobytes()).hexdigest()


def known_set(source: str) -> registry.DataSet | None:
    """Return what is known about a data set; None for a file or stdin."""
    return registry.describe(source) if source in registry.names() else None


def table_name(source: str) -> str:
    """Return what messages call a table."""
    return "standard input" if source == "-" else one_line(source)


def require_column(frame: pl.DataFrame, name: str, source: str) -> None:
    """Refuse a column that the table does not have, and say which ones it has."""
    if name not in frame.columns:
        hint = did_you_mean(name, frame.columns)
        raise InputError(
            f"no column {one_line(name)!r} in {table_name(source)}{hint or ';'} "
            f"columns: {one_line(listing(frame.columns))}"
        )


def check_output(path: Path, option: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written or holds an input."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable")
    for source in inputs:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {path} would overwrite an input; choose another name")

"""A model file opened for the tables that it knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop.cli.console import InputError
from bayesprop.cli.notes import Notes, read_notes
from bayesprop.cli.predictions import predict_rows
from bayesprop.cli.tables import column, fingerprint, read_source, table_name
from bayesprop.store import load_model
from bayesprop.table.encoding import Rows

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
        return read_source(source, self.encoding.text_columns)

    def rows_of(self, frame: pl.DataFrame, source: str) -> Rows:
        """Encode the rows that have a target; InputError if there are none."""
        column(frame, self.encoding.target_name, source)
        rows = self.encoding.rows(frame)
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
        notes, mark = self.notes, fingerprint(target)
        these = f"these {len(target)} rows of {table_name(source)}"
        if any(update.get("target_sha256") == mark for update in notes.updates):
            return f"the model has learnt {these}"
        if mark != notes.target_sha256:
            return None
        n_fitted = "some" if notes.updates else notes.rows.get("train", "some")
        return f"the model was fitted on {n_fitted} of {these}"


def open_model(path: Path) -> OpenedModel:
    """Load a model file; refuse one that does not know its table."""
    saved = load_model(path)
    if saved.table is None:
        raise InputError(
            f"{path} was saved from Python without the encoding of its table; "
            "use bayesprop.load and its predict, or fit it with `bayesprop fit`"
        )
    return OpenedModel(saved, saved.table, read_notes(saved))

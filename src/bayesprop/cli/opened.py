"""A model file opened for the tables that it knows, and what `fit` noted in it.

The notes may come from anybody: whatever is not of the expected kind counts as not noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop.cli.actions import Learning
from bayesprop.cli.console import InputError, command_line
from bayesprop.cli.deciding import Positive, stored_positive
from bayesprop.cli.judging import errors_of, scored
from bayesprop.cli.tables import (
    Scores,
    column,
    fingerprint,
    predict_rows,
    read_source,
    table_name,
)
from bayesprop.decisions.thresholds import Rule
from bayesprop.report.baselines import Baselines, FrequencyBaseline
from bayesprop.store import load_model
from bayesprop.table.encoding import Rows
from bayesprop.table.read import Check

if TYPE_CHECKING:
    import polars as pl

    from bayesprop.store import SavedModel
    from bayesprop.table.encoded import Encoded
    from bayesprop.table.encoding import TableEncoding


class Notes:
    """The notes of a fit; empty or None where a model was saved from Python.

    rows
        Counts of rows: "train" and "held_out".
    target_sha256
        Digest of the target of the whole table, by which the table is known.
    updates
        What was noted of every table that the model has learnt since.
    held_out
        The metrics of the fit on the rows that it held out.
    positive, rule
        Of two classes: the positive one (the rarer, in files that do not say), and how to decide.
    base_rate
        What the weights of the fit did to the shares of the classes, in a sentence.
    picture
        Where rows are pictures, "image_shape" and the pixel of each input, "image_pixels".
    """

    def __init__(self, saved: SavedModel) -> None:
        notes = saved.metadata

        def noted(key: str, kind: Any) -> Any:
            return notes[key] if isinstance(notes.get(key), kind) else kind()

        rows, self.config = noted("rows", dict), noted("config", dict)
        self.command: str = noted("command", str)
        self.source: str = noted("source", str)
        self.unit: str = noted("unit", str)
        self.seed: int = noted("seed", int)
        self.target_sha256: str = noted("target_sha256", str)
        self.updates = [one for one in noted("updates", list) if isinstance(one, dict)]
        self.rows = {k: rows[k] for k in ("train", "held_out") if isinstance(rows.get(k), int)}
        self.held_out = _scores(noted("held_out", dict))
        self.baselines = _baselines(notes.get("baselines"))
        classes = () if saved.table is None else saved.table.classes
        self.positive = stored_positive(classes, notes.get("positive"), _shares(self.baselines))
        self.rule = _rule(notes.get("decision")) if self.positive else None
        self.base_rate: str = noted("base_rate", str)
        shape, pixels = noted("image_shape", list), noted("image_pixels", list)
        self.picture = _picture(shape, pixels, saved.estimator.n_features_in_)

    def for_report(self) -> dict[str, Any]:
        """Return the notes that the report page shows."""
        return {
            "source": self.source,
            "unit": self.unit,
            "seed": self.seed,
            "baselines": self.baselines,
            "positive": self.positive and self.positive.place,
            "rule": self.rule,
            "base_rate": self.base_rate,
            **self.picture,
        }

    def learning(self, table: str) -> Learning:
        """Return what the fit was asked, for another table."""
        drop, share = self.config.get("drop"), self.config.get("test_fraction")
        return Learning(
            table=table,
            weights=self._named("weights"),
            group=self._named("group"),
            time=self._named("time"),
            drop=tuple(str(name) for name in drop) if isinstance(drop, list) else (),
            test_fraction=float(share) if isinstance(share, int | float) else 0.0,
            seed=self.seed,
        )

    def _named(self, key: str) -> str | None:
        """Return the column that the fit was given for something."""
        name = self.config.get(key)
        return name if isinstance(name, str) else None

    def with_command(self, words: Sequence[str]) -> str:
        """Return the command of the fit and one after it."""
        return " && ".join(line for line in (self.command, command_line(words)) if line)


def _scores(stored: dict[str, Any]) -> Scores | None:
    if "model" not in stored or not all(isinstance(one, dict) for one in stored.values()):
        return None
    figures = [figure for one in stored.values() for figure in one.values()]
    return stored if all(isinstance(f, float | int | None) for f in figures) else None


def _baselines(stored: Any) -> Baselines | None:
    try:
        return Baselines.from_dict(stored)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _shares(baselines: Baselines | None) -> np.ndarray | None:
    constant = None if baselines is None else baselines.constant
    return constant.share if isinstance(constant, FrequencyBaseline) else None


def _rule(stored: Any) -> Rule | None:
    try:
        return Rule.from_dict(stored)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _picture(shape: list[Any], pixels: list[Any], n_inputs: int) -> dict[str, Any]:
    if not all(type(value) is int for value in (*shape, *pixels)) or len(shape) != 2:
        return {}
    is_right = len(pixels) == len(set(pixels)) == n_inputs
    is_inside = all(0 <= pixel < shape[0] * shape[1] for pixel in pixels)
    return {"image_shape": shape, "image_pixels": pixels} if is_right and is_inside else {}


@dataclass(frozen=True)
class OpenedModel:
    """A model that knows its table, and the notes of its fit.

    allow_absent
        Whether tables may lack columns.
    """

    saved: SavedModel
    encoding: TableEncoding
    notes: Notes
    allow_absent: bool = False

    @property
    def estimator(self) -> Any:
        """The fitted estimator."""
        return self.saved.estimator

    @property
    def positive(self) -> Positive | None:
        """The positive one of two classes."""
        return self.notes.positive

    def score(self, predictive: Any, rows: Rows) -> Scores:
        """Return the metrics of what was predicted for some rows, and those of the baselines."""
        place = self.positive and self.positive.place
        return scored(predictive, self.notes.baselines, rows, place)

    def errors(self, predictive: Any, rows: Rows) -> dict[str, float]:
        """Return standard errors of the model's metrics."""
        return errors_of(predictive, rows, self.positive and self.positive.place)

    def read(self, source: str, check: Check | None = None) -> pl.DataFrame:
        """Read a table: what the model knows as text stays text.

        check
            What else refuses the table; None: `encode`.
        """
        return read_source(source, self.encoding.text_columns, check or self.encode)

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """Return a table's rows as numbers."""
        return self.encoding.encode(frame, allow_absent=self.allow_absent)

    def rows_of(self, frame: pl.DataFrame, source: str) -> Rows:
        """Encode the rows that have a target; InputError if there are none."""
        column(frame, self.encoding.target_name, source)
        rows = self.encoding.rows(frame, allow_absent=self.allow_absent)
        if not len(rows.y):
            target = self.encoding.target_name
            raise InputError(f"no row of {table_name(source)} has a value of {target}")
        return rows

    def rows_to_judge(self, source: str) -> Rows:
        """Read the rows of a table that have a target; remark on those that the model knows."""
        rows = self.rows_of(self.read(source, self.encoding.rows), source)
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


def open_model(path: Path, *, allow_absent: bool = False) -> OpenedModel:
    """Load a model file; refuse one that does not know its table."""
    saved = load_model(path)
    if saved.table is None:
        raise InputError(
            f"{path} was saved from Python without the encoding of its table; "
            "use bayesprop.load and its predict, or fit it with `bayesprop fit`"
        )
    return OpenedModel(saved, saved.table, Notes(saved), allow_absent)

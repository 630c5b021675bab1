"""Tables and models in, paths out: what is checked before anything is computed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from bayesprop.cli.failures import InputError, did_you_mean, listing, one_line
from bayesprop.cli.remembered import remember

if TYPE_CHECKING:
    import polars as pl

    from bayesprop.datasets.registry import DataSet
    from bayesprop.store import SavedModel
    from bayesprop.table.read import TableEncoding


def known_set(source: str) -> DataSet | None:
    """Return what is known about a data set; None for a file or stdin."""
    from bayesprop.datasets import registry

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


def check_output(path: Path, option: str, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written or holds the input."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable")
    for source in inputs:
        if path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {path} would overwrite an input; choose another name")


def open_model(path: Path) -> SavedModel:
    """Load a model file; refuse one that does not know its table."""
    from bayesprop.store import load_model

    saved = load_model(path)
    if saved.table is None:
        raise InputError(
            f"{path} was saved from Python without the encoding of its table; "
            "use bayesprop.load and its predict, or fit it with `bayesprop fit`"
        )
    return saved


def encoding_of(saved: SavedModel) -> TableEncoding:
    """Return the encoding that `open_model` has made sure of."""
    if saved.table is None:
        raise InputError("the model does not hold the encoding of its table")
    return saved.table


def table_of(saved: SavedModel, source: str) -> pl.DataFrame:
    """Read a table for a fitted model: what it knows as text stays text."""
    from bayesprop.table.read import read_table

    return read_table(source, encoding_of(saved).text_columns)


class Judged(NamedTuple):
    """The rows of a table whose target is known, encoded; `row_numbers` count from 1."""

    features: Float[np.ndarray, "n k"]
    target: Shaped[np.ndarray, " n"]
    row_numbers: Int[np.ndarray, " n"]
    warnings: list[str]


def rows_to_judge(saved: SavedModel, source: str) -> Judged:
    """Read a table that holds the target of a model."""
    encoding, frame = encoding_of(saved), table_of(saved, source)
    require_column(frame, encoding.target_name, source)
    encoded = encoding.encode(frame)  # whole, so that messages name rows of the table
    known = encoding.known_target(frame)
    if not len(known.places):
        raise InputError(f"no row of {table_name(source)} has a value of {encoding.target_name}")
    remarks = [*_flattered(saved, known.values, source), *known.warnings, *encoded.warnings]
    return Judged(encoded.X[known.places], known.values, known.places + 1, remarks)


def fingerprint(target: Shaped[np.ndarray, " n"]) -> str:
    """Return a digest by which the table of a fit is known again, whatever its file is called."""
    return hashlib.sha256(np.ascontiguousarray(target).tobytes()).hexdigest()


def seen_before(saved: SavedModel, target: np.ndarray, source: str) -> str | None:
    """Say what the model has learnt of a table, None where that is nothing that is known."""
    notes, mark = remember(saved), fingerprint(target)
    if mark in notes.learnt:
        return f"the model has learnt these {len(target)} rows of {table_name(source)}"
    if mark != notes.target_sha256:
        return None
    n_fitted = "some" if notes.learnt else notes.rows.get("train", "some")
    return f"the model was fitted on {n_fitted} of these {len(target)} rows of {table_name(source)}"


def _flattered(saved: SavedModel, target: np.ndarray, source: str) -> list[str]:
    seen = seen_before(saved, target, source)
    if seen is None:
        return []
    where = "; `bayesprop inspect` shows the held-out ones" if remember(saved).held_out else ""
    return [f"{seen}: the figures flatter it{where}"]


def parse_levels(words: Sequence[str], option: str) -> tuple[float, ...]:
    """Read "0.05", "0.5": numbers strictly between 0 and 1."""
    levels = []
    for word in words:
        try:
            level = float(word)
        except ValueError:
            level = -1.0
        check_level(level, option, repr(word.strip()))
        levels.append(level)
    return tuple(levels)


def check_level(level: float, option: str, got: object = None) -> None:
    """Refuse a probability outside the open interval from 0 to 1."""
    if not 0.0 < level < 1.0:
        shown = level if got is None else got
        raise InputError(f"{option} must be between 0 and 1, such as 0.9; got {shown}")


def parse_hidden(words: Sequence[str]) -> tuple[int, ...]:
    """Read the units of every hidden layer from "50", "50,50" or a repeated option."""
    parts = [part.strip() for word in words for part in word.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        got = one_line(",".join(parts))
        raise InputError(f"--hidden must be whole numbers >= 1, such as 50 or 50,50; got {got}")
    return tuple(int(part) for part in parts)

"""What `fit` noted in a model file about its table and its own command.

The notes may come from anybody: whatever is not of the expected kind counts as not noted.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesprop.cli.actions import Learning
from bayesprop.cli.scores import Scores, stored_baselines
from bayesprop.report.baselines import Baselines

if TYPE_CHECKING:
    from bayesprop.store import SavedModel


@dataclass(frozen=True)
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
    picture
        Where rows are pictures, "image_shape" and the pixel of each input, "image_pixels".
    """

    command: str
    source: str
    unit: str
    seed: int
    target_sha256: str
    updates: list[dict[str, Any]]
    rows: dict[str, int]
    config: dict[str, Any]
    held_out: Scores | None
    baselines: Baselines | None
    picture: dict[str, Any]

    def for_report(self) -> dict[str, Any]:
        """Return the notes that the report page shows."""
        return {
            "source": self.source,
            "unit": self.unit,
            "seed": self.seed,
            "baselines": self.baselines,
            **self.picture,
        }

    def learning(self, table: str) -> Learning:
        """Return what the fit was asked, for another table."""
        weights, drop = self.config.get("weights"), self.config.get("drop")
        share = self.config.get("test_fraction")
        return Learning(
            table=table,
            weights=weights if isinstance(weights, str) else None,
            drop=tuple(str(name) for name in drop) if isinstance(drop, list) else (),
            test_fraction=float(share) if isinstance(share, int | float) else 0.0,
            seed=self.seed,
        )

    def with_command(self, words: Sequence[str]) -> str:
        """Return the command of the fit and one after it."""
        return " && ".join(line for line in (self.command, command_line(words)) if line)


def command_line(words: Sequence[str]) -> str:
    """Return a command as it was typed."""
    return shlex.join(["bayesprop", *words])


def read_notes(saved: SavedModel) -> Notes:
    """Read the notes of a model file."""
    notes = saved.metadata
    rows = _typed(notes, "rows", dict)
    return Notes(
        command=_typed(notes, "command", str),
        source=_typed(notes, "source", str),
        unit=_typed(notes, "unit", str),
        seed=_typed(notes, "seed", int),
        target_sha256=_typed(notes, "target_sha256", str),
        updates=[one for one in _typed(notes, "updates", list) if isinstance(one, dict)],
        rows={key: rows[key] for key in ("train", "held_out") if isinstance(rows.get(key), int)},
        config=_typed(notes, "config", dict),
        held_out=_scores(_typed(notes, "held_out", dict)),
        baselines=stored_baselines(notes.get("baselines")),
        picture=_picture(notes, saved.estimator.n_features_in_),
    )


def _typed(notes: dict[str, Any], key: str, kind: type) -> Any:
    value = notes.get(key)
    return value if isinstance(value, kind) else kind()


def _scores(stored: dict[str, Any]) -> Scores | None:
    if "model" not in stored or not all(isinstance(one, dict) for one in stored.values()):
        return None
    figures = [figure for one in stored.values() for figure in one.values()]
    return stored if all(isinstance(f, float | int | None) for f in figures) else None


def _picture(notes: dict[str, Any], n_inputs: int) -> dict[str, Any]:
    shape, pixels = _typed(notes, "image_shape", list), _typed(notes, "image_pixels", list)
    if not all(type(value) is int for value in (*shape, *pixels)) or len(shape) != 2:
        return {}
    is_right = len(pixels) == len(set(pixels)) == n_inputs
    is_inside = all(0 <= pixel < shape[0] * shape[1] for pixel in pixels)
    return {"image_shape": shape, "image_pixels": pixels} if is_right and is_inside else {}

"""Where the rounds over some shards stand, in a file: a fit that died goes on from its last round.

The store's format, without pickles: the start as a model file has it, then what every round leaves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesprop import codec
from bayesprop.codec import JsonObject, Stored, prefixed, unprefixed
from bayesprop.estimators.stored import read_state, unfitted_to_stored, write_state
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Learned
from bayesprop.numerics.rows import Rows
from bayesprop.sealed import ModelFileError, believing, read_sealed, write_sealed
from bayesprop.store import estimator_from_stored

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase

_KIND = "rounds of shards"
_PLAIN = ("n_first", "seed", "digests", "n_done", "guards")


class Rounds(NamedTuple):
    """Where a fit stands.

    start, n_first
        What all shards went on from, and how many first rows of every shard it was fitted to.
    digests
        Of the rows of every shard.
    learned
        The posterior after `n_done` rounds, and the sites of the shards if they have some.
    """

    start: EstimatorBase
    n_first: int
    seed: int
    digests: list[str]
    n_done: int
    learned: list[Learned]
    guards: dict[str, int]


@dataclass(frozen=True)
class Checkpoint:
    """A file of rounds.

    settings
        Of the fit; a file of others is refused.
    """

    path: Path
    settings: JsonObject

    @classmethod
    def of(
        cls, path: str | Path, estimator: EstimatorBase, start: EstimatorBase | None, **others: int
    ) -> Checkpoint:
        """Return the settings that a fit depends on, in addition to its rows.

        start
            The fitted estimator that was given, or None.
        """
        method = unfitted_to_stored(estimator)
        params = {name: value for name, value in method.pop("params").items() if name != "verbose"}
        given = None if start is None else _digest(start.to_stored().arrays)
        settings = {**method, **params, **others, "start": given}
        return cls(Path(path), json.loads(json.dumps(settings, default=str)))

    def write(self, rounds: Rounds) -> None:
        """Put a round in the place of the one before; ModelFileError where that cannot be."""
        start, arrays = rounds.start.to_stored()
        method, parts = rounds.start.fitted_.method, []
        arrays = prefixed("start/", arrays)
        for k, one in enumerate(rounds.learned):
            stored = write_state(method, one.state)
            parts.append([stored.header, codec.to_json(one.report, FitReport), one.n_iter])
            arrays |= prefixed(f"{k}/", stored.arrays)
        header = {"settings": self.settings, "start": start, "parts": parts}
        plain = {name: getattr(rounds, name) for name in _PLAIN}
        write_sealed(self.path, {"kind": _KIND, **header, **plain}, arrays)

    def read(self) -> Rounds | None:
        """Return the last round, None where there was none; ValueError if not of these settings."""
        if not self.path.parent.is_dir():
            raise ValueError(
                f"checkpoint {self.path}: the folder {self.path.parent} does not exist; create it"
            )
        if not self.path.exists():
            return None
        try:
            stored = read_sealed(self.path)
        except ModelFileError as error:
            raise ValueError(
                f"checkpoint: {error}; or delete it, and the fit begins anew"
            ) from error
        if stored.header.get("kind") != _KIND:
            raise ValueError(f"checkpoint {self.path} is another file: name one of its own")
        with believing(f"checkpoint {self.path} is damaged: delete it"):
            theirs, rounds = dict(stored.header["settings"]), _rounds(stored)
        for name in sorted({*theirs, *self.settings}):
            if theirs.get(name) != self.settings.get(name):
                raise ValueError(
                    f"checkpoint {self.path} is of another fit: {name} was {theirs.get(name)!r}, "
                    f"not {self.settings.get(name)!r}; name another file, or delete it"
                )
        return rounds

    def check_rows(self, before: Rounds, digests: list[str]) -> None:
        """Raise ValueError where the rows are not those of the rounds before."""
        for number, (ours, theirs) in enumerate(zip(digests, before.digests, strict=True)):
            if ours != theirs:
                raise ValueError(
                    f"checkpoint {self.path} is of other rows: shard {number} has changed; name "
                    "another file, or delete it"
                )


def _rounds(stored: Stored) -> Rounds:
    header = stored.header
    start = estimator_from_stored(header["start"], unprefixed("start/", stored.arrays))
    method, learned = start.fitted_.method, []
    for k, (of_state, report, n_iter) in enumerate(header["parts"]):
        state = read_state(method, Stored(of_state, unprefixed(f"{k}/", stored.arrays)))
        learned.append(Learned(state, codec.from_json(FitReport, report), n_iter))
    plain = {name: header[name] for name in _PLAIN}
    return Rounds(start=start, learned=learned, **plain)


def digest_of_rows(rows: Rows) -> str:
    """Return a digest of the rows of a shard."""
    return _digest({"x": rows.x, "y": rows.y, "weight": rows.weights})


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

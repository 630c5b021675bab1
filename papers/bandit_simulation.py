"""A bandit in an environment: what it chose, what it regrets, how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.bandits.policies import Bandit, from_stored, to_stored
from bayesprop.sealed import ModelFileError, read_sealed, write_sealed
from papers.mushrooms import Mushroom, expected_regret, realised_regret

_STEPS_A_CHECKPOINT = 1000


class Run(NamedTuple):
    """One run.

    chosen
        Number of the arm, each interaction.
    expected_regret, realised_regret
        Each interaction; see `environments`.
    milliseconds
        Median of an interaction, choosing and learning, after the first hundred.
    """

    chosen: Int[np.ndarray, " n"]
    expected_regret: Float[np.ndarray, " n"]
    realised_regret: Float[np.ndarray, " n"]
    milliseconds: float


class _Course(NamedTuple):
    """The bandit as it is, what it chose, and the seconds of every interaction."""

    bandit: Bandit
    chosen: Int[np.ndarray, " n"]
    seconds: Float[np.ndarray, " n"]


def run(
    make: Callable[[], Bandit],
    environment: Mushroom,
    n: int,
    *,
    seed: int,
    checkpoint: Path | None = None,
) -> Run:
    """Let a bandit interact n times; rewards come at once.

    make
        Returns the bandit that has seen nothing.
    seed
        Of the stream: agents with the same one meet the same contexts and the same luck.
    checkpoint
        A file written now and then, from which a killed run goes on as if it had not been; deleted
        at the end.
    """
    stream = environment.draw(n, seed=seed)
    course = _resumed(checkpoint, n) or _Course(make(), np.zeros(n, np.int64), np.zeros(n))
    bandit, chosen, seconds = course
    if bandit.actions != list(environment.arms):
        raise ValueError(f"the bandit's arms are {bandit.actions}, not {environment.arms}")
    place = {name: number for number, name in enumerate(environment.arms)}
    for t in range(bandit.n_selected_, n):
        started = time.perf_counter()
        decision = bandit.select(stream.context[t])
        chosen[t] = place[decision.action]
        bandit.settle(decision, stream.realised[t, chosen[t]])
        seconds[t] = time.perf_counter() - started
        if checkpoint is not None and (t + 1) % _STEPS_A_CHECKPOINT == 0:
            _keep(checkpoint, course)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    usual = 1e3 * float(np.median(seconds[min(100, n - 1) :]))
    return Run(chosen, expected_regret(stream, chosen), realised_regret(stream, chosen), usual)


def _keep(path: Path, course: _Course) -> None:
    header, arrays = to_stored(course.bandit)
    mine = {"run.chosen": course.chosen, "run.seconds": course.seconds}
    write_sealed(path, header, arrays | mine)


def _resumed(path: Path | None, n: int) -> _Course | None:
    if path is None or not path.exists():
        return None
    stored = read_sealed(path)
    bandit = from_stored(stored, f"checkpoint {str(path)!r}")
    chosen, seconds = (stored.arrays.get(f"run.{name}") for name in ("chosen", "seconds"))
    if chosen is None or seconds is None or not chosen.shape == seconds.shape == (n,):
        raise ModelFileError(f"checkpoint {str(path)!r} is of another run: delete it")
    return _Course(bandit, chosen, seconds)

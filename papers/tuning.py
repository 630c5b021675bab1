"""Hyper-parameters by Bayesian optimisation (Snoek, Larochelle & Adams 2012), kept by Optuna.

Optuna holds the trials, in an SQLite file or any database that it can reach, so that a killed
study goes on. The proposals are our own: Optuna's Gaussian-process sampler needs PyTorch, which
weighs more than all of bayesprop.
"""

from __future__ import annotations

import fcntl
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from papers.surrogate import Surrogate

Points = Float[np.ndarray, "t p"]
Loss = Callable[[dict[str, float]], float]

N_RANDOM = 5
"""Trials at random before the first model."""

_N_CANDIDATES = 2000
_OPENING = threading.Lock()
_PATIENCE_SECONDS = 120.0
"""For which SQLite waits while another cell writes."""


class Range(NamedTuple):
    """Where a hyper-parameter is sought.

    low, high
        Bounds, within it.
    is_log
        Whether its logarithm is what the model sees.
    """

    low: float
    high: float
    is_log: bool = False

    def at(self, share: float) -> float:
        """Return the value at a share of the way from low to high."""
        if self.is_log:
            return self.low * (self.high / self.low) ** share
        return self.low + share * (self.high - self.low)

    def share(self, value: float) -> float:
        """Undo `at`."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


class Tuned(NamedTuple):
    """What a study found.

    settings, losses
        Of all its trials, the best first.
    seconds
        That they took, proposals included.
    """

    settings: list[dict[str, float]]
    losses: list[float]
    seconds: float


def tune(
    loss: Loss,
    space: dict[str, Range],
    *,
    study: str,
    storage: str | Path | None,
    n_trials: int,
    seed: int,
) -> Tuned:
    """Minimise a loss over a box in `n_trials` trials; those that the study has already count.

    loss
        Function of the settings, finite. Trial t of a study sees the same settings whether or not
        the study was interrupted before.
    study
        Its name in the storage.
    storage
        Path of an SQLite file, URL of a database, or None: in memory.
    """
    import optuna

    kept = _opened(study, storage)
    kinds: dict[str, Any] = {
        name: optuna.distributions.FloatDistribution(*bounds[:2], log=bounds.is_log)
        for name, bounds in space.items()
    }
    trials = kept.get_trials(deepcopy=False)
    while len(trials) < n_trials:
        started = time.perf_counter()
        tried = np.array([[space[name].share(t.params[name]) for name in space] for t in trials])
        losses = np.array([t.value for t in trials], float)
        rng = np.random.default_rng((seed, len(trials)))
        is_random = len(trials) < N_RANDOM or np.ptp(losses) == 0.0
        shares = rng.random(len(space)) if is_random else propose(rng, tried, losses)
        settings = {n: space[n].at(float(s)) for n, s in zip(space, shares, strict=True)}
        value = float(loss(settings))
        # Whole trials only: one that a kill interrupts leaves nothing behind.
        kept.add_trial(
            optuna.trial.create_trial(
                params=settings,
                distributions=kinds,
                value=value,
                user_attrs={"seconds": time.perf_counter() - started},
            )
        )
        trials = kept.get_trials(deepcopy=False)
    ranked = sorted(trials, key=lambda trial: trial.value)
    return Tuned(
        [dict(trial.params) for trial in ranked],
        [trial.value for trial in ranked],
        sum(trial.user_attrs["seconds"] for trial in trials),
    )


def propose(
    rng: np.random.Generator, tried: Points, losses: Float[np.ndarray, " t"]
) -> Float[np.ndarray, " p"]:
    """Return the point of the unit cube where the next trial promises most.

    That of the largest expected improvement among random points and small moves of the best one,
    under a Gaussian process (Snoek et al. 2012).

    losses
        Not all alike.
    """
    d = tried.shape[1]
    believed = Surrogate.fit(tried, losses)
    near = tried[np.argmin(losses)] + 0.1 * rng.standard_normal((_N_CANDIDATES // 4, d))
    candidates = np.concatenate([rng.random((_N_CANDIDATES, d)), np.clip(near, 0.0, 1.0)])
    mean, std = believed(candidates)
    # The best of what the model believes: the lowest loss seen may be luck.
    gain = believed(tried).mean.min() - mean
    return candidates[np.argmax(expected_improvement(gain, std))]


def expected_improvement(
    gain: Float[np.ndarray, " k"], std: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """E[max(g, 0)] for g ~ N(gain, std²)."""
    std = np.maximum(std, 1e-12)
    z = gain / std
    return gain * special.ndtr(z) + std * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def _opened(study: str, storage: str | Path | None) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with _alone(storage):  # who comes first creates the tables
        where: Any = storage
        if isinstance(storage, Path):
            where = optuna.storages.RDBStorage(
                f"sqlite:///{storage.resolve()}",
                engine_kwargs={"connect_args": {"timeout": _PATIENCE_SECONDS}},
            )
        return optuna.create_study(
            study_name=study, storage=where, direction="minimize", load_if_exists=True
        )


@contextmanager
def _alone(storage: str | Path | None) -> Iterator[None]:
    """Keep other threads, and other processes from a file, out until it is over."""
    with _OPENING:
        if not isinstance(storage, Path):
            yield
            return
        storage.parent.mkdir(parents=True, exist_ok=True)
        with storage.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

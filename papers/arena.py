"""A comparison of many models on many sets: same splits, everything at its defaults."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from bayesprop import metrics
from bayesprop.catalogue import CLASSIFICATION, METHODS
from bayesprop.evaluation.scores import interval_score
from papers import uci
from papers.protocol import Cell, Experiment, Key, NothingToRun, Selection
from papers.standing import Score

BUDGET = 600.0
"""Processor seconds that a fit may be expected to take."""
COVERAGE = 0.9
OF_NUMBERS = (
    Score("log_likelihood", "log-likelihood", 1, "Nats a row, more is better."),
    Score(
        "crps",
        "CRPS",
        -1,
        "Continuous ranked probability score, in units of the target, less is better: the mean "
        "absolute error of a forecast that is a distribution.",
    ),
    Score("rmse", "RMSE", -1, "Of the mean, in units of the target, less is better."),
)
INTERVALS = Score(
    "interval_score",
    "interval score",
    -1,
    "Of 90 % intervals, in units of the target, less is better: their width, and twenty times what "
    "a value lies outside (Gneiting & Raftery 2007).",
)
OF_CLASSES = (
    Score("log_loss", "log loss", -1, "Nats a row, less is better."),
    Score(
        "brier",
        "Brier score",
        -1,
        "Squared distance of the probabilities from the label, summed over classes; 0 to 2, less "
        "is better.",
    ),
    Score("error", "error rate", -1, "Share of rows whose most probable class is wrong."),
)


class Size(NamedTuple):
    """Rows and input columns of a set."""

    n: int
    d: int


class Data(NamedTuple):
    """One split: training rows as the models read them, their targets, and the same for testing."""

    train: Any
    y_train: np.ndarray
    test: Any
    y_test: np.ndarray


Predict = Callable[[Any], Any]
"""Predicts new rows, as a comparison has them."""
Learn = Callable[[Any, np.ndarray], Predict]
"""Learns rows and their targets."""


@dataclass(frozen=True)
class Peer:
    """A model of another library.

    how
        Its settings, in words.
    make
        Builds it from a seed.
    package
        What has to be installed; None if the library depends on it anyway.
    has_density
        Whether its predictions have a log-likelihood.
    """

    how: str
    make: Callable[[int], Learn]
    package: str | None = None
    has_density: bool = True

    @property
    def missing(self) -> str | None:
        """How to install what it needs; None if it is there."""
        is_there = self.package is None or find_spec(self.package) is not None
        return None if is_there else f"pip install {self.package}"


@dataclass(frozen=True)
class Config:
    """Settings of the comparison: the models have none."""

    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Arena:
    """Sets, and who is compared on them.

    name
        Of the experiment.
    sets
        In the order of the page.
    scores
        What ranks the methods.
    lead
        The score that orders them.
    ours
        Makes a method of this library from its name and a seed.
    peers
        Other libraries' models, by name.
    size, data
        Of a set; of a set and a split.
    n_splits, at_hand
        Of a set; those of some sets that can be had: both by `quick`.
    quick
        Methods of the quick form.
    seconds
        Processor seconds that a fit of a method takes: some, and some a thousand rows.
    """

    name: str
    task: str
    sets: tuple[str, ...]
    scores: tuple[Score, ...]
    lead: Score
    ours: Callable[[str, int], Learn]
    peers: Mapping[str, Peer]
    size: Callable[[str], Size]
    data: Callable[[str, int], Data]
    n_splits: Callable[..., int]
    at_hand: Callable[..., list[str]]
    quick: tuple[str, ...]
    seconds: Mapping[str, tuple[float, float]]

    @property
    def methods(self) -> tuple[str, ...]:
        """Those of this library."""
        return tuple(m.name for m in METHODS.values() if self.task in m.homes)

    @property
    def contestants(self) -> tuple[str, ...]:
        """All that are compared."""
        return (*self.methods, *self.peers)

    @property
    def has_intervals(self) -> bool:
        """Whether predictions have intervals."""
        return self.task != CLASSIFICATION

    def learner(self, method: str, seed: int) -> Learn:
        """Build a model at its defaults."""
        return self.peers[method].make(seed) if method in self.peers else self.ours(method, seed)

    def has_density(self, method: str) -> bool:
        """Whether its predictions have a log-likelihood."""
        return method not in self.peers or self.peers[method].has_density

    def expected_seconds(self, method: str, name: str) -> float:
        """Processor seconds that a fit is expected to take, to a factor of two or so."""
        fixed, a_thousand = self.seconds[method]
        return fixed + a_thousand * self.size(name).n / 1000.0

    def is_too_slow(self, method: str, name: str) -> bool:
        """Whether a fit is expected to take more than the budget."""
        return self.expected_seconds(method, name) > BUDGET

    def cells(self, _config: Config, asked: Selection) -> list[Cell]:
        """List the fits, split by split, so that a run may be stopped; parts: sets and methods.

        Quick: two splits of the smaller sets, by the methods that take seconds.
        """
        quick = asked.quick
        sets = [part for part in asked.parts if part in self.sets] or list(self.sets)
        methods = [part for part in asked.parts if part in self.contestants]
        if quick and len(methods) == len(self.contestants):
            methods = list(self.quick)
        methods = methods or list(self.contestants)
        lacking = {
            m: f"{m}: {how}" for m in methods if m in self.peers and (how := self.peers[m].missing)
        }
        methods = [method for method in methods if method not in lacking]
        if not methods:
            raise NothingToRun(f"nothing to compare: {'; '.join(lacking.values())}")
        for line in lacking.values():
            warnings.warn(f"left out: {line}", stacklevel=2)
        sets = self.at_hand(sets, quick=quick and not asked.named)
        cells = [
            Cell(
                {"dataset": name, "method": method, "split": split},
                self.expected_seconds(method, name),
                alone=True,
            )
            for name in sets
            for method in methods
            if not self.is_too_slow(method, name)
            for split in range(self.n_splits(name, quick=quick))
        ]
        return sorted(cells, key=lambda cell: (cell.key["split"], sets.index(cell.key["dataset"])))

    def experiment(self, section: Callable[..., str], draw: Callable[..., None]) -> Experiment:
        """Return the experiment, with what writes its page and draws its picture."""
        return Experiment(
            name=self.name,
            config=Config,
            parts=(*self.sets, *self.contestants),
            cells=self.cells,
            work=partial(fit_cell, self),
            section=partial(section, self),
            draw=partial(draw, self),
        )


_SEEN: set[tuple[str, ...]] = set()


def fit_cell(arena: Arena, config: Config, key: Key) -> dict[str, Any]:
    """Fit one model to one split, and score it on the rows left out."""
    name, method, split = key["dataset"], key["method"], key["split"]
    data = arena.data(name, split)
    learn = arena.learner(method, uci.cell_seed(config.seed, split))
    is_first = (arena.name, method, name) not in _SEEN
    _SEEN.add((arena.name, method, name))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = _timed(lambda: learn(data.train, data.y_train))
        predicting = _timed(lambda: fit.value(data.test))
    score = class_scores if arena.task == CLASSIFICATION else number_scores
    scores = score(predicting.value, data.y_test)
    worst = scores.get("log_likelihood", 0.0)
    if arena.has_density(method) and not np.isfinite(worst):
        raise ArithmeticError(f"the log-likelihood of {method} is {worst}")
    return scores | {
        "fit_seconds": fit.seconds,
        "fit_cpu_seconds": fit.cpu_seconds,
        "predict_cpu_seconds": predicting.cpu_seconds,
        "is_first": is_first,
        "warnings": sorted({" ".join(str(w.message).split())[:120] for w in caught}),
    }


def number_scores(predicted: Any, y: np.ndarray) -> dict[str, float]:
    """Score densities, in the target's unit."""
    intervals = interval_score(predicted.interval(COVERAGE), y, COVERAGE)
    return {
        "log_likelihood": metrics.mean_log_likelihood(predicted, y),
        "crps": metrics.mean_crps(predicted, y),
        "rmse": metrics.rmse(predicted, y),
        "interval_score": float(np.mean(intervals)),
        "coverage_90": metrics.coverage(predicted, y, COVERAGE),
    }


def class_scores(predicted: Any, y: np.ndarray) -> dict[str, float]:
    """Score probabilities; the log loss in nats a row."""
    return {
        "log_loss": -metrics.mean_log_likelihood(predicted, y),
        "brier": metrics.brier(predicted, y),
        "error": 1.0 - metrics.accuracy(predicted, y),
        "calibration_error": metrics.expected_calibration_error(predicted, y),
    }


@dataclass(frozen=True)
class _Timed:
    """What a call returned, its wall time, and the processor time of the whole process."""

    value: Any
    seconds: float
    cpu_seconds: float


def _timed(call: Callable[[], Any]) -> _Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    return _Timed(value, time.perf_counter() - wall, time.process_time() - cpu)

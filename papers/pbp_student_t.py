"""Supplement Figure 1 of Hernández-Lobato & Adams (2015): how wrong the Gaussian of eq. 12 is.

log Z of a datum is an integral of a Student-t, which PBP replaces by a Gaussian of the same mean
and variance. The relative error of that step, over the first and the last 100 data of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.moments.pbp import engine
from bayesprop.moments.pbp.state import PBPState, init
from papers import markdown, uci
from papers.compare import Estimate
from papers.protocol import Cell, Experiment, Key, Selection
from papers.published_pbp import standardiser
from papers.rows import Row, results

NAME = "pbp-student-t"
PHASES = ("first", "last")
_DATASET = "boston"
_PICTURED = 0
_N_NODES = 801
_REACH = 14.0


@dataclass(frozen=True)
class Config:
    """Settings of the figure."""

    seed: int = 1
    n_hidden: int = 50
    n_epochs: int = 40
    n_watched: int = 100
    engine: str = "auto"


class Watched(NamedTuple):
    """What PBP believed of one datum just before it absorbed it, standardised units."""

    error: float
    v: float
    noise_shape: float
    noise_rate: float


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List fits of Boston's 20 standard splits (quick: 2)."""
    uci.at_hand([_DATASET], quick=asked.quick)
    splits = range(uci.n_splits(_DATASET, quick=asked.quick))
    return [Cell({"dataset": _DATASET, "split": split}) for split in splits]


def follow_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one split, watching the first and the last data; sum up both phases."""
    data = uci.train_test(key["dataset"], key["split"])
    x = standardiser(data.X_train).transform(data.X_train)
    y = data.y_train[:, None]
    y = standardiser(y).transform(y)
    phases = _follow(config, x, y, uci.cell_seed(config.seed, key["split"]))
    keeps_all = key["split"] == _PICTURED
    return {
        f"{phase}_{name}": value
        for phase, watched in zip(PHASES, phases, strict=True)
        for name, value in _errors(watched, keeps_all=keeps_all).items()
    }


def _follow(
    config: Config, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n 1"], seed: int
) -> tuple[list[Watched], list[Watched]]:
    rng = np.random.RandomState(seed)
    state = init(rng, (x.shape[1], config.n_hidden, 1))
    orders = np.array([rng.permutation(len(x)) for _ in range(config.n_epochs)])
    first = _watch(state, x, y, orders[0, : config.n_watched])
    *_, (state, _) = engine.passes(state, x, y, orders[:-1, None], guarded=False)
    before, watched = np.split(orders[-1], [-config.n_watched])
    ((state, _),) = engine.passes(state, x, y, [[before]], guarded=False, refreshes=False)
    return first, _watch(state, x, y, watched)


def _watch(state: PBPState, x: np.ndarray, y: np.ndarray, order: np.ndarray) -> list[Watched]:
    """Absorb data one at a time; return what was believed of each before."""
    rows, watched = order[:, None, None], []
    steps = engine.passes(state, x, y, rows, guarded=False, refreshes=False)
    for row, (after, _) in zip(order, steps, strict=True):
        m, v = engine.predict_moments(state, x[[row]])
        noise = tuple(float(part[0]) for part in state.noise)
        watched.append(Watched(float(y[row, 0] - m[0, 0]), float(v[0, 0]), *noise))
        state = after
    return watched


def gaussian_log_z(datum: Watched) -> float:
    """Compute the last line of eq. 12: log N(y; m, rate / (shape - 1) + v)."""
    var = datum.noise_rate / (datum.noise_shape - 1.0) + datum.v
    return float(-0.5 * (np.log(2.0 * np.pi * var) + datum.error**2 / var))


def student_t_log_z(datum: Watched) -> float:
    """Compute the line above it: log of the integral of Student-t(y; z, rate / shape, 2 shape).

    z ~ N(m, v). A Student-t is a mixture over the noise precision, so the integral is that of
    Gam(p; shape, rate) N(y; m, v + 1 / p) over p: smooth in log p, where the trapezoidal rule
    converges exponentially.
    """
    shape, rate = datum.noise_shape, datum.noise_rate
    spread = _REACH / np.sqrt(shape)
    lowest = np.log((shape + 0.5) / (rate + 0.5 * datum.error**2)) - spread
    highest = np.log(shape / rate) + spread
    log_p = np.linspace(lowest, highest, _N_NODES)
    var = datum.v + np.exp(-log_p)
    log_terms = (
        shape * (np.log(rate) + log_p)
        - rate * np.exp(log_p)
        - special.gammaln(shape)
        - 0.5 * (np.log(2.0 * np.pi * var) + datum.error**2 / var)
    )
    return float(special.logsumexp(log_terms) + np.log(log_p[1] - log_p[0]))


def _errors(watched: list[Watched], *, keeps_all: bool) -> dict[str, Any]:
    exact = np.array([student_t_log_z(datum) for datum in watched])
    absolute = np.abs(np.array([gaussian_log_z(datum) for datum in watched]) - exact)
    relative = absolute / np.abs(exact)
    return {
        "median_relative": np.median(relative),
        "max_relative": np.max(relative),
        "median_nats": np.median(absolute),
        "max_nats": np.max(absolute),
        "noise_shape": watched[-1].noise_shape,
        **({"relative": relative} if keeps_all else {}),
    }


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the errors of the first split, datum by datum."""
    from papers.figures import student_t_figure

    for row in rows:
        if row.cell["split"] == _PICTURED:
            result = row.result or {}
            phases = {phase: result[f"{phase}_relative"] for phase in PHASES}
            student_t_figure.draw(stem, phases)


def section(rows: Sequence[Row]) -> str:
    """Write the errors of both phases, averaged over splits."""
    finished = markdown.latest(rows)
    lines = [
        (label, *(_significant(results(finished), f"{phase}_{name}") for phase in PHASES))
        for name, label in _FIGURES.items()
    ]
    n_watched = finished[0].config["n_watched"] if finished else 0
    header = ("", *(f"{phase} {n_watched} data" for phase in PHASES))
    return markdown.section(
        NAME, rows, finished, n_finished=len(finished), table=markdown.table(header, lines)
    )


_FIGURES = {
    "median_relative": "median relative error",
    "max_relative": "largest relative error",
    "median_nats": "median error, nats",
    "max_nats": "largest error, nats",
    "noise_shape": "shape of q(γ) at the end",
}


def _significant(found: Sequence[dict[str, Any]], name: str) -> str:
    return f"{Estimate.of([result[name] for result in found]).mean:.2g}"


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=(_DATASET,),
    cells=cells,
    work=follow_cell,
    section=section,
    draw=draw,
)

"""`python -m benchmarks.smooth`: computer experiments, ours beside an ARD Gaussian process.

Smooth functions of four to ten inputs, most of them from the Virtual Library of Simulation
Experiments (Surjanovic & Bingham), rows uniform over their ranges, and a sum of twelve log-normal
amounts; noise as a share of the target's standard deviation, scored at 1000 other rows in that
unit. The peers: scikit-learn's process (Matérn 5/2, a length an input, noise learnt, two restarts)
up to 1000 rows, and CatBoost with its own uncertainty. One line of JSON a fit goes to
`results/smooth.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import BayesianRegressor, metrics
from bayesprop.cli.console import print_table
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from benchmarks.tables import Split, mean_of, rows_of, run_missing
from papers.number_peers import PEERS
from papers.table_splits import TableRows

N_TEST, MOST_ROWS_OF_PEER = 1_000, 1_000
OURS, PARTS = "default", ("log_likelihood", "coverage", "seconds")
Columns = np.ndarray


def borehole(
    rw: Columns,
    r: Columns,
    tu: Columns,
    hu: Columns,
    tl: Columns,
    hl: Columns,
    length: Columns,
    kw: Columns,
) -> np.ndarray:
    """Flow of water through a borehole between two aquifers."""
    far = np.log(r / rw)
    return 2 * np.pi * tu * (hu - hl) / (far * (1 + tu / tl) + 2 * length * tu / (rw**2 * kw))


def wing(*inputs: Columns) -> np.ndarray:
    """Weight of a light aircraft's wing."""
    sw, wfw, a, sweep, q, taper, tc, nz, wdg, wp = inputs
    cos = np.cos(np.deg2rad(sweep))
    weight = 0.036 * sw**0.758 * wfw**0.0035 * (a / cos**2) ** 0.6 * q**0.006
    return weight * taper**0.04 * (100 * tc / cos) ** -0.3 * (nz * wdg) ** 0.49 + sw * wp


def piston(
    m: Columns, s: Columns, v0: Columns, k: Columns, p0: Columns, ta: Columns, t0: Columns
) -> np.ndarray:
    """Cycle time of a piston in a cylinder."""
    a = p0 * s + 19.62 * m - k * v0 / s
    gas = p0 * v0 / t0 * ta
    v = s / (2 * k) * (np.sqrt(a**2 + 4 * k * gas) - a)
    return 2 * np.pi * np.sqrt(m / (k + s**2 * gas / v**2))


def circuit(
    b1: Columns, b2: Columns, f: Columns, c1: Columns, c2: Columns, beta: Columns
) -> np.ndarray:
    """Midpoint voltage of a push-pull circuit without a transformer."""
    base, load = 12 * b2 / (b1 + b2), beta * (c2 + 9)
    return ((base + 0.74) * load + 11.35 * f + 0.74 * f * load / c1) / (load + f)


def robot(*inputs: Columns) -> np.ndarray:
    """Distance of a robot arm's end from its shoulder."""
    angles, lengths = np.cumsum(inputs[:4], axis=0), np.array(inputs[4:])
    return np.hypot(np.sum(lengths * np.cos(angles), axis=0), np.sum(lengths * np.sin(angles), 0))


def friedman1(
    a: Columns, b: Columns, c: Columns, d: Columns, e: Columns, *_: Columns
) -> np.ndarray:
    """Friedman's (1991) first function; five more inputs say nothing."""
    return 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e


def friedman2(r: Columns, w: Columns, length: Columns, c: Columns) -> np.ndarray:
    """Impedance of an alternating current."""
    return np.hypot(r, w * length - 1 / (w * c))


def friedman3(r: Columns, w: Columns, length: Columns, c: Columns) -> np.ndarray:
    """Phase of an alternating current."""
    return np.arctan((w * length - 1 / (w * c)) / r)


def year(*months: Columns) -> np.ndarray:
    """Sum of what twelve months have brought."""
    return np.sum(months, axis=0)


class Experiment(NamedTuple):
    """A function of columns, and the ranges of these.

    spread
        Of amounts, which are log-normal: standard deviation of the log. 0: uniform.
    """

    function: Callable[..., np.ndarray]
    ranges: list[tuple[float, float]]
    spread: float = 0.0


_CURRENT = [(0.0, 100.0), (40 * np.pi, 560 * np.pi), (0.0, 1.0), (1.0, 11.0)]
_WELL = [(0.05, 0.15), (100, 50_000), (63_070, 115_600), (990, 1_110), (63.1, 116), (700, 820)]
_CYLINDER = [(30, 60), (0.005, 0.02), (0.002, 0.01), (1_000, 5_000), (90_000, 110_000)]
_AIRCRAFT = [(150, 200), (220, 300), (6, 10), (-10, 10), (16, 45), (0.5, 1), (0.08, 0.18)]
EXPERIMENTS = {
    "borehole": Experiment(borehole, [*_WELL, (1_120, 1_680), (9_855, 12_045)]),
    "wing": Experiment(wing, [*_AIRCRAFT, (2.5, 6), (1_700, 2_500), (0.025, 0.08)]),
    "piston": Experiment(piston, [*_CYLINDER, (290, 296), (340, 360)]),
    "circuit": Experiment(
        circuit, [(50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300)]
    ),
    "robot": Experiment(robot, [(0.0, 2 * np.pi)] * 4 + [(0.0, 1.0)] * 4),
    "friedman1": Experiment(friedman1, [(0.0, 1.0)] * 10),
    "friedman2": Experiment(friedman2, _CURRENT),
    "friedman3": Experiment(friedman3, _CURRENT),
    "year": Experiment(year, [(0.0, 1.0)] * 12, spread=1.5),
}


Key = tuple[int, float, str, int]
"""Training rows, noise, experiment, draw."""


def case(name: str, n_rows: int, noise: float, draw: int) -> Split:
    """Draw rows of an experiment, the targets in standard deviations of those of the test rows."""
    function, ranges, spread = EXPERIMENTS[name]
    rng = np.random.default_rng([draw, n_rows, sorted(EXPERIMENTS).index(name)])
    low, high = np.array(ranges).T
    x = rng.uniform(low, high, (n_rows + N_TEST, len(low)))
    if spread:
        x = high * rng.lognormal(sigma=spread, size=x.shape)
    y = function(*x.T)
    y = y + noise * y.std() * rng.standard_normal(len(y))
    y = (y - y.mean()) / y[n_rows:].std()
    return Split(x[:n_rows], y[:n_rows], x[n_rows:], y[n_rows:])


def ours(of: Split, seed: int) -> Predictive:
    """Fit and predict the default."""
    return BayesianRegressor(random_state=seed).fit(of.x, of.y).predict_dist(of.x_test)


def process(of: Split, seed: int) -> Predictive:
    """Fit and predict scikit-learn's Gaussian process."""
    lengths = Matern(np.ones(of.x.shape[1]), (1e-2, 1e4), nu=2.5)
    kernel = ConstantKernel(1.0, (1e-4, 1e6)) * lengths + WhiteKernel(1e-2, (1e-10, 1e1))
    peer = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed
    )
    model = make_pipeline(StandardScaler(), peer).fit(of.x, of.y)
    mean, std = model.predict(of.x_test, return_std=True)
    return GaussianPredictive(mean, np.zeros(N_TEST), std**2)


def catboost(of: Split, seed: int) -> Predictive:
    """Fit and predict CatBoost, of the group `peers`, with its own uncertainty."""
    train, test = map(TableRows.of_numbers, (of.x, of.x_test))
    return PEERS["CatBoost"].make(seed)(train, of.y)(test)


MODELS = {OURS: ours, "process": process, "catboost": catboost}


def measured(n_rows: int, noise: float, name: str, draw: int, model: str) -> dict[str, float]:
    """RMSE, log-likelihood, coverage of 90 % intervals, and processor seconds of one fit."""
    of, started = case(name, n_rows, noise, draw), time.process_time()
    predicted = MODELS[model](of, draw)
    return {
        "rmse": metrics.rmse(predicted, of.y_test),
        "log_likelihood": metrics.mean_log_likelihood(predicted, of.y_test),
        "coverage": metrics.coverage(predicted, of.y_test, 0.9),
        "seconds": time.process_time() - started,
    }


def show(out: Path, keys: list[Key], models: list[str]) -> None:
    """Print means over draws of every case."""
    rows, lines = rows_of(out), []
    rows = [row | {"log_rmse": np.log(row["rmse"])} for row in rows]
    for n_rows, noise, name in dict.fromkeys(key[:3] for key in keys):
        cells = []
        for model in models:
            of = {"rows": n_rows, "noise": noise, "experiment": name, "model": model}
            rmse = np.exp(mean_of(rows, "log_rmse", **of))
            others = [mean_of(rows, part, **of) for part in PARTS]
            text = f"{rmse:.4f} {others[0]:.2f} {others[1]:.3f} {others[2]:.1f}"
            cells.append("" if np.isnan(rmse) else text)
        lines.append((f"{name}, {n_rows} rows, noise {noise:g}", *cells))
    title = "RMSE, log-likelihood, coverage of 90 % intervals, processor seconds"
    print_table(title, ("experiment", *models), lines, right=range(1, len(models) + 1))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 500, 1_000, 5_000])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.01])
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--out", type=Path, default=Path("results/smooth.jsonl"))
    asked = parser.parse_args()
    each = asked.rows, asked.noise, asked.experiments, range(asked.draws)
    keys: list[Key] = [(*key,) for key in product(*each)]
    cases = (
        (*key, model)
        for key, model in product(keys, asked.models)
        if model != "process" or key[0] <= MOST_ROWS_OF_PEER
    )
    run_missing(asked.out, ("rows", "noise", "experiment", "draw", "model"), cases, measured)
    show(asked.out, keys, asked.models)


if __name__ == "__main__":
    main()

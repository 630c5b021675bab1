"""`python -m benchmarks.useless_inputs`: PBP on smooth functions of four of 32 inputs.

8192 rows, inputs uniform or normal, of variance 1, noise a tenth of the function's standard
deviation; RMSE in that unit at 2000 other rows without noise. Beside PBP as it is: the published
algorithm without guards, stochastic EP, PBP of the four inputs alone, and scikit-learn's network.
One line of JSON a fit goes to `results/useless_inputs.jsonl`; what stands there already is not run
again.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPRegressor

from bayesprop import BayesianRegressor, PBPRegressor
from bayesprop.cli.console import print_table
from benchmarks.tables import Split, rows_of, run_missing
from papers.published_pbp import PublishedPBP

N_ROWS, N_TEST, N_INPUTS, N_USEFUL, NOISE = 8_192, 2_000, 32, 4, 0.1
REFERENCE = "reference"
Columns = np.ndarray


def four_way(a: Columns, b: Columns, c: Columns, d: Columns) -> Columns:
    """No input and no pair says anything alone."""
    return np.sin(a / 2) * b * c * d


def three_way(a: Columns, b: Columns, c: Columns, d: Columns) -> Columns:
    """Add a square to a product of three."""
    return a * b * c + d**2


def waves(a: Columns, b: Columns, c: Columns, d: Columns) -> Columns:
    """Two waves multiplied."""
    return np.sin(a + b) * np.cos(c - d)


def angles(a: Columns, b: Columns, c: Columns, d: Columns) -> Columns:
    """Waves of which one is a ridge."""
    return np.sin(a + b) * np.cos(c) + 0.5 * np.sin(d + a)


def lever(a: Columns, b: Columns, c: Columns, d: Columns) -> Columns:
    """Multiply a force by the sine of an angle."""
    return a * np.sin(2 * b) * np.cos(c) + 0.1 * d


FUNCTIONS: dict[str, Callable[..., Columns]] = {
    f.__name__: f for f in (four_way, three_way, waves, angles, lever)
}
SPREADS = {
    "uniform": lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
}


def case(name: str, spread: str, draw: int, n_rows: int = N_ROWS) -> Split:
    """Draw rows of a function, in units of its standard deviation; test rows without noise."""
    rng = np.random.default_rng([draw, sorted(FUNCTIONS).index(name)])
    x = SPREADS[spread](rng, (n_rows + N_TEST, N_INPUTS))
    f = FUNCTIONS[name](*x[:, :N_USEFUL].T)
    f = (f - f.mean()) / f.std()
    y = f[:n_rows] + NOISE * rng.standard_normal(n_rows)
    return Split(x[:n_rows], y, x[n_rows:], f[n_rows:])


MODELS: dict[str, Callable[[int], object]] = {
    "pbp": lambda seed: PBPRegressor(random_state=seed),
    REFERENCE: lambda seed: PublishedPBP(random_state=seed),
    "sep": lambda seed: PBPRegressor(inference="sep", random_state=seed),
    "sep, 200": lambda seed: PBPRegressor(n_epochs=200, inference="sep", random_state=seed),
    "pbp, 2 layers": lambda seed: PBPRegressor((50, 50), random_state=seed),
    "network": lambda seed: MLPRegressor(
        hidden_layer_sizes=(50,), early_stopping=True, random_state=seed
    ),
    "default": lambda seed: BayesianRegressor(random_state=seed),
}
OF_USEFUL = ("pbp", "sep")
"""Models that are fitted to the four inputs alone as well."""


def measured(name: str, spread: str, draw: int, model: str, n_inputs: int) -> dict[str, float]:
    """RMSE of one fit, and guards of the prior's refresh."""
    of = case(name, spread, draw)
    fitted = MODELS[model](draw).fit(of.x[:, :n_inputs], of.y)  # type: ignore[attr-defined]
    error = fitted.predict(of.x_test[:, :n_inputs]) - of.y_test
    guards = fitted.fit_report_.guards if hasattr(fitted, "fit_report_") else {}
    return {"rmse": float(np.sqrt(np.mean(error**2)))} | {
        guard: guards[guard] for guard in ("prior_kept", "prior_uninformed") if guard in guards
    }


def ratio(ours: np.ndarray, others: np.ndarray) -> str:
    """Geometric mean of the ratio of paired RMSEs, and its standard error."""
    log = np.log(ours / others)
    return f"{np.exp(log.mean()):.3f} ± {log.std(ddof=1) / np.sqrt(len(log)):.3f}"


def show(out: Path, keys: list[tuple[str, str]], draws: int, models: list[tuple[str, int]]) -> None:
    """Print the mean RMSE over draws, and its ratio to that of the reference."""
    rmse = {
        tuple(row[part] for part in ("function", "spread", "model", "inputs", "draw")): row["rmse"]
        for row in rows_of(out)
    }
    lines = []
    for key in keys:
        each = {m: np.array([rmse[*key, *m, draw] for draw in range(draws)]) for m in models}
        base = each.get((REFERENCE, N_INPUTS))
        for (model, n_inputs), values in each.items():
            against = "" if base is None or draws < 2 else ratio(values, base)
            lines.append((", ".join(key), model, str(n_inputs), f"{values.mean():.3f}", against))
    columns = ("function", "model", "inputs", "RMSE", f"ratio to {REFERENCE}")
    print_table(f"{N_ROWS} rows, mean over {draws} draws", columns, lines, right=(2, 3, 4))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=list(FUNCTIONS))
    parser.add_argument("--spreads", nargs="+", choices=SPREADS, default=["uniform"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["pbp", REFERENCE, "sep"])
    parser.add_argument("--out", type=Path, default=Path("results/useless_inputs.jsonl"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    keys = list(product(asked.functions, asked.spreads))
    models = [(model, N_INPUTS) for model in asked.models]
    models += [(model, N_USEFUL) for model in asked.models if model in OF_USEFUL]
    cases = ((*key, draw, *model) for key, draw, model in product(keys, range(asked.draws), models))
    run_missing(asked.out, ("function", "spread", "draw", "model", "inputs"), cases, measured)
    show(asked.out, keys, asked.draws, models)


if __name__ == "__main__":
    main()

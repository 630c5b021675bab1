"""`python -m benchmarks.number_tables FOLDER`: numbers of real tables, ours beside CatBoost.

Rows, columns and splits as in `benchmarks.tables`, everything at its defaults; CatBoost with the
loss of its point predictions, and with its own uncertainty. One line of JSON a fit goes to
`results/number_tables.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bayesprop import BayesianMLPRegressor, metrics
from bayesprop.cli.console import print_table
from bayesprop.model.predictive import GaussianPredictive, Predictive
from benchmarks.tables import (
    OURS,
    Split,
    asked_for,
    compare,
    divided,
    encoded,
    for_catboost,
    mean_of,
    rows_of,
)

TARGETS = {
    "car_prices": "Price",
    "Sacramento": "price",
    "ames": "Sale_Price",
    "HousePrices": "price",
    "Ozone": "V4",
    "DoctorVisits": "visits",
    "CPS1988": "wage",
    "diamonds": "price",
}
LEVELS = (0.5, 0.8, 0.9, 0.99)


def ours(split: Split, seed: int) -> Predictive:
    """Fit and predict the default."""
    return BayesianMLPRegressor(random_state=seed).fit(split.x, split.y).predict_dist(split.x_test)


def catboost(loss: str) -> Callable[[Split, int], Predictive]:
    """Fit and predict CatBoost; its errors' variance in training where it says none of its own."""

    def run(split: Split, seed: int) -> Predictive:
        from catboost import CatBoostRegressor  # of the group `peers`

        frames, words = for_catboost(split)
        model = CatBoostRegressor(
            loss_function=loss,
            verbose=0,
            random_seed=seed,
            allow_writing_files=False,
            cat_features=words,
        ).fit(frames[0], split.y)
        seen, new = (np.reshape(model.predict(frame), (len(frame), -1)) for frame in frames)
        var = (
            new[:, 1]
            if new.shape[1] > 1
            else np.full(len(new), np.mean((seen[:, 0] - split.y) ** 2))
        )
        return GaussianPredictive(new[:, 0], np.zeros(len(new)), var)

    return run


MODELS = {
    OURS: ours,
    "catboost": catboost("RMSE"),
    "catboost, uncertain": catboost("RMSEWithUncertainty"),
}


def scores(model: str, split: Split, seed: int) -> dict[str, float]:
    """Score one fit in the target's unit, and count its processor seconds."""
    started = time.process_time()
    predicted = MODELS[model](split, seed)
    seconds, y = time.process_time() - started, split.y_test
    inside = {f"inside_{level:g}": metrics.coverage(predicted, y, level) for level in LEVELS}
    return {
        "rmse": metrics.rmse(predicted, y),
        "crps": metrics.mean_crps(predicted, y),
        "log_likelihood": metrics.mean_log_likelihood(predicted, y),
        **inside,
        "n_test": len(y),
        "seconds": seconds,
    }


def show(out: Path, models: list[str]) -> None:
    """Print means over splits, ratios to the best of the others, and what intervals held."""
    rows, lines, others = rows_of(out), [], [model for model in models if model != OURS]
    for name in TARGETS:

        def mean(part: str, model: str = OURS, table: str = name) -> float:
            return mean_of(rows, part, table=table, model=model)

        ratios = [
            mean(part) / np.nanmin([mean(part, model) for model in others])
            for part in ("rmse", "crps")
        ]
        gain = mean("log_likelihood") - np.nanmax([mean("log_likelihood", m) for m in others])
        inside = [f"{mean(f'inside_{level:g}'):.3f}" for level in LEVELS]
        figures = [f"{ratio:.2f}" for ratio in ratios]
        lines.append((name, *figures, f"{gain:+.2f}", *inside, f"{mean('seconds'):.1f}"))
    columns = ("table", "RMSE / best other", "CRPS / best other", "log-likelihood above it")
    held = [f"{level:.0%} hold" for level in LEVELS]
    title = "Numbers of real tables, mean over splits"
    print_table(title, (*columns, *held, "seconds"), lines, right=range(1, 9))


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, "results/number_tables.jsonl", MODELS)

    def split_of(name: str, number: int) -> Split:
        target = TARGETS[name]
        return encoded(*divided(asked.folder, name, target, number), target, "regression")

    compare(asked, TARGETS, split_of, lambda _table, *of: scores(*of))
    show(asked.out, asked.models)


if __name__ == "__main__":
    main()

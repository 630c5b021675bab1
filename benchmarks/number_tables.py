"""`python -m benchmarks.number_tables FOLDER`: numbers of real tables, ours beside CatBoost.

Rows, columns and splits as in `benchmarks.tables`, everything at its defaults; CatBoost with the
loss of its point predictions, and with its own uncertainty. One line of JSON a fit goes to
`results/number_tables.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bayesprop import BayesianMLPRegressor, metrics
from bayesprop.cli.console import print_table
from bayesprop.model.predictive import GaussianPredictive, Predictive
from benchmarks.tables import Split, asked_for, divided, encoded, for_catboost, rows_of

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
    "mlp": ours,
    "catboost": catboost("RMSE"),
    "catboost, uncertain": catboost("RMSEWithUncertainty"),
}


def scores(run: Callable[[Split, int], Predictive], split: Split, seed: int) -> dict[str, float]:
    """Score one fit in the target's unit, and count its processor seconds."""
    started = time.process_time()
    predicted = run(split, seed)
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


def measure(folder: Path, out: Path, n_splits: int, models: list[str]) -> None:
    """Run what is missing, split by split."""
    done = {(row["table"], row["split"], row["model"]) for row in rows_of(out)}
    out.parent.mkdir(exist_ok=True)
    for number in range(n_splits):
        for name, target in TARGETS.items():
            missing = [model for model in models if (name, number, model) not in done]
            if not missing:
                continue
            split = encoded(*divided(folder, name, target, number), target, "regression")
            for model in missing:
                row = {"table": name, "split": number, "model": model}
                row |= scores(MODELS[model], split, number)
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def show(out: Path, models: list[str]) -> None:
    """Print means over splits, ratios to the best of the others, and what intervals held."""
    rows, lines = list(rows_of(out)), []
    for name in TARGETS:

        def mean(model: str, part: str, name: str = name) -> float:
            some = [r[part] for r in rows if (r["table"], r["model"]) == (name, model)]
            return float(np.mean(some)) if some else float("nan")

        others = [model for model in models if model != "mlp"]
        ratios = [
            mean("mlp", part) / np.nanmin([mean(model, part) for model in others])
            for part in ("rmse", "crps")
        ]
        gain = mean("mlp", "log_likelihood") - np.nanmax(
            [mean(model, "log_likelihood") for model in others]
        )
        inside = [f"{mean('mlp', f'inside_{level:g}'):.3f}" for level in LEVELS]
        figures = [f"{ratio:.2f}" for ratio in ratios]
        lines.append((name, *figures, f"{gain:+.2f}", *inside, f"{mean('mlp', 'seconds'):.1f}"))
    columns = ("table", "RMSE / best other", "CRPS / best other", "log-likelihood above it")
    held = [f"{level:.0%} hold" for level in LEVELS]
    title = "Numbers of real tables, mean over splits"
    print_table(title, (*columns, *held, "seconds"), lines, right=range(1, 9))


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, MODELS, "results/number_tables.jsonl")
    measure(asked.folder, asked.out, asked.splits, asked.models)
    show(asked.out, asked.models)


if __name__ == "__main__":
    main()

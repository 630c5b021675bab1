"""`python -m benchmarks.limits FOLDER`: targets of which some are known by a limit only.

Rows, columns and splits as in `benchmarks.tables`, at most 2000 rows, everything at its defaults,
of the positive targets of `benchmarks.kinds` that lie in the folder. Three tenths of the training
rows are known to lie below a limit only, or a fifth above one. Beside `censored` stand what people
do instead, put the limit in their place, or half of it, and take the target for positive numbers;
and `whole`, a fit to the numbers themselves, which nobody has. All are judged on what is seen of
other rows: a probability of the limit, a density elsewhere, and the CRPS of the limited number from
99 quantiles. One line of JSON a fit goes to `results/limits.jsonl`; what stands there already is
not run again.
"""

from __future__ import annotations

import time

import numpy as np

from bayesprop import BayesianRegressor
from bayesprop.cli.console import print_table
from bayesprop.distributions.predictive import Predictive
from bayesprop.targets.bijectors import CENSORED, POSITIVE
from benchmarks.kinds import TARGETS
from benchmarks.tables import Split, asked_for, compare, divided, encoded, mean_of, rows_of

MODELS = ("censored", "limit", "half", "whole")
SIDES = {"below": (0.3, 1.0), "above": (0.0, 0.8)}
"""Shares of the training rows between which they are measured."""
MOST_ROWS = 2000
LEVELS = np.arange(1, 100) / 100.0
PARTS = ("log_likelihood", "crps", "limited", "seconds")


def scores(case: str, model: str, split: Split, seed: int) -> dict[str, float]:
    """Score one fit in the target's unit, and count its processor seconds."""
    started, side = time.process_time(), case.rpartition(" ")[2]
    low, high = np.quantile(split.y, SIDES[side], method="inverted_cdf")
    low = low if side == "below" else -np.inf
    high = high if side == "above" else np.inf
    limited_y = np.clip(split.y, low, high)
    y = {"half": np.where(split.y <= low, 0.5 * low, limited_y), "whole": split.y}.get(
        model, limited_y
    )
    kind = CENSORED if model == "censored" else POSITIVE
    fitted = BayesianRegressor(target_kind=kind, random_state=seed).fit(split.x, y)
    predicted, y_test = fitted.predict_dist(split.x_test), np.clip(split.y_test, low, high)
    quantiles = np.clip(predicted.quantile(LEVELS), low, high)
    away = quantiles - y_test[:, None]
    limit = low if side == "below" else high
    return {
        "log_likelihood": float(np.mean(_log_prob(predicted, y_test, low, high))),
        "crps": float(2.0 * np.mean(((away > 0.0) - LEVELS) * away)),
        "limited": float(np.mean(y_test == limit)),
        "seconds": time.process_time() - started,
    }


def _log_prob(predicted: Predictive, y: np.ndarray, low: float, high: float) -> np.ndarray:
    """Log probability of the limit where a number lies beyond it, log density elsewhere."""
    if getattr(getattr(predicted, "map", None), "kind", "") == CENSORED:
        return predicted.log_prob(y)
    below = predicted.cdf(y)
    beyond = [np.log(np.maximum(p, 1e-12)) for p in (below, 1.0 - below)]
    return np.select([y <= low, y >= high], beyond, predicted.log_prob(y))


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, "results/limits.jsonl", MODELS, splits=3)

    def split_of(case: str, number: int) -> Split:
        name = case.rpartition(" ")[0]
        train, test = divided(asked.folder, name, TARGETS[name][0], number)
        train, test = train[: round(0.8 * MOST_ROWS)], test[: round(0.2 * MOST_ROWS)]
        return encoded(train, test, TARGETS[name][0], "regression")

    names = [name for name, (_, kind) in TARGETS.items() if kind == POSITIVE]
    names = [name for name in names if any(asked.folder.glob(f"{name}.csv*"))]
    if not names:
        raise SystemExit(f"{asked.folder} must hold a table of a positive target of {[*TARGETS]}")
    cases = [f"{name} {side}" for name in names for side in SIDES]
    compare(asked, cases, split_of, scores)
    rows = rows_of(asked.out)
    lines = [
        (case, model, *(f"{mean_of(rows, part, table=case, model=model):.4g}" for part in PARTS))
        for case in cases
        for model in asked.models
    ]
    print_table(
        "Targets with limits, mean over splits",
        ("table", "model", *PARTS),
        lines,
        right=range(2, 6),
    )


if __name__ == "__main__":
    main()

"""`python -m benchmarks.kinds FOLDER`: targets of their kind beside the same targets as numbers.

Rows, columns and splits as in `benchmarks.tables`, at most 4000 rows, everything at its defaults;
of the tables that lie in the folder, which may be the `csv` of vincentarelbundock/Rdatasets.
Beside the default regressor of either kind stands what a user may have at hand: boosted trees of
scikit-learn on the log target, with Gaussian errors as they are in cross-validation; for counts
boosted trees of Poisson's loss, with the negative binomial whose dispersion fits those best. And
what is made for the kind: NGBoost with log-normal distributions (Duan et al. 2020), of counts the
negative-binomial regression of statsmodels (NB2, its dispersion by maximum likelihood); both are of
the group `peers`. One line of JSON a fit goes to `results/kinds.jsonl`; what stands there already
is not run again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict

from bayesprop import BayesianRegressor
from bayesprop.cli.console import print_table
from bayesprop.distributions.predictive import Predictive
from benchmarks.tables import (
    Split,
    asked_for,
    compare,
    divided,
    encoded,
    independent_columns,
    mean_of,
    rows_of,
)
from papers.number_peers import natural_boosting

TARGETS = {
    "Sacramento": ("price", "positive"),
    "car_prices": ("Price", "positive"),
    "DoctorVisits": ("visits", "count"),
    "diamonds": ("price", "positive"),
    "ames": ("Sale_Price", "positive"),
    "COUNT/affairs": ("naffairs", "count"),
    "COUNT/medpar": ("los", "count"),
    "wooldridge/smoke": ("cigs", "count"),
}
MODELS = ("numbers", "kind", "boosted trees", "NGBoost or NB2")
MOST_ROWS = 4000
_MOST_COUNT = 400


def ours(split: Split, kind: str, seed: int, *, is_count: bool) -> dict[str, float]:
    """Score the default, its target of a kind; of a count, the probability of its unit interval."""
    model = BayesianRegressor(target_kind=kind, random_state=seed).fit(split.x, split.y)
    predicted, y = model.predict_dist(split.x_test), split.y_test
    log_prob = predicted.log_prob(y)
    if is_count and kind == "numbers":
        log_prob = _log_unit(predicted, y)
    return _scores(log_prob, predicted.crps(y), predicted.interval(0.9), y, is_count=is_count)


def _log_unit(predicted: Predictive, y: np.ndarray) -> np.ndarray:
    """Log probability of (y - 1/2, y + 1/2), where that is rounding of the density."""
    inside = predicted.cdf(y + 0.5) - predicted.cdf(y - 0.5)
    return np.where(inside > 1e-9, np.log(np.maximum(inside, 1e-300)), predicted.log_prob(y))


def _scores(
    log_prob: np.ndarray, crps: np.ndarray, interval: np.ndarray, y: np.ndarray, *, is_count: bool
) -> dict[str, float]:
    low, high = interval.T
    outside = low < 0.0 if is_count else low <= 0.0
    return {
        "log_likelihood": float(np.mean(log_prob)),
        "crps": float(np.mean(crps)),
        "inside_90": float(np.mean((low <= y) & (y <= high))),
        "outside": float(np.mean(outside)),
    }


def log_normal_trees(split: Split, seed: int) -> dict[str, float]:
    """Score boosted trees on log y; the errors' variance is that of five-fold cross-validation."""
    z = np.log(split.y)
    model = HistGradientBoostingRegressor(random_state=seed)
    std = float(np.std(z - cross_val_predict(model, split.x, z, cv=5)))
    return _of_log_normal(model.fit(split.x, z).predict(split.x_test), std, split.y_test)


def log_normal_ngboost(split: Split, seed: int) -> dict[str, float]:
    """Score NGBoost, stopped when a tenth of the rows, held out, has not gained for 50 rounds."""
    from ngboost.distns import LogNormal

    model = natural_boosting("NGBRegressor", seed, split.x, split.y, Dist=LogNormal)
    law = model.pred_dist(split.x_test, max_iter=model.best_val_loss_itr + 1).params
    return _of_log_normal(np.log(law["scale"]), law["s"], split.y_test)


def _of_log_normal(mean: np.ndarray, std: np.ndarray | float, y: np.ndarray) -> dict[str, float]:
    """Score distributions whose log is normal; CRPS by Baran & Lerch (2015)."""
    law, away = stats.lognorm(std, scale=np.exp(mean)), (np.log(y) - mean) / std
    above = stats.norm.cdf(away - std) + stats.norm.cdf(std / np.sqrt(2.0)) - 1.0
    crps = y * (2.0 * stats.norm.cdf(away) - 1.0) - 2.0 * law.mean() * above
    interval = np.stack([law.ppf(0.05), law.ppf(0.95)], axis=1)
    return _scores(law.logpdf(y), crps, interval, y, is_count=False)


def negative_binomial_trees(split: Split, seed: int) -> dict[str, float]:
    """Score boosted trees of Poisson's loss and a dispersion: P(k) of var = m + m² / size."""
    y, model = split.y_test, HistGradientBoostingRegressor(loss="poisson", random_state=seed)
    left_out = np.maximum(cross_val_predict(model, split.x, split.y, cv=5), 1e-6)

    def loss(log_size: float) -> float:
        size = np.exp(log_size)
        return -float(np.sum(stats.nbinom.logpmf(split.y, size, size / (size + left_out))))

    size = float(np.exp(optimize.minimize_scalar(loss, bounds=(-5.0, 8.0), method="bounded").x))
    mean = np.maximum(model.fit(split.x, split.y).predict(split.x_test), 1e-6)
    return _of_negative_binomial(mean, size, y)


def negative_binomial_regression(split: Split, _seed: int) -> dict[str, float]:
    """Score NB2: log mean linear in standardised inputs that are not collinear."""
    from statsmodels.discrete.discrete_model import NegativeBinomial

    x, x_test = (np.column_stack([np.ones(len(x)), x]) for x in independent_columns(split))
    fitted = NegativeBinomial(split.y, x).fit(disp=0, maxiter=500)
    size = 1.0 / float(fitted.params[-1])
    return _of_negative_binomial(fitted.predict(x_test), size, split.y_test)


def _of_negative_binomial(mean: np.ndarray, size: float, y: np.ndarray) -> dict[str, float]:
    """Score negative binomials of variance m + m² / size."""
    law = stats.nbinom(size, size / (size + mean))
    k = np.arange(_MOST_COUNT)[:, None]
    crps = np.sum((law.cdf(k) - (k >= y)) ** 2, axis=0)
    interval = np.stack([law.ppf(0.05), law.ppf(0.95)], axis=1)
    return _scores(law.logpmf(y), crps, interval, y, is_count=True)


def scores(name: str, model: str, split: Split, seed: int) -> dict[str, Any]:
    """Score one fit in the target's unit, and count its processor seconds."""
    started, kind = time.process_time(), TARGETS[name][1]
    is_count = kind == "count"
    if model == "boosted trees":
        measured = (negative_binomial_trees if is_count else log_normal_trees)(split, seed)
    elif model == "NGBoost or NB2":
        peer = negative_binomial_regression if is_count else log_normal_ngboost
        measured = peer(split, seed)
    else:
        measured = ours(split, kind if model == "kind" else "numbers", seed, is_count=is_count)
    return {"kind": kind, **measured, "seconds": time.process_time() - started}


def show(out: Path, models: list[str]) -> None:
    """Print means over splits."""
    rows, lines = rows_of(out), []
    parts = ("log_likelihood", "crps", "inside_90", "outside", "seconds")
    for name, (_, kind) in TARGETS.items():
        for model in models:
            n = sum((row["table"], row["model"]) == (name, model) for row in rows)
            if n:
                means = [mean_of(rows, part, table=name, model=model) for part in parts]
                cells = (f"{mean:.4g}" for mean in means)
                lines.append((name, kind if model == "kind" else model, *cells, str(n)))
    columns = ("table", "model", "log-likelihood", "CRPS", "inside 90 %", "bounds outside")
    title = "Kinds of targets, mean over splits"
    print_table(title, (*columns, "seconds", "splits"), lines, right=range(2, 8))


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, "results/kinds.jsonl", MODELS, splits=3)

    def split_of(name: str, number: int) -> Split:
        target = TARGETS[name][0]
        train, test = divided(asked.folder, name, target, number)
        train, test = train[: round(0.8 * MOST_ROWS)], test[: round(0.2 * MOST_ROWS)]
        return encoded(train, test, target, "regression")

    tables = [name for name in TARGETS if any(asked.folder.glob(f"{name}.csv*"))]
    if not tables:
        raise SystemExit(f"{asked.folder} must hold one of {', '.join(TARGETS)} as .csv")
    compare(asked, tables, split_of, scores)
    show(asked.out, asked.models)


if __name__ == "__main__":
    main()

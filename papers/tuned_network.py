"""The tuned baselines of Hernández-Lobato & Adams (2015, section 5.1): one cell, rows to scores.

Networks learn one datum at a time for 40 epochs; their hyper-parameters come from trials of
Bayesian optimisation on a fifth of the training rows.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.model.mixture_predictive import MixturePredictive
from bayesprop.model.predictive import GaussianPredictive, Predictive
from bayesprop.model.standardiser import Standardiser
from papers import rows as row_files
from papers import uci
from papers.cells import Key, Scratch, described
from papers.online_descent import (
    GravesFit,
    OnlineNetwork,
    PointFit,
    fit_graves,
    fit_point,
)
from papers.protocol import NothingToRun, Selection
from papers.tuning import Range, Tuned, tune

STORAGE = "BAYESPROP_TUNING_STORAGE"
"""Environment variable with the URL of the database of trials."""

_FILE = "tuning.optuna.sqlite3"
_WORST = {"bp": math.log(2.0), "vi": 3.0, "vi-wide": 3.0}
"""Loss of a trial that diverged, or did worse; predicting the mean has 0 and 1.4."""


@dataclass(frozen=True)
class Config:
    """Settings of the baselines.

    n_trials, validation_share
        Of the search; the paper's.
    n_draws
        Networks drawn from VI's posterior for a prediction.
    learning_rate, momentum, weight_decay
        Where hyper-parameters are sought; all but the momentum on a logarithmic scale. The paper
        does not say.
    """

    seed: int = 1
    n_epochs: int = 40
    n_trials: int = 30
    validation_share: float = 0.2
    n_draws: int = 100
    learning_rate: tuple[float, float] = (1e-5, 1e-1)
    momentum: tuple[float, float] = (0.0, 0.99)
    weight_decay: tuple[float, float] = (1e-6, 1e-2)

    def space(self, method: str) -> dict[str, Range]:
        """Return the hyper-parameters of a method, and where they are sought."""
        space = {
            "learning_rate": Range(*self.learning_rate, is_log=True),
            "momentum": Range(*self.momentum),
        }
        if method == "bp":
            space["weight_decay"] = Range(*self.weight_decay, is_log=True)
        return space


class Rows(NamedTuple):
    """Standardised rows."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]


Fit = PointFit | GravesFit
Trainer = Callable[[Rows, dict[str, float], int], Fit]


def cost(dataset: str, method: str, layers: int) -> float:
    """Guess the seconds of a cell."""
    epoch = uci.cost(dataset, *(uci.hidden_units(dataset),) * layers)
    a_weight = 5e-10 if method == "bp" else 5e-9
    return 5.0 + 40 * 25 * epoch * a_weight


def at_hand(asked: Selection) -> list[str]:
    """Return the data sets to run; NothingToRun where there is none, no Optuna or no database."""
    if find_spec("optuna") is None:
        raise NothingToRun("tuned baselines need Optuna: pip install optuna")
    _check_storage(os.environ.get(STORAGE))
    return uci.at_hand(asked.parts, quick=asked.quick and not asked.named)


def _check_storage(url: str | None) -> None:
    if not url:
        return
    from optuna.storages import RDBStorage

    try:
        RDBStorage(url)
    except Exception as error:  # of whatever driver the URL names
        told = " ".join(str(error).split())[:200]
        raise NothingToRun(
            f"{STORAGE} must be the URL of a database, such as postgresql://HOST/NAME or "
            f"sqlite:////FOLDER/trials.sqlite3, got {url!r}: {told}"
        ) from error


def fit_cell(config: Config, key: Key, scratch: Scratch) -> dict[str, Any]:
    """Tune a method on one split, fit it to all training rows, and score the test rows."""
    data = uci.train_test(key["dataset"], key["split"])
    x_scaler = Standardiser.fit(data.X_train)
    y_scaler = Standardiser.fit(data.y_train[:, None])
    rows = Rows(x_scaler.transform(data.X_train), _standard(y_scaler, data.y_train))
    network = _network(key, rows.x.shape[1])
    seeds = [uci.cell_seed(config.seed, key["split"], place) for place in range(4)]
    trainer = _trainer(config, key["method"], network)
    tuned = _search(config, key, scratch.folder, rows, network, trainer, seeds)

    started = time.perf_counter()
    fit, n_diverged = _first_finite(trainer, rows, tuned, seeds[3])
    seconds = time.perf_counter() - started
    # Backpropagation says nothing of the noise: what it left on the rows that were held out.
    noise_var = math.exp(2.0 * tuned.losses[n_diverged])
    x = x_scaler.transform(data.X_test)
    standardised = _predict(network, fit, x, config.n_draws, seeds[2], noise_var)
    shift, scale = y_scaler.inverse_mean(np.zeros(1))[0], y_scaler.scale[0]
    predicted = standardised.rescaled(shift, scale)
    return {
        "rmse": metrics.rmse(predicted, data.y_test),
        "log_likelihood": metrics.mean_log_likelihood(predicted, data.y_test),
        "coverage_90": metrics.coverage(predicted, data.y_test, 0.9),
        "epistemic_share": predicted.epistemic_share,
        "fit_seconds": seconds,
        "tuning_seconds": tuned.seconds,
        "settings_diverged": n_diverged,
        "validation_loss": tuned.losses[n_diverged],
        **tuned.settings[n_diverged],
    }


def storage(folder: Path) -> str | Path:
    """Say where trials are kept: a database that the user named, else a file beside the rows."""
    return os.environ.get(STORAGE) or folder / _FILE


def _network(key: Key, n_inputs: int) -> OnlineNetwork:
    hidden = (uci.hidden_units(key["dataset"]),) * key["layers"]
    return OnlineNetwork((n_inputs, *hidden, 1), is_scaled=False)


def _standard(scaler: Standardiser, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return scaler.transform(y[:, None])[:, 0]


def _trainer(config: Config, method: str, network: OnlineNetwork) -> Trainer:
    """Return the fit of a method to rows, from a start and in orders that the seed decides."""

    def train(rows: Rows, settings: dict[str, float], seed: int) -> Fit:
        rng = np.random.default_rng(seed)
        start = network.start(rng)
        orders = (rng.permutation(len(rows.x)) for _ in range(config.n_epochs))
        if method == "bp":
            return fit_point(network, start, *rows, orders, **settings)
        wide: Any = {"init_std": network.start_std, "log_noise_var": 0.0}
        begin = wide if method == "vi-wide" else {}
        return fit_graves(network, start, *rows, orders, seed=seed, **begin, **settings)

    return train


def _search(
    config: Config,
    key: Key,
    folder: Path,
    rows: Rows,
    network: OnlineNetwork,
    trainer: Trainer,
    seeds: list[int],
) -> Tuned:
    """Tune on a share of the rows that is held out; all trials start alike."""
    order = np.random.default_rng(seeds[0]).permutation(len(rows.x))
    n_held_out = round(config.validation_share * len(order))
    held_out, learnt = (Rows(rows.x[part], rows.y[part]) for part in np.split(order, [n_held_out]))
    worst = _WORST[key["method"]]

    def loss(settings: dict[str, float]) -> float:
        fit = trainer(learnt, settings, seeds[1])
        if not fit.is_finite:
            return worst
        # A wild fit is as bad as one that diverged, and no news.
        with np.errstate(all="ignore"):
            predicted = _predict(network, fit, held_out.x, config.n_draws, seeds[2], 1.0)
            if isinstance(fit, PointFit):
                found = math.log(metrics.rmse(predicted, held_out.y))
            else:
                found = -metrics.mean_log_likelihood(predicted, held_out.y)
        return min(found, worst) if math.isfinite(found) else worst

    name = row_files.identity(key, row_files.plain(asdict(config)))
    study = f"{described(key)}, {hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return tune(
        loss,
        config.space(key["method"]),
        study=study,
        storage=storage(folder),
        n_trials=config.n_trials,
        seed=seeds[0],
    )


def _first_finite(trainer: Trainer, rows: Rows, tuned: Tuned, seed: int) -> tuple[Fit, int]:
    """Fit with the best settings, or the next where they diverge; say how many did."""
    for place, settings in enumerate(tuned.settings):
        fit = trainer(rows, settings, seed)
        if fit.is_finite:
            return fit, place
    raise ValueError("all settings that were tried diverge on the training rows")


def _predict(
    network: OnlineNetwork,
    fit: Fit,
    x: Float[np.ndarray, "n d"],
    n_draws: int,
    seed: int,
    noise_var: float,
) -> Predictive:
    """Predict standardised targets; the noise variance is for a fit that has none."""
    if isinstance(fit, PointFit):
        mean = network.predict(fit.w, x).astype(float)
        return GaussianPredictive(mean, np.zeros_like(mean), np.full_like(mean, noise_var))
    rng = np.random.default_rng(seed)
    means = np.stack([network.predict(fit.sample(rng), x) for _ in range(n_draws)]).astype(float)
    return MixturePredictive.of(means, np.full_like(means, fit.noise_var))

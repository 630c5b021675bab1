"""The tuned baselines of Hernández-Lobato & Adams (2015, section 5.1): one cell, rows to scores.

Networks learn one datum at a time for 40 epochs; their hyper-parameters come from trials of
Bayesian optimisation on a fifth of the training rows, by Optuna.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from bayesprop.model.task import Standardiser
from bayesprop.networks.draws import predict_draws
from bayesprop.networks.gradient_method import GradientMethod, Parameters
from bayesprop.networks.likelihoods import KnownNoise, LearnedNoise
from bayesprop.networks.mlp import plain_apply
from bayesprop.numerics import loops
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.graves_vi import graves_vi
from bayesprop.sampling.mean_field import MeanField, rho_of
from bayesprop.sampling.point_network import point_network
from papers import rows as row_files
from papers import uci
from papers.protocol import Key, NothingToRun, Scratch, Selection, described

_BY_RMSE = ("bp", "vi-rmse")
"""Trials are scored by the log of their RMSE; the others by minus their log-likelihood."""
_WIDTHS = {"vi-wide": 1.0, "vi-rmse": 0.25}
"""Std of a weight at the start of VI, as a share of its mean's; without an entry 0.05 for all."""


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


class Trial(NamedTuple):
    """Hyper-parameters and the loss that they had on the rows held out."""

    settings: dict[str, float]
    loss: float


def cost(dataset: str, method: str, layers: int) -> float:
    """Guess the seconds of a cell."""
    epoch = uci.cost(dataset, *(uci.hidden_units(dataset),) * layers)
    a_weight = 5e-10 if method == "bp" else 5e-9
    return 5.0 + 40 * 25 * epoch * a_weight


def check_optuna() -> None:
    """Raise NothingToRun where there is no Optuna."""
    if find_spec("optuna") is None:
        raise NothingToRun("tuned baselines need Optuna: pip install optuna")


def at_hand(asked: Selection) -> list[str]:
    """Return the data sets to run; NothingToRun where there is none, or no Optuna."""
    check_optuna()
    return uci.at_hand(asked.parts, quick=asked.quick and not asked.named)


def fit_cell(config: Config, key: Key, scratch: Scratch) -> dict[str, Any]:
    """Tune a method on one split, fit it to all training rows, and score the test rows."""
    data = uci.train_test(key["dataset"], key["split"])
    hidden = (uci.hidden_units(key["dataset"]),) * key["layers"]
    seeds = [uci.cell_seed(config.seed, key["split"], place) for place in range(4)]
    model = tuned(config, key, scratch, data.X_train, data.y_train, hidden, seeds)
    predicted = model.predict_dist(data.X_test)
    return {
        "rmse": metrics.rmse(predicted, data.y_test),
        "log_likelihood": metrics.mean_log_likelihood(predicted, data.y_test),
        "coverage_90": metrics.coverage(predicted, data.y_test, 0.9),
        "epistemic_share": predicted.epistemic_share,
        "fit_seconds": model.fit_seconds,
        "tuning_seconds": model.tuning_seconds,
        "settings_diverged": model.n_diverged,
        "validation_loss": model.chosen.loss,
        **model.chosen.settings,
    }


@dataclass(frozen=True)
class Tuned:
    """A network with the settings that did best on rows held out, fitted to all rows."""

    network: Network
    state: Any
    chosen: Trial
    scalers: tuple[Standardiser, Standardiser]
    seed: int
    n_diverged: int
    fit_seconds: float
    tuning_seconds: float

    def predict_dist(self, X: Float[np.ndarray, "n d"]) -> Predictive:
        """Predict in the original units.

        Backpropagation says nothing of the noise: what it left on the rows that were held out.
        """
        x_scaler, y_scaler = self.scalers
        noise_var = math.exp(2.0 * self.chosen.loss)
        standardised = self.network.predict(
            self.state, x_scaler.transform(X), self.seed, noise_var=noise_var
        )
        return standardised.rescaled(y_scaler.inverse_mean(np.zeros(1))[0], y_scaler.scale[0])


def tuned(
    config: Config,
    key: Key,
    scratch: Scratch,
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    hidden: tuple[int, ...],
    seeds: list[int],
) -> Tuned:
    """Tune the method that a cell's key names, and fit it.

    seeds
        Of what is held out, of the trials, of predictions, and of the last fit.
    """
    scalers = Standardiser.fit(X), Standardiser.fit(y[:, None])
    rows = Rows(scalers[0].transform(X), scalers[1].transform(y[:, None]))
    sizes = (X.shape[1], *hidden, 1)
    network = Network(key["method"], sizes, config.n_epochs, config.n_draws)
    started = time.perf_counter()
    trials = _search(config, key, scratch.folder, rows, network, seeds)
    found = time.perf_counter()
    fit, n_diverged = first_finite(network, rows, trials, seeds[3])
    ended = time.perf_counter()
    chosen = trials[n_diverged]
    return Tuned(
        network, fit, chosen, scalers, seeds[2], n_diverged, ended - found, found - started
    )


@dataclass(frozen=True)
class Network:
    """A network that learns one datum a step: those of `point_network` and `graves_vi`.

    sizes
        Inputs, hidden units layer by layer, 1.
    """

    method: str
    sizes: tuple[int, ...]
    n_epochs: int
    n_draws: int

    def fit(self, rows: Rows, settings: dict[str, float], seed: int) -> Any:
        """Return the state after all epochs, from a start and in orders that the seed decides."""
        learner = _learner(is_point=self.method == "bp")
        key_start, key_steps = jax.random.split(jax.random.key(seed))
        state = self._start(learner, key_start, settings)
        data = Rows(*(jnp.asarray(part, jnp.float32) for part in (rows.x, rows.y)))
        for number in range(self.n_epochs):
            key = jax.random.fold_in(key_steps, number)
            state, _ = loops.epoch(learner.update, state, key, data, batch_size=1)
        return state

    def predict(
        self, state: Any, x: Float[np.ndarray, "n d"], seed: int, *, noise_var: float
    ) -> Predictive:
        """Predict standardised targets; the noise variance is for a fit that has none."""
        is_point = self.method == "bp"
        drawn = predict_draws(
            _learner(is_point=is_point),
            jax.random.key(seed),
            state,
            jnp.asarray(x, jnp.float32),
            n_draws=1 if is_point else self.n_draws,
        )
        means, noise_vars = (np.asarray(part, float)[..., 0] for part in drawn)
        if is_point:
            mean = means[0]
            return GaussianPredictive(mean, np.zeros_like(mean), np.full_like(mean, noise_var))
        return MixturePredictive.of(means, noise_vars)

    def _start(self, learner: GradientMethod, key: Any, settings: dict[str, float]) -> Any:
        """Draw weights from N(0, 1 / (inputs + 1)); of VI, some doubt them by a share of that."""
        stds = [(n_in + 1.0) ** -0.5 for n_in in self.sizes[:-1]]
        shapes = [(n_in + 1, n_out) for n_in, n_out in pairwise(self.sizes)]
        keys = jax.random.split(key, len(stds))
        drawn = zip(stds, keys, shapes, strict=True)
        state = learner.init(key, tuple(std * jax.random.normal(k, s) for std, k, s in drawn))
        if width := _WIDTHS.get(self.method):
            starts = zip(stds, shapes, strict=True)
            rho = tuple(jnp.full(shape, rho_of(width * std)) for std, shape in starts)
            q = MeanField(state.params.weights.m, rho)
            state = state._replace(params=Parameters(q, jnp.zeros(1)))
        numbers = {name: jnp.asarray(value, jnp.float32) for name, value in settings.items()}
        steps = state.optimizer
        return state._replace(
            optimizer=steps._replace(hyperparams={**steps.hyperparams, **numbers})
        )


@lru_cache(maxsize=2)
def _learner(*, is_point: bool) -> GradientMethod:
    """Build a method whose hyper-parameters lie in its state, so that no trial compiles anew."""
    steps = optax.inject_hyperparams(_descent)(learning_rate=0.0, momentum=0.0, weight_decay=0.0)
    if is_point:
        return point_network(plain_apply, KnownNoise(1), steps)
    return graves_vi(plain_apply, LearnedNoise(1), steps)


def _descent(
    learning_rate: float, momentum: float, weight_decay: float
) -> optax.GradientTransformation:
    """V <- momentum v - learning_rate (gradient + weight_decay w), and w <- w + v."""
    return optax.chain(
        optax.add_decayed_weights(weight_decay), optax.sgd(learning_rate, momentum=momentum)
    )


def is_finite(state: Any) -> bool:
    """Whether no step left the finite numbers."""
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state))


def first_finite(network: Network, rows: Rows, trials: list[Trial], seed: int) -> tuple[Any, int]:
    """Fit with the best settings, or the next where they diverge; say how many did."""
    for place, trial in enumerate(trials):
        fit = network.fit(rows, trial.settings, seed)
        if is_finite(fit):
            return fit, place
    raise ValueError("all settings that were tried diverge on the training rows")


def _search(
    config: Config, key: Key, folder: Path, rows: Rows, network: Network, seeds: list[int]
) -> list[Trial]:
    """Tune on a share of the rows that is held out; all trials start alike. The best comes first.

    Trials are kept in the folder, so that a search that was killed goes on.
    """
    import optuna
    from optuna.storages.journal import JournalFileBackend

    order = np.random.default_rng(seeds[0]).permutation(len(rows.x))
    n_held_out = round(config.validation_share * len(order))
    held_out, learnt = (Rows(rows.x[part], rows.y[part]) for part in np.split(order, [n_held_out]))

    def loss(trial: optuna.Trial) -> float:
        settings = {
            name: trial.suggest_float(name, *getattr(config, name), log=name != "momentum")
            for name in ("learning_rate", "momentum", "weight_decay")
            if name != "weight_decay" or key["method"] == "bp"
        }
        return validation_loss(network, learnt, held_out, settings, seeds)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = row_files.identity(key, row_files.plain(asdict(config)))
    journal = JournalFileBackend(str(folder / "tuning.optuna.log"))
    study = optuna.create_study(
        study_name=f"{described(key)}, {hashlib.sha256(name.encode()).hexdigest()[:12]}",
        storage=optuna.storages.JournalStorage(journal),
        load_if_exists=True,
    )
    n_done = len(_finished(study))
    study.sampler = optuna.samplers.TPESampler(seed=(seeds[0] + n_done) % 2**32)
    study.optimize(loss, n_trials=config.n_trials - n_done)
    trials = [Trial(dict(trial.params), trial.value) for trial in _finished(study)]
    return sorted(trials, key=lambda trial: trial.loss)


def _finished(study: Any) -> list[Any]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def validation_loss(
    network: Network, learnt: Rows, held_out: Rows, settings: dict[str, float], seeds: list[int]
) -> float:
    """Log RMSE, or minus log-likelihood; the worst where a fit diverges.

    The worst is of a fit that predicts worse than the mean, which has 0 and 1.4.
    """
    by_rmse = network.method in _BY_RMSE
    worst = math.log(2.0) if by_rmse else 3.0
    fit = network.fit(learnt, settings, seeds[1])
    if not is_finite(fit):
        return worst
    # A wild fit is as bad as one that diverged, and no news.
    with np.errstate(all="ignore"):
        predicted = network.predict(fit, held_out.x, seeds[2], noise_var=1.0)
        if by_rmse:
            loss = math.log(metrics.rmse(predicted, held_out.y[:, 0]))
        else:
            loss = -metrics.mean_log_likelihood(predicted, held_out.y[:, 0])
    return min(loss, worst) if math.isfinite(loss) else worst

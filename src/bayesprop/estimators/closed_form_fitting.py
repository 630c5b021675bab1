"""How the closed-form VI estimators check, build, train and report; shared by both."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.estimators.advice import warn
from bayesprop.estimators.checks import check_choice, check_positive
from bayesprop.estimators.inputs import CHUNK_ROWS, padded
from bayesprop.estimators.network import Built, NetworkFitting, device_rows
from bayesprop.model.fit_report import FitReport
from bayesprop.model.layers import ACTIVATIONS
from bayesprop.model.method import Progress
from bayesprop.model.network_likelihoods import NetworkLikelihood
from bayesprop.model.networks import plain_apply
from bayesprop.model.training import Trained, is_finite, train
from bayesprop.moments import closed_form_vi as vi
from bayesprop.moments.closed_form_lbfgs import fit_lbfgs
from bayesprop.numerics.filling import blocks, slots
from bayesprop.numerics.gaussian import Gaussian

PREDICTIONS = ("expected", "mean", "draws")
SCALE_RULES = ("fan_in", "empirical")
LBFGS_TOLERANCE = 1e-4
"""Largest derivative of the loss a row at which L-BFGS stops, nats in standardised units."""

_ALL_DEAD = (
    "every unit of a hidden layer is dead, so that all predictions are alike: the data do not pay "
    "for the weights; raise likelihood_weight or lower prior_scale"
)


class ClosedFormFitting(NetworkFitting):
    """Hyper-parameters in common."""

    activation: Any
    prior: Any
    prior_scale: Any
    likelihood_weight: Any
    optimizer: Any
    learning_rate: Any
    kl_warm_up: Any
    prediction: Any
    gradient_norm_: float

    @abstractmethod
    def _model(self) -> vi.Model:
        """Return what the objective depends on."""

    def _model_for(self, likelihood: NetworkLikelihood) -> vi.Model:
        scale: Any = self.prior_scale
        return vi.Model(
            likelihood,
            activation=self.activation,
            prior=self.prior,
            prior_scale=scale if scale in SCALE_RULES else float(scale),
            likelihood_weight=float(self.likelihood_weight),
        )

    def _build(self) -> Built:
        return _built(self._model(), float(self.learning_rate), float(self.kl_warm_up))

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_choice("activation", self.activation, tuple(ACTIVATIONS))
        check_choice("prior", self.prior, ("normal", "laplace"))
        check_choice("optimizer", self.optimizer, ("adam", "lbfgs"))
        check_choice("prediction", self.prediction, PREDICTIONS)
        for name in ("likelihood_weight", "learning_rate"):
            check_positive(name, getattr(self, name))
        scale, warm_up = self.prior_scale, self.kl_warm_up
        if isinstance(scale, str):
            check_choice("prior_scale", scale, SCALE_RULES)
        else:
            check_positive("prior_scale", scale)
        if warm_up != 0:
            check_positive("kl_warm_up", warm_up)
        if warm_up and self.optimizer == "lbfgs":
            raise ValueError(
                "kl_warm_up must be 0 with optimizer='lbfgs', which has no epochs, got "
                f"{warm_up!r}: set it to 0"
            )

    def _train(
        self, built: Built, state: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None
    ) -> Trained:
        if self.optimizer == "adam":
            return train(
                built.method,
                state,
                device_rows(x, y, weight, slots(len(x))),
                n_rows=len(x),
                seed=self.seed_,
                batch_size=self.batch_size,
                n_epochs=self.n_epochs,
                first_epoch=self.n_iter_,
                progress=Progress(self.verbose),
            )
        found = fit_lbfgs(
            self._model(),
            state.params,
            device_rows(x, y, weight, blocks(len(x))),
            tol=LBFGS_TOLERANCE,
            max_steps=self.n_epochs,
        )
        self.gradient_norm_ = found.gradient_norm
        if not is_finite(found.params):
            return Trained(state, {"loss": []}, 1, None)
        return Trained(state._replace(params=found.params), {"loss": found.loss}, 0, None)

    def _report(self, trained: Trained, n_rows: int, seconds: float) -> FitReport:
        advice = self._advice(trained)
        warn(advice)
        dead = vi.dead_units(trained.state.params.q)
        if any(count == size for count, size in zip(dead, self._hidden_sizes(), strict=True)):
            advice.append(_ALL_DEAD)
        n_epochs, guards = len(trained.trace["loss"]), {"epochs_undone": trained.n_undone}
        n_updates = n_epochs
        if self.optimizer == "adam":
            n_updates *= -(-n_rows // min(self.batch_size, n_rows))
        else:
            guards["not_converged"] = int(self.gradient_norm_ > LBFGS_TOLERANCE)
        return FitReport(
            n_rows=n_rows,
            n_epochs=n_epochs,
            seconds=seconds,
            n_updates=n_updates,
            guards=guards | {"dead_units": int(dead.sum())},
            trace=trained.trace,
            warnings=advice,
        )

    def _advice(self, trained: Trained) -> list[str]:
        advice = super()._advice(trained)
        if self.optimizer == "lbfgs" and self.gradient_norm_ > LBFGS_TOLERANCE:
            advice.append(
                f"L-BFGS stopped after {len(trained.trace['loss'])} steps at a gradient of "
                f"{self.gradient_norm_:.2g} (tolerance {LBFGS_TOLERANCE:g}): raise n_epochs"
            )
        return advice

    def _output_moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the outputs at standardised rows; (n, k) each, float64."""
        params = self.state_.params
        by_mean = self.prediction == "mean"
        parts = []
        for first in range(0, max(1, len(x)), CHUNK_ROWS):
            rows = x[first : first + CHUNK_ROWS]
            found = _moments(
                self._model(), params.q, jnp.asarray(padded(rows), jnp.float32), by_mean
            )
            parts.append([np.asarray(part, np.float64)[: len(rows)] for part in found])
        m, v = (np.concatenate(part) for part in zip(*parts, strict=True))
        return m, v


@lru_cache(maxsize=64)
def _built(model: vi.Model, learning_rate: float, warm_up_epochs: float) -> Built:
    method = vi.closed_form_vi(model, learning_rate=learning_rate, warm_up_epochs=warm_up_epochs)
    apply = partial(plain_apply, activation_name=model.activation)
    return Built(method, apply, model.likelihood)


@partial(jax.jit, static_argnames=("model", "by_mean"))
def _moments(model: vi.Model, q: vi.Posterior, x: Any, by_mean: bool) -> Gaussian:
    if not by_mean:
        return vi.propagate(model, q, x)
    f = jax.vmap(partial(plain_apply, q.m, activation_name=model.activation))(x)
    return Gaussian(f, jnp.zeros_like(f))

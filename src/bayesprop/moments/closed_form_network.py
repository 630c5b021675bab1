"""The network of Roth & Pernkopf (2016) as a method: trained and used without drawing any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop import codec
from bayesprop.codec import Stored
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import MOST_ROWS, Learned, Parts, WeightGaussians, merged_report
from bayesprop.model.progress import Progress
from bayesprop.moments import closed_form_vi as vi
from bayesprop.networks.likelihoods import GaussianNoise, of_output_moments
from bayesprop.networks.mlp import plain_apply
from bayesprop.networks.pruning import NO_LOG_STD, zeroed
from bayesprop.networks.training import (
    BlockNetwork,
    Built,
    Trained,
    is_finite,
    on_device,
)
from bayesprop.numerics import softmax_expectations
from bayesprop.numerics.filling import blocks, device_rows, padded
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.rows import Rows

LBFGS_TOLERANCE = 1e-4
"""Largest derivative of the loss a row at which L-BFGS stops, nats in standardised units."""
_ALL_DEAD = (
    "every unit of a hidden layer is dead, so that all predictions are alike: the data do not pay "
    "for the weights; raise likelihood_weight or lower prior_scale"
)


class ClosedFormState(NamedTuple):
    """Posterior and optimiser; seed; where L-BFGS stopped, the largest derivative of the loss."""

    network: vi.VIState
    seed: int
    gradient_norm: float | None = None


@lru_cache(maxsize=64)
def built(model: vi.Model, learning_rate: float, optimizer: str, warm_up_epochs: float) -> Built:
    """Build each configuration once, so that JAX compiles it once."""
    method = vi.closed_form_vi(
        model, learning_rate=learning_rate, optimizer=optimizer, warm_up_epochs=warm_up_epochs
    )
    apply = partial(plain_apply, activation_name=model.activation)
    return Built(method, apply, model.likelihood)


@dataclass(frozen=True)
class ClosedFormNetwork(BlockNetwork):
    """Moments of every activation instead of draws.

    optimizer
        Adam or RMSprop on batches, or L-BFGS on all rows, whose steps then are the epochs.
    prediction
        By expectations; by the network of the mean weights; or by draws.
    """

    model: vi.Model
    optimizer: Literal["adam", "rmsprop", "lbfgs"]
    prediction: Literal["expected", "mean", "draws"]

    replays = False

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time."""
        return super().rows_at_once if self.prediction == "draws" else MOST_ROWS

    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train on blocks; ValueError for L-BFGS."""
        if self.optimizer == "lbfgs":
            raise ValueError(
                "optimizer must be 'adam' or 'rmsprop' for a table larger than memory, got"
                " 'lbfgs', which takes all rows at once"
            )
        return super().fit_parts(parts, rng, progress)

    def train(self, rows: Rows, start: Any, first_epoch: int, progress: Progress) -> Trained:
        """Descend the objective."""
        if self.optimizer != "lbfgs":
            return super().train(rows, start, first_epoch, progress)
        data, before = device_rows(rows, blocks(len(rows.x))), start.network
        optimum = vi.fit_lbfgs(
            self.model,
            before.params,
            data,
            tol=LBFGS_TOLERANCE,
            max_steps=self.n_epochs,
            progress=progress,
        )
        if not is_finite(optimum.params):
            return Trained(before, {"loss": []}, 1, None, optimum.gradient_norm)
        after = before._replace(params=optimum.params)
        return Trained(after, {"loss": optimum.loss}, 0, None, optimum.gradient_norm)

    def finished(self, trained: Trained, seed: int) -> ClosedFormState:
        """Return the state that is kept."""
        return ClosedFormState(trained.state, seed, trained.gradient_norm)

    def account(self, trained: Trained, n_rows: int, seconds: float) -> FitReport:
        """Report the training, and the hidden units through which nothing passes."""
        report = super().account(trained, n_rows, seconds)
        dead = vi.dead_units(trained.state.params.q)
        guards = report.guards | {"dead_units": int(dead.sum())}
        if trained.gradient_norm is None:
            return replace(report, guards=guards)
        guards["not_converged"] = int(trained.gradient_norm > LBFGS_TOLERANCE)
        return replace(report, guards=guards, n_updates=report.n_epochs)

    def advice(self, trained: Trained) -> list[str]:
        """Say what a person should know about the training, in sentences."""
        advice, dead = super().advice(trained), vi.dead_units(trained.state.params.q)
        if (trained.gradient_norm or 0.0) > LBFGS_TOLERANCE:
            advice.append(
                f"L-BFGS stopped after {len(trained.trace['loss'])} steps at a gradient of "
                f"{trained.gradient_norm:.2g} (tolerance {LBFGS_TOLERANCE:g}): raise n_epochs"
            )
        if any(count == size for count, size in zip(dead, self.sizes[1:-1], strict=True)):
            advice.append(_ALL_DEAD)
        return advice

    def predict(self, state: Any, x: np.ndarray) -> Predictive | ClassPredictive:
        """Predict in closed form, or by draws."""
        if self.prediction == "draws":
            return super().predict(state, x)
        params, rows = state.network.params, np.float32(padded(x))
        f = _moments(self.model, params.q, rows, by_mean=self.prediction == "mean")
        if not isinstance(self.built.likelihood, GaussianNoise):
            proba, entropy = (np.asarray(part, np.float64) for part in _class_moments(*f))
            return ClassPredictive.of_codes(proba[: len(x)], entropy[: len(x)])
        m, v = (np.asarray(part, np.float64)[: len(x)] for part in f)
        return of_output_moments(self.built.likelihood, params.likelihood, m, v)

    def combined(self, parts: Sequence[Learned], powers: Sequence[float]) -> Learned:
        """Add the natural parameters of the weights; what the likelihood learnt is averaged.

        The prior is in every part, and so in the product once (Bui et al. 2018, "Partitioned
        variational inference", section 2). Adam's memory is that of the first part.
        """
        network = parts[0].state.network
        params = [part.state.network.params for part in parts]
        q, n_undone = _product([one.q for one in params], powers)
        weights = np.asarray(powers, np.float32)
        mean = partial(jax.tree.map, lambda *each: jnp.tensordot(weights, jnp.stack(each), 1))
        likelihood = mean(*(one.likelihood for one in params))
        state = network._replace(params=vi.Params(q, likelihood))
        report = merged_report(parts, powers, {"weights_undone": n_undone})
        n_iter = max(part.n_iter for part in parts)
        return Learned(parts[0].state._replace(network=state), report, n_iter)

    def from_stored(self, stored: Stored) -> Any:
        """Rebuild what `to_stored` gave; ValueError where it does not fit this network."""
        network, seed = self.example
        example = ClosedFormState(network, seed, cast(Any, float | None))
        return on_device(codec.read(example, stored))

    def gaussians(self, state: Any) -> WeightGaussians:
        """Return the posterior of the weights."""
        q = state.network.params.q
        std = jax.tree.map(lambda log_v: np.exp(0.5 * np.asarray(log_v)), q.log_v)
        return WeightGaussians(q.m, std)

    def masked(self, state: Any, keep: Any) -> Any:
        """Return the state with every weight exactly zero whose mask is False."""
        params = state.network.params
        q = type(params.q)(zeroed(params.q.m, keep), zeroed(params.q.log_v, keep, to=NO_LOG_STD))
        network = state.network._replace(params=params._replace(q=q))
        return state._replace(network=network)


def _product(
    posteriors: Sequence[vi.Posterior], powers: Sequence[float]
) -> tuple[vi.Posterior, int]:
    """Multiply posteriors to powers; weights without a positive precision stay as in the first."""
    m, log_v, n_undone = [], [], 0
    for layer, first in enumerate(posteriors[0].m):
        means = np.stack([np.asarray(one.m[layer], np.float64) for one in posteriors])
        precs = np.stack([np.exp(-np.asarray(one.log_v[layer], np.float64)) for one in posteriors])
        prec = np.tensordot(powers, precs, 1)
        is_proper = prec > 0.0
        safe = np.where(is_proper, prec, precs[0])
        mean = np.where(is_proper, np.tensordot(powers, precs * means, 1) / safe, means[0])
        m.append(jnp.asarray(mean, first.dtype))
        log_v.append(jnp.asarray(-np.log(safe), first.dtype))
        n_undone += int(np.sum(~is_proper))
    return vi.Posterior(tuple(m), tuple(log_v)), n_undone


@partial(jax.jit, static_argnames=("model", "by_mean"))
def _moments(model: vi.Model, q: vi.Posterior, x: Any, *, by_mean: bool) -> Gaussian:
    if not by_mean:
        return vi.propagate(model, q, x)
    f = jax.vmap(partial(plain_apply, q.m, activation_name=model.activation))(x)
    return Gaussian(f, jnp.zeros_like(f))


@jax.jit
def _class_moments(m: Any, v: Any) -> tuple[Any, Any]:
    """Probabilities and expected entropies, some rows at a time to bound the memory."""

    def one(moments: tuple[Any, Any]) -> tuple[Any, Any]:
        found = softmax_expectations.moments(*moments)
        proba = jnp.maximum(found.proba, 0.0)
        return proba, softmax_expectations.expected_entropy(*moments, found)

    return jax.lax.map(one, (m, v), batch_size=1024)

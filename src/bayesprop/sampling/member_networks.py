"""Networks that are trained together from different starts, as a method: one, or an ensemble.

With early stopping rows are held out, and the best epoch is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesprop.model import draws
from bayesprop.model.gradient_method import Apply, Draw, GradientMethod
from bayesprop.model.method import Progress, TrainingRows
from bayesprop.model.network_likelihoods import NetworkLikelihood
from bayesprop.model.networks import init_weights, plain_apply
from bayesprop.model.priors import NormalPrior
from bayesprop.model.trained_network import Built, NetworkState, Trained, TrainedNetwork, train
from bayesprop.numerics.filling import blocks, device_rows, slots
from bayesprop.numerics.loops import Rows
from bayesprop.sampling.deep_ensemble import (
    Lessons,
    deep_ensemble,
    in_own_orders,
    one_by_one,
    own_orders,
)
from bayesprop.sampling.dropout import Rates, dropout_forward
from bayesprop.sampling.point_network import point_network

_ORDERS_FOLD, _HELD_OUT_SEED = 2**31 - 2, 1
_NO_DROPOUT = Rates()


class Members(NamedTuple):
    """The ensemble and its network; one member; the ensemble as it is trained."""

    ensemble: Built
    member: GradientMethod
    in_own_orders: GradientMethod


@lru_cache(maxsize=64)
def members(
    likelihood: NetworkLikelihood,
    activation: str,
    optimizer: optax.GradientTransformation,
    *,
    weight_decay: float,
    rates: Rates = _NO_DROPOUT,
    adversarial_step: float = 0.0,
    n_members: int,
) -> Members:
    """Build each configuration once, so that JAX compiles it once."""
    apply = partial(plain_apply, activation_name=activation)
    drops = any(rate > 0.0 for rate in rates)
    member = point_network(
        apply,
        likelihood,
        optimizer,
        prior=NormalPrior(1.0 / weight_decay) if weight_decay > 0.0 else None,
        forward=dropout_forward(rates, activation_name=activation) if drops else None,
        adversarial_step=adversarial_step,
    )
    ensemble = deep_ensemble(member, n_members=n_members)
    lessons = in_own_orders(member, n_members=n_members)
    return Members(Built(ensemble, apply, likelihood), member, lessons)


@dataclass(frozen=True)
class EarlyStopping:
    """Share of the rows that is held out, and epochs without a better one before it stops."""

    validation_fraction: float
    patience: int

    def held_out(self, n_rows: int, seed: int) -> np.ndarray:
        """Say which rows are held out; all but one at most."""
        is_held_out = np.zeros(n_rows, dtype=bool)
        count = min(max(1, round(self.validation_fraction * n_rows)), n_rows - 1)
        rng = np.random.default_rng((seed, _HELD_OUT_SEED))
        is_held_out[rng.permutation(n_rows)[:count]] = True
        return is_held_out


@dataclass(frozen=True)
class MemberNetworks(TrainedNetwork):
    """`n_draws` members, whose equal mixture predicts.

    members
        For one configuration, always the very same: its identity keys compilation.
    stopping
        None: all epochs, on all rows.
    """

    members: Members
    stopping: EarlyStopping | None = None

    def started(self, seed: Any) -> Any:
        """Draw the starts of all members."""
        key_weights, key_state = jax.random.split(jax.random.key(seed))
        keys = jax.random.split(key_weights, self.n_draws)
        weights = jax.vmap(partial(init_weights, sizes=self.sizes))(keys)
        return self.built.gradient.init(key_state, weights)

    def train(
        self, rows: TrainingRows, start: NetworkState, first_epoch: int, progress: Progress
    ) -> Trained:
        """Train every member in its own order of the rows."""
        held_out, validate, patience = np.zeros(len(rows.x), dtype=bool), None, None
        if self.stopping is not None:
            held_out = self.stopping.held_out(len(rows.x), start.seed)
            validate = partial(_loss, self.built, _chosen(rows, held_out, blocks))
            patience = self.stopping.patience
        data = _chosen(rows, ~held_out, slots)
        orders_key = jax.random.fold_in(jax.random.key(start.seed), _ORDERS_FOLD)
        n_rows = int(np.sum(~held_out))
        trained = train(
            self.members.in_own_orders,
            Lessons(start.network, data, jnp.sum(data.weight)),
            own_orders(orders_key, data, n_rows, n_members=self.n_draws),
            n_rows=n_rows,
            seed=start.seed,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            first_epoch=first_epoch,
            validate=validate,
            patience=patience,
            progress=progress,
        )
        return trained._replace(state=trained.state.members)

    def predicted(self, state: NetworkState, x: Any, key: Any) -> draws.Observed:
        """Predict the targets by every member once."""
        likelihood: Any = self.built.likelihood
        predict = partial(
            draws.observations, self.built.apply, self.members.member.sample, likelihood, key
        )
        observed = [predict(member, x, n_draws=1) for member in one_by_one(state.network)]
        parts: Any = map(np.concatenate, zip(*observed, strict=True))
        return draws.Observed(*parts)

    def class_moments(self, state: NetworkState, x: Any, key: Any) -> draws.ClassMoments:
        """Average the probabilities and entropies of the members."""
        predict = partial(draws.class_moments, self.built.apply, self.members.member.sample, key)
        moments = [predict(member, x, n_draws=1) for member in one_by_one(state.network)]
        columns = zip(*moments, strict=True)
        return draws.ClassMoments(*(np.mean(column, axis=0) for column in columns))


def _chosen(rows: TrainingRows, chosen: np.ndarray, room: Callable[[int], int]) -> Rows:
    weight = None if rows.weight is None else rows.weight[chosen]
    return device_rows(rows.x[chosen], rows.y[chosen], weight, room(int(np.sum(chosen))))


def _loss(built: Built, rows: Rows, state: Lessons) -> float:
    """Minus the mean log-likelihood of rows, nats a row, averaged over members."""
    networks = built.gradient.mean(state.members)
    return float(_member_losses(built.apply, built.likelihood, networks, rows))


@partial(jax.jit, static_argnames=("apply", "likelihood"))
def _member_losses(apply: Apply, likelihood: NetworkLikelihood, members: Draw, rows: Rows) -> Any:
    def one(weights: Any, noise: Any) -> Any:
        f = jax.vmap(partial(apply, weights))(rows.x)
        return jnp.sum(rows.weight * jax.vmap(partial(likelihood.log_prob, noise))(f, rows.y))

    return -jnp.mean(jax.vmap(one)(*members)) / jnp.maximum(jnp.sum(rows.weight), 1e-30)

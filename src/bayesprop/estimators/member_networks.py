"""What point networks and deep ensembles share: members trained together, and early stopping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesprop.estimators.checks import check_int, check_not_negative
from bayesprop.estimators.inputs import padded
from bayesprop.estimators.network import Built, device_rows
from bayesprop.estimators.optimizers import check_share
from bayesprop.estimators.trained_network import (
    SteppedFitting,
    TrainedClassifier,
    TrainedRegressor,
)
from bayesprop.model import draws
from bayesprop.model.gradient_method import Apply, Draw, GradientMethod
from bayesprop.model.method import Progress
from bayesprop.model.mixture_predictive import MixturePredictive
from bayesprop.model.network_likelihoods import NetworkLikelihood
from bayesprop.model.networks import init_weights, plain_apply
from bayesprop.model.priors import NormalPrior
from bayesprop.model.training import Trained, train
from bayesprop.numerics.filling import blocks, slots
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


class BuiltMembers(NamedTuple):
    """The ensemble and its network; one member; the ensemble as it is trained."""

    ensemble: Built
    member: GradientMethod
    in_own_orders: GradientMethod


@lru_cache(maxsize=64)
def build_members(
    likelihood: NetworkLikelihood,
    activation: str,
    optimizer: optax.GradientTransformation,
    *,
    weight_decay: float,
    rates: Rates,
    adversarial_step: float,
    n_members: int,
) -> BuiltMembers:
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
    return BuiltMembers(Built(ensemble, apply, likelihood), member, lessons)


@dataclass(eq=False, repr=False, kw_only=True)
class MemberFitting(SteppedFitting):
    """Members that train together; mixed into a regressor or classifier."""

    weight_decay: float = 10.0
    n_members: int = 1
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20
    n_draws = 1

    def _rates(self) -> Rates:
        return Rates()

    def _adversarial_step(self) -> float:
        return 0.0

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        for name in ("n_members", "patience"):
            check_int(name, getattr(self, name))
        check_not_negative("weight_decay", self.weight_decay)
        check_share("validation_fraction", self.validation_fraction)
        if self.early_stopping and self.validation_fraction == 0.0:
            raise ValueError("validation_fraction must be > 0 for early_stopping, got 0")
        if self.early_stopping and self.warm_start:
            raise ValueError(
                "warm_start must be False with early_stopping=True, because training has ended "
                "where it was best; got True"
            )

    def _built_members(self) -> BuiltMembers:
        return build_members(
            self._likelihood(),
            self.activation,
            self._steps(),
            weight_decay=float(self.weight_decay),
            rates=self._rates(),
            adversarial_step=self._adversarial_step(),
            n_members=int(self.n_members),
        )

    def _build(self) -> Built:
        return self._built_members().ensemble

    def _n_draws(self) -> int:
        return self.n_members

    def _initial_state(self, built: Built) -> Any:
        key_weights, key_state = jax.random.split(jax.random.key(self.seed_))
        keys = jax.random.split(key_weights, self.n_members)
        start = partial(init_weights, sizes=self._sizes(built.likelihood))
        return built.method.init(key_state, jax.vmap(start)(keys))

    def _train(
        self, built: Built, state: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None
    ) -> Trained:
        held_out, validate = self._held_out(len(x)), None
        if held_out.any():
            validate = partial(_loss, built, _rows(x, y, weight, held_out, blocks))
        data = _rows(x, y, weight, ~held_out, slots)
        orders_key = jax.random.fold_in(jax.random.key(self.seed_), _ORDERS_FOLD)
        n_rows = int(np.sum(~held_out))
        trained = train(
            self._built_members().in_own_orders,
            Lessons(state, data, jnp.sum(data.weight)),
            own_orders(orders_key, data, n_rows, n_members=self.n_members),
            n_rows=n_rows,
            seed=self.seed_,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            first_epoch=self.n_iter_,
            validate=validate,
            patience=self.patience,
            progress=Progress(self.verbose),
        )
        return trained._replace(state=trained.state.members)

    def _held_out(self, n_rows: int) -> np.ndarray:
        """Say which rows early stopping holds out; all but one at most."""
        is_held_out = np.zeros(n_rows, dtype=bool)
        if self.early_stopping:
            count = min(max(1, round(self.validation_fraction * n_rows)), n_rows - 1)
            rng = np.random.default_rng((self.seed_, _HELD_OUT_SEED))
            is_held_out[rng.permutation(n_rows)[:count]] = True
        return is_held_out


class MemberRegressor(TrainedRegressor, MemberFitting):
    """Base of the regressors that predict the equal mixture of their members."""

    def _predictive_standardised(self, x: np.ndarray) -> MixturePredictive:
        built, likelihood = self._built_members(), self._likelihood()
        rows = jnp.asarray(padded(x), jnp.float32)
        found = [
            draws.observations(
                built.ensemble.apply,
                built.member.sample,
                likelihood,
                self._draws_key(),
                state,
                rows,
                n_draws=1,
            )
            for state in one_by_one(self.state_)
        ]
        m, v = (np.concatenate(column, dtype=np.float64) for column in zip(*found, strict=True))
        return MixturePredictive.of(m[:, : len(x)], v[:, : len(x)])


class MemberClassifier(TrainedClassifier, MemberFitting):
    """Base of the classifiers that predict the average of their members."""

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        built, rows = self._built_members(), jnp.asarray(padded(x), jnp.float32)
        found = [
            draws.class_moments(
                built.ensemble.apply,
                built.member.sample,
                self._draws_key(),
                state,
                rows,
                n_draws=1,
            )
            for state in one_by_one(self.state_)
        ]
        proba, entropy = (np.mean(column, axis=0) for column in zip(*found, strict=True))
        return proba[: len(x)], entropy[: len(x)]


def _rows(
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    chosen: np.ndarray,
    room: Callable[[int], int],
) -> Rows:
    weight = None if weight is None else weight[chosen]
    return device_rows(x[chosen], y[chosen], weight, room(int(np.sum(chosen))))


def _loss(built: Built, rows: Rows, state: Lessons) -> float:
    """Minus the mean log-likelihood of rows, nats a row, averaged over members."""
    members = built.method.mean(state.members)
    return float(_member_losses(built.apply, built.likelihood, members, rows))


@partial(jax.jit, static_argnames=("apply", "likelihood"))
def _member_losses(apply: Apply, likelihood: NetworkLikelihood, members: Draw, rows: Rows) -> Any:
    def one(weights: Any, noise: Any) -> Any:
        f = jax.vmap(partial(apply, weights))(rows.x)
        return jnp.sum(rows.weight * jax.vmap(partial(likelihood.log_prob, noise))(f, rows.y))

    return -jnp.mean(jax.vmap(one)(*members)) / jnp.maximum(jnp.sum(rows.weight), 1e-30)

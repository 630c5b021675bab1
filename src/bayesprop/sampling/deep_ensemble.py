"""Deep ensembles (Lakshminarayanan et al. 2017): the same network trained from several starts.

Members are one pytree with a leading member axis. They train together, each on all rows in an order
of its own; the prediction is the equal mixture of what the members predict. With early stopping
rows are held out, and the best epoch is kept. An ensemble of one is a plain network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from bayesprop.model.progress import Progress
from bayesprop.networks import draws
from bayesprop.networks.gradient_method import Apply, GradientMethod, Info, Parameters
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.mlp import init_weights
from bayesprop.networks.priors import NormalPrior
from bayesprop.networks.training import NetworkState, Trained, TrainedNetwork, train
from bayesprop.numerics.filling import blocks, device_rows, slots
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.loops import Batch, dealt_out, is_meshed, permutation
from bayesprop.numerics.machine import random_key
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.mc_dropout import Rates, dropout_forward
from bayesprop.sampling.point_network import point_network

_LARGE_NETWORK = 100_000
_ORDERS_FOLD, _HELD_OUT_SEED = 2**31 - 2, 1
_NO_DROPOUT = Rates()


class Lessons(NamedTuple):
    """The members while they train, and the rows that they learn from.

    n_total
        Sum of the weights of the rows.
    """

    members: PyTree
    data: Rows
    n_total: Float[Array, ""]


def deep_ensemble(member: GradientMethod, *, n_members: int) -> GradientMethod:
    """Build the ensemble of a method; `sample` is one member at random.

    `init` takes the members' weights, stacked. The state is that of the members, stacked, who all
    learn the same batch; or `Lessons`, and a batch holds numbers of its rows, x (b, m): column k
    names those of member k, as `own_orders` makes them.
    """

    def init(key: PRNGKeyArray, weights: PyTree) -> PyTree:
        return jax.vmap(member.init)(jax.random.split(key, n_members), weights)

    def update(key: PRNGKeyArray, state: PyTree, batch: Batch) -> tuple[PyTree, Info]:
        keys = jax.random.split(key, n_members)
        if not isinstance(state, Lessons):
            return _of_each(lambda key, own: member.update(key, own, batch), keys, state)

        def one(key: Array, member_state: PyTree, rows: Int[Array, " b"]) -> tuple[PyTree, Info]:
            x, y, weight, _ = jax.tree.map(lambda column: column[rows], state.data)
            own = batch._replace(x=x, y=y, weight=batch.weight * weight, n_total=state.n_total)
            return member.update(key, member_state, own)

        members, info = _of_each(one, keys, state.members, batch.x.T)
        return state._replace(members=members), info

    def sample(key: PRNGKeyArray, state: PyTree) -> Parameters:
        key_member, key_draw = jax.random.split(key)
        k = jax.random.randint(key_member, (), 0, n_members)
        return member.sample(key_draw, jax.tree.map(lambda leaf: leaf[k], _members(state)))

    def mean(state: PyTree) -> Parameters:
        return jax.vmap(member.mean)(_members(state))

    return GradientMethod(member.apply, member.likelihood, init, update, sample, mean)


def _members(state: PyTree) -> PyTree:
    return state.members if isinstance(state, Lessons) else state


def _of_each(
    one: Callable[..., tuple[PyTree, Info]], keys: Array, members: PyTree, *rows: Array
) -> tuple[PyTree, Info]:
    """Map over members, small networks side by side, large ones one after another; average info.

    A matrix product for several members at once is slower on a CPU than as many products where each
    of them fills it. Over a mesh every device has members of its own; an only one its batches.
    """
    n_members, parts = keys.shape[0], (keys, members, *rows)
    size = sum(leaf.size for leaf in jax.tree.leaves(members)) // n_members
    if is_meshed() and n_members > 1:
        members, infos = jax.vmap(one)(*dealt_out(parts))
    elif size < _LARGE_NETWORK:
        members, infos = jax.vmap(one)(*parts)
    else:
        members, infos = jax.lax.map(lambda of_member: one(*of_member), parts)
    return members, Info(*(jnp.mean(values, axis=0) for values in infos))


@partial(jax.jit, static_argnames="n_members")
def own_orders(
    key: PRNGKeyArray, data: Rows, n_rows: int | Int[Array, ""], *, n_members: int
) -> Rows:
    """Numbers of the rows, in an order of its own for every member; to be shuffled as rows are.

    n_rows
        As in `loops.epoch`.
    """
    n_slots = data.weights.shape[0]
    orders = jax.vmap(lambda key: permutation(key, n_rows, n_slots))
    columns = orders(jax.random.split(key, n_members)).T
    return Rows(columns, (), jnp.ones(n_slots))


def point_ensemble(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    *,
    n_members: int,
    weight_decay: float,
    rates: Rates = _NO_DROPOUT,
    adversarial_step: float = 0.0,
    activation_name: str = "relu",
) -> GradientMethod:
    """Build the ensemble of point networks, with dropout in training where there are rates.

    weight_decay
        Of the sum of squared weights, halved, beside the sum of log-likelihoods; 0: none.
    adversarial_step
        As `point_network` takes it.
    """
    member = point_network(
        apply,
        likelihood,
        optimizer,
        prior=NormalPrior(1.0 / weight_decay) if weight_decay > 0.0 else None,
        forward=dropout_forward(rates, activation_name=activation_name) if rates.drops else None,
        adversarial_step=adversarial_step,
    )
    return deep_ensemble(member, n_members=n_members)


@dataclass(frozen=True)
class MemberNetworks(TrainedNetwork):
    """`n_draws` members of a `deep_ensemble`, whose equal mixture predicts.

    validation_fraction
        Share of the rows that is held out, all but one at most; None: none.
    patience
        Epochs without a better one on the rows held out before training stops.
    """

    validation_fraction: float | None = None
    patience: int | None = None

    def started(self, seed: int) -> PyTree:
        """Draw the starts of all members."""
        key_weights, key_state = jax.random.split(random_key(seed))
        keys = jax.random.split(key_weights, self.n_draws)
        weights = jax.vmap(partial(init_weights, sizes=self.sizes))(keys)
        return self.gradient.init(key_state, weights)

    def train(
        self, rows: Rows, start: NetworkState, first_epoch: int, progress: Progress
    ) -> Trained:
        """Train every member in its own order of the rows."""
        n, held_out, validate = len(rows.x), np.zeros(len(rows.x), dtype=bool), None
        if self.validation_fraction is not None:
            count = min(max(1, round(self.validation_fraction * n)), n - 1)
            rng = np.random.default_rng((start.seed, _HELD_OUT_SEED))
            held_out[rng.permutation(n)[:count]] = True
            validate = partial(_loss, self.gradient, _chosen(rows, held_out, blocks))
        data = _chosen(rows, ~held_out, slots)
        orders_key = jax.random.fold_in(random_key(start.seed), _ORDERS_FOLD)
        n_rows = int(np.sum(~held_out))
        trained = train(
            self.gradient,
            Lessons(start.network, data, jnp.sum(data.weights)),
            own_orders(orders_key, data, n_rows, n_members=self.n_draws),
            n_rows=n_rows,
            seed=start.seed,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            first_epoch=first_epoch,
            validate=validate,
            patience=self.patience,
            progress=progress,
        )
        return trained._replace(state=trained.state.members)

    def predicted(
        self, state: NetworkState, x: Float[Array, "n d"], key: PRNGKeyArray
    ) -> Gaussian | draws.ClassMoments:
        """Predict by every member once."""
        del key
        method = self.gradient
        return draws.predict_networks(method.apply, method.likelihood, self.drawn(state), x)

    def drawn(self, state: NetworkState) -> Parameters:
        """Return the members."""
        return self.gradient.mean(state.network)


def _chosen(rows: Rows, chosen: np.ndarray, room: Callable[[int], int]) -> Rows:
    return device_rows(rows.at(chosen), room(int(np.sum(chosen))))


def _loss(method: GradientMethod, rows: Rows, state: Lessons) -> float:
    """Minus the mean log-likelihood of rows, nats a row, averaged over members."""
    return float(_member_losses(method.apply, method.likelihood, method.mean(state), rows))


@partial(jax.jit, static_argnames=("apply", "likelihood"))
def _member_losses(
    apply: Apply, likelihood: NetworkLikelihood, members: Parameters, rows: Rows
) -> Float[Array, ""]:
    def one(weights: PyTree, noise: PyTree) -> Float[Array, ""]:
        f = jax.vmap(partial(apply, weights))(rows.x)
        return jnp.sum(rows.weights * jax.vmap(partial(likelihood.log_prob, noise))(f, rows.y))

    return -jnp.mean(jax.vmap(one)(*members)) / jnp.maximum(jnp.sum(rows.weights), 1e-30)

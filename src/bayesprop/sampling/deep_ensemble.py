"""Deep ensembles (Lakshminarayanan et al. 2017): the same network trained from several starts.

Members are one pytree with a leading member axis. They train together, each on all rows in an order
of its own; the prediction is the equal mixture of what the members predict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayesprop.model.gradient_method import Draw, GradientMethod, Info
from bayesprop.numerics.loops import Batch, Rows, permutation

_LARGE_NETWORK = 100_000


class Lessons(NamedTuple):
    """The members, and the rows that they learn from: the state of `in_own_orders`.

    n_total
        Sum of the weights of the rows.
    """

    members: Any
    data: Rows
    n_total: Float[Array, ""]


def deep_ensemble(member: GradientMethod, *, n_members: int) -> GradientMethod:
    """Build the ensemble of a method: every update is that of each member on the same batch.

    `init` takes the members' weights, stacked; `sample` is one member at random.
    """

    def init(key: PRNGKeyArray, weights: Any) -> Any:
        return jax.vmap(member.init)(jax.random.split(key, n_members), weights)

    def update(key: PRNGKeyArray, members: Any, batch: Batch) -> tuple[Any, Info]:
        def one(key: Array, state: Any) -> tuple[Any, Info]:
            return member.update(key, state, batch)

        members, infos = _of_each(one)(jax.random.split(key, n_members), members)
        return members, _mean(infos)

    def sample(key: PRNGKeyArray, members: Any) -> Draw:
        key_member, key_draw = jax.random.split(key)
        k = jax.random.randint(key_member, (), 0, n_members)
        return member.sample(key_draw, jax.tree.map(lambda leaf: leaf[k], members))

    def mean(members: Any) -> Draw:
        return jax.vmap(member.mean)(members)

    return GradientMethod(init, update, sample, mean)


def in_own_orders(member: GradientMethod, *, n_members: int) -> GradientMethod:
    """Train the ensemble, each member in batches of its own.

    The state is `Lessons`, and a batch holds numbers of rows, x (b, m): column k names those of
    member k, as `own_orders` makes them. The data ride along in the state.
    """
    ensemble = deep_ensemble(member, n_members=n_members)

    def update(key: PRNGKeyArray, state: Lessons, batch: Batch) -> tuple[Lessons, Info]:
        def one(key: Array, member_state: Any, rows: Int[Array, " b"]) -> tuple[Any, Info]:
            x, y, weight = jax.tree.map(lambda column: column[rows], state.data)
            own = batch._replace(x=x, y=y, weight=batch.weight * weight, n_total=state.n_total)
            return member.update(key, member_state, own)

        keys = jax.random.split(key, n_members)
        members, infos = _of_each(one)(keys, state.members, batch.x.T)
        return state._replace(members=members), _mean(infos)

    def sample(key: PRNGKeyArray, state: Lessons) -> Draw:
        return ensemble.sample(key, state.members)

    def mean(state: Lessons) -> Draw:
        return ensemble.mean(state.members)

    return GradientMethod(ensemble.init, update, sample, mean)


@partial(jax.jit, static_argnames="n_members")
def own_orders(
    key: PRNGKeyArray, data: Rows, n_rows: int | Int[Array, ""] | None = None, *, n_members: int
) -> Rows:
    """Numbers of the rows, in an order of its own for every member; to be shuffled as rows are.

    n_rows
        As in `loops.epoch`.
    """
    n_slots = data.weight.shape[0]
    n_rows = n_slots if n_rows is None else n_rows
    orders = jax.vmap(lambda key: permutation(key, n_rows, n_slots))
    columns = orders(jax.random.split(key, n_members)).T
    return Rows(columns, (), jnp.ones(n_slots))


def one_by_one(members: Any) -> list[Any]:
    """Split the members' states."""
    count = jax.tree.leaves(members)[0].shape[0]
    return [jax.tree.map(lambda leaf, k=k: leaf[k], members) for k in range(count)]


def _of_each(one: Callable[..., Any]) -> Callable[..., Any]:
    """Map over members: small networks side by side, large ones one after another.

    A matrix product for several members at once is slower on a CPU than as many products where each
    of them fills it.
    """

    def each(keys: Array, members: Any, *others: Any) -> Any:
        n_members = keys.shape[0]
        size = sum(leaf.size for leaf in jax.tree.leaves(members)) // n_members
        if size < _LARGE_NETWORK:
            return jax.vmap(one)(keys, members, *others)
        return jax.lax.map(lambda of_member: one(*of_member), (keys, members, *others))

    return each


def _mean(infos: Info) -> Info:
    return Info(*(jnp.mean(values, axis=0) for values in infos))

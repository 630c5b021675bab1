"""Several devices of JAX at once: batches and members are dealt out over the mesh in force.

`with jax.set_mesh(mesh): model.fit(X, y)` trains on all devices of a mesh: XLA partitions the step
and sums the gradients. Every device holds the table, the weights and the optimiser's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import PyTree

from bayesprop.numerics.machine import check_not_forked


def is_meshed() -> bool:
    """Whether a mesh of devices is in force."""
    return not jax.sharding.get_abstract_mesh().empty


@contextmanager
def partitioned_by_xla() -> Iterator[None]:
    """Leave it to XLA how the mesh in force is used, whatever its axes say; nothing without one.

    An axis of type `Explicit`, as `jax.make_mesh` gives it, asks for a sharding at every operation.
    """
    check_not_forked("JAX")
    mesh = jax.sharding.get_mesh()
    if mesh.empty:
        yield
        return
    with jax.set_mesh(mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_names))):
        yield


def dealt_out(tree: PyTree) -> PyTree:
    """Deal the first axis of every array out over all devices of the mesh in force; in `jit`.

    Devices have shares of one size, filled up where it does not divide.
    """
    if not is_meshed():
        return tree
    rows = PartitionSpec(jax.sharding.get_abstract_mesh().axis_names)
    return jax.lax.with_sharding_constraint(tree, rows)


def gathered(tree: PyTree) -> PyTree:
    """Bring arrays back from the devices where a mesh is in force, to NumPy: free of any mesh."""
    return jax.tree.map(np.asarray, tree) if is_meshed() else tree

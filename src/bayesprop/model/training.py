"""From rows to a trained state: epochs, their trace, early stopping, and the guard against NaN."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.model.gradient_method import GradientMethod, Info
from bayesprop.model.method import SILENT, Progress
from bayesprop.numerics import loops
from bayesprop.numerics.filling import blocks
from bayesprop.numerics.loops import Rows

Loss = Callable[[Any], float]


class Trained(NamedTuple):
    """What training leaves.

    trace
        One value an epoch: loss, mean_log_likelihood (nats a row, standardised units), kl (nats);
        validation_loss where there was one.
    n_undone
        Epochs that left the finite numbers, and were undone; training stops at the first.
    best_epoch
        The epoch whose state this is, from 1, where early stopping chose it.
    gradient_norm
        Largest derivative of the loss at the end, where an optimiser on all rows took it.
    """

    state: Any
    trace: dict[str, list[float]]
    n_undone: int
    best_epoch: int | None
    gradient_norm: float | None = None


def train(
    method: GradientMethod,
    state: Any,
    data: Rows,
    *,
    n_rows: int,
    seed: int,
    batch_size: int,
    n_epochs: int,
    first_epoch: int = 0,
    validate: Loss | None = None,
    patience: int | None = None,
    progress: Progress = SILENT,
) -> Trained:
    """Run epochs first_epoch, first_epoch + 1, ...; epoch e has its own key whatever came before.

    n_rows
        How many rows there are, the first ones; what follows in `data` only fills it up.
    batch_size
        Rows of a step; all of them if there are fewer.
    validate
        Loss of a state on rows held out; lower is better. The best state is returned, and
        training stops after `patience` epochs without a better one (None: never).
    """
    root = jax.random.key(seed)
    batch_size = min(batch_size, blocks(n_rows))
    trace: dict[str, list[float]] = {"loss": [], "mean_log_likelihood": [], "kl": []}
    if validate is not None:
        trace["validation_loss"] = []
    best, best_epoch, lowest = state, None, np.inf
    for epoch in range(first_epoch, first_epoch + n_epochs):
        before = state
        key = jax.random.fold_in(root, epoch)
        state, told = _epoch(method, state, key, data, n_rows, batch_size)
        *values, is_sound = np.asarray(told).tolist()
        if not is_sound:
            return Trained(before if validate is None else best, trace, 1, best_epoch)
        for name, value in zip(Info._fields, values, strict=True):
            trace[name].append(value)
        if validate is not None:
            held_out = validate(state)
            trace["validation_loss"].append(held_out)
            if held_out < lowest:
                best, best_epoch, lowest = state, epoch + 1, held_out
            elif patience is not None and epoch + 1 - (best_epoch or 0) >= patience:
                break
        latest = "  ".join(f"{name} {series[-1]:.5g}" for name, series in trace.items())
        progress.line(f"epoch {epoch + 1}  {latest}")
    return Trained(state if validate is None else best, trace, 0, best_epoch)


@partial(jax.jit, static_argnames=("method", "batch_size"))
def _epoch(
    method: GradientMethod,
    state: Any,
    key: PRNGKeyArray,
    data: Rows,
    n_rows: int,
    batch_size: int,
) -> tuple[Any, Float[Array, " 4"]]:
    """Train an epoch; tell its info, and 1 if loss and mean are finite: one small array a call."""
    state, info = loops.epoch(method.update, state, key, data, n_rows, batch_size=batch_size)
    sound = jnp.isfinite(info.loss)
    for leaf in jax.tree.leaves(method.mean(state)):
        sound &= jnp.isfinite(leaf).all()
    return state, jnp.stack([*info, sound.astype(info.loss.dtype)])


def is_finite(tree: Any) -> bool:
    """Whether every number of a pytree is finite."""
    return all(bool(np.isfinite(np.asarray(leaf)).all()) for leaf in jax.tree.leaves(tree))

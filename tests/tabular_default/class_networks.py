"""Networks for classes whose weights have doubt: their outputs, and steps of size zero."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import ensemble_objective as objective
import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.tabular_default import training as engine
from bayesprop.tabular_default.kernel_classes import advance_classes
from bayesprop.tabular_default.kernel_layout import layout
from bayesprop.tabular_default.method import settings_for_classes
from bayesprop.tabular_default.networks import Member, flat
from bayesprop.tabular_default.training import Table

OF_CLASSES = replace(
    settings_for_classes(100, 2), n_steps=400, hidden_layer_sizes=(8,), n_members=3, batch_size=32
)


def widened(member: Member) -> Member:
    """Give the outputs of a new network for classes variances of about one."""
    wider = [layer._replace(w_log_std=layer.w_log_std + 4.0) for layer in member.mean]
    return member._replace(mean=tuple(wider))


def mean_outputs(member: Member, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the mean network's outputs, in double precision."""
    with jax.enable_x64():
        moments = objective.propagate(member.mean, jnp.asarray(x, jnp.float64), member.log_widths)
        return tuple(np.asarray(part) for part in moments)


class Slopes(NamedTuple):
    """Mean gradient of the compiled loop, its standard error, and both losses of every step."""

    mean: np.ndarray
    std_error: np.ndarray
    losses: np.ndarray


def slopes_for_classes(member: Member, rows: Table, rng: np.random.Generator) -> Slopes:
    """Take 400 independent steps of size zero."""
    n, n_classes = rows.y.shape
    settings = replace(OF_CLASSES, batch_size=n, step_size=0.0, n_steps=1000)
    plan = layout(member, settings.priors)
    normals = rng.standard_normal(2**16)
    work = plan.work(flat(member), np.zeros(n_classes, np.float32), normals)
    rules, order = engine.rules_of(settings, 0, rows.n_total), np.arange(n, dtype=np.int32)
    gradients, losses = [], np.empty((400, 2), np.float32)
    for step in range(400):
        work.slope[:] = 0.0
        advance_classes(work, rules, *rows[:3], order, n, 900 + step, losses[step : step + 1])
        gradients.append(10.0 * work.slope[plan.leaves])
    return Slopes(np.mean(gradients, axis=0), np.std(gradients, axis=0) / 20.0, losses)

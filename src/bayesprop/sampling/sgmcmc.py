"""Langevin and Hamiltonian dynamics on mini-batches: SGLD and SGHMC, over BlackJAX's kernels.

Welling & Teh (2011); Chen, Fox & Guestrin (2014). Nothing is rejected, so that the draws have the
posterior's distribution only as the step size goes to zero; the noise of the gradient widens it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.numerics.loops import Batch, Rows
from bayesprop.sampling.mcmc import Chains

Dynamics = Literal["sgld", "sghmc"]
DYNAMICS: tuple[Dynamics, ...] = ("sgld", "sghmc")
Estimate = Callable[[Any, Batch], Float[Array, ""]]
"""(position, batch) -> unbiased estimate of the log density; its identity keys the compilation."""


class StochasticPlan(NamedTuple):
    """How a chain is run.

    n_warmup, n_draws, thin
        Steps that are thrown away, draws that are kept, and steps for each of them.
    step_size
        Of SGLD the epsilon of w + epsilon g + sqrt(2 epsilon) noise, times the number of rows; of
        SGHMC that of its inner steps, w + epsilon p and p + epsilon g, times the root of that
        number: so that a value suits data of any length.
    decay
        The step size falls as (1 + t / n_warmup)^-decay, t the step; 0: constant (Welling & Teh
        2011 use .55 and more).
    n_inner, friction
        Of SGHMC: steps for one draw of the momentum, and alpha divided by the root of the number
        of rows. Its integrator is Euler's: with less friction than step_size times the curvature
        of a row's log density it leaves the numbers.
    """

    dynamics: Dynamics = "sgld"
    n_warmup: int = 2000
    n_draws: int = 500
    thin: int = 10
    batch_size: int = 32
    step_size: float = 1e-2
    decay: float = 0.0
    n_inner: int = 10
    friction: float = 1.0


class _Chain(NamedTuple):
    draws: Any
    log_density: Array


def sample_stochastic(
    estimate: Estimate,
    starts: Sequence[Any],
    key: PRNGKeyArray,
    data: Rows,
    plan: StochasticPlan,
    *,
    n_threads: int | None = None,
) -> Chains:
    """Run one chain from every start; batches are drawn from the rows with replacement.

    `Chains.log_density` holds estimates, each from one batch; `acceptance` is one.
    """
    is_wide = jax.config.read("jax_enable_x64")
    run = partial(_run_chain, estimate, plan)

    def one(number: int) -> _Chain:
        with jax.enable_x64(is_wide):
            found = run(starts[number], jax.random.fold_in(key, number), data)
            return jax.tree.map(np.asarray, jax.block_until_ready(found))

    workers = n_threads or min(len(starts), os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as threads:
        found = list(threads.map(one, range(len(starts))))
    draws, log_density = jax.tree.map(lambda *parts: np.stack(parts), *found)
    ones = np.ones(len(starts), log_density.dtype)
    return Chains(
        draws,
        log_density,
        np.zeros(log_density.shape, bool),
        ones,
        ones * log_density.dtype.type(plan.step_size),
    )


@partial(jax.jit, static_argnums=(0, 1))
def _run_chain(
    estimate: Estimate, plan: StochasticPlan, start: Any, key: Array, data: Rows
) -> _Chain:
    import blackjax

    n_rows = data.weight.shape[0]
    n_total = jnp.sum(data.weight)
    size = min(plan.batch_size, n_rows)
    gradient = jax.grad(estimate)
    if plan.dynamics == "sgld":
        kernel: Any = blackjax.sgld(gradient)
        power = 1.0
    else:
        power = 0.5
        kernel = blackjax.sghmc(gradient, plan.n_inner, plan.friction * n_total**power)

    def batch_of(key: Array) -> Batch:
        rows = jax.random.randint(key, (size,), 0, n_rows)
        y = jax.tree.map(lambda y: y[rows], data.y)
        n_batches: Any = n_rows / size
        return Batch(data.x[rows], y, data.weight[rows], jnp.zeros((), int), n_batches, n_total)

    def step(position: Any, at: tuple[Array, Array]) -> tuple[Any, None]:
        t, key = at
        key_rows, key_noise = jax.random.split(key)
        shrunk = (1.0 + t / max(plan.n_warmup, 1)) ** -plan.decay
        batch, epsilon = batch_of(key_rows), shrunk * plan.step_size / n_total**power
        return kernel.step(key_noise, position, batch, epsilon), None

    def steps(position: Any, first: Array | int, n: int, key: Array) -> Any:
        at = (first + jnp.arange(n), jax.random.split(key, n))
        return jax.lax.scan(step, position, at)[0]

    def draw(position: Any, at: tuple[Array, Array]) -> tuple[Any, tuple[Any, Array]]:
        number, key = at
        key_steps, key_rows = jax.random.split(key)
        first = plan.n_warmup + number * plan.thin
        position = steps(position, first, plan.thin, key_steps)
        return position, (position, estimate(position, batch_of(key_rows)))

    key_warm, key_draw = jax.random.split(key)
    position = steps(start, 0, plan.n_warmup, key_warm)
    at = (jnp.arange(plan.n_draws), jax.random.split(key_draw, plan.n_draws))
    return _Chain(*jax.lax.scan(draw, position, at)[1])

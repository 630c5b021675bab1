"""Markov chain Monte Carlo over any log density of a pytree: NUTS, HMC, random-walk Metropolis.

A thin adapter over BlackJAX. Chains run side by side in threads, one compiled program each: under
vmap every NUTS chain would wait for the deepest tree of all. Warm-up is Stan's (step size by dual
averaging, diagonal mass matrix in growing windows; Hoffman & Gelman 2014) for NUTS and HMC, and for
the random walk a Robbins-Monro search of the scale at which a quarter of the proposals is accepted
(Roberts, Gelman & Gilks 1997).
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
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayesprop.numerics.threefry import unrolled

Sampler = Literal["nuts", "hmc", "random-walk"]
SAMPLERS: tuple[Sampler, ...] = ("nuts", "hmc", "random-walk")
LogDensity = Callable[..., Float[Array, ""]]
"""(position, *data) -> log density up to a constant; its identity keys the compilation."""

_WALK_ACCEPTANCE = 0.234


class Chains(NamedTuple):
    """What the chains drew after warm-up; c chains of s draws.

    draws
        The positions' pytree with two leading axes, (c, s, ...).
    log_density
        At every draw, (c, s).
    diverged
        Whether a trajectory left the finite numbers or lost its energy, (c, s); never for the
        random walk.
    acceptance
        Mean acceptance rate of every chain, (c,).
    step_size
        Of every chain after warm-up; of the random walk the scale, (c,).
    """

    draws: Any
    log_density: Float[np.ndarray, "c s"]
    diverged: Bool[np.ndarray, "c s"]
    acceptance: Float[np.ndarray, " c"]
    step_size: Float[np.ndarray, " c"]

    @property
    def n_draws(self) -> int:
        """Draws of all chains together."""
        return self.log_density.size

    def pooled(self) -> Any:
        """Draws of all chains in one leading axis, (c * s, ...)."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.draws)


class Plan(NamedTuple):
    """How a chain is run.

    n_warmup, n_draws, thin
        Steps of adaptation, draws that are kept, and steps for each of them.
    target_acceptance
        Of NUTS and HMC; nearer to 1: smaller steps, fewer divergences.
    n_leapfrog
        Steps of an HMC trajectory.
    """

    sampler: Sampler = "nuts"
    n_warmup: int = 500
    n_draws: int = 500
    thin: int = 1
    target_acceptance: float = 0.8
    n_leapfrog: int = 20


class _Chain(NamedTuple):
    draws: Any
    log_density: Array
    diverged: Array
    acceptance: Array
    step_size: Array


def sample_chains(
    log_density: LogDensity,
    starts: Sequence[Any],
    key: PRNGKeyArray,
    plan: Plan,
    *,
    data: tuple[Any, ...] = (),
    n_threads: int | None = None,
) -> Chains:
    """Run one chain from every start; what they draw does not depend on the number of threads.

    log_density
        Called as log_density(position, *data). A finite value at every start is required.
    starts
        Positions, pytrees of one structure of floating-point arrays.
    data
        Arrays that the density depends on: passed along, not compiled in.
    n_threads
        Chains at a time; None: as many as there are cores. They are dealt out over the devices
        of JAX in turn.

    Raises ValueError where the density of a start is not finite, naming the chain.
    """
    positions = [jax.tree.map(jnp.asarray, start) for start in starts]
    for number, position in enumerate(positions):
        value = float(_value(log_density, position, data))
        if not np.isfinite(value):
            raise ValueError(
                f"the log density must be finite at every start, got {value} at that of chain "
                f"{number}: start elsewhere, or check the data for extreme values"
            )
    devices, is_wide = jax.devices(), jax.config.read("jax_enable_x64")
    run = partial(_run_chain, log_density, plan)

    def one(number: int) -> _Chain:
        # The precision that the caller has set is a property of the thread.
        with jax.enable_x64(is_wide):
            here = devices[number % len(devices)]
            chain_key = unrolled(jax.random.fold_in(key, number))
            found = run(*jax.device_put((positions[number], chain_key, data), here))
            return jax.tree.map(np.asarray, jax.block_until_ready(found))

    workers = n_threads or min(len(starts), os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as threads:
        found = list(threads.map(one, range(len(positions))))
    return Chains(*jax.tree.map(lambda *parts: np.stack(parts), *found))


@partial(jax.jit, static_argnums=0)
def _value(log_density: LogDensity, position: Any, data: tuple[Any, ...]) -> Array:
    return log_density(position, *data)


@partial(jax.jit, static_argnums=(0, 1))
def _run_chain(
    log_density: LogDensity, plan: Plan, start: Any, key: Array, data: tuple[Any, ...]
) -> _Chain:
    # One vector, not a tree: the sampler's own arithmetic is then one operation, not one a leaf.
    flat, unravel = ravel_pytree(start)

    def density(flat: Array) -> Array:
        return log_density(unravel(flat), *data)

    key_warm, key_draw = jax.random.split(key)
    if plan.sampler == "random-walk":
        state, scale = _warm_walk(density, flat, key_warm, plan.n_warmup)
        step, step_size = _walk_step(density, scale), scale.size
    else:
        state, step, step_size = _warm_hamiltonian(density, flat, key_warm, plan)

    def draw(state: Any, key: Array) -> tuple[Any, tuple[Any, ...]]:
        state, infos = jax.lax.scan(
            lambda state, key: step(key, state), state, jax.random.split(key, plan.thin)
        )
        diverged = getattr(infos, "is_divergent", jnp.zeros(plan.thin, bool))
        kept = (state.position, state.logdensity, diverged.any(), infos.acceptance_rate.mean())
        return state, kept

    _, kept = jax.lax.scan(draw, state, jax.random.split(key_draw, plan.n_draws))
    draws, log_p, diverged, acceptance = kept
    return _Chain(
        jax.vmap(unravel)(draws), log_p, diverged, acceptance.mean(), jnp.asarray(step_size)
    )


def _warm_hamiltonian(
    density: Callable[[Array], Array], start: Array, key: Array, plan: Plan
) -> tuple[Any, Callable[[Array, Any], tuple[Any, Any]], Array]:
    """Adapt step size and mass matrix; return the state, the kernel's step and the step size."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    own: dict[str, Any] = (
        {} if plan.sampler == "nuts" else {"num_integration_steps": plan.n_leapfrog}
    )
    algorithm: Any = blackjax.nuts if plan.sampler == "nuts" else blackjax.hmc
    warm_up = blackjax.window_adaptation(
        algorithm,
        density,
        target_acceptance_rate=plan.target_acceptance,
        adaptation_info_fn=get_filter_adapt_info_fn(),
        **own,
    )
    adapted, _ = warm_up.run(key, start, plan.n_warmup)  # pyright: ignore[reportCallIssue]
    return (
        adapted.state,
        algorithm(density, **adapted.parameters).step,
        adapted.parameters["step_size"],
    )


class _Scale(NamedTuple):
    """Standard deviations of the proposals: one size for all times one spread a coordinate."""

    size: Array
    spread: Array


def _walk_step(
    density: Callable[[Array], Array], scale: _Scale
) -> Callable[[Array, Any], tuple[Any, Any]]:
    from blackjax.mcmc.random_walk import normal_random_walk

    return normal_random_walk(density, scale.size * scale.spread).step


def _spread(mean: Array, square: Array) -> Array:
    """Take standard deviations from the moments of the walk so far; 1 where it has not moved."""
    variance = square - mean**2
    return jnp.sqrt(jnp.where(variance > 1e-12, variance, 1.0))


def _warm_walk(
    density: Callable[[Array], Array], start: Array, key: Array, n_warmup: int
) -> tuple[Any, _Scale]:
    """Search the proposal's size, and take each coordinate's spread from the walk so far."""
    from blackjax.mcmc.random_walk import init

    first = init(start, density)
    size = 2.38 / start.size**0.5

    def adapt(carry: tuple, at: tuple) -> tuple[tuple, None]:
        state, log_size, mean, square = carry
        t, key = at
        spread = jnp.where(t < n_warmup // 4, 1.0, _spread(mean, square))
        scale = _Scale(jnp.exp(log_size), spread)
        state, info = _walk_step(density, scale)(key, state)
        found = state.position
        gain = 1.0 / (t + 1.0)
        log_size = log_size + (info.acceptance_rate - _WALK_ACCEPTANCE) * (t + 1.0) ** -0.6
        # The size meant another thing before the spreads were used.
        log_size = jnp.where(t == n_warmup // 4, jnp.log(size), log_size)
        moved = mean + gain * (found - mean), square + gain * (found**2 - square)
        return (state, log_size, *moved), None

    times = (jnp.arange(n_warmup), jax.random.split(key, n_warmup))
    start_carry = (first, jnp.log(size).astype(start.dtype), start, start**2)
    (state, log_size, mean, square), _ = jax.lax.scan(adapt, start_carry, times)
    return state, _Scale(jnp.exp(log_size), _spread(mean, square))

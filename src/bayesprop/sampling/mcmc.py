"""Markov chains over any log density of a pytree: NUTS, HMC and random walk.

A thin adapter over BlackJAX. Chains run side by side in threads, one compiled program each: under
vmap every NUTS chain would wait for the deepest tree of all. Warm-up is Stan's (step size by dual
averaging, diagonal mass matrix in growing windows; Hoffman & Gelman 2014) for NUTS and HMC, and for
the random walk a Robbins-Monro search of the scale at which a quarter of the proposals is accepted
(Roberts, Gelman & Gilks 1997).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.model.progress import SILENT, Progress
from bayesprop.sampling.chain_course import Chains, Course, Plan

LogDensity = Callable[..., Float[Array, ""]]
"""(position, *data) -> log density up to a constant; its identity keys the compilation."""

_WALK_ACCEPTANCE = 0.234


def sample_chains(
    log_density: LogDensity,
    starts: Sequence[Any],
    key: PRNGKeyArray,
    plan: Plan,
    *,
    data: tuple[Any, ...] = (),
    progress: Progress = SILENT,
) -> Chains:
    """Run one chain from every start; what they draw does not depend on the number of threads.

    Where the time is over, those that have drawn most stay, each with as many draws as all of them.

    log_density
        Called as log_density(position, *data). A finite value at every start is required.
    starts
        Positions, pytrees of one structure of floating-point arrays.
    data
        Arrays that the density depends on: passed along, not compiled in.

    As many chains run at a time as there are cores, but all of them where time is limited. They are
    dealt out over the devices of JAX in turn.

    Raises ValueError where the density of a start is not finite, naming the chain, and
    NothingLearntError where the time was over before there were draws.
    """
    positions = [jax.tree.map(jnp.asarray, start) for start in starts]
    _check_starts(log_density, positions, data)
    devices, is_wide = jax.devices(), jax.config.read("jax_enable_x64")
    course = Course(progress, plan, len(starts))

    def one(number: int) -> list[Any]:
        # The precision that the caller has set is a property of the thread.
        with jax.enable_x64(is_wide):
            here = devices[number % len(devices)]
            chain_key = jax.random.fold_in(key, number)
            start, chain_key, rows = jax.device_put((positions[number], chain_key, data), here)
            return course.run(
                number,
                partial(_warm_up, log_density, plan, start, data=rows),
                partial(_draw, log_density, plan, start, data=rows),
                chain_key,
            )

    all_at_once = math.isfinite(progress.deadline)
    n_cores = len(starts) if all_at_once else os.cpu_count() or 1
    with ThreadPoolExecutor(min(len(starts), n_cores)) as threads:
        try:
            blocks = list(threads.map(one, range(len(positions))))
        finally:  # without which Ctrl-C would wait for all draws
            course.is_abandoned.set()
    return course.joined(blocks)


def _check_starts(log_density: LogDensity, positions: list[Any], data: tuple[Any, ...]) -> None:
    for number, position in enumerate(positions):
        value = float(jax.jit(log_density)(position, *data))
        if not np.isfinite(value):
            raise ValueError(
                f"the log density must be finite at every start, got {value} at that of chain "
                f"{number}: start elsewhere, or check the data for extreme values"
            )


class _Chain(NamedTuple):
    """How a chain goes on, its position in whatever form is quickest.

    warm_up
        From a key to the state after warm-up.
    draw
        (state, key) -> (state, `Chains` of one draw).
    position
        From a position of these back to the caller's.
    """

    warm_up: Callable[[Array], Any]
    draw: Callable[[Any, Array], tuple[Any, Chains]]
    position: Callable[[Any], Any]


def _chain(log_density: LogDensity, plan: Plan, start: Any, data: tuple[Any, ...]) -> _Chain:
    # The sampler's own arithmetic on one vector is one operation, not one a leaf.
    flat, unravel = ravel_pytree(start)
    is_walk = plan.sampler == "random-walk"

    def density(flat: Array) -> Array:
        return log_density(unravel(flat), *data)

    def warm_up(key: Array) -> tuple[Any, Any]:
        if is_walk:
            return _warm_walk(density, flat, key, plan.n_warmup)
        return _warm_hamiltonian(density, flat, key, plan)

    def draw(warm: tuple[Any, Any], key: Array) -> tuple[Any, Chains]:
        state, by = warm
        if is_walk:
            step, step_size = _walk_step(density, by), by.size
        else:
            step, step_size = _algorithm(plan)(density, **by, **_own(plan)).step, by["step_size"]
        state, infos = jax.lax.scan(
            lambda state, key: step(key, state), state, jax.random.split(key, plan.thin)
        )
        diverged: Any = getattr(infos, "is_divergent", jnp.zeros(plan.thin, bool))
        kept = state.position, state.logdensity, diverged.any(), infos.acceptance_rate.mean()
        return (state, by), Chains(*kept, step_size)

    return _Chain(warm_up, draw, unravel)


@partial(jax.jit, static_argnums=(0, 1))
def _warm_up(
    log_density: LogDensity, plan: Any, start: Any, key: Array, *, data: tuple[Any, ...]
) -> Any:
    return _chain(log_density, plan, start, data).warm_up(key)


@partial(jax.jit, static_argnums=(0, 1))
def _draw(
    log_density: LogDensity, plan: Any, start: Any, warm: Any, keys: Array, *, data: tuple[Any, ...]
) -> tuple[Any, Chains]:
    """Draw once a key: the state after that, and `Chains` of one axis, that of the draws."""
    chain = _chain(log_density, plan, start, data)
    state, drawn = jax.lax.scan(chain.draw, warm, keys)
    return state, drawn._replace(draws=jax.vmap(chain.position)(drawn.draws))


def _algorithm(plan: Plan) -> Any:
    import blackjax

    return getattr(blackjax, plan.sampler)


def _own(plan: Plan) -> dict[str, int]:
    return {} if plan.sampler == "nuts" else {"num_integration_steps": plan.n_leapfrog}


def _warm_hamiltonian(
    density: Callable[[Array], Array], start: Array, key: Array, plan: Plan
) -> tuple[Any, dict[str, Array]]:
    """Adapt step size and mass matrix; return the state, and these by name."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    own: Any = _own(plan)
    warm_up = blackjax.window_adaptation(
        _algorithm(plan),
        density,
        target_acceptance_rate=plan.target_acceptance,
        adaptation_info_fn=get_filter_adapt_info_fn(),
        **own,
    )
    adapted, _ = warm_up.run(key, start, plan.n_warmup)  # pyright: ignore[reportCallIssue]
    names = ("step_size", "inverse_mass_matrix")
    return adapted.state, {name: adapted.parameters[name] for name in names}


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
        place = state.position
        gain = 1.0 / (t + 1.0)
        log_size = log_size + (info.acceptance_rate - _WALK_ACCEPTANCE) * (t + 1.0) ** -0.6
        # The size meant another thing before the spreads were used.
        log_size = jnp.where(t == n_warmup // 4, jnp.log(size), log_size)
        moved = mean + gain * (place - mean), square + gain * (place**2 - square)
        return (state, log_size, *moved), None

    times = (jnp.arange(n_warmup), jax.random.split(key, n_warmup))
    start_carry = (first, jnp.log(size).astype(start.dtype), start, start**2)
    (state, log_size, mean, square), _ = jax.lax.scan(adapt, start_carry, times)
    return state, _Scale(jnp.exp(log_size), _spread(mean, square))

"""Markov chains over any log density of a pytree: NUTS, HMC and random walk.

A thin adapter over BlackJAX. Chains run side by side in threads, one compiled program each: under
vmap every NUTS chain would wait for the deepest tree of all. Warm-up is Stan's (step size by dual
averaging, diagonal mass matrix in growing windows; Hoffman & Gelman 2014) for NUTS and HMC, and for
the random walk a Robbins-Monro search of the scale at which a quarter of the proposals is accepted
(Roberts, Gelman & Gilks 1997). Draws come block by block, for as long as there is time.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from bayesprop.model.progress import SILENT, Progress

Sampler = Literal["nuts", "hmc", "random-walk"]

LogDensity = Callable[..., Float[Array, ""]]
"""(position, *data) -> log density up to a constant; its identity keys the compilation."""

N_BLOCKS = 10
"""Of the draws of a chain: between them it can end."""

_WALK_ACCEPTANCE = 0.234


class Chains(NamedTuple):
    """Draws of the chains after warm-up; c chains of s draws.

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

    draws: PyTree
    log_density: Float[np.ndarray, "c s"]
    diverged: Bool[np.ndarray, "c s"]
    acceptance: Float[np.ndarray, " c"]
    step_size: Float[np.ndarray, " c"]

    @property
    def n_draws(self) -> int:
        """Draws of all chains together."""
        return self.log_density.size

    def pooled(self) -> PyTree:
        """Draws of all chains in one leading axis, (c * s, ...)."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.draws)


class Plan(NamedTuple):
    """Settings of a chain.

    n_warmup, n_draws, thin
        Steps of adaptation, draws that are kept, and steps for each of them.
    target_acceptance
        Of NUTS and HMC; nearer to 1: smaller steps, fewer divergences.
    n_leapfrog
        Most steps of an HMC trajectory; each draws its number from 1 to this, all equally likely,
        for one length resonates with the density's periods (Neal 2011, section 5.3.2).
    """

    sampler: Sampler = "nuts"
    n_warmup: int = 500
    n_draws: int = 500
    thin: int = 1
    target_acceptance: float = 0.8
    n_leapfrog: int = 20


def sample_chains(
    log_density: LogDensity,
    starts: Sequence[PyTree],
    key: PRNGKeyArray,
    plan: Plan,
    *,
    data: tuple[PyTree, ...] = (),
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
    course = _Course(log_density, plan, progress, len(starts))

    def one(number: int) -> list[Chains]:
        # The precision that the caller has set is a property of the thread.
        with jax.enable_x64(is_wide):
            here = devices[number % len(devices)]
            chain_key = jax.random.fold_in(key, number)
            return course.run(number, *jax.device_put((positions[number], chain_key, data), here))

    all_at_once = math.isfinite(progress.deadline)
    n_cores = len(starts) if all_at_once else os.cpu_count() or 1
    with ThreadPoolExecutor(min(len(starts), n_cores)) as threads:
        try:
            blocks = list(threads.map(one, range(len(positions))))
        finally:  # without which Ctrl-C would wait for all draws
            course.is_abandoned.set()
    return _joined(blocks, plan, progress)


def _check_starts(
    log_density: LogDensity, positions: list[PyTree], data: tuple[PyTree, ...]
) -> None:
    for number, position in enumerate(positions):
        value = float(jax.jit(log_density)(position, *data))
        if not np.isfinite(value):
            raise ValueError(
                f"the log density must be finite at every start, got {value} at that of chain "
                f"{number}: start elsewhere, or check the data for extreme values"
            )


@dataclass(frozen=True)
class _Course:
    """The way of chains side by side: warm-up, then blocks of draws, until the time is over.

    steps
        Taken by any chain, as they come.
    is_abandoned
        Set where nothing is wanted any more.
    """

    log_density: LogDensity
    plan: Plan
    progress: Progress
    n_chains: int
    steps: list[int] = field(default_factory=list)
    is_abandoned: Event = field(default_factory=Event)

    def run(self, number: int, start: PyTree, key: Array, data: tuple[PyTree, ...]) -> list[Chains]:
        """Run one chain; return every block of its draws, without their first axis."""
        plan, blocks = self.plan, []
        key_warm, key_draw = jax.random.split(key)
        if self._ends:
            return blocks
        state = jax.block_until_ready(_warm_up(self.log_density, plan, start, key_warm, data=data))
        self._report(number, plan.n_warmup)
        keys = jax.random.split(key_draw, plan.n_draws)
        size = -(-plan.n_draws // N_BLOCKS)
        for first in range(0, plan.n_draws, size):
            if self._ends:
                break
            # The last block is as long as the others, for which there is a program.
            some = keys[jnp.minimum(jnp.arange(first, first + size), plan.n_draws - 1)]
            state, block = jax.block_until_ready(
                _draw(self.log_density, plan, start, state, some, data=data)
            )
            n = min(size, plan.n_draws - first)
            blocks.append(jax.tree.map(lambda leaf, n=n: np.asarray(leaf[:n]), block))
            self._report(number, n * plan.thin)
        return blocks

    @property
    def _ends(self) -> bool:
        """Whether to draw no more."""
        return self.is_abandoned.is_set() or self.progress.is_over

    def _report(self, number: int, steps: int) -> None:
        self.steps.append(steps)
        total = self.n_chains * (self.plan.n_warmup + self.plan.n_draws * self.plan.thin)
        self.progress.report(sum(self.steps), total, f"chain {number + 1} of {self.n_chains}")


def _joined(blocks: list[list[Chains]], plan: Plan, progress: Progress) -> Chains:
    """Join the blocks of all chains, as many draws of each."""
    length = np.array([sum(len(one.log_density) for one in each) for each in blocks])
    longest = np.sort(length)[::-1]
    n_draws = longest[np.argmax(longest * np.arange(1, len(longest) + 1))]
    if n_draws == 0:
        progress.refuse(
            "chains were still warming up, so that there are no draws: allow more time, or "
            "lower n_warmup"
        )
    stay = [each for each, n in zip(blocks, length, strict=True) if n >= n_draws]
    if n_draws < plan.n_draws or len(stay) < len(blocks):
        of_all = f"{len(stay)} of {len(blocks)} chains"
        progress.cut(f"{n_draws} of {plan.n_draws} draws, {of_all}")
    chains = [jax.tree.map(lambda *parts: np.concatenate(parts)[:n_draws], *each) for each in stay]
    every: Chains = jax.tree.map(lambda *parts: np.stack(parts), *chains)
    return every._replace(acceptance=every.acceptance.mean(axis=1), step_size=every.step_size[:, 0])


class _Scale(NamedTuple):
    """Standard deviations of the proposals: one size for all times one spread a coordinate."""

    size: Array
    spread: Array


class _Tuned(NamedTuple):
    """BlackJAX's state of a chain, its position one vector, and what warm-up chose for it.

    The sampler's own arithmetic on one vector is one operation, not one a leaf.
    """

    state: PyTree
    tuning: _Scale | dict[str, Array]


@partial(jax.jit, static_argnums=(0, 1))
def _warm_up(
    log_density: LogDensity, plan: Plan, start: PyTree, key: Array, *, data: tuple[PyTree, ...]
) -> _Tuned:
    flat, unravel = ravel_pytree(start)
    warm_up = _warm_walk if plan.sampler == "random-walk" else _warm_hamiltonian
    return warm_up(lambda flat: log_density(unravel(flat), *data), flat, key, plan)


@partial(jax.jit, static_argnums=(0, 1))
def _draw(
    log_density: LogDensity,
    plan: Plan,
    start: PyTree,
    warm: _Tuned,
    keys: Array,
    *,
    data: tuple[PyTree, ...],
) -> tuple[_Tuned, Chains]:
    """Draw once a key: the state after that, and `Chains` of one axis, that of the draws."""
    _, unravel = ravel_pytree(start)

    def density(flat: Array) -> Array:
        return log_density(unravel(flat), *data)

    def draw(warm: _Tuned, key: Array) -> tuple[_Tuned, Chains]:
        state, tuning = warm
        if isinstance(tuning, _Scale):
            step, step_size = _walk_step(density, tuning), tuning.size
        else:
            step, step_size = _hamiltonian_step(density, plan, tuning), tuning["step_size"]
        infos: PyTree
        state, infos = jax.lax.scan(
            lambda state, key: step(key, state), state, jax.random.split(key, plan.thin)
        )
        diverged = getattr(infos, "is_divergent", jnp.zeros(plan.thin, bool)).any()
        acceptance = infos.acceptance_rate.mean()
        kept: Any = state.position, state.logdensity, diverged, acceptance, step_size
        return _Tuned(state, tuning), Chains(*kept)

    warm, drawn = jax.lax.scan(draw, warm, keys)
    return warm, drawn._replace(draws=jax.vmap(unravel)(drawn.draws))


def _algorithm(plan: Plan) -> Any:
    """Return BlackJAX's NUTS, or its HMC with trajectories of random length."""
    import blackjax

    if plan.sampler == "nuts":
        return blackjax.nuts
    kernel = blackjax.hmc.build_kernel()

    def jittered(key: Array, state: PyTree, *given: Any) -> tuple[PyTree, PyTree]:
        # Drawn without regard to the state: each length by itself leaves the density as it is.
        key_length, key = jax.random.split(key)
        return kernel(
            key, state, *given, jax.random.randint(key_length, (), 1, plan.n_leapfrog + 1)
        )

    return replace(blackjax.hmc, build_kernel=lambda: jittered)


def _hamiltonian_step(
    density: Callable[[Array], Array], plan: Plan, tuning: dict[str, Array]
) -> Callable[[Array, PyTree], tuple[PyTree, PyTree]]:
    kernel = _algorithm(plan).build_kernel()
    return lambda key, state: kernel(
        key, state, density, tuning["step_size"], tuning["inverse_mass_matrix"]
    )


def _warm_hamiltonian(
    density: Callable[[Array], Array], start: Array, key: Array, plan: Plan
) -> _Tuned:
    """Adapt step size and mass matrix; return the state, and these by name."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    warm_up = blackjax.window_adaptation(
        _algorithm(plan),
        density,
        target_acceptance_rate=plan.target_acceptance,
        adaptation_info_fn=get_filter_adapt_info_fn(),
    )
    adapted, _ = warm_up.run(key, start, plan.n_warmup)  # pyright: ignore[reportCallIssue]
    names = ("step_size", "inverse_mass_matrix")
    return _Tuned(adapted.state, {name: adapted.parameters[name] for name in names})


def _walk_step(
    density: Callable[[Array], Array], scale: _Scale
) -> Callable[[Array, PyTree], tuple[PyTree, PyTree]]:
    from blackjax.mcmc.random_walk import normal_random_walk

    return normal_random_walk(density, scale.size * scale.spread).step


def _spread(mean: Array, square: Array) -> Array:
    """Take standard deviations from the moments of the walk so far; 1 where it has not moved."""
    variance = square - mean**2
    return jnp.sqrt(jnp.where(variance > 1e-12, variance, 1.0))


def _warm_walk(density: Callable[[Array], Array], start: Array, key: Array, plan: Plan) -> _Tuned:
    """Search the proposal's size, and take each coordinate's spread from the walk so far."""
    from blackjax.mcmc.random_walk import init

    first, n_warmup = init(start, density), plan.n_warmup
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
    return _Tuned(state, _Scale(jnp.exp(log_size), _spread(mean, square)))

"""The course of Markov chains: what they draw, block by block, for as long as there is time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bayesprop.model.progress import Progress

Sampler = Literal["nuts", "hmc", "random-walk"]

N_BLOCKS = 10
"""Of the draws of a chain: between them it can end."""


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


@dataclass(frozen=True)
class Course:
    """The way of chains side by side: warm-up, then blocks of draws, until the time is over.

    steps
        Taken by any chain, as they come.
    is_abandoned
        Set where nothing is wanted any more.
    """

    progress: Progress
    plan: Plan
    n_chains: int
    steps: list[int] = field(default_factory=list)
    is_abandoned: Event = field(default_factory=Event)

    def run(
        self, number: int, warm_up: Callable[..., Any], draw: Callable[..., Any], key: Array
    ) -> list[Any]:
        """Run one chain; return `Chains` of every block of its draws, without their first axis."""
        plan, blocks = self.plan, []
        key_warm, key_draw = jax.random.split(key)
        if self.ends:
            return blocks
        state = jax.block_until_ready(warm_up(key_warm))
        self._report(number, plan.n_warmup)
        keys = jax.random.split(key_draw, plan.n_draws)
        size = -(-plan.n_draws // N_BLOCKS)
        for first in range(0, plan.n_draws, size):
            if self.ends:
                break
            # The last block is as long as the others, for which there is a program.
            some = keys[jnp.minimum(jnp.arange(first, first + size), plan.n_draws - 1)]
            state, block = jax.block_until_ready(draw(state, some))
            n = min(size, plan.n_draws - first)
            blocks.append(jax.tree.map(lambda leaf, n=n: np.asarray(leaf[:n]), block))
            self._report(number, n * plan.thin)
        return blocks

    @property
    def ends(self) -> bool:
        """Whether to draw no more."""
        return self.is_abandoned.is_set() or self.progress.is_over

    def _report(self, number: int, steps: int) -> None:
        self.steps.append(steps)
        total = self.n_chains * (self.plan.n_warmup + self.plan.n_draws * self.plan.thin)
        self.progress.report(sum(self.steps), total, f"chain {number + 1} of {self.n_chains}")

    def joined(self, blocks: list[list[Any]]) -> Chains:
        """Join what the chains drew, as many draws of each."""
        length = np.array([sum(len(one.log_density) for one in each) for each in blocks])
        longest = np.sort(length)[::-1]
        n_draws = longest[np.argmax(longest * np.arange(1, len(longest) + 1))]
        if n_draws == 0:
            self.progress.refuse(
                "chains were still warming up, so that there are no draws: allow more time, or "
                "lower n_warmup"
            )
        stay = [each for each, n in zip(blocks, length, strict=True) if n >= n_draws]
        if n_draws < self.plan.n_draws or len(stay) < self.n_chains:
            of_all = f"{len(stay)} of {self.n_chains} chains"
            self.progress.cut(f"{n_draws} of {self.plan.n_draws} draws, {of_all}")
        chains = [
            jax.tree.map(lambda *parts: np.concatenate(parts)[:n_draws], *each) for each in stay
        ]
        every = jax.tree.map(lambda *parts: np.stack(parts), *chains)
        return every._replace(
            acceptance=every.acceptance.mean(axis=1), step_size=every.step_size[:, 0]
        )

"""Whether the chains have found the posterior, and how much their draws say about it.

R-hat and effective sample sizes as in Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), from
BlackJAX: rank-normalised, every chain split in half.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from bayesprop.codec import UNBOUNDED
from bayesprop.model.fit_report import ChainTrace
from bayesprop.sampling.mcmc import Chains

MOST_R_HAT = 1.01
LEAST_ESS_A_CHAIN = 100.0
"""Recommended thresholds of Vehtari et al. (2021), section 4."""

LEAST_DRAWS = 4
MOST_TRACED = 500
"""Draws of a chain that the fit report keeps, evenly spaced."""


class Diagnostics(NamedTuple):
    """Of every coordinate of the flattened position, in the order of `names`.

    r_hat
        Potential scale reduction; 1 where the chains agree. NaN where a coordinate never moved.
    ess_bulk, ess_tail
        Effective number of draws for the centre and for the 5 % and 95 % quantiles.
    n_divergent
        Draws whose trajectory diverged, in all chains.
    acceptance
        Mean acceptance rate of every chain.
    """

    names: list[str]
    r_hat: Annotated[Float[np.ndarray, " k"], UNBOUNDED]
    ess_bulk: Annotated[Float[np.ndarray, " k"], UNBOUNDED]
    ess_tail: Annotated[Float[np.ndarray, " k"], UNBOUNDED]
    n_divergent: int
    acceptance: Float[np.ndarray, " c"]

    @property
    def worst_r_hat(self) -> float:
        """Largest R-hat; infinite where a coordinate has none."""
        return float(np.max(np.where(np.isnan(self.r_hat), np.inf, self.r_hat)))

    @property
    def least_ess(self) -> float:
        """Smallest effective number of draws of any coordinate, bulk or tail."""
        both = np.concatenate([self.ess_bulk, self.ess_tail])
        return float(np.min(np.where(np.isnan(both), 0.0, both)))


def coordinates(draws: PyTree) -> dict[str, Float[np.ndarray, "c s"]]:
    """Take a pytree with leading axes (c, s) apart into named coordinates."""
    named = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(draws):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        values = np.asarray(leaf)
        for place in np.ndindex(values.shape[2:]):
            label = f"{name}[{','.join(map(str, place))}]" if place else name
            named[label] = values[(slice(None), slice(None), *place)]
    return named


def diagnose(chains: Chains, *, of: PyTree = None) -> Diagnostics:
    """Compute the diagnostics of the draws, or of quantities made from them.

    of
        A pytree with leading axes (c, s), such as predictions at some rows; None: the positions.
        The weights of a network are not identified (units can swap), its predictions are.

    Raises ValueError for less than two chains or four draws.
    """
    n_chains, n_draws = chains.log_density.shape
    if n_chains < 2 or n_draws < LEAST_DRAWS:
        raise ValueError(
            f"diagnostics need two chains of {LEAST_DRAWS} draws at least, got {n_chains} of "
            f"{n_draws}: raise n_chains or n_draws"
        )
    named = coordinates(chains.draws if of is None else of)
    stacked = np.stack(list(named.values()), axis=-1)
    with jax.numpy_rank_promotion("allow"):
        found = [np.atleast_1d(np.float64(one)) for one in _measures()(stacked)]
    return Diagnostics(
        list(named),
        *found,
        n_divergent=int(chains.diverged.sum()),
        acceptance=chains.acceptance.astype(np.float64),
    )


@cache
def _measures() -> Callable[[np.ndarray], tuple[jax.Array, jax.Array, jax.Array]]:
    """R-hat, bulk and tail effective sizes in one program: by themselves they are 150."""
    from blackjax.diagnostics import ess_bulk, ess_tail, rhat

    return jax.jit(lambda stacked: (rhat(stacked), ess_bulk(stacked), ess_tail(stacked)))


def traced(of: PyTree, found: Diagnostics | None, most: int = MOST_TRACED) -> dict[str, ChainTrace]:
    """Return `most` draws of every coordinate of `of`, evenly spaced, with what is `found` of it.

    of
        A pytree with leading axes (c, s).
    """
    known: dict[str, list[float | None]] = {}
    if found is not None:
        ess = np.minimum(found.ess_bulk, found.ess_tail)
        known = {
            name: [None if np.isnan(x) else float(x) for x in pair]
            for name, *pair in zip(found.names, found.r_hat, ess, strict=True)
        }
    return {
        name: ChainTrace(
            values[:, :: -(-values.shape[1] // most)].astype(float).tolist(),
            *known.get(name, (None, None)),
        )
        for name, values in coordinates(of).items()
    }


def advice(found: Diagnostics) -> list[str]:
    """Return advice on chains that have not converged; empty if they have."""
    sentences = []
    n_chains = len(found.acceptance)
    if found.n_divergent:
        sentences.append(
            f"draws that diverged: {found.n_divergent}, so that a part of the posterior may be "
            "missing: raise target_acceptance (0.95, 0.99), or give the weights a narrower prior"
        )
    if found.worst_r_hat > MOST_R_HAT:
        name = found.names[int(np.argmax(np.nan_to_num(found.r_hat, nan=np.inf)))]
        sentences.append(
            f"the chains disagree: R-hat is {found.worst_r_hat:.3f} at {name} (at most "
            f"{MOST_R_HAT}): raise n_warmup and n_draws"
        )
    least = LEAST_ESS_A_CHAIN * n_chains
    if found.least_ess < least:
        sentences.append(
            f"the draws are worth {found.least_ess:.0f} independent ones at least, fewer than "
            f"{least:.0f}: raise n_draws or thin"
        )
    return sentences


def arviz_groups(chains: Chains) -> dict[str, dict[str, np.ndarray]]:
    """Return draws and sampler statistics by the names of ArviZ, each (c, s, ...).

    The groups are `posterior`, a variable for every leaf of the positions, and `sample_stats` (lp,
    diverging, acceptance_rate and step_size, which are constant along a chain).
    """
    leaves = jax.tree_util.tree_leaves_with_path(chains.draws)
    shape = chains.log_density.shape
    return {
        "posterior": {
            jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
            for path, leaf in leaves
        },
        "sample_stats": {
            "lp": np.asarray(chains.log_density),
            "diverging": np.asarray(chains.diverged, dtype=bool),
            "acceptance_rate": np.broadcast_to(chains.acceptance[:, None], shape),
            "step_size": np.broadcast_to(chains.step_size[:, None], shape),
        },
    }

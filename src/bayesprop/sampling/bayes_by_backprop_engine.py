"""Steps of Bayes by Backprop on rows of a memory, by compiled loops where they know the settings.

They draw what JAX draws, by the same keys, and come to what `numerics.loops.replay` comes to but
for rounding, in a third of the time. `Steps` says which settings they know.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Int64

from bayesprop.model.priors import NormalPrior, Prior, ScaleMixturePrior
from bayesprop.numerics.aligned import aligned_zeros, round_up
from bayesprop.numerics.fast_normal import count_pairs, words_of
from bayesprop.numerics.loops import plan_replay
from bayesprop.sampling.bayes_by_backprop import (
    BayesByBackpropState,
    KLWeights,
    kl_share,
)
from bayesprop.sampling.kernel_bayes_by_backprop import (
    LANES,
    N_NUMBERS,
    PIECE,
    Rules,
    Work,
    advance,
)

Vector = Float32[np.ndarray, " p"]
LEAKS = {"relu": 0.0, "leaky_relu": 0.01, "identity": 1.0}
"""Activations that the loops know, and their slopes below zero."""
_TOGETHER = 2 * LANES


class Steps(NamedTuple):
    """Settings of steps: one draw each, weights drawn and not activations, optax.adam.

    activation
        One of `LEAKS`.
    noise_var
        Of Gaussian targets, known (standardised units).
    prior
        Normal, with its KL in closed form, or a scale mixture, with a sampled KL.
    """

    activation: str
    noise_var: float
    prior: NormalPrior | ScaleMixturePrior
    kl_weights: KLWeights
    learning_rate: float

    def rules(self) -> Rules:
        """Return what the loops need of these."""
        wide_prec, sharper, log_odds = _pulls(self.prior)
        return Rules(
            step_size=float(self.learning_rate),
            noise_prec=1.0 / float(self.noise_var),
            leak=LEAKS[self.activation],
            is_mixture=int(isinstance(self.prior, ScaleMixturePrior)),
            wide_prec=wide_prec,
            sharper=sharper,
            log_odds=log_odds,
        )


def _pulls(prior: Prior) -> tuple[float, float, float]:
    if isinstance(prior, NormalPrior):
        return 1.0 / float(prior.weight_var), 0.0, 0.0
    mixture = cast(ScaleMixturePrior, prior)
    share, wide, narrow = map(float, (mixture.share, mixture.wide_std, mixture.narrow_std))
    sharper = 0.5 * (1.0 / narrow**2 - 1.0 / wide**2)
    return 1.0 / wide**2, sharper, math.log(share / (1.0 - share) * narrow / wide)


class Replayed(NamedTuple):
    """The state after some steps, and whether they were undone as not finite."""

    state: BayesByBackpropState
    is_undone: bool


class Replayer:
    """Does what `numerics.loops.replay` does with rows of weight one, for one model at a time.

    Goes on where it stopped if it is given the very state that it returned; any other it reads
    first. A copy of it begins anew.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._work: Work | None = None
        self._stands_for: tuple[BayesByBackpropState, int] | None = None

    def __reduce__(self) -> tuple[type[Replayer], tuple[Steps]]:
        return Replayer, (self.steps,)

    def __call__(
        self,
        state: BayesByBackpropState,
        key: tuple[int, int],
        x: Float[Array, "m d"],
        y: Float[Array, "m o"],
        n_rows: int,
        *,
        n_steps: int,
        batch_size: int,
    ) -> Replayed:
        """Take n_steps, each on a batch drawn with replacement from the first n_rows rows.

        key
            A seed, and a number to fold in.
        """
        _check(_sizes(state), x, y, n_rows)
        at, kl_weights = np.array([*key, n_rows], np.uint32), self.steps.kl_weights
        plan = _plan(at, n_steps=n_steps, batch_size=batch_size, kl_weights=kl_weights)
        work = self._workspace(state, batch_size)
        self._stands_for = None
        rows, words, shares = map(np.asarray, plan)
        batches = rows.astype(np.int64)
        keys = np.vstack([words, words[:1]]).astype(np.int64)  # the last draw is not used
        count, shares = int(state.optimizer[0].count), shares.astype(np.float64)
        flat = _seen(x).reshape(-1)
        advance(work, self.steps.rules(), flat, _seen(y), batches, keys, shares, count)
        after = _read(work, state, count + n_steps)
        if after is None:
            return Replayed(state, True)
        self._stands_for = after, batch_size
        return Replayed(after, False)

    def _workspace(self, state: BayesByBackpropState, batch_size: int) -> Work:
        known = self._stands_for
        if self._work is None or known is None or known[0] is not state or known[1] != batch_size:
            self._work = workspace(_sizes(state), batch_size)
            _write(self._work, state)
        return self._work


def _seen(array: Array) -> Float32[np.ndarray, "..."]:
    """Look at an array of the device without a copy; `np.asarray` would keep it from donation."""
    return np.from_dlpack(cast(Any, array))


def _check(sizes: tuple[int, ...], x: Array, y: Array, n_rows: int) -> None:
    """Refuse what the loops, which check no bounds, would read past."""
    n = len(x)
    if x.shape != (n, sizes[0]) or y.shape != (n, sizes[-1]) or not 1 <= n_rows <= n:
        raise ValueError(
            f"x must be (m, {sizes[0]}), y (m, {sizes[-1]}) and n_rows from 1 to m, got {x.shape}, "
            f"{y.shape} and {n_rows}"
        )


def _sizes(state: BayesByBackpropState) -> tuple[int, ...]:
    return (state.q.m[0].shape[0] - 1, *(layer.shape[1] for layer in state.q.m))


@partial(jax.jit, static_argnames=("n_steps", "batch_size", "kl_weights"))
def _plan(
    at: Any, *, n_steps: int, batch_size: int, kl_weights: KLWeights
) -> tuple[Int[Array, "t b"], Any, Float[Array, " t"]]:
    """Rows, words of keys, and shares of the KL of all steps."""
    key, n_rows = jax.random.fold_in(jax.random.key(at[0]), at[1]), at[2].astype(jnp.int32)
    rows, keys = plan_replay(key, n_rows, n_steps=n_steps, batch_size=batch_size)
    n_batches = n_rows.astype(jnp.float32) / batch_size

    def share(place: Array) -> Array:
        return kl_share(kl_weights, place, n_batches)

    return rows, jax.vmap(words_of)(keys), jax.vmap(share)(jnp.arange(n_steps))


def _write(work: Work, state: BayesByBackpropState) -> None:
    """Give a state to the loops."""
    adam = state.optimizer[0]
    groups = work.beliefs.reshape(-1, N_NUMBERS, _TOGETHER)
    kept = [getattr(q, name) for name in ("m", "rho") for q in (state.q, adam.mu.q, adam.nu.q)]
    for place, leaves in enumerate(kept):
        numbers = np.zeros(len(groups) * _TOGETHER, np.float32)
        flat = np.concatenate([np.ravel(leaf) for leaf in leaves])
        numbers[: len(flat)] = flat
        groups[:, place] = numbers.reshape(-1, _TOGETHER)


def _read(work: Work, like: BayesByBackpropState, n_steps: int) -> BayesByBackpropState | None:
    """Undo `_write`; None where a number is not finite.

    The arrays are NumPy's: those of the optimiser are looked at when they are saved.
    """
    shapes = [leaf.shape for leaf in like.q.m]
    sizes = [math.prod(shape) for shape in shapes]
    groups = work.beliefs.reshape(-1, N_NUMBERS, _TOGETHER)[:, :6]
    kept = np.ascontiguousarray(groups.swapaxes(0, 1)).reshape(6, -1)[:, : sum(sizes)]
    if not np.isfinite(kept).all():
        return None
    kept.flags.writeable = False
    ends = list(accumulate(sizes))
    leaves = [
        [
            vector[end - size : end].reshape(shape)
            for end, size, shape in zip(ends, sizes, shapes, strict=True)
        ]
        for vector in kept
    ]
    q, mu, nu = (leaves[side] + leaves[3 + side] for side in range(3))
    count = np.asarray(n_steps, np.int32)
    return jax.tree.structure(like).unflatten([*q, count, *mu, *nu])


def workspace(sizes: tuple[int, ...], batch_size: int) -> Work:
    """Make the arrays of a network of these sizes, inputs first and outputs last, all zeros."""
    layers, at, turned = [], 0, 0
    room = _Room(batch_size)
    room.take(0)
    for depth, (n_in, n_out) in enumerate(pairwise(sizes)):
        inputs, in_step = room.take(n_in + 1, ones=n_in) if depth else (0, 0)
        outputs, out_step = room.take(n_out + (depth < len(sizes) - 2))
        step = round_up(n_in, LANES)
        layers.append([n_in, n_out, at, turned, step, inputs, in_step, outputs, out_step])
        at += (n_in + 1) * n_out
        turned += step * round_up(n_out, LANES) if depth else 0
    n = 2 * count_pairs(at)
    behind = LANES * (max(sizes) + LANES)  # what tiles and blocks may read behind the last weight
    n_entries = batch_size * (sizes[0] + 1)
    return Work(
        beliefs=aligned_zeros(N_NUMBERS * n, np.float32),
        odds=aligned_zeros(PIECE, np.float32),
        weights=aligned_zeros(n + behind, np.float32),
        turned=aligned_zeros(turned + behind, np.float32),
        slopes=aligned_zeros(n + LANES, np.float32),
        room=room.filled(),
        index=np.zeros(n_entries + 1, np.int32),
        value=np.zeros(n_entries + 1, np.float32),
        counts=np.zeros(batch_size, np.int64),
        rows=np.zeros(n_entries, np.int32),
        values=np.zeros(n_entries, np.float32),
        lengths=np.zeros(sizes[0] + 1, np.int64),
        layers=np.array(layers),
    )


class _Room:
    """Hands out tables of a row for each row of a batch."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size, self.size = batch_size, 0
        self.ones: list[Int64[np.ndarray, " b"]] = []

    def take(self, n_columns: int, *, ones: int | None = None) -> tuple[int, int]:
        """Return place and step of a table; `ones` is the column of 1."""
        at, step = self.size, round_up(n_columns, LANES)
        self.size += self.batch_size * step
        if ones is not None:
            self.ones.append(at + ones + step * np.arange(self.batch_size))
        return at, step

    def filled(self) -> Vector:
        """Make the array."""
        found = aligned_zeros(self.size + LANES * LANES, np.float32)
        for places in self.ones:
            found[places] = 1.0
        return found

"""What the nearest rows say beside the networks: whether they are asked, and what they change.

Networks say of a row that y has mean m and variance σ², a nearest-neighbour process that
g = (y - m) / σ^½ has mean m_g, and variance v_g for want of nearer rows beside s of its own. What
the networks say is then moved and stretched as a whole, to mean m + σ^½ m_g and variance
σ (v_g + s): it keeps its tails, which increments of a function have as well. Of its noise the share
v_g / (v_g + s) is what is not known of the function. Where networks doubt the function more than at
nearly all rows, σ is that of a row where they don't, and their doubt is stretched with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.model.predictive import Predictive
from bayesprop.moments.network_ensemble.distinct_rows import Distinct
from bayesprop.moments.network_ensemble.ensemble_outputs import outputs
from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState
from bayesprop.moments.network_ensemble.joint_covariance import LeftOut
from bayesprop.moments.network_ensemble.neighbour_process import NeighbourProcess, in_folds
from bayesprop.moments.network_ensemble.noisy_output import NoisyOutput, Output, scaled
from bayesprop.numerics.nearest_rows import Known, most_rows

LEAST_GAIN = 0.01
"""In nats a row, for which a model keeps all of its rows and looks among them."""

SCALE_POWER = 0.25
"""Of the networks' variance, that what they leave is measured in: some of that variance is noise,
with which it should go, and some the want of a better mean, with which it should not."""

DOUBTFUL = 0.95
"""Share of the rows at which networks doubt the function less."""

_LEAST_VAR = 1e-12


class Local(NamedTuple):
    """Mean and variance of g at some rows, (n,), and s, (n,).

    doubt
        Epistemic variance of the networks that few rows of the table exceed.
    """

    m: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]
    doubt: float

    @classmethod
    def of(cls, process: NeighbourProcess, x: Float[np.ndarray, "n d"]) -> Local:
        """Ask the nearest rows."""
        noise = np.full(len(x), np.exp(process.log_noise))
        return cls(*process.moments(x), noise, float(np.exp(process.log_doubt)))

    @property
    def unknown(self) -> Float[np.ndarray, " n"]:
        """The share of the variance that is not known of the function."""
        return self.v / (self.v + self.noise)


class Around(NamedTuple):
    """Rows of the table, those that judge first: what members say there, and means of targets.

    group
        As in `Known`.
    """

    x: Float32[np.ndarray, "n d"]
    noisy: NoisyOutput
    y: Float32[np.ndarray, "n o"]
    weight: Float32[np.ndarray, " n"]
    group: Int[np.ndarray, " n"] | None

    @classmethod
    def of(
        cls,
        state: EnsembleState,
        distinct: Distinct,
        left_out: LeftOut,
        order: Int[np.ndarray, " r"],
        n_inputs: int,
    ) -> Around:
        """Look at rows that were left out, as many as judge and others; and at those that were not.

        order
            Places of the former in `left_out`, those that judge first.
        """
        once, groups, rows = distinct.once, distinct.groups, left_out.some[order]
        noisy = left_out.noisy.at(order)
        if groups is None:  # else a member that learnt them would speak for what did not
            rng = np.random.default_rng([state.seed % 2**32, 7])
            others = np.setdiff1d(np.flatnonzero(once.weight), left_out.some)
            rows = np.r_[rows, rng.permutation(others)][: most_rows(n_inputs)]
            noisy, out = outputs(state, once.x[rows]), noisy
            noisy.m[:, : len(order)] = out.m[:, : len(rows)]
        # Rows that stand there: weights of another unit say no more of the noise of a measurement.
        weight = once.weight[rows] * np.float32(len(distinct.table.x) / len(once.x))
        group = None if groups is None else groups.number[rows]
        return cls(once.x[rows, :n_inputs], noisy, once.y[rows], weight, group)

    def learn(
        self, rng: np.random.Generator, log_floor: Float[np.ndarray, " o"], o: int, n_own: int
    ) -> tuple[NeighbourProcess, Local]:
        """Learn what the members leave of a target, and say it of some rows, each of the others."""
        predicted = Output.of(self.noisy, log_floor, o).predictive(0.0)
        doubt = max(float(np.quantile(predicted.epistemic_var, DOUBTFUL)), _LEAST_VAR)
        g = (self.y[:, o] - predicted.mean) / unit(predicted, doubt)
        known = Known(self.x, g.astype(np.float32), self.weight, self.group)
        hyper, m, v, noise = in_folds(rng, known, n_own)
        numbers = (np.asarray(part, np.float64) for part in (*hyper, np.log(doubt)))
        return NeighbourProcess(*known[:3], *numbers), Local(m, v, noise, doubt)


def changed(members: Output, local: Local) -> Output:
    """Move and stretch what the members say; their noise keeps its floor."""
    noisy, predicted = members.noisy, members.predictive(0.0)
    log_ratio = stretch(predicted, local)
    stretched = np.exp(0.5 * log_ratio) * (noisy.m - predicted.mean)
    noisy = noisy._replace(
        m=predicted.mean + unit(predicted, local.doubt) * local.m + stretched,
        v=np.exp(log_ratio) * noisy.v,
        l_m=scaled(noisy.l_m, log_ratio, members.log_floor),
        unknown=np.broadcast_to(local.unknown, noisy.m.shape),
    )
    return members._replace(noisy=noisy)


def with_neighbours(
    noisy: NoisyOutput, each: Sequence[Local | None], log_floor: Float[np.ndarray, " o"]
) -> NoisyOutput:
    """Say what members say with their neighbours, of all outputs."""
    if not any(each):
        return noisy
    columns = [Output.of(noisy, log_floor, o) for o in range(len(each))]
    pairs = zip(columns, each, strict=True)
    after = [(one if local is None else changed(one, local)).noisy for one, local in pairs]
    return NoisyOutput(*(np.stack(parts, axis=-1) for parts in zip(*after, strict=True)))


class Drawn(NamedTuple):
    """Functions, (s, n), and what is to be done with the noise of members, (n,).

    log_ratio
        Of what its variance above the floor is multiplied by.
    own_std
        Share of its standard deviation that is noise.
    """

    functions: Float[np.ndarray, "s n"]
    log_ratio: Float[np.ndarray, " n"]
    own_std: Float[np.ndarray, " n"]


def draw(
    rng: np.random.Generator,
    process: NeighbourProcess,
    x: Float[np.ndarray, "n d"],
    members: Output,
    log_noise_ratio: float,
    functions: Float[np.ndarray, "s n"],
) -> Drawn:
    """Move and stretch functions drawn from members, as `changed` does what these say on average.

    They are of the ensemble whose `log_noise_ratio` that is, at x.
    """
    local, predicted = Local.of(process, x), members.predictive(0.0)
    after = changed(members, local)
    noisy = after.noisy._replace(unknown=np.zeros_like(after.noisy.m))
    noise_var = after._replace(noisy=noisy).predictive(log_noise_ratio).noise_var
    away = process.draw(rng, x, len(functions)) - local.m
    away *= np.sqrt(noise_var / (local.v + local.noise))
    log_ratio = stretch(predicted, local)
    functions = np.exp(0.5 * log_ratio) * (functions - predicted.mean) + away
    functions += predicted.mean + unit(predicted, local.doubt) * local.m
    return Drawn(functions, log_ratio, np.sqrt(1.0 - local.unknown))


def stretch(predicted: Predictive, local: Local) -> Float[np.ndarray, " n"]:
    """Return the log of what the variance is multiplied by."""
    scale = unit(predicted, local.doubt)
    var = np.maximum(scale**2 * (local.v + local.noise), _LEAST_VAR)
    return np.log(var) - np.log(scale) / SCALE_POWER


def unit(predicted: Predictive, doubt: float) -> Float[np.ndarray, " n"]:
    """Return what g is measured in where no more than so much is doubted of the function."""
    var = predicted.noise_var + np.minimum(predicted.epistemic_var, doubt)
    return np.maximum(var, _LEAST_VAR) ** SCALE_POWER

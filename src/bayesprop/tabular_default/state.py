"""What a fit of the ensemble leaves, and its way to a file and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from bayesprop.tabular_default.gaussian_process import GaussianProcess
from bayesprop.tabular_default.member import Member, init_member
from bayesprop.tabular_default.neighbour_process import NeighbourProcess
from bayesprop.tabular_default.neighbour_targets import NeighbourTargets
from bayesprop.tabular_default.piecewise_linear import Ramps
from bayesprop.tabular_default.replicates import Replicates
from bayesprop.tabular_default.settings import EnsembleSettings

FEW_VALUES = 20
LEAST_NOISE_STD = 1e-3
"""Least standard deviation of the noise, as a share of the target's."""


class EnsembleState(NamedTuple):
    """The posterior; float32 arrays, standardised units.

    members
        Networks of every member.
    log_floor
        Log of the least noise variance of every target, (o,).
    deviations
        Of all weights of the mean networks, (k, s, p), whose outer products add up to the
        covariance; none while weights are independent. See joint_covariance.py.
    neighbours
        Know what the members leave of every output; None where rows left out want none.
    nearby
        Know what was measured of every output, beside all else and the companion; None likewise.
    target_processes, target_shares
        Know every output itself, beside the members; and shares of these, (o,).
    replicates
        Knows inputs whose noise comes back.
    log_noise_ratio
        Log of what the variance of the noise, above its floor, is multiplied by, (o,).
    seed
        The number that fixed the start and the order of the rows.
    companion
        Another ensemble that is given ramps beside the inputs; None where it has no share.
    """

    members: tuple[Member, ...]
    log_floor: Float32[np.ndarray, " o"]
    deviations: Float32[np.ndarray, "k s p"]
    neighbours: tuple[NeighbourProcess | None, ...]
    nearby: tuple[NeighbourTargets | None, ...]
    target_processes: tuple[GaussianProcess | None, ...]
    target_shares: Float32[np.ndarray, " o"]
    replicates: Replicates
    log_noise_ratio: Float32[np.ndarray, " o"]
    seed: int
    companion: Companion | None = None

    @classmethod
    def of(
        cls, members: tuple[Member, ...], log_floor: Float[np.ndarray, " o"], seed: int
    ) -> EnsembleState:
        """Take networks of independent weights, and nothing that is learnt after training."""
        n_inputs, *_, n_outputs = members[0].sizes[0]
        return cls(
            members,
            log_floor,
            deviations=np.zeros((len(members), 0, n_mean_weights(members[0])), np.float32),
            neighbours=(None,) * n_outputs,
            nearby=(None,) * n_outputs,
            target_processes=(None,) * n_outputs,
            target_shares=np.zeros(n_outputs, np.float32),
            replicates=Replicates.none(n_inputs, n_outputs),
            log_noise_ratio=np.zeros(n_outputs, np.float32),
            seed=seed,
        )

    @property
    def n_inputs(self) -> int:
        """Columns of x."""
        return self.members[0].sizes[0][0]

    @property
    def n_outputs(self) -> int:
        """Columns of y."""
        return len(self.log_floor)

    @property
    def n_members(self) -> int:
        """Networks in the ensemble."""
        return len(self.members)

    @property
    def n_mean_weights(self) -> int:
        """Weights and biases of one mean network."""
        return n_mean_weights(self.members[0])

    def validate(self) -> None:
        """Raise ValueError unless all parts belong to one ensemble."""
        d, o = self.n_inputs, self.n_outputs
        if {(one.sizes, one.sizes[1][-1]) for one in self.members} != {(self.members[0].sizes, o)}:
            raise ValueError(f"the networks must be of the same sizes, of {o} outputs and noises")
        shape = (self.n_members, *self.deviations.shape[1:2], self.n_mean_weights)
        if self.deviations.shape != shape:
            raise ValueError(f"deviations must have shape {shape}, got {self.deviations.shape}")
        processes = (self.neighbours, self.nearby, self.target_processes)
        if any(len(one) != o for one in (self.log_noise_ratio, self.target_shares, *processes)):
            raise ValueError(f"all that belongs to an output must be there {o} times")
        if any(one is not None and one.x.shape[1] > d for each in processes for one in each):
            raise ValueError(f"what knows rows must know {d} inputs of each at most")
        most = [process is not None for process in self.target_processes]
        if ((self.target_shares < 0.0) | (self.target_shares > most)).any():
            raise ValueError("target_shares must lie from 0 to 1, and be 0 without a process")
        if (self.replicates.rows.shape[1], len(self.replicates.log_own)) != (d, o):
            raise ValueError("the replicates must be of the inputs and outputs of the networks")


class Companion(NamedTuple):
    """An ensemble that is given ramps beside the inputs, and its share of the mixture, 0 to 1."""

    state: EnsembleState
    ramps: Ramps
    share: float

    def validate(self) -> None:
        """Raise ValueError unless the networks take the ramps, and have a share."""
        if self.state.n_inputs != len(self.ramps.n_knots) + self.ramps.n_ramps:
            raise ValueError("the networks with ramps must have the inputs and ramps of the others")
        if not 0.0 < self.share < 1.0:
            raise ValueError("the share of the networks with ramps must lie between 0 and 1")


def n_mean_weights(member: Member) -> int:
    """Weights and biases of a mean network."""
    return sum(layer.w_m.size + layer.b_m.size for layer in member.mean)


def log_noise_floor(
    y: Float[np.ndarray, "n o"], least_std: float = LEAST_NOISE_STD
) -> Float[np.ndarray, " o"]:
    """Log of the least noise variance of standardised targets.

    The standard deviation is a tenth of the smallest gap between the values where there are at
    most 20 of them (a grid can be hit exactly, and the noise would fall without end), else the
    least.
    """
    least = []
    for column in np.asarray(y, np.float64).T:
        values = np.unique(column)
        is_grid = 1 < len(values) <= FEW_VALUES
        least.append(np.diff(values).min() / 10.0 if is_grid else least_std)
    return (2.0 * np.log(np.maximum(least, least_std))).astype(np.float32)


def init(
    seed: int, n_inputs: int, y: Float[np.ndarray, "n o"], settings: EnsembleSettings
) -> EnsembleState:
    """Draw the initial networks; y, standardised, gives the floor of the noise."""
    rng = np.random.default_rng(seed)
    sizes = (n_inputs, *settings.hidden_layer_sizes, y.shape[1])
    members = tuple(
        init_member(rng, sizes, settings.noise_layer_sizes, is_direct=settings.is_direct)
        for _ in range(settings.n_members)
    )
    return EnsembleState.of(members, log_noise_floor(y), seed)

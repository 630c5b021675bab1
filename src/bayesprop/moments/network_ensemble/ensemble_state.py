"""What a fit of the ensemble leaves, and its way to a file and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.model.method import prefixed, unprefixed
from bayesprop.moments.network_ensemble.ensemble_settings import EnsembleSettings
from bayesprop.moments.network_ensemble.gaussian_process import GaussianProcess
from bayesprop.moments.network_ensemble.input_views import Ramps
from bayesprop.moments.network_ensemble.member import (
    Member,
    from_named,
    init_member,
    is_part,
    named,
    shapes,
)
from bayesprop.moments.network_ensemble.neighbour_process import NeighbourProcess
from bayesprop.moments.network_ensemble.neighbour_targets import NeighbourTargets
from bayesprop.moments.network_ensemble.replicates import Replicates

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
    log_floor: Float[np.ndarray, " o"]
    deviations: Float[np.ndarray, "k s p"]
    neighbours: tuple[NeighbourProcess | None, ...]
    nearby: tuple[NeighbourTargets | None, ...]
    target_processes: tuple[GaussianProcess | None, ...]
    target_shares: Float[np.ndarray, " o"]
    replicates: Replicates
    log_noise_ratio: Float[np.ndarray, " o"]
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

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name every array; those of the members have these as their first axis."""
        arrays = stacked(self.members) | {name: getattr(self, name) for name in _OWN}
        for part in _PROCESSES:
            for o, process in enumerate(getattr(self, part)):
                arrays |= {} if process is None else prefixed(f"{part}.{o}.", process.to_arrays())
        arrays |= prefixed(_KNOWN, self.replicates._asdict())
        if self.companion is not None:
            arrays |= prefixed(_BESIDE, self.companion.to_arrays())
        return arrays | {"seed": np.asarray(self.seed)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> EnsembleState:
        """Rebuild from `to_arrays`; ValueError where names or shapes do not fit together."""
        _check_numbers(arrays)
        try:
            members = members_of({name: a for name, a in arrays.items() if is_part(name)})
            n_inputs, *_, n_outputs = members[0].sizes[0]
            arrays = {"target_shares": np.zeros(n_outputs, np.float32)} | arrays
            own: dict[str, Any] = {name: arrays[name] for name in _OWN}
            own |= {
                part: tuple(
                    kind.from_arrays(named, n_inputs) if named else None
                    for named in (unprefixed(f"{part}.{o}.", arrays) for o in range(n_outputs))
                )
                for part, kind in _PROCESSES.items()
            }
            beside = unprefixed(_BESIDE, arrays)
            state = cls(
                members,
                replicates=Replicates(*(arrays[_KNOWN + name] for name in Replicates._fields)),
                seed=int(arrays["seed"]),
                companion=Companion.from_arrays(beside, n_inputs, n_outputs) if beside else None,
                **own,
            )
        except KeyError as missing:
            raise ValueError(f"the array {missing} is missing") from None
        state._check()
        return state

    def _check(self) -> None:
        """Raise ValueError unless the arrays belong to one ensemble."""
        n_inputs, n_out = self.n_inputs, self.members[0].sizes[0][-1]
        for name in ("log_floor", "log_noise_ratio", "target_shares"):
            if getattr(self, name).shape != (n_out,):
                raise ValueError(f"{name} must have shape ({n_out},)")
        most = [process is not None for process in self.target_processes]
        if ((self.target_shares < 0.0) | (self.target_shares > most)).any():
            raise ValueError("target_shares must lie from 0 to 1, and be 0 without a process")
        self.replicates.check(n_inputs, n_out)
        n = self.n_mean_weights
        if self.deviations.shape != (self.n_members, *self.deviations.shape[1:2], n):
            raise ValueError(f"deviations must have shape ({self.n_members}, s, {n})")


class Companion(NamedTuple):
    """An ensemble that is given ramps beside the inputs, and its share of the mixture, 0 to 1."""

    state: EnsembleState
    ramps: Ramps
    share: float

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name every array."""
        ramps = prefixed(_RAMPS, self.ramps._asdict())
        return self.state.to_arrays() | ramps | {"share": np.array([self.share])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_inputs: int, n_outputs: int) -> Companion:
        """Rebuild from `to_arrays`; ValueError where names or shapes do not fit together."""
        state = EnsembleState.from_arrays(arrays)
        of_ramps, share = unprefixed(_RAMPS, arrays), arrays["share"]
        ramps = Ramps(**of_ramps)
        ramps.check(n_inputs)
        if (state.n_inputs, state.n_outputs) != (n_inputs + ramps.n_ramps, n_outputs):
            raise ValueError("the networks with ramps must have the inputs and ramps of the others")
        if share.shape != (1,) or not 0.0 < share[0] < 1.0:
            raise ValueError("the share of the networks with ramps must lie between 0 and 1")
        return cls(state, ramps, float(share[0]))


_OWN = ("log_floor", "deviations", "log_noise_ratio", "target_shares")
_PROCESSES = {
    "neighbours": NeighbourProcess,
    "nearby": NeighbourTargets,
    "target_processes": GaussianProcess,
}
_KNOWN, _BESIDE, _RAMPS = "known.", "beside.", "ramps."
"""Begin the names of the replicates, of the companion and of its ramps in a file."""


def n_mean_weights(member: Member) -> int:
    """Weights and biases of a mean network."""
    return sum(layer.w_m.size + layer.b_m.size for layer in member.mean)


def _check_numbers(arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        is_number = array.dtype == np.float32 and np.isfinite(array).all()
        if (is_part(name) or name in _OWN or name.startswith(_KNOWN)) and not is_number:
            raise ValueError(f"{name} must be finite numbers of float32, got {array.dtype}")


def stacked(members: Sequence[Member]) -> dict[str, np.ndarray]:
    """Name every array of members of the same sizes, who are its first axis."""
    each = [named(member) for member in members]
    return {name: np.stack([one[name] for one in each]) for name in each[0]}


def members_of(stacked: dict[str, np.ndarray], *, are_noisy: bool = True) -> tuple[Member, ...]:
    """Undo `stacked`; ValueError where shapes do not fit together."""
    n_members = {array.shape[0] if array.ndim > 1 else 0 for array in stacked.values()}
    if len(n_members) != 1 or n_members == {0}:
        raise ValueError("the arrays of the networks do not fit together")
    numbers = range(n_members.pop())
    members = tuple(from_named({name: a[k] for name, a in stacked.items()}) for k in numbers)
    n_noise = len(members[0].noise)
    if len(members[0].mean) < 2 or (n_noise < 2 if are_noisy else n_noise > 0):
        raise ValueError("every network must have a hidden layer")
    if 0 in (*members[0].sizes[0], *members[0].sizes[1]):
        raise ValueError("every layer of the networks must have units")
    expected, stored = shapes(members[0]), {name: a.shape[1:] for name, a in stacked.items()}
    for name in expected | stored:
        if stored[name] != expected.get(name):
            raise ValueError(f"{name} and other arrays of the networks do not fit together")
    return members


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

"""What a fit of the noise-network recipe is given, and what it carries."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from bayesprop.moments.network_ensemble.gaussian_network import GaussianLayer, Layers
from bayesprop.moments.network_ensemble.known_rows import KnownRows
from bayesprop.moments.network_ensemble.member import LEAST_DOF, Member, init_member
from bayesprop.moments.network_ensemble.residual_process import ResidualProcess
from bayesprop.moments.network_ensemble.weight_priors import Priors

MANY_ROWS = 5_000
VERY_MANY_ROWS = 30_000
FEW_ROWS, FEW_ROWS_PRIORS = 150, Priors(mean=0.25, noise=1.0, last_noise=0.1)
WIDE_STEPS = 4_000
"""Steps where the table has more columns than rows."""
FEW_VALUES = 20
LEAST_NOISE_STD = 1e-3
"""Least standard deviation of the noise, as a share of the target's."""


@dataclass(frozen=True)
class EnsembleSettings:
    """Everything that a fit is given besides the data; `settings_for` chooses by their size.

    hidden_layer_sizes, noise_layer_sizes
        Units of the hidden layers of the mean networks, and of the separate noise networks.
    n_members
        Networks in the ensemble, alike but for their random start.
    n_steps, batch_size, step_size
        Adam's steps, rows in each, and the first step size, which falls by a cosine to 1 %.
    kl_warm_up, noise_warm_up
        Shares of the steps over which the weight of the KL rises from 0 to 1, and the share of the
        noise network that the mean network sees goes from 1/2 to its last value.
    noise_shares
        These last values, which the members take in turn, from 0 (the mean network weighs all rows
        alike: better means) to 1 (by their noise: better densities).
    mean_least_dofs
        Least degrees of freedom that the mean networks take the noise to have, which the members
        take in turn: 3, as the noise networks say; many, a Gaussian, which leaves no row alone.
    is_direct
        Whether the last layers of the mean networks take the inputs too.
    learns_residual, learns_replicates
        Whether what the networks leave is learnt, see residual_process.py, and what comes back with
        inputs that the table holds more than once, see known_rows.py.
    priors
        See `Priors`.
    """

    hidden_layer_sizes: tuple[int, ...] = (50,)
    noise_layer_sizes: tuple[int, ...] = (20,)
    n_members: int = 6
    n_steps: int = 20_000
    batch_size: int = 64
    step_size: float = 0.01
    kl_warm_up: float = 0.8
    noise_warm_up: float = 0.3
    noise_shares: tuple[float, ...] = (0.5, 1.0)
    mean_least_dofs: tuple[float, ...] = (30.0, 3.0, 30.0, 3.0, 3.0, 3.0)
    is_direct: bool = False
    learns_residual: bool = True
    learns_replicates: bool = False
    priors: tuple[float, float, float] = Priors()

    def __post_init__(self) -> None:
        for name in ("n_members", "n_steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be an int >= 1, got {getattr(self, name)!r}")
        if not 0.0 < self.step_size < 1.0:
            raise ValueError(f"step_size must be between 0 and 1, got {self.step_size!r}")
        for name in ("kl_warm_up", "noise_warm_up"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be in (0, 1], got {getattr(self, name)!r}")
        shares = self.noise_shares
        if not shares or not all(0.0 <= share <= 1.0 for share in shares):
            raise ValueError(f"noise_shares must hold numbers from 0 to 1, got {shares!r}")
        dofs = self.mean_least_dofs
        if not dofs or not all(LEAST_DOF <= dof < math.inf for dof in dofs):
            raise ValueError(f"mean_least_dofs must hold finite numbers >= 3, got {dofs!r}")
        if len(self.priors) != len(Priors._fields) or not all(each > 0.0 for each in self.priors):
            raise ValueError(f"priors must hold three numbers > 0, got {self.priors!r}")
        for name in ("hidden_layer_sizes", "noise_layer_sizes"):
            sizes = getattr(self, name)
            if not sizes or min(sizes) < 1:
                raise ValueError(f"{name} must hold at least one int >= 1, got {sizes!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> EnsembleSettings:
        """Rebuild from `to_dict`; ValueError where it holds something else."""
        if set(stored) != {field.name for field in fields(cls)}:
            raise ValueError(f"not the settings of a noise network: {sorted(stored)}")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()
        }
        return cls(**values)


def settings_for(n_rows: int, n_inputs: int = 1, **overrides: Any) -> EnsembleSettings:
    """Sizes that fit the table, any of which can be overridden by name.

    Up to 5000 rows one hidden layer of 50, six members and batches of 64; then two layers, two
    members and batches of 128; beyond 30 000 rows two layers of 100. Below 150 rows a linear model
    beside the network, and narrower priors: wide ones are narrowed by rows alone. A table of more
    columns than rows gets a fifth of the steps: so many weights of which the rows say nothing
    outweigh the rows if training goes on.
    """
    chosen: dict[str, Any] = {"n_steps": WIDE_STEPS} if n_inputs > n_rows else {}
    if n_rows < FEW_ROWS:
        chosen |= {"is_direct": True, "priors": FEW_ROWS_PRIORS}
    if n_rows >= MANY_ROWS:
        chosen |= {"hidden_layer_sizes": (50, 50), "batch_size": 128, "n_members": 2}
    if n_rows >= VERY_MANY_ROWS:
        chosen["hidden_layer_sizes"] = (100, 100)
    return EnsembleSettings(**(chosen | overrides))


class EnsembleState(NamedTuple):
    """The posterior and where its training stands; float32 arrays, standardised units.

    members
        Parameters of all members: the first axis of every array.
    slope, slope_square
        Adam's running means of the gradient and its square, one flat vector each.
    log_floor
        Log of the least noise variance of every target, (o,).
    deviations
        Of all weights of the mean networks, (k, s, p), whose outer products add up to the
        covariance; none before training has ended. See joint_covariance.py.
    residual
        Knows what the members leave, nothing before training has ended.
    known
        Knows inputs whose noise comes back, none before training has ended.
    log_noise_ratio
        Log of what the variance of the noise, above its floor, is multiplied by, (o,).
    seed, step
        The number that fixes the order of the rows, and the steps taken so far.
    """

    members: Member
    slope: Float[np.ndarray, " p"]
    slope_square: Float[np.ndarray, " p"]
    log_floor: Float[np.ndarray, " o"]
    deviations: Float[np.ndarray, "k s p"]
    residual: ResidualProcess
    known: KnownRows
    log_noise_ratio: Float[np.ndarray, " o"]
    seed: int
    step: int

    @property
    def n_inputs(self) -> int:
        """Columns of x."""
        return self.members.mean[0].w_m.shape[-2]

    @property
    def n_outputs(self) -> int:
        """Columns of y."""
        return len(self.log_floor)

    @property
    def is_direct(self) -> bool:
        """Whether the last layers of the mean networks take the inputs too."""
        *_, below, last = self.members.mean
        return last.w_m.shape[-2] > below.b_m.shape[-1]

    @property
    def n_members(self) -> int:
        """Networks in the ensemble."""
        return len(self.members.raw_dof)

    def without_deviations(self) -> EnsembleState:
        """Return the state as training knows it: independent weights, and nothing else."""
        return self._replace(
            deviations=np.zeros((self.n_members, 0, self.n_mean_weights), np.float32),
            residual=ResidualProcess.none(self.n_inputs, self.n_outputs),
            known=KnownRows.none(self.n_inputs, self.n_outputs),
            log_noise_ratio=np.zeros(self.n_outputs, np.float32),
        )

    @property
    def n_mean_weights(self) -> int:
        """Weights and biases of one mean network."""
        return sum(part[0].size for layer in self.members.mean for part in (layer.w_m, layer.b_m))

    def each_member(self) -> list[Member]:
        """Take the members apart."""
        return [
            jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], self.members)
            for k in range(self.n_members)
        ]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name every array: `mean.0.w_m` holds the mean weights of the first layer."""
        arrays = {name: np.asarray(getattr(self.members, name)) for name in _VECTORS}
        for network in _NETWORKS:
            for depth, layer in enumerate(getattr(self.members, network)):
                for part, value in layer._asdict().items():
                    arrays[f"{network}.{depth}.{part}"] = np.asarray(value)
        for depth, widths in enumerate(self.members.log_widths):
            arrays[f"{_WIDTHS}.{depth}"] = np.asarray(widths)
        for part in _LEARNT_LAST:
            for name, value in getattr(self, part)._asdict().items():
                arrays[f"{part}.{name}"] = value
        for name in _TRAINING:
            arrays[name] = np.asarray(getattr(self, name))
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> EnsembleState:
        """Rebuild from `to_arrays`; ValueError where names or shapes do not fit together."""
        try:
            mean, noise = (_layers_of(arrays, name) for name in _NETWORKS)
            vectors = {name: arrays[name] for name in _VECTORS}
            members = Member(mean, noise, **vectors, log_widths=_widths_of(arrays))
            state = cls(
                members,
                arrays["slope"],
                arrays["slope_square"],
                arrays["log_floor"],
                arrays["deviations"],
                log_noise_ratio=arrays["log_noise_ratio"],
                seed=int(arrays["seed"]),
                step=int(arrays["step"]),
                **{
                    part: kind(*(arrays[f"{part}.{name}"] for name in kind._fields))
                    for part, kind in _LEARNT_LAST.items()
                },
            )
        except KeyError as missing:
            raise ValueError(f"the array {missing} is missing") from None
        state._check()
        return state

    def _check(self) -> None:
        """Raise ValueError unless the arrays belong to one ensemble."""
        networks = self.members.mean, self.members.noise
        others = self.slope, self.slope_square, self.log_floor, self.deviations
        others = *others, *self.residual, *self.known, self.log_noise_ratio
        leaves = [*jax.tree.leaves(self.members), *others]
        arrays = [np.asarray(leaf) for leaf in leaves]
        if not all(a.dtype == np.float32 and np.isfinite(a).all() for a in arrays):
            raise ValueError("the parameters must be finite numbers of float32")
        if min(map(len, networks)) < 2:
            raise ValueError("both networks must have a hidden layer")
        if np.ndim(self.members.raw_dof) != 2 or not all(
            np.ndim(layer.w_m) == 3 and np.ndim(layer.b_m) == 2 for net in networks for layer in net
        ):
            raise ValueError("the layers do not fit together")
        n_members, n_out = np.shape(self.members.raw_dof)
        for network in networks:
            n_direct = self.n_inputs if network is self.members.mean and self.is_direct else 0
            _check_network(network, n_members, self.n_inputs, n_out, n_direct)
        units = [layer.b_m.shape for layer in self.members.mean[:-1]]
        if [np.shape(widths) for widths in self.members.log_widths] != units:
            raise ValueError(f"the widths must have the shapes of the hidden units, {units}")
        if any(np.shape(getattr(self.members, name)) != (n_members, n_out) for name in _VECTORS):
            raise ValueError(f"the noise parameters must have shape ({n_members}, {n_out})")
        if self.log_floor.shape != (n_out,) or self.log_noise_ratio.shape != (n_out,):
            raise ValueError(f"log_floor and log_noise_ratio must have shape ({n_out},)")
        self.residual.check(self.n_inputs, n_out)
        self.known.check(self.n_inputs, n_out)
        if self.deviations.shape != (n_members, *self.deviations.shape[1:2], self.n_mean_weights):
            raise ValueError(f"deviations must have shape ({n_members}, s, {self.n_mean_weights})")
        n_parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(self.members))
        if self.slope.shape != (n_parameters,) or self.slope_square.shape != (n_parameters,):
            raise ValueError(f"slope and slope_square must have shape ({n_parameters},)")


_NO_DEVIATIONS = np.zeros((0, 0, 0), np.float32)
_NETWORKS = ("mean", "noise")
_VECTORS = ("log_noise", "own_log_noise", "raw_dof")
_WIDTHS = "log_widths"
_LEARNT_LAST = {"residual": ResidualProcess, "known": KnownRows}
_TRAINING = (
    "slope",
    "slope_square",
    "log_floor",
    "deviations",
    "log_noise_ratio",
    "seed",
    "step",
)


def _layers_of(arrays: dict[str, np.ndarray], network: str) -> Layers:
    n_layers = sum(name.startswith(f"{network}.") for name in arrays) // len(GaussianLayer._fields)
    return tuple(
        GaussianLayer(*(arrays[f"{network}.{depth}.{part}"] for part in GaussianLayer._fields))
        for depth in range(n_layers)
    )


def _widths_of(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    n_layers = sum(name.startswith(f"{_WIDTHS}.") for name in arrays)
    return tuple(arrays[f"{_WIDTHS}.{depth}"] for depth in range(n_layers))


def _check_network(layers: Layers, n_members: int, n_in: int, n_out: int, n_direct: int) -> None:
    sizes = [n_in, *(layer.b_m.shape[-1] for layer in layers)]
    for depth, (layer, (fan_in, fan_out)) in enumerate(zip(layers, pairwise(sizes), strict=True)):
        fan_in += n_direct if depth == len(layers) - 1 else 0
        if any(w.shape != (n_members, fan_in, fan_out) for w in (layer.w_m, layer.w_log_std)):
            raise ValueError("the layers do not fit together")
        if any(b.shape != (n_members, fan_out) for b in (layer.b_m, layer.b_log_std)):
            raise ValueError("the layers do not fit together")
    if len(sizes) < 2 or sizes[-1] != n_out:
        raise ValueError(f"the last layer must have {n_out} units")


def log_noise_floor(y: Float[np.ndarray, "n o"]) -> Float[np.ndarray, " o"]:
    """Log of the least noise variance of standardised targets.

    The standard deviation is a tenth of the smallest gap between the values where there are at
    most 20 of them (a grid can be hit exactly, and the noise would fall without end), else 1e-3.
    """
    least = []
    for column in np.asarray(y, np.float64).T:
        values = np.unique(column)
        is_grid = 1 < len(values) <= FEW_VALUES
        least.append(np.diff(values).min() / 10.0 if is_grid else LEAST_NOISE_STD)
    return (2.0 * np.log(np.maximum(least, LEAST_NOISE_STD))).astype(np.float32)


def init(
    seed: int, n_inputs: int, y: Float[np.ndarray, "n o"], settings: EnsembleSettings
) -> EnsembleState:
    """Draw the initial networks; y, standardised, gives the floor of the noise."""
    rng = np.random.default_rng(seed)
    sizes = (n_inputs, *settings.hidden_layer_sizes, y.shape[1])
    each = [
        init_member(rng, sizes, settings.noise_layer_sizes, is_direct=settings.is_direct)
        for _ in range(settings.n_members)
    ]
    members = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
    zeros = np.zeros(sum(np.size(leaf) for leaf in jax.tree.leaves(members)), np.float32)
    floor = log_noise_floor(y)
    shape = n_inputs, y.shape[1]
    state = EnsembleState(
        members,
        slope=zeros,
        slope_square=zeros,
        log_floor=floor,
        deviations=_NO_DEVIATIONS,
        residual=ResidualProcess.none(*shape),
        known=KnownRows.none(*shape),
        log_noise_ratio=floor,
        seed=seed,
        step=0,
    )
    return state.without_deviations()

"""What is kept of an ensemble of classes: the posterior of all networks, and how they are mixed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from bayesprop.moments.network_ensemble.ensemble_state import members_of, named_after, stacked
from bayesprop.moments.network_ensemble.input_views import Ramps
from bayesprop.moments.network_ensemble.member import Member, is_part
from bayesprop.moments.network_ensemble.neighbour_labels import NeighbourLabels

_NONE = np.zeros(1)


class Family(NamedTuple):
    """Networks that are alike: whether they are given ramps, and copies that a row counts for.

    is_ordered
        Whether the likelihood is cumulative.
    """

    has_ramps: bool
    likelihood_weight: float
    is_ordered: bool = False


FAMILIES = (Family(False, 1.0), Family(False, 8.0), Family(True, 1.0), Family(True, 8.0))
ORDERED_FAMILIES = (*FAMILIES, *(family._replace(is_ordered=True) for family in FAMILIES))
"""Those of more than two ordered classes."""


class ClassState(NamedTuple):
    """The posterior of all networks, and how they are mixed.

    families
        Members of each of FAMILIES, or of ORDERED_FAMILIES.
    ramps
        Of the inputs.
    constant
        Probabilities of the classes in the training rows, (c,).
    shares
        Of the families, and last of the constant, (f + 1,).
    power
        That the mixture is raised to, (1,).
    points
        Standard normal draws of all logits, whose negatives belong to them, (p, c).
    seed
        The number that fixed the starts, the folds and the order of the rows.
    neighbours
        What moves the mixture before the power; None where rows left out want nothing.
    surprise
        Share of the constant beside all that, (1,): n rows without a surprise leave one in n + 2
        (the rule of succession, Laplace 1774).
    """

    families: tuple[tuple[Member, ...], ...]
    ramps: Ramps
    constant: Float[np.ndarray, " c"]
    shares: Float[np.ndarray, " f"]
    power: Float[np.ndarray, " one"]
    points: Float32[np.ndarray, "p c"]
    seed: int
    neighbours: NeighbourLabels | None = None
    surprise: Float[np.ndarray, " one"] = _NONE

    @property
    def kinds(self) -> tuple[Family, ...]:
        """What the families are."""
        return FAMILIES if len(self.families) == len(FAMILIES) else ORDERED_FAMILIES

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name every array; those of a family's members have these as their first axis."""
        arrays = {
            f"family.{f}.{name}": array
            for f, members in enumerate(self.families)
            for name, array in stacked(members).items()
        }
        arrays |= {f"ramps.{name}": array for name, array in self.ramps._asdict().items()}
        arrays |= {name: getattr(self, name) for name in _OWN}
        if self.neighbours is not None:
            of_rows = self.neighbours.to_arrays().items()
            arrays |= {f"{_NEAR}{name}": array for name, array in of_rows}
        return arrays | {"seed": np.asarray(self.seed)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_inputs: int) -> ClassState:
        """Rebuild from `to_arrays`; ValueError where names or shapes do not fit together."""
        arrays = {"surprise": _NONE} | arrays  # which older files are without
        for name, array in arrays.items():
            if name != "seed" and not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite")
        try:
            is_ordered = f"family.{len(FAMILIES)}.mean.0.w_m" in arrays
            kinds = ORDERED_FAMILIES if is_ordered else FAMILIES
            families = tuple(_family(arrays, f) for f in range(len(kinds)))
            near = named_after(_NEAR, arrays)
            ramps = Ramps(*(arrays[f"ramps.{name}"] for name in Ramps._fields))
            own = {name: arrays[name] for name in _OWN}
            n_classes = own["constant"].size
            labels = NeighbourLabels.from_arrays(near, n_inputs, n_classes) if near else None
            state = cls(families, ramps, **own, seed=int(arrays["seed"]), neighbours=labels)
        except KeyError as missing:
            raise ValueError(f"the array {missing} is missing") from None
        state._check(n_inputs)
        return state

    def _check(self, n_inputs: int) -> None:
        """Raise ValueError unless the arrays belong to one ensemble."""
        self.ramps.check(n_inputs)
        n_classes = self.constant.size
        for name, size in (("constant", n_classes), ("shares", len(self.kinds) + 1)):
            share = getattr(self, name)
            if share.shape != (size,) or (share < 0.0).any() or abs(share.sum() - 1.0) > 1e-6:
                raise ValueError(f"{name} must be {size} numbers from 0 on that sum to one")
        if self.power.shape != (1,) or self.power[0] <= 0.0:
            raise ValueError("power must be one number > 0")
        if self.surprise.shape != (1,) or not 0.0 <= self.surprise[0] < 1.0:
            raise ValueError("surprise must be one number from 0 to 1")
        if self.points.shape != (max(len(self.points), 1), n_classes):
            raise ValueError(f"points must have rows, and {n_classes} columns")
        for family, members in zip(self.kinds, self.families, strict=True):
            sizes, n_cuts = members[0].sizes[0], len(members[0].thresholds)
            n_given = n_inputs + family.has_ramps * self.ramps.n_ramps
            wanted = (n_given, 1, n_classes - 1) if family.is_ordered else (n_given, n_classes, 0)
            if (sizes[0], sizes[-1], n_cuts) != wanted or not members[0].is_direct:
                raise ValueError(f"networks must lead from {n_given} inputs to {n_classes} classes")


_OWN = ("constant", "shares", "power", "points", "surprise")
_NEAR = "neighbours."


def _family(arrays: dict[str, np.ndarray], f: int) -> tuple[Member, ...]:
    named = named_after(f"family.{f}.", arrays)
    if not all(is_part(name) and a.dtype == np.float32 for name, a in named.items()):
        raise ValueError("the arrays of the networks do not fit together: all must be float32")
    return members_of(named, are_noisy=False)

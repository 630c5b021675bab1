"""What a pruned estimator remembers: what was removed, and that its training is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pruned:
    """What was removed from an estimator.

    share, by_layer
        As asked for.
    n_weights, n_removed
        Counts over the whole network.
    threshold
        Signal-to-noise, |mean| / std, below which the share of all weights lay.
    """

    share: float
    by_layer: bool
    n_weights: int
    n_removed: int
    threshold: float


def goes_on(estimator: Any) -> bool:
    """Whether `fit` continues an earlier fit; ValueError where that one has been pruned."""
    if not (getattr(estimator, "warm_start", False) and hasattr(estimator, "state_")):
        return False
    if hasattr(estimator, "pruned_"):
        raise ValueError(
            "warm_start must be False to fit a pruned model, which kept nothing of its "
            "training, got True: go on with the model before pruning"
        )
    return True


def check_streams(estimator: Any) -> None:
    """Raise ValueError where `partial_fit` would teach a pruned model."""
    if hasattr(estimator, "pruned_"):
        raise ValueError(
            "partial_fit needs a model that was not pruned, because a weight that was removed "
            "learns no more: go on with the model before pruning, or call fit"
        )


def forget(estimator: Any) -> None:
    """Let a new fit be a whole network again."""
    vars(estimator).pop("pruned_", None)

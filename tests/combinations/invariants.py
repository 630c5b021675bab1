"""What holds of every prediction, whatever method, task and stage it came from."""

from __future__ import annotations

from typing import Any

import numpy as np
from models import figures

LEVELS = np.array([0.05, 0.1, 0.5, 0.9, 0.95])
SUPPORT = {"positive": (0.0, np.inf), "nonnegative": (0.0, np.inf), "count": (0.0, np.inf)}
SUPPORT |= {"share": (0.0, 1.0), "censored": (-np.inf, 0.4)}
HAS_ATOMS = ("count", "nonnegative", "censored")
"""Kinds whose distribution function jumps, so that a level may be passed at a quantile."""


def check_prediction(
    predictive: Any, gap: np.ndarray, task: str, labels: np.ndarray | None
) -> None:
    """Everything that is true of one prediction by itself.

    gap
        Which of its rows have one, (n,).
    """
    n = len(gap)
    assert len(predictive) == n
    assert predictive.is_finite.all()
    share = getattr(predictive, "gap_share", np.zeros(n))
    assert (share[~gap] == 0.0).all()
    assert ((share >= 0.0) & (share < 1.0)).all()
    assert share[gap].max(initial=0.0) > 0.0 or not gap.any(), "a gap widens no error bar"
    middle = predictive.quantile(0.5) if labels is None else predictive.label
    assert np.isfinite(predictive.log_prob(middle)).all()
    if labels is not None:
        probabilities_sum_to_one(predictive)
        labels_are_those_of_the_target(predictive, labels)
        return
    shape = (n, 2) if task == "several outputs" else (n,)
    assert predictive.mean.shape == predictive.std.shape == shape
    variances_add_up(predictive)
    intervals_are_nested(predictive)
    quantiles_invert_the_distribution_function(predictive, task)
    bounds_keep_to_the_support(predictive, task)


def probabilities_sum_to_one(predictive: Any) -> None:
    np.testing.assert_allclose(predictive.proba.sum(axis=1), 1.0, rtol=1e-12)
    assert (predictive.proba >= 0.0).all()
    assert (predictive.mutual_information >= 0.0).all()
    assert (predictive.expected_entropy <= np.log(predictive.proba.shape[1]) + 1e-6).all()
    if predictive.order is not None:
        ranks = np.argsort(predictive.shown)
        at = np.searchsorted(predictive.classes, predictive.quantile(LEVELS))
        assert (np.diff(ranks[at], axis=1) >= 0).all()


def labels_are_those_of_the_target(predictive: Any, labels: np.ndarray) -> None:
    """Of the same type too, so that they can be compared with the truth."""
    assert predictive.classes.tolist() == sorted(labels.tolist())
    if predictive.order is not None:
        assert predictive.classes[predictive.shown].tolist() == labels.tolist()
    assert set(map(type, predictive.label.tolist())) <= set(map(type, labels.tolist()))


def variances_add_up(predictive: Any) -> None:
    epistemic, noise = predictive.epistemic_var, predictive.noise_var
    assert (predictive.std > 0.0).all()
    assert (epistemic >= 0.0).all()
    assert (noise >= 0.0).all()
    np.testing.assert_allclose(epistemic + noise, predictive.std**2, rtol=1e-6)


def intervals_are_nested(predictive: Any) -> None:
    inner, outer = predictive.interval(0.5), predictive.interval(0.95)
    assert (outer[..., 0] <= inner[..., 0]).all()
    assert (inner[..., 0] <= inner[..., 1]).all()
    assert (inner[..., 1] <= outer[..., 1]).all()


def quantiles_invert_the_distribution_function(predictive: Any, task: str) -> None:
    at = predictive.quantile(LEVELS)
    assert (np.diff(at, axis=-1) >= 0.0).all()
    reached = np.stack([predictive.cdf(one) for one in np.moveaxis(at, -1, 0)], axis=-1)
    assert (np.diff(reached, axis=-1) >= -1e-9).all()
    if task in HAS_ATOMS:
        assert (reached >= LEVELS - 2e-3).all()
    else:
        np.testing.assert_allclose(reached, np.broadcast_to(LEVELS, reached.shape), atol=2e-3)


def bounds_keep_to_the_support(predictive: Any, task: str) -> None:
    low, high = SUPPORT.get(task, (-np.inf, np.inf))
    bounds = predictive.interval(0.99)
    assert ((bounds >= low) & (bounds <= high)).all()
    if task == "count":
        np.testing.assert_array_equal(bounds, np.rint(bounds))


def same(one: Any, other: Any) -> None:
    """Two predictions are equal to the last bit."""
    np.testing.assert_array_equal(figures(one), figures(other))


def alike(one: Any, other: Any) -> None:
    """Two predictions are equal up to a float32's rounding, in another order of summing."""
    ours, theirs = (one if isinstance(one, np.ndarray) else figures(one) for one in (one, other))
    np.testing.assert_allclose(
        ours, theirs, rtol=1e-4, atol=1e-5 * np.abs(theirs).max(initial=1e-9)
    )

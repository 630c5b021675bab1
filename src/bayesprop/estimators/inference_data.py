"""Draws of a fitted model for ArviZ, by the names of its schema."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Groups = dict[str, dict[str, np.ndarray]]
"""Variables of each group, by their names: draws (chains, draws, ...), observed data (...)."""


def inference_data(groups: Groups) -> Any:
    """Hand groups to ArviZ: an InferenceData, from ArviZ 1.0 on a DataTree.

    ImportError where ArviZ is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it announces its own next version
            import arviz
    except ImportError as error:
        raise ImportError(
            "to_inference_data needs ArviZ: pip install 'bayesprop[arviz]'"
        ) from error
    from_dict: Any = arviz.from_dict  # whose signature differs between the two
    return from_dict(**groups) if arviz.__version__.startswith("0.") else from_dict(groups)


def at_rows(
    estimator: Any, X: ArrayLike, y: ArrayLike | None, n_samples: int, random_state: int
) -> Groups:
    """Draw at rows what a fitted estimator predicts, as its `to_inference_data` says."""
    groups, observed = {}, None if y is None else np.asarray(y)
    if hasattr(estimator, "sample_y"):
        f, new = (
            np.moveaxis(estimator.sample_y(X, n_samples, random_state, include_noise=noisy), -1, 0)
            for noisy in (False, True)
        )
        groups["posterior"] = {"f": f[None]}
    else:
        new = estimator.predict_dist(X).rvs(n_samples, random_state)
    if observed is not None and observed.shape != new.shape[1:]:
        raise ValueError(f"y must have the shape {new.shape[1:]} at X, got {observed.shape}")
    if (labels := getattr(estimator.task_, "labels", None)) is not None:
        new = np.searchsorted(labels, new)
        observed = None if observed is None else estimator.task_.encode(observed, None, None)
    groups["posterior_predictive"] = {"y": new[None]}
    return groups if observed is None else groups | {"observed_data": {"y": observed}}

"""Estimators whose state is any pytree of arrays, as a JSON-ready header and named arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bayesprop.estimators.stored import (
    classifier_header,
    estimator_header,
    regressor_header,
    restore_classifier,
    restore_regressor,
    restored,
)


def network_header(estimator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays of an estimator whose state is any pytree of arrays."""
    header = estimator_header(estimator)
    is_classifier = hasattr(estimator, "classes_")
    header |= classifier_header(estimator) if is_classifier else regressor_header(estimator)
    header["seed"] = estimator.seed_
    leaves = jax.tree_util.tree_flatten_with_path(estimator.state_)[0]
    return header, {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restore_network(
    cls: type,
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    shape_of_state: Callable[[Any], Any],
) -> Any:
    """Rebuild what `network_header` gave.

    shape_of_state
        From the estimator, its hyper-parameters and sizes restored, to the structure of its
        state; the stored arrays must be exactly those.
    """
    model = restored(cls, header)
    if "classes" in header:
        restore_classifier(model, header)
    else:
        restore_regressor(model, header)
    model.seed_ = int(header["seed"])
    expected, structure = jax.tree_util.tree_flatten_with_path(shape_of_state(model))
    names = [jax.tree_util.keystr(path) for path, _ in expected]
    if sorted(names) != sorted(arrays):
        raise ValueError("the stored arrays are not those of this network")
    leaves = []
    for name, (_, leaf) in zip(names, expected, strict=True):
        array = arrays[name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype or not np.isfinite(array).all():
            finite = "" if np.isfinite(array).all() else ", not all of it finite"
            raise ValueError(
                f"array {name} must be finite {leaf.dtype} of shape {leaf.shape}, got "
                f"{array.dtype} of shape {array.shape}{finite}"
            )
        leaves.append(jax.numpy.asarray(array))
    model.state_ = jax.tree.unflatten(structure, leaves)
    return model

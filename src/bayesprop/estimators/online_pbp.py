"""A PBP regressor that is taught row by row in compiled memory, instead of by `fit`.

For bandits: `begun` makes an unfitted regressor stand at its prior, in units that are given instead
of learnt from rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesprop.estimators.pbp import PBPRegressor
from bayesprop.estimators.pbp_fitting import hidden_sizes
from bayesprop.moments.pbp.state import GammaPrior, PBPState, init
from bayesprop.moments.pbp.stream import LastRows, PBPStream

_STATE, _X, _Y = "state.", "last.x", "last.y"


def check(model: Any) -> None:
    """Raise ValueError unless a PBP regressor's settings are those that the stream has."""
    if not isinstance(model, PBPRegressor):
        raise ValueError(f"estimator must be a PBPRegressor, got {type(model).__name__}")
    engine = model._checked_engine()
    if not engine.is_compiled or engine.inference != "adf":
        raise ValueError(
            "estimator must be a PBPRegressor of the compiled engine: activation='relu', "
            f"batch_size=1, inference='adf', engine 'auto' or 'kernel'; got {model!r}"
        )


def begun(
    model: PBPRegressor, n_inputs: int, n_outputs: int, *, seed: int, **recall: Any
) -> PBPStream:
    """Return the posterior of no rows; its random means are drawn by `seed`.

    recall
        n_recalled and recall_weight of `PBPStream`.
    """
    sizes = (n_inputs, *hidden_sizes(model.hidden_layer_sizes), n_outputs)
    weight_prior, noise_prior = GammaPrior(*model.weight_prior), GammaPrior(*model.noise_prior)
    rng = np.random.default_rng(seed)
    return PBPStream(init(rng, sizes, weight_prior=weight_prior, noise_prior=noise_prior), **recall)


def to_arrays(stream: PBPStream) -> dict[str, np.ndarray]:
    """Name all arrays of a stream."""
    arrays = {_STATE + name: array for name, array in stream.state.to_arrays().items()}
    return arrays | {_X: stream.last.x, _Y: stream.last.y}


def from_arrays(
    arrays: dict[str, np.ndarray], like: PBPStream, *, n_seen: int, **recall: Any
) -> PBPStream:
    """Rebuild from `to_arrays`; ValueError where they do not fit a stream that has seen nothing."""
    state = {k.removeprefix(_STATE): a for k, a in arrays.items() if k.startswith(_STATE)}
    posterior, x, y = PBPState.from_arrays(state), arrays[_X], arrays[_Y]
    if posterior.layer_sizes != like.layer_sizes:
        raise ValueError("the stored network is not that of the settings")
    for part, begun in ((x, like.last.x), (y, like.last.y)):
        if part.shape != begun.shape or part.dtype != begun.dtype or np.isinf(part).any():
            raise ValueError("the stored rows do not fit the settings")
    is_there = np.arange(len(y)) < n_seen
    if n_seen < 0 or np.isnan(x).any() or (np.isnan(y).all(axis=1) == is_there).any():
        raise ValueError("the stored rows must be numbers")
    return PBPStream(posterior, last=LastRows(x, y, n_seen), **recall)

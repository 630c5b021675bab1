"""Fitted estimators as a JSON-ready header and named arrays, and back; nothing is trusted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesprop.catalogue import estimator_class, method_and_task
from bayesprop.model.fit_report import FitReport
from bayesprop.model.input_model import InputModel, KnownInputs
from bayesprop.model.method import Learned, Stored
from bayesprop.model.task import Classes, Standardiser, task_from_dict

_GONE: dict[str, dict[str, Any]] = {"PBPRegressor": {"reference": False}}
"""Hyper-parameters of older files, each with the value that stands for what is done now."""

_RENAMED: dict[str, dict[str, str]] = {
    "BayesianMLPRegressor": {"learn_residual": "learn_processes"}
}
"""Hyper-parameters by their names in older files."""


_ADDED = "target_kind", "exposure", "order"
"""Hyper-parameters that older files do not have: their defaults stand for them."""


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


def stored_params(estimator: Any) -> dict[str, Any]:
    """Return all hyper-parameters; of a random generator, only that there was no seed."""
    params = estimator.get_params()
    seed = params["random_state"]
    params |= {"random_state": int(seed) if isinstance(seed, Integral) else None}
    if params.get("order") is not None:
        params["order"] = np.asarray(params["order"]).tolist()
    return params


def with_params(cls: type, stored: dict[str, Any]) -> Any:
    """Build an unfitted estimator with what `stored_params` gave."""
    now = _RENAMED.get(cls.__name__, {})
    params = {
        now.get(name, name): tuple(value) if isinstance(value, list) else value
        for name, value in stored.items()
    }
    for name, kept in _GONE.get(cls.__name__, {}).items():
        if params.pop(name, kept) != kept:
            raise ValueError(f"{name} is no longer a choice but {kept!r}: fit the model again")
    params = {name: getattr(cls, name) for name in _ADDED if hasattr(cls, name)} | params
    model = cls(**params)
    if set(model.get_params()) != set(params):
        raise ValueError(f"params must name every hyper-parameter, got {sorted(params)}")
    return model


def unfitted_to_stored(estimator: Any) -> dict[str, Any]:
    """Return method, task and hyper-parameters for JSON; TypeError if it is not of this library."""
    method, task = method_and_task(estimator)
    return {"method": method, "task": task, "params": stored_params(estimator)}


def unfitted_from_stored(header: dict[str, Any]) -> Any:
    """Rebuild what `unfitted_to_stored` gave; any error where it is not that."""
    kind: Any = estimator_class(header["method"], header["task"])
    return with_params(kind, header["params"])


def save(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator to a file; NotFittedError before `fit`."""
    from bayesprop.store import save_model

    check_is_fitted(estimator)
    save_model(path, estimator)


def to_stored(estimator: Any) -> Stored:
    """Return a fitted estimator as a header and named arrays; NotFittedError before `fit`."""
    check_is_fitted(estimator)
    fitted, names = estimator.fitted_, getattr(estimator, "feature_names_in_", None)
    state = fitted.method.to_stored(fitted.learned.state)
    header = {
        "params": stored_params(estimator),
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "n_iter": fitted.learned.n_iter,
        "x_scaler": fitted.encoding.scaler.to_dict(),
        "fit_report": fitted.learned.report.to_dict(),
        **({"pruned": asdict(estimator.pruned_)} if hasattr(estimator, "pruned_") else {}),
    }
    inputs = {} if fitted.inputs is None else fitted.inputs.model.to_arrays()
    return Stored(header | fitted.task.to_dict() | state.header, state.arrays | inputs)


def from_stored(kind: type, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild an estimator from what `to_stored` gave; any error where it is not that."""
    model = with_params(kind, header["params"])
    model.check_params()
    n_inputs, names = int(header["n_features_in"]), header["feature_names_in"]
    if n_inputs < 1 or (names is not None and len(names) != n_inputs):
        raise ValueError(f"the header names {names!r} for {n_inputs} inputs")
    if names is not None:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    model.n_features_in_ = n_inputs
    model.x_scaler_ = Standardiser.checked(header["x_scaler"], "x_scaler", n_inputs)
    model.task_ = task_from_dict(header)
    if isinstance(model.task_, Classes) != hasattr(kind, "predict_proba"):
        raise ValueError(f"a {kind.__name__} does not predict what the file says")
    if model.task_.kind != model.target_kind:
        raise ValueError(f"y_map, or order, must be that of target_kind={model.target_kind!r}")
    if "pruned" in header:
        model.pruned_ = Pruned(**header["pruned"])
    method = model.build_method(model.task_, n_inputs)
    inputs, arrays = InputModel.from_arrays(arrays, n_inputs)
    model.inputs_ = None if inputs is None else KnownInputs.of_model(inputs)
    state = method.from_stored(Stored(header, arrays))
    report = FitReport.from_dict(header["fit_report"])
    model.learned_ = Learned(state, report, int(header["n_iter"]))
    return model

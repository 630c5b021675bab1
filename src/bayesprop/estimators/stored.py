"""Fitted estimators as a JSON-ready header and named arrays, and back; nothing is trusted.

What predicts comes back without scikit-learn.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from numbers import Integral
from typing import Any, NamedTuple, cast

import numpy as np

from bayesprop.catalogue import estimator_class, method_and_task
from bayesprop.estimators.params import HyperParameters, OfClasses
from bayesprop.model.fit_report import FitReport
from bayesprop.model.fitted import Fitted
from bayesprop.model.input_model import InputModel, KnownInputs
from bayesprop.model.method import Learned, Stored
from bayesprop.model.task import Classes, Encoding, Standardiser, task_from_dict


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
    """Build hyper-parameters, or an estimator, with what `stored_params` gave."""
    params = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    model = cls(**params)
    if {one.name for one in fields(cast(Any, cls))} != set(params):
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


def to_stored(estimator: Any) -> Stored:
    """Return a fitted estimator as a header and named arrays; NotFittedError before `fit`."""
    from sklearn.utils.validation import check_is_fitted

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


class Restored(NamedTuple):
    """What a file holds: hyper-parameters, and all that a prediction needs."""

    params: Any
    fitted: Fitted
    pruned: Pruned | None


def restored(
    kind: type[HyperParameters], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Restored:
    """Read what `to_stored` gave; any error where it is not that.

    kind
        Of the hyper-parameters, or an estimator.
    """
    params = with_params(kind, header["params"])
    params.check_params()
    n_inputs, names = int(header["n_features_in"]), header["feature_names_in"]
    if n_inputs < 1 or (names is not None and len(names) != n_inputs):
        raise ValueError(f"the header names {names!r} for {n_inputs} inputs")
    scaler = Standardiser.from_dict(header["x_scaler"], "x_scaler", n_inputs)
    names = None if names is None else np.asarray(names, dtype=object)
    task = task_from_dict(header)
    if isinstance(task, Classes) != issubclass(kind, OfClasses):
        raise ValueError(f"a {kind.__name__} does not predict what the file says")
    if task.kind != params.target_kind:
        raise ValueError(f"y_map, or order, must be that of target_kind={params.target_kind!r}")
    pruned = Pruned(**header["pruned"]) if "pruned" in header else None
    method = params.build_method(task, n_inputs)
    inputs, arrays = InputModel.from_arrays(arrays, n_inputs)
    state = method.from_stored(Stored(header, arrays))
    report = FitReport.from_dict(header["fit_report"])
    learned = Learned(state, report, int(header["n_iter"]))
    encoding = Encoding(scaler, names, getattr(task, "exposure", None))
    joint = None if inputs is None else KnownInputs(None, inputs)
    return Restored(params, Fitted(method, task, encoding, learned, joint), pruned)


def from_stored(kind: type, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild an estimator from what `to_stored` gave; any error where it is not that."""
    estimator, fitted, pruned = restored(kind, header, arrays)
    if fitted.encoding.names is not None:
        estimator.feature_names_in_ = fitted.encoding.names
    estimator.n_features_in_ = fitted.n_inputs
    estimator.x_scaler_, estimator.task_ = fitted.encoding.scaler, fitted.task
    estimator.inputs_, estimator.learned_ = fitted.inputs, fitted.learned
    if pruned is not None:
        estimator.pruned_ = pruned
    return estimator

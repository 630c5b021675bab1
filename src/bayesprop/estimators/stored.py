"""Fitted estimators as a JSON-ready header and named arrays, and back; nothing is trusted."""

from __future__ import annotations

from dataclasses import asdict
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.pruned import Pruned
from bayesprop.methods import METHODS, estimator_class
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Learned, Stored
from bayesprop.model.standardiser import Standardiser
from bayesprop.model.task import Classes, task_from_dict

_GONE: dict[str, dict[str, Any]] = {"PBPRegressor": {"reference": False}}
"""Hyper-parameters of older files, each with the value that stands for what is done now."""
_LABEL_KINDS: dict[str, type] = {"text": str, "bool": bool, "int": int, "float": float}


def estimator_header(estimator: Any) -> dict[str, Any]:
    """Return what every estimator stores; NotFittedError before `fit`."""
    if not hasattr(estimator, "fit_report_"):
        kind = type(estimator).__name__
        raise NotFittedError(f"this {kind} is not fitted; call fit before save")
    params = stored_params(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "params": params,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "n_iter": estimator.n_iter_,
        "x_scaler": estimator.x_scaler_.to_dict(),
        "fit_report": estimator.fit_report_.to_dict(),
        **({"pruned": asdict(estimator.pruned_)} if hasattr(estimator, "pruned_") else {}),
    }


def stored_params(estimator: Any) -> dict[str, Any]:
    """Return all hyper-parameters; of a random generator, only that there was no seed."""
    params = estimator.get_params()
    seed = params["random_state"]
    return params | {"random_state": int(seed) if isinstance(seed, Integral) else None}


def with_params(cls: type, stored: dict[str, Any]) -> Any:
    """Build an unfitted estimator with what `stored_params` gave."""
    params = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    for name, kept in _GONE.get(cls.__name__, {}).items():
        if params.pop(name, kept) != kept:
            raise ValueError(f"{name} is no longer a choice but {kept!r}: fit the model again")
    model = cls(**params)
    if set(model.get_params()) != set(params):
        raise ValueError(f"params must name every hyper-parameter, got {sorted(params)}")
    return model


def unfitted_to_stored(estimator: Any) -> dict[str, Any]:
    """Return method, task and hyper-parameters for JSON; TypeError if it is not of this library."""
    home = f"{type(estimator).__module__}:{type(estimator).__qualname__}"
    for method in METHODS.values():
        for task, at in method.homes.items():
            if at == home:
                return {"method": method.name, "task": task, "params": stored_params(estimator)}
    raise TypeError(f"only estimators of bayesprop.methods can be saved, got {home}")


def unfitted_from_stored(header: dict[str, Any]) -> Any:
    """Rebuild what `unfitted_to_stored` gave; any error where it is not that."""
    kind: Any = estimator_class(header["method"], header["task"])
    return with_params(kind, header["params"])


def restored(cls: type, header: dict[str, Any]) -> Any:
    """Build an estimator with what `estimator_header` gave."""
    model = with_params(cls, header["params"])
    model.n_features_in_ = int(header["n_features_in"])
    names = header["feature_names_in"]
    if names is not None:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    model.n_iter_ = header["n_iter"]
    model.x_scaler_ = checked_scaler(header, "x_scaler", model.n_features_in_)
    model.fit_report_ = FitReport.from_dict(header["fit_report"])
    if "pruned" in header:
        model.pruned_ = Pruned(**header["pruned"])
    if model.n_features_in_ < 1 or (names is not None and len(names) != model.n_features_in_):
        raise ValueError(f"the header names {names!r} for {model.n_features_in_} inputs")
    return model


def regressor_header(estimator: Any) -> dict[str, Any]:
    """Return what every regressor adds."""
    return {
        "y_is_vector": bool(estimator._y_is_vector),
        "y_scaler": estimator.y_scaler_.to_dict(),
    }


def restore_regressor(model: Any, header: dict[str, Any]) -> None:
    """Set what `regressor_header` gave."""
    model._y_is_vector = bool(header["y_is_vector"])
    model.n_outputs_ = len(header["y_scaler"]["mean"])
    model.y_scaler_ = checked_scaler(header, "y_scaler", model.n_outputs_)


def classifier_header(estimator: Any) -> dict[str, Any]:
    """Return what every classifier adds: its labels, and what kind of values they are."""
    labels = estimator.classes_.tolist()
    for name, kind in _LABEL_KINDS.items():
        if all(type(label) is kind for label in labels):
            is_text_array = estimator.classes_.dtype.kind == "U"
            return {"classes": labels, "label_kind": name, "is_text_array": is_text_array}
    raise TypeError(f"only labels of one kind, text, bool or numbers, can be saved, got {labels}")


def restore_classifier(model: Any, header: dict[str, Any]) -> None:
    """Set what `classifier_header` gave."""
    kind = _LABEL_KINDS[header["label_kind"]]
    labels = header["classes"]
    if len(labels) < 2 or not all(type(label) is kind for label in labels):
        raise ValueError(f"classes must be two labels or more of kind {header['label_kind']}")
    is_object = kind is str and not header["is_text_array"]
    model.classes_ = np.asarray(labels, dtype=object if is_object else kind)


def checked_scaler(header: dict[str, Any], name: str, size: int) -> Standardiser:
    """Read a scaler of so many columns; ValueError where it is none."""
    for part, values in header[name].items():
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (size,) or not np.isfinite(column).all():
            raise ValueError(f"{name} must hold {size} finite numbers as {part}")
        if part != "mean" and not (column > 0.0).all():
            raise ValueError(f"{name} must hold numbers > 0 as {part}")
    return Standardiser.from_dict(header[name])


def check_sizes(header: dict[str, Any], n_inputs: int, n_outputs: int) -> None:
    """Raise ValueError where a header does not fit the network stored with it."""
    found = (header["n_features_in"], len(header["y_scaler"]["mean"]))
    if found != (n_inputs, n_outputs):
        raise ValueError(
            f"the network has {n_inputs} inputs and {n_outputs} outputs, the header {found}"
        )


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
    return Stored(header | fitted.task.to_dict() | state.header, state.arrays)


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
    if "pruned" in header:
        model.pruned_ = Pruned(**header["pruned"])
    method = model.build_method(model.task_, n_inputs)
    state = method.from_stored(Stored(header, arrays))
    model.learned_ = Learned(state, FitReport.from_dict(header["fit_report"]), header["n_iter"])
    return model

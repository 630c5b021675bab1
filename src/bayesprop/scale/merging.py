"""One model from several, each fitted to rows of its own: their posteriors multiply.

p(w | all rows) = p(w) prod_k p(rows k | w), and what rows k say is posterior k over prior: in
natural parameters, a sum (Vehtari et al. 2020, "Expectation propagation as a way of life", section
2). Of linear regression it is exact; of others as good as their posteriors are.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from bayesprop import codec
from bayesprop.model.method import Learned, Merges
from bayesprop.model.task import Classes, Fitted, Numbers, Standardiser
from bayesprop.targets.bijectors import NUMBERS

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase

_ROUNDING = 1e-12
_FREE = ("random_state", "verbose", "n_epochs", "warm_start")
"""Hyper-parameters that may differ: they change neither the prior nor what a state means."""


@runtime_checkable
class ReExpressed(Protocol):
    """Knows what is learnt of columns that are linear in its own, so that scalings may differ."""

    def re_expressed(self, learned: Learned, change: Float[np.ndarray, "p p"]) -> Learned:
        """Return it, [1, x, y] new = [1, x, y] old times change."""
        ...


def merge(models: Sequence[EstimatorBase], start: EstimatorBase | None = None) -> EstimatorBase:
    """Return the model of all rows that several models were fitted to.

    Models of `BayesianLinearRegressor` may have been fitted alone: merged they are what one fit to
    all rows is. Others go on from one model, which sets scaling and prior:

        start = PBPRegressor(random_state=0).partial_fit(X0, y0)
        ours, theirs = (copy.deepcopy(start).partial_fit(X, y) for X, y in ((X1, y1), (X2, y2)))
        merge([ours, theirs], start)                       # X0, X1 and X2, each once

    Parameters
    ----------
    models : sequence of fitted estimators
        Of one class with the same hyper-parameters and columns; no row in two of them. Their order
        matters to rounding alone.
    start : fitted estimator or None
        What all of them went on from; its rows count once.

    Raises
    ------
    ValueError
        Names what differs between the models, and what to do.
    """
    models = list(models)
    if not models:
        raise ValueError("models must hold one fitted model at least, got none")
    first = models[0] if start is None else start
    for number, model in enumerate([first, *models]):
        _check_mergeable(model)
        _check_alike(first, model, number)
    if start is None and len(models) > 1:
        if not is_linear_in_inputs(first):
            raise ValueError(
                f"start must be the model that all of them went on from, for {_name(first)}: fit "
                "it to a few rows, let each go on from a copy by partial_fit, and pass it as start"
            )
        if any(one.encoding_.population is not None for one in models):
            raise ValueError(
                "models must not have learnt from inputs with errors (X_std), got one that has: "
                "fit all rows together"
            )
        return _merged_alone(models)
    for number, model in enumerate(models, start=1):
        _check_units(first, model, number)
    learned = [first.learned_, *(model.learned_ for model in models)]
    powers = [1.0 - len(models), *[1.0] * len(models)]
    return with_learned(first, cast(Merges, first.fitted_.method).combined(learned, powers))


def with_learned(estimator: EstimatorBase, learned: Learned) -> EstimatorBase:
    """Return a copy of a fitted estimator that has learnt something else."""
    return estimator.relearned(learned)


def _merged_alone(models: Sequence) -> EstimatorBase:
    """Return the linear model of the rows of all, in the scaling that one fit to them learns."""
    first = models[0]
    reference = first.x_scaler_, first.task_.scaler
    parts = [_in_units(model, *reference).learned_ for model in models]
    merged: Any = with_learned(first, first.fitted_.method.combined(parts, [1.0] * len(parts)))
    units = [_joined(one.x_scaler_, one.task_.scaler).unit for one in models]
    pooled = _pooled(merged.statistics_, _joined(*reference), np.max(units, axis=0))
    n_inputs = first.n_features_in_
    inputs, targets = slice(0, n_inputs), slice(n_inputs, None)
    return _in_units(merged, *(_columns(pooled, at) for at in (inputs, targets)))


def _in_units(model: Any, x: Standardiser, y: Standardiser) -> EstimatorBase:
    """Return a model in other units of inputs and targets."""
    fitted, task = model.fitted_, replace(model.task_, scaler=y)
    method = model.build_method(task, fitted.n_inputs)
    learned = method.re_expressed(model.learned_, _change(model, x, y))
    encoding = replace(fitted.encoding, scaler=x)
    return copy.copy(model).keep(Fitted(method, task, encoding, learned, fitted.inputs))


def _change(model: Any, x: Standardiser, y: Standardiser) -> Float[np.ndarray, "p p"]:
    """Return the matrix that turns [1, x, y] of a model into that of other units."""
    old, new = _joined(model.x_scaler_, model.task_.scaler), _joined(x, y)
    origin = old.inverse_mean(np.zeros((1, len(old.mean))))
    change = np.diag(np.append(1.0, old.scale / new.scale))
    change[0, 1:] = new.transform(origin)[0]
    return change


def _pooled(statistics: Any, reference: Standardiser, unit: np.ndarray) -> Standardiser:
    """Learn the scaling of all rows from their statistics in reference units."""
    first = np.append(statistics.design[0, 1:], statistics.target[0])
    below = np.hstack([statistics.design[1:, 1:], statistics.target[1:]])
    spread = np.sum(below**2, axis=0)
    spread[len(below) :] += np.sum(statistics.residual**2, axis=0)
    root_n = statistics.design[0, 0]
    mean, std = first / root_n, np.sqrt(spread) / abs(root_n)
    center = reference.inverse_mean(mean[None])[0] / unit
    is_constant = std <= _ROUNDING * (1.0 + np.abs(mean))
    return Standardiser(unit, center, np.where(is_constant, 1.0, std * reference.scale / unit))


def _joined(x: Standardiser, y: Standardiser) -> Standardiser:
    pairs = ((x.unit, y.unit), (x.mean, y.mean), (x.std, y.std))
    return Standardiser(*(np.concatenate(pair) for pair in pairs))


def _columns(scaler: Standardiser, at: slice) -> Standardiser:
    return Standardiser(scaler.unit[at], scaler.mean[at], scaler.std[at])


def is_linear_in_inputs(model: EstimatorBase) -> bool:
    """Whether its statistics can be written in other units of inputs and target."""
    return (
        issubclass(model.method_class, ReExpressed)
        and model.learned_.state.basis is None
        and isinstance(model.task_, Numbers)
        and model.task_.kind == NUMBERS
    )


def _check_mergeable(model: EstimatorBase) -> None:
    if hasattr(model, "get_params"):
        check_is_fitted(model)
    if not issubclass(getattr(model, "method_class", object), Merges):
        raise ValueError(
            f"models must be linear, logistic or pbp, whose posteriors multiply, got {_name(model)}"
            + ("; `bayesprop merge` merges files" if _name(model) == "TableModel" else "")
        )
    if hasattr(model, "pruned_"):
        raise ValueError("models must not be pruned: merge them first, then prune what they make")


def _check_alike(first: Any, model: Any, number: int) -> None:
    if type(model) is not type(first):
        raise ValueError(f"models must be of one class, got {_name(first)} and {_name(model)}")
    ours, theirs = (one.get_params(deep=False) for one in (first, model))
    for name in ours:
        if name not in _FREE and not _equal(ours[name], theirs[name]):
            raise ValueError(
                f"models must have the same {name}, got {ours[name]!r} and {theirs[name]!r} in "
                f"model {number}: fit them with one setting"
            )
    names = [getattr(one, "feature_names_in_", None) for one in (first, model)]
    if first.n_features_in_ != model.n_features_in_ or not _equal(*names):
        raise ValueError(
            f"models must have the same columns in the same order, got {first.n_features_in_} and "
            f"{model.n_features_in_} in model {number}, or other names"
        )
    tasks = first.task_, model.task_
    if isinstance(first.task_, Classes) and not _equal(*(one.labels for one in tasks)):
        raise ValueError(
            f"models must have the same classes, got {first.task_.labels.tolist()} and "
            f"{model.task_.labels.tolist()} in model {number}: name all of them in `partial_fit`"
        )
    ours, theirs = (one.n_outputs for one in tasks)
    if ours != theirs:
        raise ValueError(f"models must have as many targets, got {ours} and {theirs}")


def _check_units(first: EstimatorBase, model: EstimatorBase, number: int) -> None:
    ours, theirs = (codec.to_json(one.x_scaler_, Standardiser) for one in (first, model))
    if isinstance(first.task_, Numbers) and ours == theirs:
        ours, theirs = (codec.to_json(one.task_, Numbers) for one in (first, model))
    if ours != theirs:
        raise ValueError(
            f"models must share one scaling, that of the start, and model {number} has its own: "
            "let each go on from a copy of the start by partial_fit"
        )


def _equal(a: Any, b: Any) -> bool:
    """Whether two settings are the same; a file turns tuples into lists."""
    if a is None or b is None or callable(a) or callable(b):
        return a is b
    return np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object))


def _name(model: EstimatorBase) -> str:
    return type(model).__name__

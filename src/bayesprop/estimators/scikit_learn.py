"""Scikit-learn's class of an estimator, made when it is first asked for; its checks of rows.

The classes that files define need no scikit-learn, so that a saved model predicts without it.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from bayesprop.model.method import DrawsFunctions, Features, Streams
from bayesprop.model.task import REGRESSION

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bayesprop.estimators.shell import EstimatorBase


_NEEDS = {"partial_fit": Streams, "sample_y": DrawsFunctions, "posterior_features": Features}
"""Which ability a method must have, for an estimator to have a method of that name."""


@cache
def scikit_learn(plain: type[EstimatorBase]) -> type:
    """Return scikit-learn's class of an estimator: with its bases, and with what the method can."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.metaestimators import available_if

    same = {name: getattr(plain, name) for name in ("__module__", "__qualname__", "__doc__")}
    absent = {
        name: available_if(lambda _: False)(getattr(plain, name))
        for name, ability in _NEEDS.items()
        if hasattr(plain, name) and not issubclass(plain.method_class, ability)
    }
    mixin: type = RegressorMixin if plain.task_name == REGRESSION else ClassifierMixin
    parts = same | absent | {"plain": plain}
    return ABCMeta(plain.__name__, (plain, mixin, BaseEstimator), parts)


def with_scikit_learn(plain: EstimatorBase) -> EstimatorBase:
    """Return a fitted estimator of a class without scikit-learn as one of scikit-learn's class."""
    kind: Any = scikit_learn(type(plain))
    estimator = kind.__new__(kind)
    vars(estimator).update(vars(plain))
    return estimator


def lazily(module: dict[str, Any]) -> Callable[[str], type]:
    """Take the estimators of a module out of it, and return its `__getattr__`, which makes them.

    `__getattr__ = lazily(globals())` ends the file of an estimator, whose names are then
    scikit-learn's classes; `plain` holds them without it, by name.
    """
    plain = {
        name: one
        for name, one in module.items()
        if isinstance(one, type)
        and one.__module__ == module["__name__"]
        and hasattr(one, "method_name")
        and hasattr(one, "task_name")
    }
    for name in plain:
        del module[name]
    module["plain"] = plain

    def made(name: str) -> type:
        if name not in plain:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        module[name] = scikit_learn(plain[name])
        return module[name]

    return made


@runtime_checkable
class Frame(Protocol):
    """A table of pandas or Polars."""

    columns: Iterable[str]

    def __getitem__(self, name: str) -> ArrayLike: ...


def are_plain(estimator: EstimatorBase, X: ArrayLike, *y: ArrayLike) -> bool:
    """Whether `validate_data` has nothing to change, to refuse or to warn of."""
    return (
        isinstance(X, np.ndarray)
        and all(type(each) is np.ndarray and each.dtype == np.float64 for each in (X, *y))
        and X.ndim == 2
        and X.flags.c_contiguous
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and not np.isinf(X).any()
        and all(np.shape(each) == (len(X),) and np.isfinite(each).all() for each in y)
    )


def are_numbers(column: ArrayLike) -> bool:
    """Whether a column holds numbers, or what reads as such."""
    values = np.asarray(column)
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind != "M"

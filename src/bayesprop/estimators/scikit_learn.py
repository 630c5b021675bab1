"""Scikit-learn's class of an estimator, made when it is first asked for.

The classes that files define need no scikit-learn, so that a saved model predicts without it.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from bayesprop.model.method import DrawsFunctions, Features, Streams
from bayesprop.model.task import REGRESSION

if TYPE_CHECKING:
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

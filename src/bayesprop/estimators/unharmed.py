"""A fit that is refused, fails or is interrupted leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def unharmed(fit: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Put back every attribute when a method of an estimator raises, Ctrl-C included.

    An earlier fit is whole again, its scaling and columns with it. Attributes must be replaced,
    never changed in place.
    """

    @wraps(fit)
    def whole_or_not_at_all(estimator: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            vars(estimator).clear()
            vars(estimator).update(before)
            raise

    return whole_or_not_at_all

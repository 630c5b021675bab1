"""A fit that is refused, fails or is interrupted leaves estimator and process as they were."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar

from bayesprop.numerics.machine import forget_when_crowded

FITS_A_LOOK = 8
"""Fits after which the memory maps of compiled programs are counted, which takes milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")
_fits = count(1)


def unharmed(fit: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Put back every attribute when a method of an estimator raises, Ctrl-C included.

    An earlier fit is whole again, its scaling and columns with it. Attributes must be replaced,
    never changed in place. Programs compiled by many earlier fits are forgotten in time.
    """

    @wraps(fit)
    def whole_or_not_at_all(estimator: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        if next(_fits) % FITS_A_LOOK == 0:
            forget_when_crowded()
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            vars(estimator).clear()
            vars(estimator).update(before)
            raise

    return whole_or_not_at_all

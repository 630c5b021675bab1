"""Two fits of every method to the same rows, written in another way: what must not change."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from invariants import alike, same
from models import n_rows, unfitted
from situations import CHAOTIC, TASKS_OF_CLASSES, WITHOUT_JAX, task_of

from bayesprop.catalogue import METHODS
from method_settings import silently
from tables import rows, target_of

CASES = [
    pytest.param(
        method,
        task,
        id=f"{method}; {task}",
        marks=[] if method in WITHOUT_JAX else pytest.mark.exhaustive,
    )
    for method in METHODS
    for task in ("numbers", "two classes", "many classes")
    if task_of(task) in METHODS[method].homes
]
NEW = rows(12, 77)


@cache
def fitted(method, task, x_unit=1.0, y_unit=1.0, shift=0.0, labels=None):
    X = rows(n_rows(method), 3)
    y = target_of(task, X, 4)
    if task == "numbers":
        y = y * y_unit + shift
    elif labels is not None:
        y = np.array(labels)[np.unique(y, return_inverse=True)[1]]
    return silently(unfitted(method, task).fit, X * x_unit, y)


@pytest.mark.parametrize(("method", "task"), CASES)
def test_two_fits_with_one_seed_are_equal(method, task):
    fits = (fit(method, task) for fit in (fitted, fitted.__wrapped__))
    same(*(model.predict_dist(NEW) for model in fits))


@pytest.mark.parametrize(("method", "task"), CASES)
def test_units_change_nothing_but_units(method, task):
    """Powers of two to the last bit; others up to what rounding a float32 becomes in a fit."""
    first = fitted(method, task).predict_dist(NEW)
    for x_unit, y_unit, shift in ((1024.0, 2.0**-10, 0.0), (1e3, 1e-3, 5.0)):
        if method in CHAOTIC and shift:
            continue
        other = fitted(method, task, x_unit, y_unit, shift).predict_dist(x_unit * NEW)
        if task in TASKS_OF_CLASSES:
            np.testing.assert_allclose(other.proba, first.proba, atol=2e-3)
            continue
        alike(other.std / y_unit, first.std)
        alike((other.mean - shift) / y_unit, first.mean)
        alike(other.epistemic_var / y_unit**2, first.epistemic_var)


@pytest.mark.parametrize(
    ("method", "task"), [one for one in CASES if "classes" in str(one.values[1])]
)
def test_other_words_for_classes_change_no_probability(method, task):
    first = fitted(method, task).predict_dist(NEW)
    other = fitted(method, task, labels=("a", "b", "c", "d")).predict_dist(NEW)
    np.testing.assert_array_equal(first.proba, other.proba)

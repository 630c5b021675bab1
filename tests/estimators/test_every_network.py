"""What every network in the table of methods keeps to, on one tiny fit each."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
import sklearn

import bayesprop
from bayesprop.methods import METHODS, REGRESSION, make
from bayesprop.model import trained_network
from bayesprop.store import estimator_from_stored, estimator_to_stored

TINY = {"hidden_layer_sizes": (4,), "n_epochs": 2, "random_state": 0}
FEW_DRAWS = TINY | {"n_draws": 3}
SETTINGS = {
    "pbp": TINY,
    "closed-form-vi": TINY,
    "mlp": TINY,
    "ebp": TINY,
    "bayes-by-backprop": FEW_DRAWS,
    "graves-vi": FEW_DRAWS,
    "mc-dropout": FEW_DRAWS,
    "deep-ensemble": TINY | {"n_members": 2},
    "network": TINY,
    "laplace": TINY,
    "batch-ep": TINY | {"n_epochs": 40, "n_starts": 1, "tol": 1.0},
}
ALL = [(name, task) for name in SETTINGS for task in METHODS[name].homes]
RNG = np.random.default_rng(5)
X = RNG.normal(size=(24, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=24)


def targets(task):
    return Y if task == REGRESSION else np.where(Y > 0.0, "above", "below")


@pytest.fixture(scope="module", params=ALL, ids=lambda one: "-".join(one))
def fitted(request):
    """A model that no test may change, and what it predicts at X."""
    name, task = request.param
    model = make(name, task=task, **SETTINGS[name]).fit(X, targets(task))
    return model, task, predicted(model, X)


def predicted(model, x):
    if hasattr(model, "classes_"):
        return model.predict_proba(x)
    return np.stack(model.predict(x, return_std=True), axis=1)


def test_a_row_is_predicted_alike_in_any_company(fitted):
    """Up to a float32's rounding: a product of other shape may be summed in another order."""
    model, _, together = fitted
    alike = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    alike(predicted(model, X[::-1])[::-1], together)
    alike(predicted(model, X[3:4]), together[3:4])
    alike(predicted(model, np.tile(X, (2, 1)))[-24:], together)


def test_rows_far_away_have_predictions_or_are_refused(fitted):
    model, _, _ = fitted
    far = predicted(model, 1e11 * X)
    assert np.isfinite(far[:, 0]).all()
    assert (far >= 0.0)[:, 1].all()  # a noise that depends on the input may be infinite
    with pytest.raises(ValueError, match=r"X must lie within .* in row 2, column 1"):
        model.predict(np.where(np.arange(72).reshape(24, 3) == 7, 1e60, X))


def test_an_epoch_is_compiled_once_for_any_number_of_rows(fitted, monkeypatch):
    # A weakly typed leaf at the start makes the second epoch another program, and so does a shape.
    model, task, _ = fitted
    kinds = set()
    inner = trained_network._epoch

    def listening(method, state, *args):
        *args, batch_size = args
        kinds.add((batch_size, str(jax.tree.map(jax.typeof, (state, args)))))
        assert not any(leaf.weak_type for leaf in jax.tree.leaves(state))
        return inner(method, state, *args, batch_size)

    monkeypatch.setattr(trained_network, "_epoch", listening)
    for n_rows in (24, 23, 17):
        sklearn.clone(model).fit(X[:n_rows], targets(task)[:n_rows])
    assert len(kinds) <= 1


def test_a_saved_model_is_the_same_model(fitted, tmp_path):
    model, _, before = fitted
    model.save(tmp_path / "model")
    again = bayesprop.load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(predicted(again, X), before)


def test_arrays_of_another_kind_are_refused(fitted):
    header, arrays = estimator_to_stored(fitted[0])
    name = max(arrays, key=lambda name: arrays[name].size)
    array = arrays[name]
    other_type = np.float64 if array.dtype == np.float32 else np.float32
    for forged in (np.full_like(array, np.nan), array[None], array.astype(other_type)):
        with pytest.raises(ValueError, match=r"finite|float64|shape|do not fit together"):
            estimator_from_stored(header, arrays | {name: forged})
    with pytest.raises((ValueError, KeyError)):
        estimator_from_stored(header, {n: a for n, a in arrays.items() if n != name})
    model = header["model"]
    for scale in (0.0, -1.0):
        forged = model | {"x_scaler": model["x_scaler"] | {"std": [1.0, scale, 1.0]}}
        with pytest.raises(ValueError, match=r"x_scaler must hold numbers > 0 as std"):
            estimator_from_stored(header | {"model": forged}, arrays)


def test_a_refused_fit_leaves_the_earlier_one(fitted):
    model, task, before = fitted
    attributes = dict(vars(model))
    wide = np.hstack([X, X])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
        model.fit(wide, targets(task)[:5])
    with pytest.raises(ValueError, match=r"positive entry|non-zero"):
        model.fit(wide, targets(task), sample_weight=np.zeros(24))
    assert vars(model) == attributes
    np.testing.assert_array_equal(predicted(model, X), before)


def test_an_interrupted_fit_leaves_the_earlier_one(fitted, monkeypatch):
    model, task, before = fitted
    attributes = dict(vars(model))
    monkeypatch.setattr("bayesprop.estimators.fitting.warn", interrupt)
    monkeypatch.setattr(type(model), "_initial_state", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.hstack([X, X]), -5.0 * Y if task == REGRESSION else np.arange(24) % 3)
    monkeypatch.undo()
    assert vars(model) == attributes
    np.testing.assert_array_equal(predicted(model, X), before)


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("name", "task"), ALL)
def test_targets_of_the_wrong_kind_are_named(name, task):
    model = make(name, task=task, **SETTINGS[name])
    if task == REGRESSION:
        with pytest.raises(ValueError, match=r"y must hold numbers .*'below'.* take a classifier"):
            model.fit(X, targets("classification"))
        return
    with pytest.raises(ValueError, match="y must hold labels of one kind, got int, str"):
        model.fit(X, np.array(["a", 1] * 12, dtype=object))
    with pytest.raises(ValueError, match="at least two classes, got one class only: 'a'"):
        model.fit(X, np.full(24, "a"))


@pytest.mark.parametrize("name", [name for name, task in ALL if task == REGRESSION])
def test_a_constant_target_is_said(name):
    with pytest.warns(UserWarning, match="the target is constant"):
        model = make(name, **SETTINGS[name]).fit(X, np.full(24, 3.0))
    assert any("the target is constant" in one for one in model.fit_report_.warnings)

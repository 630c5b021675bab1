"""Point networks, MC dropout and deep ensembles as estimators: what scikit-learn does not check."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop.estimators.closed_form_vi import ClosedFormVIRegressor
from bayesprop.estimators.mc_dropout import MCDropoutRegressor
from bayesprop.estimators.point_network import (
    DeepEnsembleClassifier,
    DeepEnsembleRegressor,
    PointNetworkClassifier,
    PointNetworkRegressor,
)
from method_settings import predicted as said

FAST = {"hidden_layer_sizes": (8,), "n_epochs": 4, "batch_size": 16, "random_state": 0}
REGRESSORS = (PointNetworkRegressor, MCDropoutRegressor, DeepEnsembleRegressor)


def table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 10.0, 0.1] + 5.0
    z = (X - 5.0) / [1.0, 10.0, 0.1]
    return X, np.sin(z[:, 0]) + z[:, 1] + 0.2 * rng.standard_normal(n)


def targets(cls, y):
    if cls in REGRESSORS:
        return 100.0 + 30.0 * y
    return np.where(y > 0.5, "high", np.where(y > -0.5, "middle", "low"))


def fitted(cls, **params):
    X, y = table()
    return cls(**(FAST | params)).fit(X, targets(cls, y)), X


@pytest.mark.parametrize("cls", [MCDropoutRegressor, DeepEnsembleRegressor])
def test_noise_is_one_number_or_depends_on_the_input(cls):
    X, y = table()
    by_input = cls(**FAST, **{"noise": "input"}).fit(X, y).predict_dist(X).noise_var
    assert by_input.std() > 0.0
    learned = cls(**FAST, **{"noise": "learned"}).fit(X, y).predict_dist(X).noise_var
    np.testing.assert_allclose(learned, learned[0], rtol=1e-6)


def test_a_point_knows_no_doubt_and_members_differ():
    point, X = fitted(PointNetworkRegressor)
    np.testing.assert_allclose(point.predict_dist(X).epistemic_var, 0.0, atol=1e-12)
    ensemble, _ = fitted(DeepEnsembleRegressor, n_members=3)
    dist = ensemble.predict_dist(X)
    assert dist.means.shape == (3, len(X))
    assert (dist.epistemic_var > 0.0).all()
    classifier, _ = fitted(PointNetworkClassifier)
    np.testing.assert_allclose(classifier.predict_dist(X).mutual_information, 0.0, atol=1e-6)


def test_dropout_predicts_the_variance_of_its_draws_and_the_noise():
    model, X = fitted(MCDropoutRegressor, dropout=0.5, n_draws=50, noise=4.0)
    dist = model.predict_dist(X)
    assert dist.means.shape == (50, len(X))
    np.testing.assert_allclose(dist.var, 4.0 + dist.means.var(axis=0), rtol=1e-4)
    assert (dist.epistemic_var > 0.0).all()
    again = model.predict_dist(X)
    np.testing.assert_array_equal(again.means, dist.means)


@pytest.mark.parametrize("cls", [PointNetworkClassifier, DeepEnsembleRegressor])
def test_early_stopping_keeps_the_best_epoch(cls):
    params = {"early_stopping": True, "patience": 3, "n_epochs": 300, "learning_rate": 0.05}
    model, X = fitted(cls, weight_decay=0.0, **params)
    losses = model.fit_report_.trace["validation_loss"]
    assert len(losses) == model.n_iter_ < 300
    assert np.argmin(losses) == len(losses) - 1 - 3
    shorter, _ = fitted(cls, weight_decay=0.0, **params | {"n_epochs": len(losses) - 3})
    np.testing.assert_array_equal(said(shorter, X), said(model, X))


@pytest.mark.parametrize(
    "params",
    [
        {"dropout": 0.3, "input_dropout": 0.1},
        {"dropconnect": 0.3},
        {"dropconnect": 0.3, "dropconnect_masks": "row", "n_members": 2},
    ],
)
def test_what_is_missing_in_training_is_there_in_prediction(params):
    model, X = fitted(PointNetworkRegressor, **params)
    plain, _ = fitted(PointNetworkRegressor)
    np.testing.assert_array_equal(said(model, X), said(model, X))
    assert (said(model, X) != said(plain, X)).any()


def test_masks_a_row_need_a_rate():
    with pytest.raises(ValueError, match="dropconnect must be > 0 for dropconnect_masks='row'"):
        fitted(PointNetworkRegressor, dropconnect_masks="row")


def test_an_adversary_changes_training():
    model, X = fitted(DeepEnsembleClassifier, adversarial_step=0.05)
    assert (said(model, X) != said(fitted(DeepEnsembleClassifier)[0], X)).any()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"warm_start": True}, "warm_start must be False with early_stopping=True"),
        ({"validation_fraction": 0.0}, "validation_fraction must be > 0"),
    ],
)
def test_what_does_not_go_with_early_stopping_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        fitted(DeepEnsembleRegressor, early_stopping=True, **params)


@pytest.mark.filterwarnings("ignore:epoch .* left the finite numbers")
def test_a_step_too_long_is_undone():
    model, X = fitted(PointNetworkRegressor, optimizer="sgd", learning_rate=1e6, n_epochs=50)
    assert model.fit_report_.guards["epochs_undone"] == 1
    assert "lower learning_rate" in model.fit_report_.warnings[0]
    assert np.isfinite(said(model, X)).all()


@pytest.mark.parametrize("cls", [PointNetworkRegressor, ClosedFormVIRegressor])
def test_a_first_step_of_rmsprop_is_root_ten_of_adams(cls):
    """Adam's is the size in the gradient's sign; RMSprop divides by the root of a tenth of g²."""
    X, y = table()
    how = {"batch_size": len(X), "n_epochs": 1, "random_state": 0}

    def weights(optimizer: str, size: float) -> np.ndarray:
        network = cls((), optimizer=optimizer, learning_rate=size, **how).fit(X, y).state_.network
        is_point = cls is PointNetworkRegressor
        rows = np.asarray(network.params.weights[0][0] if is_point else network.params.weights.m[0])
        return rows[: X.shape[1]]  # a bias of standardised targets has rounding for its gradient

    start = weights("adam", 1e-12)
    by_adam, by_rmsprop = (weights(name, 1e-2) - start for name in ("adam", "rmsprop"))
    np.testing.assert_allclose(np.abs(by_adam), 1e-2, rtol=1e-3)
    np.testing.assert_allclose(by_rmsprop, np.sqrt(10.0) * by_adam, rtol=1e-3)

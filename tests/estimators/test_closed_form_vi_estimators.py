"""The closed-form VI estimators as a user meets them; small networks, few epochs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier, ClosedFormVIRegressor
from method_settings import wave


def regressor(**params):
    common = {"n_epochs": 60, "kl_warm_up": 30, "random_state": 0}
    return ClosedFormVIRegressor(**(common | params))


def classifier(**params):
    return ClosedFormVIClassifier(**({"n_epochs": 20, "random_state": 0} | params))


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=False)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return classifier(n_epochs=60).fit(X[::2], names[::2]), X[1::2], names[1::2]


def test_input_noise_is_a_mixture_and_finds_the_loud_side():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = x[:, 0] + np.where(x[:, 0] > 0, 0.5, 0.02) * rng.standard_normal(300)
    model, ratios = regressor(noise="input", n_epochs=100), []
    for seed in range(3):  # a start may end in a worse optimum
        model.set_params(random_state=seed).fit(x, y)
        found = model.predict_dist(np.array([[-0.6], [0.6]]))
        ratios.append(found.noise_var[1] / found.noise_var[0])
    assert isinstance(found, MixturePredictive)
    assert np.median(ratios) > 20.0
    assert found.mean.shape == (2,)


def test_weight_two_is_a_row_twice_by_lbfgs():
    x, y = wave(20)
    how = {"optimizer": "lbfgs", "n_epochs": 3000, "kl_warm_up": 0, "noise": 9.0}
    weight = np.where(np.arange(20) < 5, 2.0, 1.0)
    twice = regressor(**how).fit(np.concatenate([x, x[:5]]), np.concatenate([y, y[:5]]))
    weighted = regressor(**how).fit(x, y, sample_weight=weight)
    assert twice.fit_report_.guards["not_converged"] == 0
    np.testing.assert_allclose(weighted.predict(x), twice.predict(x), rtol=0.02)


def test_lbfgs_says_when_it_has_not_converged():
    x, y = wave(20)
    model = regressor(optimizer="lbfgs", n_epochs=3, kl_warm_up=0)
    with pytest.warns(UserWarning, match="L-BFGS stopped after 3 steps"):
        model.fit(x, y)
    assert model.fit_report_.guards["not_converged"] == 1
    assert len(trace := model.fit_report_.trace["gradient_norm"]) == 3
    assert trace[-1] > 1e-4


def test_a_warm_up_of_a_fit_without_epochs_is_refused():
    with pytest.raises(ValueError, match="kl_warm_up must be 0"):
        regressor(optimizer="lbfgs").fit(*wave())


def test_closed_probabilities_agree_with_draws(iris):
    """Logits of one draw share hidden units and are not quite Gaussian: a stated 0.02 apart."""
    model, X, _ = iris
    closed = model.predict_dist(X)
    drawn = model.set_params(prediction="draws", n_draws=1000).predict_dist(X)
    mean = model.set_params(prediction="mean").predict_dist(X)
    model.set_params(prediction="expected")
    assert np.abs(closed.proba - drawn.proba).mean() < 0.02
    assert np.abs(closed.expected_entropy - drawn.expected_entropy).mean() < 0.03
    np.testing.assert_allclose(mean.entropy, mean.expected_entropy, atol=1e-3)


def test_a_layer_of_dead_units_is_told():
    """Pure noise: nothing pays for the weights."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    how = {"hidden_layer_sizes": (10,), "optimizer": "lbfgs", "n_epochs": 3000, "noise": 1.0}
    with pytest.warns(UserWarning, match="every unit of a hidden layer is dead"):
        report = regressor(**how, kl_warm_up=0).fit(x, y).fit_report_
    assert report.guards["dead_units"] == 10
    assert "every unit of a hidden layer is dead" in report.warnings[-1]


@pytest.mark.parametrize(
    ("how", "variance"), [({}, np.log1p(np.exp(-10.0))), ({"init_std": 0.3}, 0.09)]
)
def test_the_start_has_the_variance_that_it_is_given(how, variance):
    """Of a linear model the output's is v (|x|² + 1); the paper's v is softplus(-10)."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    model = ClosedFormVIRegressor((), n_epochs=1, learning_rate=1e-9, random_state=0, **how)
    found = model.fit(X, y).predict_dist(X).epistemic_var
    np.testing.assert_allclose(found, variance * (1.0 + np.sum(X**2, axis=1)), rtol=1e-4)

"""The closed-form VI estimators as a user meets them; small networks, few epochs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier, ClosedFormVIRegressor
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.moments.network_ensemble import joint_covariance


def wave(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3.0, 3.0, (n, 2))
    return x, 40.0 + 10.0 * np.sin(x[:, 0]) + 3.0 * rng.standard_normal(n)


def regressor(**params):
    common = {"n_epochs": 60, "noise": "learned", "kl_warm_up": 30, "random_state": 0}
    return ClosedFormVIRegressor(**(common | params))


def classifier(**params):
    return ClosedFormVIClassifier(**({"n_epochs": 20, "random_state": 0} | params))


@pytest.fixture(scope="module")
def learned():
    return regressor().fit(*wave())


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=False)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return classifier(n_epochs=60).fit(X[::2], names[::2]), X[1::2], names[1::2]


def test_learned_noise_is_gaussian_and_beats_a_constant(learned):
    x, y = wave(seed=1)
    found = learned.predict_dist(x)
    assert isinstance(found, GaussianPredictive)
    assert np.sqrt(np.mean((found.mean - y) ** 2)) < 0.7 * y.std()
    assert np.sqrt(found.noise_var[0]) == pytest.approx(3.0, rel=0.7)
    constant = -0.5 * np.log(2 * np.pi * y.var()) - 0.5
    assert learned.log_likelihood(x, y) > constant + 0.1


def test_draws_agree_with_the_closed_moments(learned):
    """One hidden layer: mean and variance of the output are exact."""
    x = wave()[0][:5]
    found, draws = learned.predict_dist(x), learned.sample_y(x, 2000)
    se = draws.std(axis=1) / np.sqrt(2000)
    assert (np.abs(draws.mean(axis=1) - found.mean) < 4.5 * se).all()
    np.testing.assert_allclose(draws.var(axis=1), found.epistemic_var, rtol=0.25)


def test_input_noise_is_a_mixture_and_finds_the_loud_side():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = x[:, 0] + np.where(x[:, 0] > 0, 0.5, 0.02) * rng.standard_normal(300)
    model, ratios = regressor(noise="input", n_epochs=100), []
    for seed in range(3):  # a start may end in a worse optimum
        model.set_params(random_state=seed).fit(x, y)
        found = model.predict_dist(np.array([[-0.6], [0.6]]))
        ratios.append(found.noise_var[1] / found.noise_var[0])
    assert isinstance(found, NoiseMixturePredictive)
    assert np.median(ratios) > 20.0
    assert found.mean.shape == (2,)


def test_known_noise_is_in_the_units_of_y():
    x, y = wave()
    found = regressor(noise=9.0, n_epochs=5).fit(x, y).predict_dist(x)
    np.testing.assert_allclose(found.noise_var, 9.0, rtol=1e-5)


def test_several_outputs():
    x, y = wave()
    model = regressor(n_epochs=5).fit(x, np.column_stack([y, -2.0 * y]))
    assert model.predict(x).shape == (60, 2)
    assert model.predict_interval(x).shape == (60, 2, 2)
    assert model.sample_y(x, 3).shape == (60, 2, 3)


def test_resumed_is_uninterrupted():
    x, y = wave()
    whole = regressor(n_epochs=6, kl_warm_up=4).fit(x, y)
    parts = regressor(n_epochs=3, kl_warm_up=4, warm_start=True).fit(x, y).fit(x, y)
    np.testing.assert_array_equal(whole.predict(x), parts.predict(x))


def test_weight_two_is_a_row_twice_by_lbfgs():
    x, y = wave(20)
    how = {"optimizer": "lbfgs", "n_epochs": 3000, "kl_warm_up": None, "noise": 9.0}
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
    assert model.gradient_norm_ > 1e-4


def test_the_network_recipe_end_to_end():
    x, y = wave()
    model = ClosedFormVIRegressor((8,), 20, n_members=2, random_state=0).fit(x, y)
    found = model.predict_dist(x)
    assert isinstance(found, NoiseMixturePredictive)
    assert found.mean.shape == y.shape
    assert np.abs(found.mean.mean() - y.mean()) < y.std()
    assert model.sample_y(x, 3, include_noise=True).shape == (60, 3)
    header, arrays = model._to_stored()
    again = ClosedFormVIRegressor._from_stored(header, arrays)
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-6)
    assert model.fit_report_.guards["dead_units"] >= 0


def test_what_the_networks_leave_is_learnt_unless_unwanted():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (300, 1))
    y = 50.0 + 7.0 * np.sin(6.0 * x[:, 0]) + rng.standard_normal(300)
    train, test = slice(200), slice(200, 300)
    settings = {"n_epochs": 60, "n_members": 2, "random_state": 0}
    model = ClosedFormVIRegressor((3,), **settings).fit(x[train], y[train])
    plain = ClosedFormVIRegressor((3,), **settings, learn_residual=False).fit(x[train], y[train])
    assert model.fit_report_.guards["residual_rows"] == 200
    assert plain.fit_report_.guards["residual_rows"] == 0
    assert model.score(x[test], y[test]) > 0.9 > 0.5 > plain.score(x[test], y[test])
    drawn = model.sample_y(x[test], 300)
    error = model.predict_dist(x[test]).epistemic_var ** 0.5 / np.sqrt(300)
    assert (np.abs(drawn.mean(axis=1) - model.predict(x[test])) < 6.0 * error).all()
    again = ClosedFormVIRegressor._from_stored(*model._to_stored())
    np.testing.assert_array_equal(again.sample_y(x[test], 5), model.sample_y(x[test], 5))


@pytest.mark.parametrize("weight", [1e-300, 1e-12, 1e300])
def test_weights_of_any_size_leave_numbers(weight: float):
    x = np.random.default_rng(0).standard_normal((80, 2))
    model = ClosedFormVIRegressor((4,), 10, n_members=2, random_state=0)
    said = model.fit(x, x[:, 0], sample_weight=np.full(80, weight)).predict_dist(x)
    assert np.isfinite(said.mean).all()
    assert np.isfinite(said.var).all()


def test_inputs_that_come_back_are_remembered_as_strangers_are_not():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 1))
    own = x[:, 0] + rng.standard_normal(200)
    x_train, y_train = np.tile(x[:150], (2, 1)), np.tile(own[:150], 2)
    y_train = 50.0 + 7.0 * (y_train + 0.1 * rng.standard_normal(300))
    settings = {"n_epochs": 60, "n_members": 2, "random_state": 0}
    model = ClosedFormVIRegressor((3,), **settings).fit(x_train, y_train)
    assert model.fit_report_.guards["known_rows"] == 150
    known, new = (model.predict_dist(x[part]) for part in (slice(150), slice(150, 200)))
    assert np.sqrt(np.mean((known.mean - 50.0 - 7.0 * own[:150]) ** 2)) < 1.0
    assert np.all(known.std < 0.4 * new.std.min())
    assert np.all(np.abs(new.std - 7.0) < 2.0)
    again = ClosedFormVIRegressor._from_stored(*model._to_stored())
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-6)
    forgetful = model.without_known_rows()
    np.testing.assert_array_equal(forgetful.predict(x[150:]), model.predict(x[150:]))
    assert np.all(forgetful.predict_dist(x[:150]).std > 2.0 * known.std)
    assert not model.fit_report_.warnings
    with pytest.warns(UserWarning, match="constant"):
        constant = ClosedFormVIRegressor((3,), **settings).fit(x_train, np.full(300, 7.0))
    assert not any("copies" in said for said in constant.fit_report_.warnings)
    model.fit(x_train, np.tile(y_train[:150], 2))
    assert "remove its copies" in model.fit_report_.warnings[0]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"prior": "laplace"}, "prior must be None with noise='network'"),
        ({"optimizer": "lbfgs"}, "optimizer must be None with noise='network'"),
        ({"n_draws": 5}, "n_draws must be None with noise='network'"),
        ({"warm_start": True}, "warm_start must be False with noise='network'"),
        ({"hidden_layer_sizes": ()}, "hidden_layer_sizes must hold an int"),
        ({"noise": "learned", "n_members": 3}, "n_members must be None unless"),
        ({"noise": "learned", "learn_residual": True}, "learn_residual must be None unless"),
        ({"learn_residual": "yes"}, "learn_residual must be True or False, got 'yes'"),
        ({"noise": "loud"}, "noise must be one of network, learned, input; got 'loud'"),
        ({"noise": -1.0}, "noise must be a finite number > 0"),
        ({"noise": "learned", "prior_scale": "wide"}, "prior_scale must be one of"),
        ({"noise": "learned", "optimizer": "lbfgs", "kl_warm_up": 5}, "kl_warm_up must be 0"),
        ({"noise": "learned", "likelihood_weight": 0.0}, "likelihood_weight must be"),
    ],
)
def test_parameters_are_refused_never_ignored(params, message):
    with pytest.raises(ValueError, match=message):
        ClosedFormVIRegressor(**params).fit(*wave())


def test_labels_of_any_type_and_sound_probabilities(iris):
    model, X, y = iris
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    assert model.score(X, y) > 0.9
    found = model.predict_dist(X)
    np.testing.assert_allclose(found.proba.sum(axis=1), 1.0)
    assert model.log_likelihood(X, y) > -0.3
    assert (found.expected_entropy <= found.entropy + 1e-3).all()


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


def test_copies_of_a_row_are_its_weight_for_classes():
    x, y = wave(30)
    labels = y > 40.0
    how = {"optimizer": "lbfgs", "n_epochs": 3000, "likelihood_weight": 1.0}
    how |= {"hidden_layer_sizes": (), "standardise": False}
    weight = np.where(np.arange(30) < 5, 2.0, 1.0)
    x_2, labels_2 = np.concatenate([x, x[:5]]), np.concatenate([labels, labels[:5]])
    twice = classifier(**how).fit(x_2, labels_2)
    weighted = classifier(**how).fit(x, labels, sample_weight=weight)
    np.testing.assert_allclose(
        weighted.predict_proba(x), twice.predict_proba(x), rtol=1e-3, atol=1e-3
    )


def test_weights_that_stay_independent_are_told(monkeypatch):
    x = np.random.default_rng(0).standard_normal((40, 2))
    settings = {"n_epochs": 5, "n_members": 2, "random_state": 0}
    model = ClosedFormVIRegressor((4,), **settings).fit(x, x[:, 0])
    assert model.fit_report_.warnings == []
    monkeypatch.setattr(joint_covariance, "MOST_WEIGHTS", 10)
    model = ClosedFormVIRegressor((4,), **settings).fit(x, x[:, 0])
    (told,) = model.fit_report_.warnings
    assert told.startswith("The 19 weights of a network stay independent")
    assert (model.predict_dist(x).epistemic_var > 0.0).all()


def test_a_layer_of_dead_units_is_told():
    """Pure noise: nothing pays for the weights."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    how = {"hidden_layer_sizes": (10,), "optimizer": "lbfgs", "n_epochs": 3000, "noise": 1.0}
    report = regressor(**how, kl_warm_up=None).fit(x, y).fit_report_
    assert report.guards["dead_units"] == 10
    assert "every unit of a hidden layer is dead" in report.warnings[-1]

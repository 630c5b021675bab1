"""Laplace's approximation as estimators: against exact models, and what a fit tells and refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesprop import BayesianLinearRegressor, LaplaceClassifier, LaplaceRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = 30.0 + 10.0 * (X @ [1.0, -0.5]) + 4.0 * RNG.normal(size=60)
TINY = {"hidden_layer_sizes": (4,), "n_epochs": 4, "n_rounds": 2, "random_state": 0}


@pytest.fixture(scope="module")
def linear():
    """A linear model, trained on all rows at once until nothing moves."""
    settings = {"n_epochs": 600, "batch_size": 60, "n_rounds": 3, "structure": "full"}
    settings |= {"learning_rate": 0.05, "warm_start": True}
    return LaplaceRegressor((), random_state=0, **settings).fit(X, Y)


def test_a_linear_network_has_the_evidence_and_the_posterior_of_linear_regression(linear):
    """Prior precision, noise and evidence of the fixed point in another family of ours."""
    x = (X - X.mean(axis=0)) / X.std(axis=0)
    y, scale = (Y - Y.mean()) / Y.std(), Y.std()
    phi = np.column_stack([x, np.ones(60)])
    prec, noise_var = (
        linear.state_.network.prior_prec[0],
        np.exp(linear.state_.network.mode.params.likelihood[0]),
    )
    cov = np.linalg.inv(phi.T @ phi / noise_var + prec * np.eye(3))
    mean = phi @ cov @ phi.T @ y / noise_var
    found = linear.predict_dist(X)
    np.testing.assert_allclose((found.mean - Y.mean()) / scale, mean, atol=1e-3)
    var = np.einsum("ni,ij,nj->n", phi, cov, phi)
    np.testing.assert_allclose(found.epistemic_var / scale**2, var, rtol=1e-4)
    exact = BayesianLinearRegressor().fit(X, Y)
    np.testing.assert_allclose(found.std, exact.predict(X, return_std=True)[1], rtol=0.02)
    marginal = stats.multivariate_normal(cov=noise_var * np.eye(60) + phi @ phi.T / prec)
    assert linear.fit_report_.log_evidence["laplace"] == pytest.approx(
        marginal.logpdf(y) - 60 * np.log(scale), abs=0.02
    )
    assert linear.fit_report_.guards["evidence_not_converged"] == 0


def test_joint_draws_are_those_of_the_linear_network(linear):
    drawn = linear.sample_y(X, 400, random_state=1)
    by_hand = np.linalg.lstsq(np.column_stack([X, np.ones(60)]), drawn, rcond=None)
    np.testing.assert_allclose(by_hand[1], 0.0, atol=1e-3)
    found = linear.predict_dist(X)
    assert np.abs(drawn.var(axis=1) / found.epistemic_var - 1.0).max() < 5.0 * np.sqrt(2.0 / 400)


def test_units_of_the_target_move_the_evidence_by_their_logarithm(linear):
    kilo = LaplaceRegressor(**linear.get_params()).fit(X, 1e-3 * Y)
    moved = kilo.fit_report_.log_evidence["laplace"] - linear.fit_report_.log_evidence["laplace"]
    assert moved == pytest.approx(60 * np.log(1e3), abs=1e-2)


def test_integrals_over_logits_are_near_and_doubt_grows_with_the_distance():
    y = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
    model = LaplaceClassifier(**TINY | {"n_epochs": 40}).fit(X, y)
    exact = model.predict_proba(X)
    model.set_params(integral="probit")
    assert 0.0 < np.abs(model.predict_proba(X) - exact).max() < 0.1
    assert (model.predict_dist(X).mutual_information > 0.0).all()
    far = model.predict_dist(30.0 * X)
    assert far.mutual_information.mean() > model.predict_dist(X).mutual_information.mean()


@pytest.mark.parametrize(
    "settings",
    [
        {"structure": "full", "prior_prec": 3.0, "noise": 16.0},
        {"structure": "diagonal", "noise": "input", "prior_prec": "one"},
    ],
    ids=["full", "input noise"],
)
def test_every_choice_predicts_two_targets(settings):
    both = np.column_stack([Y, -Y / 10.0 if settings.get("noise") != 16.0 else -Y])
    model = LaplaceRegressor(**TINY | settings).fit(X, both, sample_weight=np.linspace(0, 2, 60))
    found = model.predict_dist(X)
    assert found.mean.shape == (60, 2)
    assert (found.epistemic_var > 0.0).all()
    assert (found.noise_var > 0.0).all()
    assert model.sample_y(X[:3], 4, include_noise=True).shape == (3, 2, 4)
    if settings.get("prior_prec") == 3.0:
        np.testing.assert_array_equal(model.state_.network.prior_prec, 3.0)
    if settings.get("prior_prec") == "one":
        assert np.ptp(model.state_.network.prior_prec) == 0.0


def test_too_much_memory_is_refused_before_the_fit():
    model = LaplaceRegressor((4000, 4000), n_epochs=10**6, structure="full")
    with pytest.raises(
        ValueError,
        match=r"'full' needs about 6\.16e\+06 GB for 16020001 weights, "
        r"more than max_gigabytes=8: structure='kron' needs 2\.3 GB, "
        r"structure='diagonal' needs 0\.38 GB",
    ):
        model.fit(X, Y)
    assert not hasattr(model, "state_")

"""Chains over networks against exact posteriors, and the way to a file and back."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from bayesprop import MCMCClassifier, MCMCRegressor
from bayesprop.sampling import mcmc
from bayesprop.sampling.diagnostics import traced
from bayesprop.store import estimator_from_stored

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = 3.0 + 10.0 * (X @ [1.0, -0.5]) + 4.0 * RNG.standard_normal(40)
FEW = {"n_warmup": 20, "n_draws": 10, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def linear():
    """A linear model with everything known but the weights."""
    model = MCMCRegressor((), noise=16.0, weight_precision=1.0, n_draws=1000, random_state=0)
    return model.fit(X, Y)


def test_a_linear_network_has_the_exact_posterior(linear):
    x = (X - X.mean(axis=0)) / X.std(axis=0)
    y, scale = (Y - Y.mean()) / Y.std(), Y.std()
    # Layers are divided by the root of their inputs, the constant among them.
    phi = np.column_stack([x, np.ones(40)]) / np.sqrt(3.0)
    noise_var = 16.0 / scale**2
    cov = np.linalg.inv(phi.T @ phi / noise_var + np.eye(3))
    mean = phi @ cov @ phi.T @ y / noise_var
    found = linear.predict_dist(X)
    least = np.min(linear.diagnostics_.ess_bulk)
    std = np.sqrt(np.einsum("ij,jk,ik->i", phi, cov, phi))
    error = np.abs((found.mean - Y.mean()) / scale - mean) / (std / np.sqrt(least))
    assert error.max() < 4.5
    np.testing.assert_allclose(
        found.epistemic_var / scale**2, std**2, rtol=4.5 * np.sqrt(2.0 / least)
    )
    np.testing.assert_allclose(found.noise_var, 16.0, rtol=1e-5)


def test_chains_that_agree_are_not_complained_about(linear):
    assert linear.diagnostics_.worst_r_hat < 1.01
    assert linear.fit_report_.warnings == []
    assert linear.fit_report_.guards == {"diverged": 0}
    assert "log_density" in linear.diagnostics_.names
    assert sum(name.startswith("prediction") for name in linear.diagnostics_.names) == 8


def test_the_fit_report_keeps_the_course_of_every_chain(linear):
    (kept,) = linear.fit_report_.chains.values()
    np.testing.assert_allclose(kept.values, linear.state_.chains.log_density[:, ::2])
    place = linear.diagnostics_.names.index("log_density")
    assert kept.r_hat == pytest.approx(linear.diagnostics_.r_hat[place])
    loaded = estimator_from_stored(*linear.to_stored())
    assert loaded.diagnostics_.names == linear.diagnostics_.names
    np.testing.assert_array_equal(loaded.diagnostics_.r_hat, linear.diagnostics_.r_hat)
    chains = linear.state_.chains
    identified = linear.fitted_.method.identified(chains)
    fewer = traced(identified, linear.diagnostics_, most=5)["log_density"]
    np.testing.assert_allclose(fewer.values, chains.log_density[:, ::200])
    assert fewer.r_hat == kept.r_hat
    assert linear.to_inference_data().posterior.sizes["draw"] == 1000
    at_rows = linear.to_inference_data(X[:3], Y[:3], n_samples=50)
    assert at_rows.posterior.sizes["draw"] == 1000
    assert at_rows.posterior_predictive["y"].shape == (1, 50, 3)
    with pytest.raises(ValueError, match="X must be the rows of y, got None"):
        linear.to_inference_data(y=Y)


def test_joint_draws_are_functions(linear):
    drawn = linear.sample_y(X, 30)
    assert drawn.shape == (40, 30)
    by_hand = np.linalg.lstsq(np.column_stack([X, np.ones(40)]), drawn, rcond=None)
    np.testing.assert_allclose(by_hand[1], 0.0, atol=1e-5)


def test_as_many_joint_draws_as_there_are_come_in_a_random_order(linear):
    one, other = (linear.sample_y(X[:3], 4000, random_state=seed) for seed in (1, 2))
    assert linear.state_.chains.n_draws == 4000
    assert (one != other).any()
    np.testing.assert_array_equal(np.sort(one), np.sort(other))


def test_a_walk_without_warm_up_walks():
    settings = {"sampler": "random-walk", "n_warmup": 0, "n_draws": 300, "n_chains": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MCMCRegressor((), noise=16.0, weight_precision=1.0, **settings).fit(X, Y)
    assert np.std(model.state_.chains.draws.weights[0]) > 1e-3


def test_classes_against_the_mode_of_the_same_posterior():
    labels = np.where(X @ [1.0, 1.0] + 0.5 * RNG.standard_normal(40) > 0.0, "up", "down")
    model = MCMCClassifier((), weight_precision=1.0, n_draws=500, random_state=0).fit(X, labels)
    x = (X - X.mean(axis=0)) / X.std(axis=0)
    # Two softmax columns of precision 1 over sqrt(3) are one logit of precision 3 / 2.
    mode = LogisticRegression(C=2.0 / 3.0, fit_intercept=False, tol=1e-8)
    phi = np.column_stack([x, np.ones(40)])
    mode.fit(phi, labels == "up")
    found = model.predict_proba(X)[:, list(model.classes_).index("up")]
    assert np.corrcoef(found, mode.predict_proba(phi)[:, 1])[0, 1] > 0.99
    assert (model.predict_dist(X).mutual_information > 0.0).all()


# The samplers themselves are tested in tests/sampling.
@pytest.mark.parametrize("sampler", ["hmc", "random-walk"])
@pytest.mark.filterwarnings("ignore:the chains disagree", "ignore:the draws are worth")
@pytest.mark.filterwarnings("ignore:draws that diverged")
def test_every_sampler_fits_a_network(sampler):
    model = MCMCRegressor((3,), sampler=sampler, **FEW)
    mean, std = model.fit(X, Y).predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert model.fit_report_.n_updates == 2 * 30
    np.testing.assert_array_equal(clone(model).fit(X, Y).predict(X), mean)


@pytest.mark.filterwarnings("ignore")
def test_a_row_more_is_no_new_program():
    MCMCRegressor((2,), **FEW).fit(X[:33], Y[:33])
    programs = mcmc._warm_up, mcmc._draw
    before = [one._cache_size() for one in programs]
    MCMCRegressor((2,), **FEW).fit(X[:34], Y[:34])
    assert [one._cache_size() for one in programs] == before


def test_one_chain_says_what_it_cannot_tell():
    with pytest.warns(UserWarning, match="set n_chains to 2"):
        model = MCMCRegressor((), **FEW | {"n_chains": 1}).fit(X, Y)
    assert model.diagnostics_ is None


def test_too_short_chains_are_called_out():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = MCMCRegressor((2,), **FEW).fit(X, Y)
    assert [str(warning.message) for warning in said] == model.fit_report_.warnings
    assert "raise n_draws or thin" in model.fit_report_.warnings[-1]


def test_what_adapts_needs_a_warm_up():
    with pytest.raises(ValueError, match="n_warmup must be an int >= 1"):
        MCMCRegressor(n_warmup=0).fit(X, Y)

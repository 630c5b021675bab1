"""Models of rows apart are, merged, the model of all rows; and what cannot be merged says why."""

from __future__ import annotations

import copy

import numpy as np
import polars as pl
import pytest
from scipy import integrate, optimize, special

import bayesprop
from bayesprop import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianRegressor,
    PBPRegressor,
    merge,
)

RNG = np.random.default_rng(0)
X = RNG.normal([1.0, -2.0, 30.0], [1.0, 3.0, 5.0], (90, 3))
Y = 4.0 + X @ [1.0, 0.5, -0.2] + 0.3 * RNG.standard_normal(90)
LABELS = np.where(X[:, 0] + RNG.standard_normal(90) > 1.0, "yes", "no")
PARTS = (slice(0, 15), slice(15, 40), slice(40, 90))


def going_on(start, y, parts=PARTS[1:]):
    return [copy.deepcopy(start).partial_fit(X[part], y[part]) for part in parts]


@pytest.mark.parametrize(
    "settings",
    [{}, {"prior_prec": 0.3, "noise": "conjugate"}, {"prior_prec": "ard"}, {"noise": 0.1}],
)
def test_linear_models_fitted_alone_are_one_fit_to_all_rows(settings):
    alone = [BayesianLinearRegressor(**settings).fit(X[part], Y[part]) for part in PARTS]
    merged, one = merge(alone), BayesianLinearRegressor(**settings).fit(X, Y)
    np.testing.assert_allclose(
        merged.predict(X, return_std=True), one.predict(X, return_std=True), rtol=1e-10
    )
    assert merged.log_evidence_ == pytest.approx(one.log_evidence_, rel=1e-10)
    assert merged.fit_report_.n_rows == 90


def test_linear_models_that_went_on_from_one_count_its_rows_once():
    start = BayesianLinearRegressor(basis="polynomial", degree=2, prior_prec=1.0, noise=0.1)
    start.fit(X[:15], Y[:15])
    merged = merge(going_on(start, Y), start)
    one = copy.deepcopy(start).partial_fit(X[15:], Y[15:])
    np.testing.assert_allclose(
        merged.predict(X, return_std=True), one.predict(X, return_std=True), rtol=1e-8
    )


def gaussian(model):
    """Precision and precision-mean of the weights of a logistic model."""
    prec = np.linalg.inv(model.posterior_.cov)
    return prec, prec @ model.posterior_.mean


def test_natural_parameters_of_logistic_models_add():
    start = BayesianLogisticClassifier(posterior="laplace", prior_prec=1.0).fit(X[:15], LABELS[:15])
    models = going_on(start, LABELS)
    merged = merge(models, start)
    for theirs, added in zip(
        gaussian(merged),
        (sum(parts) - own for *parts, own in zip(*map(gaussian, [*models, start]), strict=True)),
        strict=True,
    ):
        np.testing.assert_allclose(theirs, added, rtol=1e-8, atol=1e-8)


def test_the_evidence_of_merged_logistic_models_is_the_mass_of_their_product():
    """One weight: by quadrature of prior times the factors that posteriors stand for."""
    start = BayesianLogisticClassifier(posterior="laplace", prior_prec=1.0, intercept_prec=1e9)
    start.fit(X[:15, :1], LABELS[:15])
    models = [copy.deepcopy(start).partial_fit(X[part, :1], LABELS[part]) for part in PARTS[1:]]

    def log_density(model, w):
        mean, var = model.posterior_.mean[1], model.posterior_.cov[1, 1]
        return model.log_evidence_ - 0.5 * (w - mean) ** 2 / var - 0.5 * np.log(2 * np.pi * var)

    def product(w):
        return np.exp(sum(log_density(one, w) for one in models) - log_density(start, w))

    mass, _ = integrate.quad(product, -5.0, 8.0, epsabs=0.0)
    merged = merge(models, start)
    assert merged.log_evidence_ == pytest.approx(np.log(mass), abs=1e-4)


def said_by_rows(state):
    """Natural parameters of all that is not the prior's."""
    prec = [1.0 / v - p for v, p in zip(state.v, state.site_prec, strict=True)]
    slope = [m / v - s for m, v, s in zip(state.m, state.v, state.site_prec_mean, strict=True)]
    return np.concatenate([a.ravel() for a in (*prec, *slope, state.noise_shape, state.noise_rate)])


def test_natural_parameters_of_pbp_add_and_make_a_better_model():
    start = PBPRegressor((10,), random_state=0).partial_fit(X[:15], Y[:15])
    models = going_on(start, Y)
    merged = merge(models, start)
    assert merged.fit_report_.guards["weights_undone"] == 0
    added = sum(said_by_rows(one.state_) for one in models) - said_by_rows(start.state_)
    np.testing.assert_allclose(said_by_rows(merged.state_), added, rtol=1e-9, atol=1e-7)
    scores = [one.log_likelihood(X, Y) for one in (merged, *models)]
    assert scores[0] > min(scores[1:])


def test_the_start_alone_and_one_model_are_themselves():
    start = PBPRegressor((10,), random_state=0).partial_fit(X[:15], Y[:15])
    (model,) = going_on(start, Y, [PARTS[2]])
    np.testing.assert_allclose(
        said_by_rows(merge([model], start).state_), said_by_rows(model.state_), rtol=1e-9, atol=1e-9
    )


def test_what_cannot_be_merged_says_what_to_do():
    linear = BayesianLinearRegressor().fit(X, Y)
    pbp = [PBPRegressor((3,), random_state=0).partial_fit(X[part], Y[part]) for part in PARTS]
    tiny = BayesianRegressor((3,), n_epochs=2, random_state=0)
    both, twice, linear_of_two = np.c_[Y, Y], BayesianLinearRegressor(), BayesianLinearRegressor()
    table_model = bayesprop.fit(pl.DataFrame({"x": X[:, 0], "y": Y}), target="y", method="linear")
    for models, start, words in (
        ([], None, "one fitted model at least"),
        (pbp, None, "start must be the model"),
        (pbp[1:], pbp[0], "one scaling"),
        ([linear, pbp[0]], None, "one class"),
        ([linear, BayesianLinearRegressor(prior_prec=1.0).fit(X, Y)], None, "same prior_prec"),
        ([linear, BayesianLinearRegressor().fit(X[:, :2], Y)], None, "same columns"),
        ([twice.fit(X, both, X_std=0.1), linear_of_two.fit(X, both)], None, r"errors \(X_std\)"),
        ([tiny.fit(X[:30], Y[:30])], None, "whose posteriors multiply"),
        ([table_model, table_model], None, "got TableModel; `bayesprop merge` merges files"),
    ):
        with pytest.raises(ValueError, match=words):
            merge(models, start)


@pytest.mark.parametrize("settings", [{"prior_prec": 0.5, "noise": 0.2}, {}])
def test_linear_forgets_as_weighted_least_squares(settings):
    """However the rows are cut: by numpy for a known prior, else one fit to weighted rows."""
    half_life, start = 20.0, BayesianLinearRegressor(**settings).partial_fit(X[:40], Y[:40])
    model = copy.deepcopy(start).partial_fit(X[40:47], Y[40:47], half_life=half_life)
    for i in range(47, 90):
        model.partial_fit(X[i : i + 1], Y[i : i + 1], half_life=half_life)
    age = np.minimum(89.0 - np.arange(90), 50.0)
    weight = 2.0 ** (-age / half_life)
    if settings:
        phi = np.column_stack([np.ones(90), start.x_scaler_.transform(X)])
        y = start.y_scaler_.transform(Y[:, None])[:, 0]
        noise = 0.2 / start.y_scaler_.scale[0] ** 2
        prec = np.diag([1e-4, 0.5, 0.5, 0.5]) + phi.T @ (weight[:, None] * phi) / noise
        mean = np.linalg.solve(prec, phi.T @ (weight * y) / noise)
        np.testing.assert_allclose(model.posterior_.mean[0], mean, rtol=1e-9)
        root = model.posterior_.root[0]
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(prec), rtol=1e-9)
    at_once = copy.deepcopy(start)
    at_once.partial_fit(X[40:], Y[40:], half_life=half_life)
    np.testing.assert_allclose(model.predict(X), at_once.predict(X), rtol=1e-7)


def test_logistic_forgets_near_a_weighted_fit():
    """Newton by scipy on all rows with the weights of their ages, from the same prior."""
    start = BayesianLogisticClassifier(posterior="laplace", prior_prec=1.0, intercept_prec=1.0)
    start.partial_fit(X[:50], LABELS[:50])
    model = copy.deepcopy(start).partial_fit(X[50:], LABELS[50:], half_life=30.0)
    age = np.minimum(89.0 - np.arange(90), 40.0)
    phi = np.column_stack([np.ones(90), start.x_scaler_.transform(X)])
    sign = np.where(LABELS == "yes", 1.0, -1.0)

    def loss(w):
        return -(2.0 ** (-age / 30.0)) @ special.log_expit(sign * (phi @ w)) + 0.5 * w @ w

    mode = optimize.minimize(loss, np.zeros(4), tol=1e-10).x
    std = np.sqrt(np.diag(model.posterior_.cov))
    assert np.all(np.abs(model.posterior_.mean - mode) < 0.3 * std)


def test_pbp_follows_a_world_that_changes():
    """The slope turns round twice: who forgets is worse between, and better in all."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2.0, 2.0, (1500, 1))
    slope = np.where((np.arange(1500) // 500) % 2, -1.0, 1.0)
    y = slope * x[:, 0] + 0.1 * rng.standard_normal(1500)
    means = []
    for half_life in (None, 60.0):
        model = PBPRegressor((10,), random_state=0).partial_fit(x[:50], y[:50])
        scores = []
        for first in range(50, 1500, 50):
            rows = slice(first, first + 50)
            scores.append(model.log_likelihood(x[rows], y[rows]))
            model.partial_fit(x[rows], y[rows], half_life=half_life)
        means.append(np.mean(scores))
    assert means[1] > means[0] + 0.3


def test_forgetting_all_is_the_prior():
    model = BayesianLogisticClassifier(prior_prec=2.0).partial_fit(X, LABELS)
    model.partial_fit(X[:1], LABELS[:1], sample_weight=[1e-9], half_life=1e-2)
    np.testing.assert_allclose(np.diag(model.posterior_.cov)[1:], 0.5, rtol=1e-6)


def test_a_half_life_is_a_number_of_a_method_that_forgets():
    model = BayesianLinearRegressor().partial_fit(X, Y)
    with pytest.raises(ValueError, match="half_life must be a number of rows > 0, got 0"):
        model.partial_fit(X, Y, half_life=0)
    classifier = bayesprop.EBPClassifier((3,))
    with pytest.raises(ValueError, match="half_life must be None for EBPClassifier"):
        classifier.partial_fit(X, LABELS, half_life=10.0)

"""Scores against closed forms elsewhere, Monte Carlo and brute force."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import special, stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import BayesianLinearRegressor, PBPRegressor
from bayesprop.active_learning import acquisition, doubt
from bayesprop.active_learning.acquisition import predictive_variance
from bayesprop.active_learning.doubt import Functions, functions_of
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.predictive import GaussianPredictive, StudentTPredictive
from bayesprop.estimators import any_estimator


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 2))
    y = X @ [1.0, -2.0] + 0.3 * rng.standard_normal(8)
    return BayesianLinearRegressor(noise=0.1, prior_prec=1.0).fit(X, y)


def test_mutual_information_of_a_gaussian_is_a_nested_expectation():
    """E over functions of the log ratio of densities of y, by draws."""
    rng = np.random.default_rng(1)
    epistemic, noise, n = 1.7, 0.4, 200_000
    f = rng.normal(0.0, np.sqrt(epistemic), n)
    y = f + rng.normal(0.0, np.sqrt(noise), n)
    ratio = stats.norm.logpdf(y, f, np.sqrt(noise)) - stats.norm.logpdf(
        y, 0.0, np.sqrt(epistemic + noise)
    )
    one = GaussianPredictive(np.zeros(1), np.array([epistemic]), np.array([noise]))
    score = acquisition.mutual_information(doubt.of_numbers(one))[0]
    assert abs(score - ratio.mean()) < 4.0 * ratio.std() / np.sqrt(n)
    assert score == pytest.approx(0.5 * np.log1p(epistemic / noise))


def test_mutual_information_of_an_ensemble_that_is_unsure_of_its_noise():
    """Two members with one mean and two noises: the equivalent mixture of draws says the same."""
    noises = np.array([[0.01], [1.0]])
    nothing = np.zeros((2, 1))
    ensemble = MixturePredictive.of_networks(
        f_mean=nothing, f_var=nothing, log_noise_mean=np.log(noises), log_noise_var=nothing,
        dof=np.full((2, 1), 1e6),
    )  # fmt: skip
    mixture = MixturePredictive.of(nothing, noises)
    found, wanted = (
        acquisition.mutual_information(doubt.of_numbers(one))[0] for one in (ensemble, mixture)
    )
    assert found == pytest.approx(wanted, abs=1e-5)
    y = np.linspace(-8.0, 8.0, 100_001)
    densities = stats.norm.pdf(y, 0.0, np.sqrt(noises))
    ratios = special.rel_entr(densities, densities.mean(axis=0))
    exact = np.trapezoid(ratios, y).mean()
    assert found > exact > 0.4  # a bound from above: the mixture is less than a Gaussian


def test_mutual_information_of_a_student_t_by_draws_of_its_noise():
    rng = np.random.default_rng(2)
    dof, epistemic, noise, n = 7.0, 0.8, 0.5, 400_000
    one = StudentTPredictive(np.zeros(1), *np.array([[epistemic], [noise], [dof]]))
    noise_var = noise * (0.5 * dof - 1.0) / rng.standard_gamma(0.5 * dof, n)
    f = rng.standard_normal(n) * np.sqrt(noise_var * epistemic / noise)
    y = f + np.sqrt(noise_var) * rng.standard_normal(n)
    ratio = stats.norm.logpdf(y, f, np.sqrt(noise_var)) - stats.t.logpdf(y, dof, scale=one.scale[0])
    score = acquisition.mutual_information(doubt.of_numbers(one))[0]
    assert abs(score - ratio.mean()) < 4.0 * ratio.std() / np.sqrt(n)
    assert score > 0.5 * np.log1p(epistemic / noise)  # it tells about the noise too
    assert doubt.of_numbers(one).entropy[0] == pytest.approx(
        stats.t.entropy(dof) + np.log(one.scale)
    )


def test_mutual_information_of_a_mixture_bounds_the_exact_one():
    rng = np.random.default_rng(3)
    means, noise_vars = rng.standard_normal((5, 1)), rng.uniform(0.2, 2.0, (5, 1))
    y = np.linspace(-12.0, 12.0, 200_001)
    density = stats.norm.pdf(y, means, np.sqrt(noise_vars))
    mean_density = density.mean(axis=0)
    entropy = -np.trapezoid(special.xlogy(mean_density, mean_density), y)
    exact = entropy - stats.norm.entropy(scale=np.sqrt(noise_vars)).mean()
    found = doubt.of_numbers(MixturePredictive.of(means, noise_vars))
    assert found.noise_entropy[0] == pytest.approx(entropy - exact)
    gaussian = stats.norm.entropy(scale=np.sqrt(found.var[0, 0]))
    assert acquisition.mutual_information(found)[0] == pytest.approx(
        exact + gaussian - entropy, abs=1e-9
    )
    assert gaussian > entropy


def test_mutual_information_of_classes_by_draws():
    """Four draws of the probabilities of three classes, against the Kullback-Leibler form."""
    p = np.random.default_rng(4).dirichlet([1.0, 2.0, 0.5], size=4)
    mean = p.mean(axis=0)
    exact = np.mean([stats.entropy(one, mean) for one in p])
    expected = np.mean([stats.entropy(one) for one in p])
    found = doubt.of_classes(ClassPredictive(mean[None], np.array([expected]), np.arange(3)))
    assert acquisition.mutual_information(found)[0] == pytest.approx(exact)
    labels = np.eye(3)[np.random.default_rng(5).choice(3, 100_000, p=mean)]
    assert found.var[0, 0] == pytest.approx(labels.var(axis=0).sum(), abs=0.01)


def test_several_targets_rank_by_summed_entropy():
    rng = np.random.default_rng(6)
    parts = rng.uniform(0.1, 3.0, (3, 20, 2)) * [1.0, 1e6]
    found = doubt.of_numbers(GaussianPredictive(*parts))
    by_entropy = np.argsort(acquisition.predictive_entropy(found))
    np.testing.assert_array_equal(np.argsort(predictive_variance(found)), by_entropy)
    each = [doubt.of_numbers(GaussianPredictive(*parts[:, :, t])) for t in range(2)]
    np.testing.assert_allclose(
        acquisition.mutual_information(found), sum(map(acquisition.mutual_information, each))
    )


def test_several_labels_of_a_row_add_up():
    p = np.random.default_rng(7).dirichlet([1.0, 2.0], size=(20, 3))
    labels = ClassPredictive(p, 0.5 * stats.entropy(p, axis=-1), np.arange(2))
    found = doubt.of_classes(labels)
    each = [doubt.of_classes(labels.target(k)) for k in range(3)]
    np.testing.assert_allclose(found.var, np.hstack([one.var for one in each]))
    for score in (acquisition.mutual_information, acquisition.predictive_entropy):
        np.testing.assert_allclose(score(found), sum(map(score, each)))


def test_variances_are_those_of_draws(line):
    """Of functions, and of new measurements; the standard error of a Gaussian's variance."""
    pool, n = np.random.default_rng(12).standard_normal((4, 2)) * 2.0, 40_000
    found = doubt.doubt_of(line, pool)
    for score, noise in ((acquisition.epistemic_variance, False), (predictive_variance, True)):
        drawn = line.sample_y(pool, n, random_state=13, include_noise=noise).var(axis=1)
        assert (np.abs(score(found) - drawn) < 4.0 * drawn * np.sqrt(2.0 / n)).all()


def test_a_variance_of_zero_tells_nothing():
    found = doubt.of_numbers(GaussianPredictive(*np.zeros((3, 2))))
    np.testing.assert_array_equal(acquisition.mutual_information(found), 0.0)


def test_conditioning_is_that_of_the_linear_model(line):
    """Features changed in closed form against the posterior after a real update, whatever y is."""
    pool = np.random.default_rng(7).standard_normal((30, 2)) * 3.0
    functions = functions_of(line, pool, n_draws=2, seed=0)
    np.testing.assert_allclose(
        functions.epistemic_var[:, 0], line.predict_dist(pool).epistemic_var, rtol=1e-9
    )
    place = Functions(functions.features[[4]], functions.noise_var[[4]])
    after = functions.seen_from(place).epistemic_var[:, 0]
    for y in (0.0, 55.0):
        measured = copy.deepcopy(line).partial_fit(pool[[4]], [y])
        np.testing.assert_allclose(after, measured.predict_dist(pool).epistemic_var, rtol=1e-7)


def test_expected_entropy_reduction_is_what_an_update_brings(line):
    """The mean fall of the entropy at the reference rows, by really adding each candidate."""
    rng = np.random.default_rng(8)
    pool, reference = rng.standard_normal((6, 2)) * 2.0, rng.standard_normal((5, 2))
    both = functions_of(line, np.concatenate([pool, reference]), n_draws=2, seed=0)
    found = acquisition.expected_entropy_reduction(
        Functions(both.features[:6], both.noise_var[:6]),
        Functions(both.features[6:], both.noise_var[6:]),
    )
    before = np.log(line.predict_dist(reference).var)
    for row, score in zip(pool, found, strict=True):
        measured = copy.deepcopy(line).partial_fit(row[None], [0.7])
        fall = 0.5 * (before - np.log(measured.predict_dist(reference).var)).mean()
        assert score == pytest.approx(fall, rel=1e-6)


def test_draws_of_a_network_keep_the_variances_of_its_predictive():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((40, 2))
    model = PBPRegressor((8,), n_epochs=10, random_state=0).fit(X, X @ [[1.0, 2.0], [0.0, 1.0]])
    functions = functions_of(model, X[:7], n_draws=16, seed=3)
    predicted = model.predict_dist(X[:7])
    np.testing.assert_allclose(functions.epistemic_var, predicted.epistemic_var, rtol=1e-9)
    np.testing.assert_allclose(functions.noise_var, predicted.noise_var)


def test_estimators_of_scikit_learn_and_pipelines():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((40, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    process = make_pipeline(StandardScaler(), GaussianProcessRegressor(alpha=0.1)).fit(X, y)
    found = doubt.doubt_of(process, X)
    np.testing.assert_allclose(found.var[:, 0], process.predict(X, return_std=True)[1] ** 2)
    assert found.epistemic_var is None
    with pytest.raises(ValueError, match="predictive-variance"):
        acquisition.mutual_information(found)
    with pytest.raises(ValueError, match="predictive-variance"):
        acquisition.epistemic_variance(found)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y > 0.0)
    np.testing.assert_allclose(
        acquisition.predictive_entropy(doubt.doubt_of(forest, X)),
        stats.entropy(forest.predict_proba(X), axis=1),
        atol=1e-12,
    )
    ours = make_pipeline(StandardScaler(), PBPRegressor((4,), n_epochs=2, random_state=0))
    assert doubt.doubt_of(ours.fit(X, y), X).epistemic_var is not None
    with pytest.raises(ValueError, match="LinearRegression: it does not say how sure"):
        doubt.doubt_of(LinearRegression().fit(X, y), X)


def test_memory_does_not_grow_with_the_draws(monkeypatch):
    """A thousand draws a row: eight thousand values at once are eight rows."""
    asked = []

    class Drawn:
        def predict_dist(self, X):
            asked.append(len(X))
            return MixturePredictive.of(np.zeros((1000, len(X))), np.ones((1000, len(X))))

    monkeypatch.setattr(any_estimator, "_FEW_ROWS", 4)
    monkeypatch.setattr(any_estimator, "_DRAW_VALUES", 8000)
    assert len(doubt.doubt_of(Drawn(), np.zeros((20, 1))).var) == 20
    assert asked == [1, 8, 8, 4]

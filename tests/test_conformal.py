"""Bounds against order statistics by hand; coverage against exchangeability."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier, load
from bayesprop.conformal import ConformalClassifier, ConformalRegressor, limit, stretch
from bayesprop.sealed import ModelFileError

N_CALIBRATION, COVERAGE = 19, 0.9  # the 18th of 19 scores: covers with probability 18 / 20


def numbers(rng, n):
    """Noise that is skewed and grows with |x|."""
    X = rng.standard_normal((n, 2))
    return X, X[:, 0] + (0.5 + np.abs(X[:, 1])) * (rng.standard_exponential(n) - 1.0)


def kinds(rng, n):
    X = rng.standard_normal((n, 2))
    logits = np.stack([2.0 * X[:, 0], np.sin(3.0 * X[:, 1]), np.zeros(n)], axis=1)
    return X, np.array(["a", "b", "c"])[np.argmax(logits + rng.gumbel(size=(n, 3)), axis=1)]


@pytest.fixture(scope="module")
def too_sure():
    return BayesianLinearRegressor(noise=0.01).fit(*numbers(np.random.default_rng(0), 60))


@pytest.fixture(scope="module")
def classifier():
    return BayesianLogisticClassifier().fit(*kinds(np.random.default_rng(1), 40))


def check_coverage(shares):
    assert abs(np.mean(shares) - 0.9) < 4.0 * np.std(shares, ddof=1) / np.sqrt(len(shares)) < 0.05


def test_intervals_of_a_model_that_is_too_sure_hold_what_they_promise(too_sure):
    rng = np.random.default_rng(3)
    shares, own = [], []
    for _ in range(150):
        fitted = ConformalRegressor(too_sure, coverage=COVERAGE)
        fitted.calibrate(*numbers(rng, N_CALIBRATION))
        X, y = numbers(rng, 40)
        for kept, interval in (
            (shares, fitted.predict_interval(X)),
            (own, too_sure.predict_interval(X, COVERAGE)),
        ):
            kept.append(np.mean((interval[:, 0] <= y) & (y <= interval[:, 1])))
    check_coverage(shares)
    assert np.mean(own) < 0.5
    mean, std = too_sure.predict(X, return_std=True)
    half = fitted.stretch_ * std
    np.testing.assert_allclose(fitted.predict_interval(X), np.stack([mean - half, mean + half], 1))
    np.testing.assert_array_equal(fitted.predict(X), mean)


def test_sets_hold_what_they_promise_and_are_those_above_a_limit(classifier):
    rng = np.random.default_rng(4)
    shares = []
    for _ in range(150):
        X, y = kinds(rng, N_CALIBRATION)
        fitted = ConformalClassifier(classifier, coverage=COVERAGE).calibrate(X, y)
        X_new, y_new = kinds(rng, 40)
        sets = fitted.predict_set(X_new)
        shares.append(np.mean(sets[np.arange(40), np.searchsorted(classifier.classes_, y_new)]))
    check_coverage(shares)
    codes = np.searchsorted(classifier.classes_, y)
    limit = np.sort(classifier.predict_proba(X)[np.arange(19), codes])[1]  # second least
    np.testing.assert_array_equal(sets, classifier.predict_proba(X_new) >= limit - 1e-12)
    np.testing.assert_array_equal(fitted.predict(X_new), classifier.predict(X_new))


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_the_stretch_needs_error_bars(bad):
    std = np.ones(30)
    std[3] = bad
    with pytest.raises(ValueError, match=f"positive and finite.*{bad}.* for calibration row 3"):
        stretch(np.zeros(30), std, np.zeros(30), 0.9)


@pytest.mark.parametrize(("coverage", "least"), [(0.2, 1), (0.5, 1), (0.9, 9), (0.95, 19)])
def test_the_least_rows_are_enough(too_sure, classifier, coverage, least):
    rng = np.random.default_rng(7)
    X, y = numbers(rng, least)
    fitted = ConformalRegressor(too_sure, coverage=coverage).calibrate(X, y)
    assert fitted.predict_interval(X).shape == (least, 2)
    with pytest.raises(ValueError, match=f"needs {least} calibration rows"):
        ConformalRegressor(too_sure, coverage=coverage).calibrate(X[1:], y[1:])
    sets = ConformalClassifier(classifier, coverage=coverage).calibrate(X, ["a"] * least)
    assert sets.predict_set(X).shape == (least, 3)  # two classes in no row: no matter


def test_what_cannot_be_calibrated_is_refused(too_sure, classifier):
    X, y = numbers(np.random.default_rng(6), 8)
    with pytest.raises(ValueError, match=r"shape \(8,\), got \(8, 1\)"):
        ConformalRegressor(too_sure, coverage=0.5).calibrate(X, y[:, None])
    with pytest.raises(ValueError, match="y must hold numbers for a regressor"):
        ConformalRegressor(too_sure, coverage=0.5).calibrate(X, ["far"] * 8)
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        ConformalRegressor(too_sure, coverage=90)
    with pytest.raises(ValueError, match="take ConformalClassifier"):
        ConformalRegressor(classifier)
    with pytest.raises(ValueError, match="take ConformalRegressor"):
        ConformalClassifier(too_sure)
    with pytest.raises(ValueError, match="does not say how sure it is"):
        ConformalRegressor(LinearRegression().fit(X, y))
    with pytest.raises(NotFittedError):
        ConformalRegressor(BayesianLinearRegressor())
    with pytest.raises(NotFittedError, match="call calibrate"):
        ConformalRegressor(too_sure).predict_interval(X)
    with pytest.raises(ValueError, match=r"classes of the fit, .*'c'\], got 'd'"):
        ConformalClassifier(classifier, coverage=0.5).calibrate(X, np.array(list("abcabcad")))


def test_saved_and_loaded_they_say_the_same(too_sure, classifier, tmp_path):
    rng = np.random.default_rng(8)
    X, y = numbers(rng, 30)
    honest = ConformalRegressor(too_sure, coverage=0.8).calibrate(X, y)
    honest.save(tmp_path / "numbers")
    loaded = ConformalRegressor.load(tmp_path / "numbers")
    np.testing.assert_array_equal(loaded.predict_interval(X), honest.predict_interval(X))
    assert (loaded.coverage, loaded.n_calibration_) == (0.8, 30)
    np.testing.assert_array_equal(load(tmp_path / "numbers").predict(X), too_sure.predict(X))

    X, y = kinds(rng, 30)
    sets = ConformalClassifier(classifier, coverage=0.8).calibrate(X, y)
    sets.save(tmp_path / "kinds")
    loaded = ConformalClassifier.load(tmp_path / "kinds")
    np.testing.assert_array_equal(loaded.predict_set(X), sets.predict_set(X))

    with pytest.raises(ModelFileError, match="holds no ConformalRegressor"):
        ConformalRegressor.load(tmp_path / "kinds")
    too_sure.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="holds no ConformalRegressor"):
        ConformalRegressor.load(tmp_path / "model")
    with pytest.raises(NotFittedError, match="call calibrate"):
        ConformalRegressor(too_sure).save(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("coverage", [0.6, 0.8, 0.93])
@pytest.mark.filterwarnings("ignore")
def test_mapie_has_the_same_stretch_and_limit(coverage):
    from mapie.classification import SplitConformalClassifier
    from mapie.regression import SplitConformalRegressor

    rng = np.random.default_rng(11)
    X, scores = np.zeros((50, 1)), rng.standard_normal(50)
    constant = DummyRegressor(strategy="constant", constant=0.0).fit(X, scores)
    peer = SplitConformalRegressor(constant, confidence_level=coverage, prefit=True)
    upper = peer.conformalize(X, scores).predict_interval(X)[1][0, 1, 0]
    assert stretch(np.zeros(50), np.ones(50), scores, coverage) == pytest.approx(upper, rel=1e-9)

    X, y = kinds(rng, 50)
    model = LogisticRegression().fit(*kinds(rng, 60))
    peer = SplitConformalClassifier(
        model, confidence_level=coverage, conformity_score="lac", prefit=True
    )
    sets = peer.conformalize(X, y).predict_set(X)[1][:, :, 0]
    least = limit(model.predict_proba(X), model.classes_, y, coverage)
    np.testing.assert_array_equal(model.predict_proba(X) >= least, sets)

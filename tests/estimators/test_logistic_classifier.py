"""BayesianLogisticClassifier as a user meets it: doubt, streams, weights, files, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.datasets import load_breast_cancer, load_iris

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier, time_limit
from bayesprop.linear import bases
from bayesprop.store import estimator_from_stored

SETS = {"two": load_breast_cancer, "three": load_iris}


@pytest.mark.parametrize("name", SETS)
def test_predictions_agree_by_their_three_names(name):
    X, y = SETS[name](return_X_y=True)
    model = BayesianLogisticClassifier("vi", n_draws=2000, random_state=0).fit(X, y)
    exact = model.predict_dist(X)
    for prediction, tolerance in (("probit", 0.1), ("monte-carlo", 0.06)):
        found = model.set_params(prediction=prediction).predict_dist(X)
        assert np.abs(found.proba - exact.proba).max() < tolerance
        assert np.abs(found.expected_entropy - exact.expected_entropy).max() < tolerance


def test_the_lectures_probit_is_for_two_classes():
    X, y = load_iris(return_X_y=True)
    model = BayesianLogisticClassifier("laplace", prediction="probit-cdf")
    two = model.fit(X[:100], y[:100])
    assert two.predict_dist(X[:100]).proba[:50, 0].min() > 0.5
    with pytest.raises(ValueError, match="prediction='probit-cdf' is for two classes, got 3"):
        model.fit(X, y)


@pytest.mark.parametrize("posterior", ["vi", "laplace"])
def test_a_time_limit_keeps_what_the_search_has(posterior):
    X, y = SETS["three"](return_X_y=True)
    model = BayesianLogisticClassifier(posterior)
    with time_limit(1e-3), pytest.warns(UserWarning, match="time limit .* is not converged"):
        model.fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.fit_report_.warnings[0].endswith("the posterior is not converged")
    assert (
        len(model.fit(X, y).fit_report_.trace["elbo" if posterior == "vi" else "log_evidence"]) > 1
    )


def test_rows_one_batch_at_a_time_come_near_the_whole():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    whole = BayesianLogisticClassifier("vi").fit(X, y)
    stream = BayesianLogisticClassifier("vi").fit(X[:100], y[:100])
    for first in range(100, 569, 67):
        stream.partial_fit(X[first : first + 67], y[first : first + 67])
    assert np.abs(stream.predict_proba(X) - whole.predict_proba(X)).mean() < 0.02
    one = BayesianLogisticClassifier().partial_fit(X[:1], y[:1], classes=[0, 1])
    one.partial_fit(X[1:2], y[1:2])
    assert list(one.classes_) == [0, 1]


@pytest.mark.parametrize("name", SETS)
def test_weights_are_in_the_units_of_the_table(name):
    X, y = SETS[name](return_X_y=True)
    X = X[:, :4]
    model = BayesianLogisticClassifier().fit(X, y)
    table = model.weights()
    n_logits = 1 if name == "two" else 3
    assert list(table) == ["class", "feature", "mean", "std", "lower", "upper"]
    assert {len(column) for column in table.values()} == {5 * n_logits}
    logits = np.column_stack([np.ones(len(X)), X]) @ table["mean"].reshape(n_logits, 5).T
    chosen = (logits[:, 0] > 0).astype(int) if name == "two" else logits.argmax(axis=1)
    np.testing.assert_array_equal(chosen, model.predict(X))
    np.testing.assert_allclose((table["upper"] - table["lower"]) / table["std"], 2 * 1.6448536)
    drawn = model.posterior_.sample(np.random.RandomState(0), 4000).reshape(4000, n_logits, 5)
    raw = drawn[:, :, 1:] / X.std(axis=0)
    intercept = drawn[:, :, 0] - raw @ X.mean(axis=0)
    np.testing.assert_allclose(
        intercept.std(axis=0), table["std"].reshape(n_logits, 5)[:, 0], rtol=0.06
    )


def test_too_many_weights_are_refused():
    with pytest.raises(ValueError, match="covariance would take"):
        BayesianLogisticClassifier().fit(np.ones((4, 30_000)), [0, 1, 0, 1])


def test_the_evidence_chooses_a_prior_that_a_stream_keeps():
    X, y = load_iris(return_X_y=True)
    even, odd = (X[::2], y[::2]), (X[1::2], y[1::2])
    model = BayesianLogisticClassifier().fit(*even)
    fixed = BayesianLogisticClassifier(prior_prec=1.0).fit(*even)
    np.testing.assert_array_equal(fixed.prior_prec_, [0.01, 1.0, 1.0, 1.0, 1.0])
    chosen = model.prior_prec_
    assert chosen[0] == 0.01
    assert 0.01 <= chosen[1] < 0.2
    np.testing.assert_array_equal(model.partial_fit(*odd).prior_prec_, chosen)
    assert set(model.fit_report_.guards) == {"not_converged"}


def test_a_file_with_an_impossible_prior_is_refused():
    header, arrays = BayesianLogisticClassifier().fit(*load_iris(return_X_y=True)).to_stored()
    for bad in (np.zeros(5), np.full(5, np.nan), np.ones(4)):
        with pytest.raises(ValueError, match=r"array prior_prec must be|must be > 0"):
            estimator_from_stored(header, arrays | {"state.prior_prec": bad})


@pytest.mark.parametrize("n", [5, 20])
def test_probabilities_of_few_rows_of_its_own_model_are_as_right_as_they_are_sure(n):
    """Weights from the prior, tables of one class among them: within 4 standard errors."""
    rng, too_sure = np.random.default_rng(n), []
    for _ in range(100):
        X, weights = rng.normal(size=(n + 100, 3)), 2.0 * rng.normal(size=4)
        standardised = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
        p = special.expit(weights[0] + standardised @ weights[1:])
        model = BayesianLogisticClassifier(prior_prec=0.25, intercept_prec=0.25)
        model.partial_fit(X[:n], rng.random(n) < p[:n], classes=[False, True])
        proba = model.predict_proba(X[n:])
        right = np.where(proba[:, 1] > 0.5, p[n:], 1.0 - p[n:])
        too_sure.append(np.mean(proba.max(axis=1) - right))
    assert abs(np.mean(too_sure)) < 4 * np.std(too_sure) / np.sqrt(len(too_sure))


@pytest.mark.parametrize(
    ("settings", "weight"), [({}, 1e300), ({}, 1e20), ({"prior_prec": 1e-20}, 1)]
)
def test_numbers_beyond_the_precision_are_refused_in_a_sentence(settings, weight):
    X, y = load_iris(return_X_y=True)
    models = [BayesianLogisticClassifier(posterior, **settings) for posterior in ("vi", "laplace")]
    models += [BayesianLinearRegressor()] if weight > 1e100 else []
    for model in models:
        with pytest.raises(
            ValueError, match=r"must be .* smaller|must be at most 1e.100"
        ) as raised:
            model.fit(X, y, sample_weight=np.full(150, weight))
        assert type(raised.value) is ValueError


def test_many_classes_ask_for_what_is_quick_and_fits(monkeypatch):
    y = np.arange(903) % 301
    X = np.eye(903)[:, :2] + y[:, None]
    with pytest.raises(ValueError, match=r"posterior must be 'laplace'.*for 301 classes"):
        BayesianLogisticClassifier().fit(X, y)
    quick = BayesianLogisticClassifier("laplace", prediction="monte-carlo", n_draws=9)
    assert quick.set_params(prior_prec=1.0).fit(X, y).predict_proba(X).shape == (
        903,
        301,
    )
    monkeypatch.setattr(bases, "free_memory", lambda: 2.0**4)
    for model in (quick, BayesianLinearRegressor()):
        with pytest.raises(ValueError, match="must fit into memory"):
            model.fit(X, y)

"""What stands behind skpro's interface: skpro's own checks, and its numbers against ours."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from skpro.metrics import CRPS, LogLoss
from skpro.utils.estimator_checks import check_estimator

from bayesprop import BayesianLinearRegressor, GaussianPredictive, PBPRegressor
from bayesprop.estimators.skpro_regressor import PredictiveDistribution, SkproRegressor

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((80, 2)), columns=["a", "b"], index=range(100, 180))
Y = pd.DataFrame({"y": X["a"] - 2.0 * X["b"] + 0.3 * RNG.standard_normal(80)})
MEAN, VAR = np.array([1.0, 2.0, -3.0]), np.array([0.5, 1.0, 4.0])
ONE = GaussianPredictive(MEAN, VAR, VAR)
TWO = GaussianPredictive(*(np.stack([part, part + 1.0], axis=1) for part in (MEAN, VAR, VAR)))


TRIED = {
    SkproRegressor: [
        {"estimator": BayesianLinearRegressor()},
        {"estimator": PBPRegressor(n_epochs=2, hidden_layer_sizes=(3,), random_state=0)},
    ],
    PredictiveDistribution: [
        {"predictive": ONE, "index": [1, 2, 5], "columns": ["a"]},
        {"predictive": TWO, "index": [1, 2, 5], "columns": ["a", "b"]},
        {"predictive": ONE[:1]},
    ],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ours", list(TRIED))
def test_checks_of_skpro(ours, monkeypatch):
    monkeypatch.setattr(ours, "get_test_params", lambda *_, **__: TRIED[ours])
    outcomes = check_estimator(ours, verbose=False)
    assert len(outcomes) > 50
    assert not {name: outcome for name, outcome in outcomes.items() if outcome != "PASSED"}


def test_scores_of_skpro_are_ours():
    fitted = SkproRegressor(BayesianLinearRegressor()).fit(X[:60], Y[:60])
    predicted = fitted.predict_proba(X[60:])
    ours = fitted.estimator_.predict_dist(X[60:])
    y = Y["y"].to_numpy()[60:]
    np.testing.assert_allclose(CRPS()(Y[60:], predicted), ours.crps(y).mean())
    np.testing.assert_allclose(LogLoss()(Y[60:], predicted), -ours.log_prob(y).mean())
    np.testing.assert_allclose(fitted.predict_interval(X[60:], 0.8), ours.interval(0.8))
    np.testing.assert_allclose(fitted.predict_var(X[60:])["y"], ours.var)
    assert list(fitted.predict(X[60:]).index) == list(range(160, 180))


def test_energy_in_closed_form():
    """Of Gaussians E|X - X'| is 2 s / sqrt(pi) (Gneiting & Raftery 2007); outputs add up."""
    scale = np.sqrt(2.0 * VAR)
    one = PredictiveDistribution(ONE, index=[0, 1, 2], columns=["y"])
    two = PredictiveDistribution(TWO, index=[0, 1, 2], columns=["y", "z"])
    np.testing.assert_allclose(one.energy()["energy"], 2.0 * scale / np.sqrt(np.pi), rtol=1e-7)
    both = scale + np.sqrt(2.0 * (VAR + 1.0))
    np.testing.assert_allclose(two.energy()["energy"], 2.0 * both / np.sqrt(np.pi), rtol=1e-7)


def test_further_rows_are_learnt_where_the_method_can():
    half = SkproRegressor(BayesianLinearRegressor()).fit(X[:60], Y[:60]).update(X[60:], Y[60:])
    again = BayesianLinearRegressor().fit(X[:60], Y["y"][:60]).partial_fit(X[60:], Y["y"][60:])
    np.testing.assert_array_equal(half.predict(X)["y"], again.predict(X))
    assert SkproRegressor(BayesianLinearRegressor()).get_tag("capability:update")
    assert not SkproRegressor().get_tag("capability:update")


def test_levels_of_their_own_and_draws():
    asked = PredictiveDistribution(ONE, index=[0, 1, 2], columns=["y"])
    level = np.array([[0.1], [0.5], [0.1]])
    scale = np.sqrt(2.0 * VAR)
    np.testing.assert_allclose(asked.ppf(level)["y"], stats.norm.ppf(level[:, 0], MEAN, scale))
    drawn = asked.sample(4000)["y"].unstack()
    np.testing.assert_allclose(drawn.mean(), MEAN, atol=5.0 * scale.max() / np.sqrt(4000))
    row = asked.iloc[1, 0]
    assert row.shape == ()
    assert asked.at[1, "y"].mean() == asked.loc[1, "y"].mean() == row.mean() == 2.0
    np.testing.assert_allclose(row.cdf(2.5), stats.norm.cdf(2.5, 2.0, scale[1]))


def test_counts_have_probabilities():
    counts = np.round(np.exp(0.5 * X["a"])).to_frame("n")
    fitted = SkproRegressor(BayesianLinearRegressor(target_kind="count")).fit(X, counts)
    predicted = fitted.predict_proba(X[:5])
    assert predicted.get_tag("distr:measuretype") == "discrete"
    share = sum(predicted.pmf(np.full((5, 1), float(n))).to_numpy() for n in range(200))
    np.testing.assert_allclose(share, 1.0, atol=1e-6)
    assert (predicted.pdf(np.ones((5, 1))) == 0.0).all(axis=None)

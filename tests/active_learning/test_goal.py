"""Scores of a goal against high precision, quadrature, Monte Carlo and brute force."""

from __future__ import annotations

from typing import Any, cast

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor

from bayesprop import ActiveLearner, BayesianLinearRegressor, PBPRegressor
from bayesprop.active_learning import goal as goals
from bayesprop.active_learning.goal import Belief, Goal, belief_of, log_h
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.pooled import PooledPredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.targets.bijectors import AS_THEY_ARE, Logit, SoftplusInverse

SEEKS = {
    "log-expected-improvement": goals.log_expected_improvement,
    "probability-of-improvement": goals.probability_of_improvement,
    "confidence-bound": goals.confidence_bound,
}
DIRECTIONS: Any = pytest.mark.parametrize("direction", ["max", "min"])


def unfitted() -> BayesianLinearRegressor:
    return BayesianLinearRegressor(noise=0.1, prior_prec=1.0)


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 4))
    return unfitted().fit(X, X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.standard_normal(8))


@pytest.fixture(scope="module")
def pool():
    return np.random.default_rng(1).standard_normal((60, 4))


def mixture() -> MixturePredictive:
    """Three networks of two rows, which differ, with near rows."""
    rng = np.random.default_rng(2)
    f = {"f_mean": rng.standard_normal((3, 2)), "f_var": rng.uniform(0.1, 1.0, (3, 2))}
    noise = {"log_noise_mean": np.full((3, 2), -2.0), "log_noise_var": np.full((3, 2), 0.1)}
    share = np.array([[0.5, 0.2], [0.3, 0.2], [0.2, 0.6]])
    made = MixturePredictive.of_networks(
        **f, **noise, dof=np.full((3, 2), 9.0), share=share, unknown_share=0.2
    )
    near, little = rng.standard_normal((4, 2)), np.full((4, 2), 0.05)
    return made.with_gaussians(near, little, little).rescaled(3.0, 2.0)


@pytest.mark.parametrize("t", [4.0, 0.3, -0.999, -1.001, -7.0, -99.0, -101.0, -1e5, -1e9])
def test_its_logarithm_is_that_of_high_precision(t: float):
    with mpmath.workdps(60):
        z = mpmath.mpf(t)
        if t > -1e4:
            exact = mpmath.log(mpmath.npdf(z) + z * mpmath.erfc(-z / mpmath.sqrt(2)) / 2)
        else:  # the first term of the asymptotic series; the next is 1e-10 of it
            exact = -z * z / 2 - mpmath.log(2 * mpmath.pi) / 2 - 2 * mpmath.log(-z)
    assert log_h(np.array([t]))[0] == pytest.approx(float(exact), rel=1e-12, abs=1e-9)


def test_it_rises_over_its_seams():
    t = np.concatenate([np.linspace(-1.01, -0.99, 2001), np.linspace(-100.1, -99.9, 2001)])
    assert (np.diff(log_h(np.sort(t))) > 0.0).all()


@DIRECTIONS
@pytest.mark.parametrize("best", [-1.0, 4.0, 9.0])
def test_of_a_mixture_by_quadrature(direction: Any, best: float):
    """The mixture of components' closed forms against an integral over their density."""
    goal, belief = Goal(direction, best), belief_of(mixture())
    found = {name: goals.score(seek, mixture(), goal) for name, seek in SEEKS.items()}
    for row in range(2):
        share, mean, std = (part[:, row] for part in belief[:3])

        def density(f: float) -> float:
            return float(np.sum(share * stats.norm.pdf(f, mean, std)))  # noqa: B023

        ends = (best, 60.0) if direction == "max" else (-60.0, best)
        points = [p for p in mean if ends[0] < p < ends[1]]
        how = {"points": points, "limit": 400, "epsabs": 0.0, "epsrel": 1e-10}
        gain, _ = integrate.quad(lambda f: abs(f - best) * density(f), *ends, **how)
        assert np.exp(found["log-expected-improvement"][row]) == pytest.approx(gain, rel=1e-6)
        chance, _ = integrate.quad(density, *ends, **how)
        assert found["probability-of-improvement"][row] == pytest.approx(chance, rel=1e-6)


def test_the_logarithm_of_a_sure_thing_is_at_most_zero():
    """Though 21 shares of 1/21 add up to more than 1, as floats do."""
    sure = goals.Belief(np.full((21, 1), 1 / 21), np.zeros((21, 1)), np.ones((21, 1)), AS_THEY_ARE)
    assert goals.log_probability(sure, Goal("max"), np.array(-40.0)).tolist() == [0.0]


@pytest.mark.parametrize("kind", ["mixture", "draws", "gaussian", "completions"])
def test_a_belief_has_the_moments_of_the_function(kind: str):
    rng = np.random.default_rng(3)
    each = {
        "mixture": mixture(),
        "draws": MixturePredictive.of(rng.standard_normal((40, 2)), np.ones((40, 2))),
        "gaussian": GaussianPredictive(*rng.uniform(1.0, 2.0, (3, 2))),
        "completions": mixture()[np.array([0, 1, 1, 0])].over_completions(2, 3),
    }[kind]
    belief = belief_of(each)
    mean, std = belief.moments
    np.testing.assert_allclose(belief.share.sum(axis=0), 1.0)
    np.testing.assert_allclose(mean, each.mean)
    np.testing.assert_allclose(std, np.sqrt(each.epistemic_var))


@DIRECTIONS
@pytest.mark.parametrize("map", [SoftplusInverse(0.4), Logit(100.0)])
@pytest.mark.parametrize("far", [-0.5, 1.0, 6.0])
def test_of_a_mapped_function_by_quadrature(direction: Any, map: Any, far: float):
    latent = GaussianPredictive(*np.array([[0.3], [0.5], [9.0]]))
    mapped = TransformedPredictive.of(latent, map)
    sign = 1.0 if direction == "max" else -1.0
    z = 0.3 + sign * far * np.sqrt(0.5)
    best = float(map.inverse(np.array(z)))
    with mpmath.workdps(30):

        def gain(f: Any) -> Any:
            y = map.inverse(np.array(float(f)))
            return sign * (float(y) - best) * mpmath.npdf(f, 0.3, mpmath.sqrt(0.5))

        ends = [z + sign * one for one in (0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)]
        exact = float(mpmath.log(abs(cast(Any, mpmath.quad(gain, ends)))))
    found = goals.score(goals.log_expected_improvement, mapped, Goal(direction, best))
    assert found[0] == pytest.approx(exact, abs=2e-4)
    chance = goals.score(goals.probability_of_improvement, mapped, Goal(direction, best))
    assert chance[0] == pytest.approx(stats.norm.sf(far), rel=1e-6)
    assert np.isfinite(goals.score(goals.log_expected_improvement, mapped, Goal("max", 99.9)))


@pytest.mark.parametrize("name", SEEKS)
def test_the_smallest_of_y_is_the_largest_of_its_negative(name: str, pool: Any):
    learnt = np.random.default_rng(4).standard_normal((9, 4))
    y = np.sin(learnt).sum(axis=1)

    def learner(values: np.ndarray) -> ActiveLearner:
        return ActiveLearner(unfitted(), name, n_draws=64).teach(learnt, values)

    up = learner(-y).query(pool, 5, goal=Goal("max"))
    down = learner(y).query(pool, 5, goal=Goal("min"))
    assert up.indices[0] == down.indices[0]
    np.testing.assert_allclose(up.pool_scores, down.pool_scores, rtol=1e-6)


@pytest.mark.parametrize("name", ["log-expected-improvement", "probability-of-improvement"])
def test_a_batch_by_brute_force(name: str, pool: Any):
    """The sum of the gains is that of the batch, and the second row adds most, by many draws."""
    line = BayesianLinearRegressor(noise=1.0, prior_prec=1.0).fit(pool[:4], pool[:4, 0])
    best = float(line.predict(pool).max())
    is_gain, apart = name.startswith("log"), []
    features = line.posterior_features(pool)[:, 0]
    for seed in range(20):
        chosen = ActiveLearner(line, name, n_draws=256, random_state=seed).query(
            pool, 3, goal=Goal("max", best)
        )
        normals = np.random.default_rng(100 + seed).standard_normal((features.shape[1], 20_000))
        f = line.predict(pool)[:, None] + features @ normals
        above = np.maximum(f - best, 0.0) if is_gain else 1.0 * (f > best)
        scores = np.exp(chosen.scores) if is_gain else chosen.scores
        apart.append(scores.sum() - above[chosen.indices].max(axis=0).mean())
        added = np.maximum(above - above[chosen.indices[0]], 0.0)
        error = added.std(axis=1).max() / np.sqrt(256)
        assert added.mean(axis=1).max() - added[chosen.indices[1]].mean() < 4.0 * error
    assert abs(np.mean(apart)) < 4.0 * np.std(apart, ddof=1) / np.sqrt(len(apart))


def test_monte_carlo_of_the_improvement(line: Any, pool: Any):
    best, n = float(np.quantile(line.predict(pool), 0.8)), 200_000
    seek, goal = goals.log_expected_improvement, Goal("max", best)
    found = np.exp(goals.score(seek, line.predict_dist(pool), goal))
    drawn = line.sample_y(pool, n, random_state=5)
    gain = np.maximum(drawn - best, 0.0)
    likely = found > 1e-3
    error = gain.std(axis=1) / np.sqrt(n)
    assert likely.sum() > 3
    assert (np.abs(gain.mean(axis=1) - found)[likely] < 4.0 * error[likely]).all()


def test_the_best_so_far_leaves_noise_out():
    """One lucky measurement is not the best: the mean there is."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1.0, 1.0, (40, 1))
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    y[0] += 5.0
    learner = ActiveLearner(BayesianLinearRegressor(), "log-expected-improvement").teach(X, y)
    best = goals.best_of(learner.estimator_, X, Goal("max"))
    assert best == pytest.approx(learner.estimator_.predict(X).max())
    assert best < y.max() - 2.0
    told = learner.query(X, 1, goal=Goal("max", best))
    np.testing.assert_array_equal(learner.query(X, 1, goal=Goal("max")).scores, told.scores)


def test_rows_pooled_from_several_models_are_scored_in_their_order():
    parts = (GaussianPredictive(*np.ones((3, 2))), mixture())
    at = np.array([3, 0, 2, 1])
    mean, epistemic, noise = (
        np.concatenate([getattr(p, name) for p in parts])[at]
        for name in ("mean", "epistemic_var", "noise_var")
    )
    pooled = PooledPredictive(mean, epistemic, noise, parts, at)
    goal, seek = Goal("max", 2.0), goals.log_expected_improvement
    each = np.concatenate([goals.score(seek, part, goal) for part in parts])
    np.testing.assert_array_equal(goals.score(seek, pooled, goal), each[at])
    np.testing.assert_allclose(goals.centre(pooled), mean)


def test_thompson_takes_the_best_of_each_draw(line: Any, pool: Any):
    learner = ActiveLearner(line, "thompson", random_state=7)
    chosen = learner.query(pool, 4, goal=Goal("min"))
    assert len(set(chosen.indices.tolist())) == 4
    first = chosen.pool_scores
    assert chosen.indices[0] == np.argmax(first)
    assert chosen.scores[0] == first.max()


def test_costs_and_estimators_of_scikit_learn(pool: Any):
    y = np.sin(pool).sum(axis=1)
    about = {"alpha": 0.01, "normalize_y": True}
    process = GaussianProcessRegressor(**about)
    learner = ActiveLearner(process, "log-expected-improvement").teach(pool[:20], y[:20])
    chosen = learner.query(pool[20:], 2, goal=Goal("max"))
    assert len(set(chosen.indices.tolist())) == 2  # by its own predictions, in turn
    costs = np.ones(40)
    costs[chosen.indices[0]] = 1e9
    dear = learner.query(pool[20:], 1, goal=Goal("max"), costs=costs)
    assert dear.indices[0] != chosen.indices[0]
    known = process.fit(pool[:20], y[:20]).predict(pool[20:], return_std=True)
    best = np.max(process.predict(pool[:20]))
    exact = stats.norm.cdf((known[0] - best) / known[1])
    by = ActiveLearner(GaussianProcessRegressor(**about), "probability-of-improvement")
    found = by.teach(pool[:20], y[:20]).scores(pool[20:], goal=Goal("max"))
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_what_a_goal_refuses(line: Any, pool: Any):
    y, first = np.sin(pool).sum(axis=1), Goal("max", 0.0)

    def query(name: Any, goal: Any = first, estimator: Any = None, **how: Any) -> None:
        learner = ActiveLearner(estimator or unfitted(), name, **how)
        learner.teach(pool, y).query(pool, 2, goal=goal)

    ei = "log-expected-improvement"
    for asked, words in (
        (lambda: query("mutual-information"), "and a goal; got 'mutual-information'"),
        (lambda: query(ei, None), "must be one of mutual-information"),
        (lambda: query(ei, Goal(cast(Any, "most"))), "max, min; got 'most'"),
        (lambda: query(ei, Goal("max", np.nan)), "finite number, got nan"),
        (lambda: query(ei, batch="k-means++"), "no batch for a goal"),
        (lambda: query(lambda doubt: doubt.entropy), "not your own"),
        (lambda: query("thompson", estimator=GaussianProcessRegressor()), "thompson"),
    ):
        with pytest.raises(ValueError, match=words):
            asked()
    with pytest.raises(ValueError, match=r"must be one of .* for an estimator of classes"):
        ActiveLearner(RandomForestClassifier(), ei)
    several = PBPRegressor((4,), n_epochs=2).fit(pool, np.stack([y, -y], axis=1))
    with pytest.raises(ValueError, match="one target"):
        ActiveLearner(several, "confidence-bound").query(pool, goal=Goal("max"))
    fitted = ActiveLearner(line, ei)
    with pytest.raises(ValueError, match="value to beat"):
        fitted.query(pool, goal=Goal("max"))
    by_bound = ActiveLearner(unfitted(), "confidence-bound").teach(pool, y)
    with pytest.raises(ValueError, match="no score for each unit of cost"):
        by_bound.query(pool, goal=Goal("max"), costs=np.full(60, 2.0))


def test_a_bound_is_the_quantile_of_a_gaussian_function():
    one = GaussianPredictive(*np.array([[1.0], [4.0], [9.0]]))
    assert goals.score(SEEKS["confidence-bound"], one, Goal("max"))[0] == pytest.approx(5.0)
    assert goals.score(SEEKS["confidence-bound"], one, Goal("min"))[0] == pytest.approx(3.0)


def test_no_doubt_is_no_trouble():
    share, mean = np.ones((1, 3)), np.array([[0.0, 1.0, 2.0]])
    sure = Belief(share, mean, np.zeros((1, 3)), AS_THEY_ARE)
    found = goals.log_expected_improvement(sure, Goal("max", 1.0), np.array(1.0))
    assert np.exp(found) == pytest.approx([0.0, 0.0, 1.0])


@pytest.mark.parametrize("acquisition", ["log-expected-improvement", "probability-of-improvement"])
def test_a_score_is_per_cost_and_times_the_probability_of_what_is_required(acquisition):
    rng = np.random.default_rng(0)
    X, cost, p = rng.normal(size=(30, 2)), rng.uniform(1.0, 9.0, 30), rng.uniform(0.0, 1.0, 30)
    p[3] = 0.0
    learner = ActiveLearner(BayesianLinearRegressor(), acquisition)
    learner.teach(X, X[:, 0] + 0.3 * rng.normal(size=30))
    how = {"goal": Goal("max", 1.0)}
    to = np.exp if acquisition.startswith("log") else np.asarray
    alone = to(learner.scores(X, **how))
    with np.errstate(divide="ignore"):
        how |= {"costs": cost, "log_met": np.log(p)}
    np.testing.assert_allclose(to(learner.scores(X, **how)), alone * p / cost, rtol=1e-9)
    chosen = learner.query(X, 1, **how)
    assert chosen.indices[0] == np.argmax(alone * p / cost)
    np.testing.assert_allclose(to(chosen.pool_scores), alone * p, rtol=1e-9)
    for wrong in (np.full(30, 0.1), np.full(30, np.nan), np.zeros(29)):
        with pytest.raises(ValueError, match=r"log_met must hold \(30,\) logarithms"):
            learner.query(X, 1, **how | {"log_met": wrong})

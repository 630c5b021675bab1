"""Estimates from logs against a small bandit whose values are sums, and against hand counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bayesprop.decisions.offline import METHODS, Log, compare, predicted_rewards

ARMS = ("a", "b", "c")
SHARE = np.array([0.5, 0.3, 0.2])  # of three contexts
MEAN = np.array([[1.0, 2.0, 0.0], [3.0, -1.0, 1.0], [0.0, 0.5, 4.0]])
LOGGING = np.array([[0.6, 0.2, 0.2], [0.3, 0.5, 0.2], [0.3, 0.4, 0.3]])
NEW = np.array([[0.2, 0.7, 0.1], [0.6, 0.2, 0.2], [0.1, 0.3, 0.6]])
OTHER = np.array([[0.4, 0.3, 0.3], [0.1, 0.8, 0.1], [0.5, 0.2, 0.3]])
WRONG = np.array([[2.0, 2.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
POLICIES = {"new": NEW, "other": OTHER}
TRUE = {k: float(SHARE @ (p * MEAN).sum(1)) for k, p in {**POLICIES, "logging": LOGGING}.items()}


def choose(rng, probabilities):
    return (rng.random((len(probabilities), 1)) > np.cumsum(probabilities[:, :-1], axis=1)).sum(1)


def draw(n, seed, noise=1.0):
    """A log of the small bandit, and the contexts' numbers."""
    rng = np.random.default_rng(seed)
    x = rng.choice(3, n, p=SHARE)
    a = choose(rng, LOGGING[x])
    reward = MEAN[x, a] + noise * rng.standard_normal(n)
    log = Log(a, reward, LOGGING[x, a], ARMS, np.eye(3)[x][:, :2] + x[:, None])
    return log, x


@pytest.fixture(scope="module")
def many():
    return [draw(250, seed) for seed in range(300)]


LOG, X = draw(40, 11)


def settings(method, x):
    return {"method": method, "reward_model": WRONG[x] if method == "doubly-robust" else None}


@pytest.mark.parametrize("method", METHODS)
def test_over_many_logs_estimates_are_true_and_intervals_hold(many, method):
    compared = [
        compare(
            log, {k: p[x] for k, p in POLICIES.items()}, baseline="other", **settings(method, x)
        )
        for log, x in many
    ]
    for name, true in TRUE.items():
        check([c.values[name] for c in compared], true)
    check([c.gains["new"] for c in compared], TRUE["new"] - TRUE["other"])
    check([c.gains["logging"] for c in compared], TRUE["logging"] - TRUE["other"])


def check(estimates, true):
    """The mean, the spread and the coverage of estimates from independent logs."""
    value = np.array([e.value for e in estimates])
    spread, n = value.std(ddof=1), len(value)
    assert abs(value.mean() - true) < 4.0 * spread / np.sqrt(n)
    assert np.mean([e.std_error for e in estimates]) == pytest.approx(spread, rel=0.2)
    covered = np.mean([e.low <= true <= e.high for e in estimates])
    assert abs(covered - 0.95) < 4.0 * np.sqrt(0.05 * 0.95 / n)


def test_a_model_fitted_across_folds_is_as_good_as_the_truth(many):
    few, contexts = zip(*many[:60], strict=True)
    value = {"fitted": [], "truth": [], "inverse": []}
    for log, x in zip(few, contexts, strict=True):
        policy = {"new": NEW[x]}
        for key, model in (("fitted", LinearRegression()), ("truth", MEAN[x])):
            value[key].append(compare(log, policy, reward_model=model).values["new"])
        inverse = compare(log, policy, method="inverse-propensity")
        value["inverse"].append(inverse.values["new"])
    check(value["fitted"], TRUE["new"])
    spread = {key: np.std([e.value for e in estimates]) for key, estimates in value.items()}
    assert spread["fitted"] < 1.1 * spread["truth"] < 0.8 * spread["inverse"]


def test_identities():
    log, x = draw(200, 1)
    same = {"same": LOGGING[x], "new": NEW[x]}
    for method in ("inverse-propensity", "self-normalised"):
        compared = compare(log, same, method=method)
        assert compared.values["same"].value == pytest.approx(log.reward.mean(), rel=1e-12)
        assert compared.gains["same"].value == pytest.approx(0.0, abs=1e-12)
        assert compared.gains["same"].std_error == pytest.approx(0.0, abs=1e-12)
        assert compared.overlaps["same"].effective_rows == pytest.approx(200.0)
        assert compared.values["logging"].std_error == pytest.approx(
            log.reward.std(ddof=1) / np.sqrt(200)
        )
    quiet, x = draw(200, 2, noise=0.0)
    exact = compare(quiet, {"new": NEW[x]}, reward_model=MEAN[x]).values["new"]
    rows = (NEW[x] * MEAN[x]).sum(axis=1)
    assert exact.value == pytest.approx(rows.mean())
    assert exact.std_error == pytest.approx(rows.std(ddof=1) / np.sqrt(200))
    raised = Log(log.action, log.reward + 7.0, log.propensity, ARMS)
    before, after = (
        compare(which, same, method="self-normalised").values["new"] for which in (log, raised)
    )
    assert after.value == pytest.approx(before.value + 7.0)
    assert after.std_error == pytest.approx(before.std_error)


def test_a_log_of_uniform_choices_counts_matches():
    """Replay: with uniform choices the rows where a sure policy agrees are its own log."""
    rng = np.random.default_rng(3)
    arms = rng.integers(3, size=400)
    reward = rng.standard_normal(400) + arms
    chosen = np.array(ARMS)[rng.integers(3, size=400)]
    log = Log(np.array(ARMS)[arms], reward, np.full(400, 1 / 3), ARMS)
    agree = np.array(ARMS)[arms] == chosen
    compared = compare(log, {"sure": chosen}, method="self-normalised")
    assert compared.values["sure"].value == pytest.approx(reward[agree].mean())
    assert compared.overlaps["sure"].effective_rows == pytest.approx(agree.sum())
    compared = compare(log, {"sure": chosen}, method="inverse-propensity")
    assert compared.values["sure"].value == pytest.approx(3.0 * (reward * agree).mean())
    assert compared.overlaps["sure"].largest_weight == pytest.approx(3.0)


def test_standard_error_of_a_ratio_is_that_of_the_jackknife():
    log, x = draw(150, 4)
    weight = NEW[x, log.code] / log.propensity
    leave_out = np.array(
        [np.average(np.delete(log.reward, i), weights=np.delete(weight, i)) for i in range(150)]
    )
    jackknife = np.sqrt(149 / 150 * np.sum((leave_out - leave_out.mean()) ** 2))
    compared = compare(log, {"new": NEW[x]}, method="self-normalised").values["new"]
    assert compared.value == pytest.approx(np.average(log.reward, weights=weight))
    assert compared.std_error == pytest.approx(jackknife, rel=0.02)


def test_clipping():
    log, x = draw(200, 6)
    weight = NEW[x, log.code] / log.propensity
    compared = compare(log, {"new": NEW[x]}, method="inverse-propensity", max_weight=1.5)
    kept = np.minimum(weight, 1.5)
    assert compared.values["new"].value == pytest.approx((kept * log.reward).mean())
    overlap = compared.overlaps["new"]
    assert overlap.clipped == np.sum(weight > 1.5) > 0
    assert overlap.largest_weight == pytest.approx(weight.max())
    assert overlap.mean_weight == pytest.approx(weight.mean())
    assert overlap.effective_rows == pytest.approx(kept.sum() ** 2 / np.sum(kept**2))


class Spy(RegressorMixin, BaseEstimator):
    """Tells on a model that is asked about what it has seen."""

    def fit(self, X, y):
        self.seen_ = {tuple(row) for row in X}
        return self

    def predict(self, X):
        assert not self.seen_ & {tuple(row) for row in X}
        return np.zeros(len(X))


def test_a_model_never_sees_the_row_it_predicts_and_folds_follow_the_seed():
    rng = np.random.default_rng(7)
    arms, context = rng.integers(2, size=90), rng.standard_normal((90, 1))
    log = Log(arms, rng.standard_normal(90) + arms, np.full(90, 0.5), 2, context)
    policy = {"one": np.ones(90, int)}
    compare(log, policy, reward_model=Spy(), n_folds=3)
    first, again, other = (
        compare(log, policy, reward_model=LinearRegression(), seed=seed).values["one"].value
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_frames_pipelines_and_the_model_by_default():
    log, x = draw(300, 8)
    frame = pd.DataFrame({"kind": np.array(["p", "q", "r"])[x]})
    words = Log(log.code, log.reward, log.propensity, ARMS, frame)
    model = make_pipeline(OneHotEncoder(), Ridge(1e-6))
    one = compare(words, {"new": NEW[x]}, reward_model=model).values["new"]
    two = compare(log, {"new": NEW[x]}, n_folds=3).values["new"]
    three = compare(log, {"new": NEW[x]}, reward_model=LinearRegression(), n_folds=3).values["new"]
    assert abs(one.value - two.value) < one.std_error
    assert two.value == pytest.approx(three.value, abs=0.1 * two.std_error)


def test_doubts_are_said():
    log, x = draw(500, 9)
    assert not compare(log, {"new": NEW[x]}, reward_model=MEAN[x]).warnings
    four = Log(log.code, log.reward, log.propensity, ("a", "b", "c", "d"), log.context)
    elsewhere = np.column_stack([0.9 * NEW[x], np.full(500, 0.1)])
    (said,) = compare(four, {"bold": elsewhere}, reward_model=MEAN[x][:, [0, 1, 2, 2]]).warnings
    assert said == "policy 'bold': 10 % of its choices are never in the log: 'd'"
    log, x = draw(2000, 12)
    zero = np.where((x == 2)[:, None], [0.0, 0.5, 0.5], LOGGING[x])
    arms = choose(np.random.default_rng(0), zero)
    gap = Log(arms, log.reward, zero[np.arange(2000), arms], ARMS)
    (said,) = compare(gap, {"a": np.zeros(2000, int)}, method="self-normalised").warnings
    assert "should be 1: some choices are missing in the log" in said
    small = Log(log.code, log.reward, 0.8 * log.propensity, ARMS)
    (said,) = compare(small, {"new": NEW[x]}, method="self-normalised").warnings
    assert "should be 1: some propensities are too small" in said
    (said,) = compare(LOG, {"new": NEW[X]}, method="self-normalised").warnings
    assert "effective rows of 40" in said
    assert "clip weights" in said


def test_rare_arms_are_predicted_by_means():
    """Nine rows of an arm outside a fold are too few for a model, and none leave the rest."""
    code = np.r_[np.zeros(40, int), np.ones(9, int)]
    reward = np.arange(49.0)
    log = Log(code, reward, np.full(49, 0.5), 3, np.arange(49.0)[:, None])
    predicted = predicted_rewards(log, None, n_folds=49, seed=0)
    rare = [reward[(code == 1) & (np.arange(49) != row)].mean() for row in range(49)]
    np.testing.assert_allclose(predicted[:, 1], rare)
    np.testing.assert_allclose(predicted[:, 2], [np.delete(reward, i).mean() for i in range(49)])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Log([0], [1.0], [0.5], 2), "2 rows at least"),
        (lambda: Log(["a", "z"], [0, 0], [1, 1], ARMS), "the arm 'z' in row 1"),
        (lambda: Log([0, 3], [0, 0], [1, 1], ARMS), "the arm 3 in row 1"),
        (lambda: Log([True, False], [0, 0], [1, 1], ARMS), "the arm True in row 0"),
        (lambda: Log([0, 1], [0, np.nan], [1, 1], 2), "reward must be finite, got nan at 1"),
        (lambda: Log([0, 1], [0, 0], [1, 0], 2), "above 0 and at most 1, got 0 in row 1"),
        (lambda: Log([0, 1], [0, 0], [1, 1], ["a", "a"]), "two or more, all different"),
        (lambda: Log([0, 1], [0, 0], [1, 1], 2, [[1.0]]), "a row for each of 2 actions"),
        (lambda: compare(LOG, {}), "one or more by name"),
        (lambda: compare(LOG, {"logging": LOGGING[X]}), "that of the log"),
        (lambda: compare(LOG, {"p": LOGGING[X] * 1.01}), "policy 'p' must give .* the sum 1.01"),
        (lambda: compare(LOG, {"p": LOGGING[X] - [1, 0, -1]}), "none negative"),
        (lambda: compare(LOG, {"p": LOGGING[X][1:]}), r"must have the shape \(40, 3\)"),
        (lambda: compare(LOG, {"p": ["z"] * 40}), "policy 'p' has the arm 'z' in row 0"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, baseline="q"), "one of logging, p; got 'q'"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, method="magic"), "must be one of doubly-robust"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, method="self-normalised", reward_model=MEAN[X]),
         "reward_model must be None for self-normalised"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, max_weight=0.5), "at least 1, or None; got 0.5"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, coverage=95), "coverage must be between 0 and 1"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, n_folds=1), "n_folds must be an int from 2"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, reward_model=LogisticRegression()), "a regressor"),
        (lambda: compare(LOG, {"p": LOGGING[X]}, reward_model=MEAN), r"\(40, 3\), got \(3"),
        (lambda: compare(Log([0, 1], [0, 0], [1, 1], 2), {"p": [0, 1]}), "needs the contexts"),
        (lambda: compare(Log([0, 1], [0, 0], [1, 1], 2), {"p": [1, 0]}, method="self-normalised"),
         "never gives a chance to the logged arm"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()

"""How bandits choose, by chances and scores worked out apart; and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from reward_rows import state
from scipy import stats

from bayesprop import (
    EpsilonGreedy,
    Greedy,
    PBPClassifier,
    PBPRegressor,
    ThompsonSampler,
    UpperConfidence,
)
from bayesprop.bandits.arms import choices_in
from bayesprop.bandits.linear_rewards import LinearRewards

HERE = np.array([0.0])  # at the intercept alone, so that a reward's mean and variance are scalars
ROWS = {"a": [1.0, 0.6, 0.8], "b": [0.7], "c": [-2.0, -2.0]}


def taught(kind, **settings):
    bandit = kind(LinearRewards(prior_prec=1.0, noise_shape=2.0, noise_rate=1.0), "abc", **settings)
    for name, paid in ROWS.items():
        bandit.teach([HERE] * len(paid), [name] * len(paid), paid)
    return bandit


def student_t(paid):
    """Posterior of a mean with prior N(0, noise_var), noise_var ~ InverseGamma(2, 1), by hand."""
    n, total = len(paid), sum(paid)
    mean = total / (n + 1)
    rate = 1.0 + 0.5 * (sum((r - mean) ** 2 for r in paid) + mean**2)
    shape = 2.0 + n / 2
    return stats.t(2.0 * shape, mean, np.sqrt(rate / shape / (n + 1)))


def frequencies(bandit, n):
    chosen = [bandit.select(HERE) for _ in range(n)]
    return np.array([np.mean([one.action == name for one in chosen]) for name in "abc"]), chosen


def within(shares, probabilities, n):
    error = np.sqrt(probabilities * (1.0 - probabilities) / n)
    return (np.abs(shares - probabilities) < 4.0 * error + 1e-12).all()


def test_thompson_chooses_an_arm_as_often_as_it_is_best():
    a, b, c = map(student_t, ROWS.values())
    grid = np.linspace(-40.0, 40.0, 80_001)

    def chance(one, *others):
        return np.trapezoid(one.pdf(grid) * np.prod([o.cdf(grid) for o in others], axis=0), grid)

    exact = np.array([chance(a, b, c), chance(b, a, c), chance(c, a, b)])
    assert exact.sum() == pytest.approx(1.0, abs=1e-6)
    bandit = taught(ThompsonSampler)
    shares, chosen = frequencies(bandit, 3000)
    assert within(shares, exact, 3000)
    assert {one.probability for one in chosen} == {None}
    assert within(bandit.action_probabilities(HERE, 20_000), exact, 20_000)


def test_thompson_can_average_several_draws():
    n = 200_000
    draws = [
        student_t(paid).rvs((n, 2), random_state=k).mean(1) for k, paid in enumerate(ROWS.values())
    ]
    wanted = np.bincount(np.argmax(draws, axis=0), minlength=3) / n
    shares, _ = frequencies(taught(ThompsonSampler, n_averaged=2), 3000)
    assert within(shares, wanted, 2900)  # two samples
    assert not within(shares, taught(ThompsonSampler).action_probabilities(HERE, 20_000), 3000)
    many = taught(ThompsonSampler, n_averaged=10_000)
    assert many.action_probabilities(HERE, 20).tolist() == [1.0, 0.0, 0.0]


def test_epsilon_greedy_explores_as_often_as_it_says():
    bandit = taught(EpsilonGreedy, epsilon=0.3)
    said = bandit.action_probabilities(HERE)
    np.testing.assert_allclose(said, [0.8, 0.1, 0.1])  # the means are 0.6, 0.35 and -4/3
    shares, chosen = frequencies(bandit, 3000)
    assert within(shares, said, 3000)
    assert {(one.action, round(one.probability, 12)) for one in chosen} == {
        ("a", 0.8), ("b", 0.1), ("c", 0.1),
    }  # fmt: skip


@pytest.mark.parametrize("width", [0.0, 0.5, 2.0])
def test_upper_confidence_is_mean_and_deviations_by_hand(width):
    scores = [student_t(paid).mean() + width * student_t(paid).std() for paid in ROWS.values()]
    bandit = taught(UpperConfidence, width=width)
    belief = bandit.rewards.believe(choices_in(HERE, bandit.arms, bandit.arms.active))
    np.testing.assert_allclose(belief.mean + width * np.sqrt(belief.var), scores)
    assert bandit.select(HERE).action == "abc"[int(np.argmax(scores))]
    assert {0.0: "a", 0.5: "a", 2.0: "b"}[width] == "abc"[int(np.argmax(scores))]


@pytest.mark.parametrize("kind", [Greedy, UpperConfidence, EpsilonGreedy])
def test_ties_are_broken_evenly(kind):
    bandit = kind("linear", "abc")
    shares, chosen = frequencies(bandit, 2000)
    assert within(shares, np.full(3, 1 / 3), 2000)
    np.testing.assert_allclose([one.probability for one in chosen], 1 / 3)
    np.testing.assert_allclose(bandit.action_probabilities(HERE), 1 / 3)


def test_questions_leave_no_trace():
    asked, quiet = (ThompsonSampler("linear", "abc", random_state=1) for _ in range(2))
    for k in range(20):
        asked.action_probabilities([0.1, float(k)], 10)
        asked.rewards.believe(choices_in(np.ones(2), asked.arms, asked.arms.active))
        assert asked.select([1.0, k]) == quiet.select([1.0, k])
        asked.update([1.0, k], "b", 0.3)
        quiet.update([1.0, k], "b", 0.3)
    assert state(asked) == state(quiet)


def test_two_bandits_may_be_given_one_reward_model():
    rewards = LinearRewards(prior_prec=0.5)
    one, other = ThompsonSampler(rewards, "abc"), ThompsonSampler(rewards, "abc")
    for k in range(60):
        one.settle(one.select([np.sin(k), 0.5]), np.cos(k))
    fresh = other.begin(2).rewards.believe(choices_in(np.ones(2), other.arms, other.arms.active))
    assert fresh.mean.tolist() == [0.0, 0.0, 0.0]
    assert one.n_learnt_ == 60
    assert one.rewards.believe(choices_in(np.ones(2), one.arms, one.arms.active)).mean.any()
    assert not hasattr(rewards, "_regressions")


def test_rewards_may_come_late_and_out_of_order():
    contexts = np.random.default_rng(0).standard_normal((30, 2))
    bandit = ThompsonSampler("linear", "ab")
    buffer = np.empty(2)
    chosen = []
    for row in contexts:
        buffer[:] = row  # a caller may use its array again
        chosen.append(bandit.select(buffer))
    assert bandit.n_learnt_ == 0
    for one in chosen[::-1]:
        assert bandit.is_pending(one)
        bandit.settle(one, float(one.id))
        assert not bandit.is_pending(one.id)
    at_once, stepwise = ThompsonSampler("linear", "ab"), ThompsonSampler("linear", "ab")
    at_once.teach(contexts, [one.action for one in chosen], np.arange(30.0))
    for one, row in zip(chosen, contexts, strict=True):
        stepwise.update(row, one.action, float(one.id))
    asked = choices_in(np.ones(2), bandit.arms, bandit.arms.active)
    for other in (at_once, stepwise):
        assert other.n_learnt_ == bandit.n_learnt_ == 30
        beliefs = bandit.rewards.believe(asked), other.rewards.believe(asked)
        np.testing.assert_allclose(*beliefs, rtol=1e-10)


def test_only_so_many_decisions_are_waited_for(monkeypatch):
    monkeypatch.setattr("bayesprop.bandits.policies._MOST_PENDING", 3)
    bandit = Greedy("linear", "ab")
    for _ in range(5):
        bandit.select(HERE)
    assert sorted(bandit.pending_) == [2, 3, 4]
    with pytest.raises(ValueError, match="decision 1 has its reward already, or is forgotten"):
        bandit.settle(1, 0.0)


def test_arms_come_and_go():
    bandit = EpsilonGreedy("linear", "ab", room=3, epsilon=1.0)
    early = [bandit.select(HERE) for _ in range(20)]
    bandit.add_arm("c").remove_arm("a")
    assert bandit.actions == ["b", "c"]
    assert {bandit.select(HERE).action for _ in range(40)} == {"b", "c"}
    assert len(bandit.action_probabilities(HERE)) == 2
    late = next(one for one in early if one.action == "a")
    bandit.settle(late, 5.0).update(HERE, "a", 5.0)
    belief = bandit.rewards.believe(choices_in(HERE, bandit.arms, np.array([0])))
    assert belief.mean[0] == pytest.approx(10.0 / 3.0)
    with pytest.raises(ValueError, match="no arm 'a'; there are 'b', 'c'"):
        bandit.remove_arm("a")
    assert bandit.actions == ["b", "c"]
    known = Greedy("linear", ["x"], arm_features=[[1.0]]).update(HERE, "x", 1.0)
    known.add_arm("y", [3.0])
    assert known.select(HERE).action == "y"  # by its features, of which more is better


def test_a_decision_of_others_can_be_noted():
    bandit = ThompsonSampler("linear", "ab")
    noted = bandit.note([2.0], "b")
    assert (noted, bandit.n_selected_) == ((0, "b", None), 1)
    assert bandit.select([2.0]).id == 1
    bandit.settle(noted, 1.0)
    other = ThompsonSampler("linear", "ab").update([2.0], "b", 1.0)
    for one in (bandit, other):
        one.pending_.clear()
    assert state(bandit)[1] == state(other)[1]


NAN = float("nan")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.settle(0, NAN), "reward must be finite, got nan"),
        (lambda b: b.settle(0, "much"), "reward must hold numbers: could not convert"),
        (lambda b: b.settle(1, 1.0), "decision 1 has its reward already"),
        (lambda b: b.settle(9, 1.0), "decision 9 was never taken: its reward was not learnt"),
        (lambda b: b.settle("0", 1.0), "must be a Decision or its id, got '0'"),
        (lambda b: b.update([1.0, 2.0], "a", -np.inf), "reward must be finite, got -inf"),
        (lambda b: b.update([1.0, 2.0], "z", 1.0), "no arm 'z'; there are 'a', 'b', 'c'"),
        (lambda b: b.update([1.0], "a", 1.0), r"context must have the shape \(2\), got \(1,\)"),
        (lambda b: b.select([NAN, 1.0]), "context must be finite, got nan at 0"),
        (lambda b: b.select([1e300, 1.0]), r"at most 1e\+50 in size, got 1e\+300: scale it"),
        (lambda b: b.begin(2), "this bandit has begun, with contexts of 2 numbers"),
        (lambda b: b.action_probabilities([1.0, 2.0], 0), "n_draws must be an int >= 1, got 0"),
        (lambda b: b.teach([[1.0, 2.0]], ["a", "b"], [1.0]), "name an arm a row, 1, got 2"),
        (lambda b: b.teach([[1.0]], ["a"], [1.0]), r"contexts must have the shape \(any, 2\)"),
        (lambda b: b.teach([[1.0, 2.0]] * 2, "ab", [1.0, NAN]), "rewards must be finite"),
        (lambda b: b.teach([[1.0, 2.0]] * 2, "ab", [1.0, 1e200]), "too large"),
    ],
)
def test_what_is_refused_is_said_and_nothing_is_learnt(call, message):
    bandit = ThompsonSampler("linear", "abc").begin(2)
    for _ in range(2):
        bandit.select([1.0, 0.0])
    bandit.settle(1, 0.5)
    before = state(bandit)
    with pytest.raises(ValueError, match=message):
        call(bandit)
    assert state(bandit) == before
    assert bandit.is_pending(0)


def test_a_first_call_that_is_refused_begins_nothing():
    bandit = ThompsonSampler("linear", "abc")
    for call in (
        lambda: bandit.update([1.0], "z", 1.0),
        lambda: bandit.update([1.0], "a", NAN),
        lambda: bandit.teach([[1.0]], ["a"], [NAN]),
        lambda: bandit.note([1.0], "z"),
        lambda: bandit.begin(0),
    ):
        with pytest.raises(ValueError, match=r"no arm|finite|n_features must be an int >= 1"):
            call()
        assert bandit.n_features_ is None
    with pytest.raises(ValueError, match=r"nothing to save before the first context: call begin"):
        bandit.save("nowhere")
    with pytest.raises(ValueError, match="prior_prec must be"):
        Greedy(LinearRewards(prior_prec=-1.0), "abc").select([1.0])
    assert bandit.select([1.0, 2.0, 3.0]).id == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ThompsonSampler("lineal", "ab"), "one of linear, neural-linear, pbp, .*'lineal'"),
        (lambda: ThompsonSampler(PBPRegressor, "ab"), r"not its class: PBPRegressor\(\)"),
        (lambda: ThompsonSampler(PBPClassifier(), "ab"), "must be a regressor"),
        (lambda: ThompsonSampler({}, "ab"), "got dict: it does not say how sure it is"),
        (lambda: ThompsonSampler("linear", "ab", random_state=2**32), r"below 2\*\*32, got 42949"),
        (lambda: ThompsonSampler("linear", "ab", n_averaged=0), "n_averaged must be an int >= 1"),
        (lambda: ThompsonSampler("linear", "ab", random_state=-1), "random_state must be an int"),
        (lambda: EpsilonGreedy("linear", "ab", epsilon=1.5), "epsilon must be a probability"),
        (lambda: EpsilonGreedy("linear", "ab", epsilon=NAN), "epsilon must be a probability"),
        (lambda: UpperConfidence("linear", "ab", width=-1.0), "width must be a finite number >= 0"),
    ],
)
def test_wrong_settings_are_said(make, message):
    with pytest.raises(ValueError, match=message):
        make()

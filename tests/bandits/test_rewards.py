"""Every reward model keeps its contract; what each computes is tested in a file of its own."""

from __future__ import annotations

import numpy as np
import pytest
from reward_rows import ARMS, BOTH, FEATURES, data
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import (
    BatchEPRegressor,
    BayesByBackpropRegressor,
    BayesianLinearRegressor,
    PBPRegressor,
    PointNetworkRegressor,
)
from bayesprop.bandits.arms import Arms, Choices, choices_in
from bayesprop.bandits.linear_rewards import LinearRewards
from bayesprop.bandits.refitted_rewards import RefittedRewards
from bayesprop.bandits.replayed_rewards import NeuralLinearRewards, ReplayedRewards
from bayesprop.bandits.reward_models import rewards_of
from bayesprop.bandits.streamed_rewards import StreamedRewards

network = PointNetworkRegressor
SMALL = {"n_steps": 5, "batch_size": 8, "buffer_size": 16}


def backprop(scale=1.0):
    net = BayesByBackpropRegressor((4,), noise=0.1 * scale**2, learning_rate=0.02)
    return ReplayedRewards(net, reward_scale=scale, **SMALL)


def neural_linear(scale=1.0):
    return NeuralLinearRewards(network((3,)), reward_scale=scale, every=3, **SMALL)


def streamed(scale=1.0):
    return StreamedRewards(PBPRegressor((6,)), reward_scale=scale)


PROCESS = GaussianProcessRegressor(RBF() + WhiteKernel(0.1), normalize_y=True)
MODELS = {
    "linear": LinearRewards,
    "neural-linear": neural_linear,
    "streamed": streamed,
    "backprop": backprop,
    "refitted": lambda: RefittedRewards(BayesianLinearRegressor()),
    "gaussian process": lambda: RefittedRewards(PROCESS),
    "pipeline": lambda: RefittedRewards(
        make_pipeline(StandardScaler(), BayesianLinearRegressor()), first=5
    ),
    "marginal": lambda: RefittedRewards(make_pipeline(StandardScaler(), BayesianRidge())),
}


def taught(rewards, arms=ARMS, n=40, unit=1.0):
    rows, numbers, paid = data(n, noise=0.1)
    rewards.begin(2, arms, 0)
    rewards.learn(Choices(rows, arms, numbers), unit * paid)
    return rewards


@pytest.mark.exhaustive
@pytest.mark.parametrize("arms", [ARMS, FEATURES], ids=["names", "features"])
@pytest.mark.parametrize("model", MODELS)
def test_beliefs_are_the_moments_of_draws_and_change_nothing(model, arms):
    rewards, n = taught(MODELS[model](), arms), 10_000
    asked = choices_in(np.array([0.7, -0.2]), arms, np.array([1, 0]))
    belief = rewards.believe(asked)
    drawn = rewards.draw(np.random.default_rng(0), asked, n)
    assert drawn.shape == (n, 2)
    few = rewards.estimator.n_draws if model == "backprop" else n  # draws of the belief
    std, middle = drawn.std(axis=0), drawn - drawn.mean(axis=0)
    assert (np.abs(drawn.mean(axis=0) - belief.mean) < 5.0 * std / np.sqrt(few)).all()
    error = 5.0 * np.sqrt(np.mean(middle**4, axis=0) / std**4 / few)
    assert (np.abs(belief.var / std**2 - 1.0) < np.maximum(error, 0.1)).all()
    swapped = rewards.believe(choices_in(asked.contexts[0], arms, np.array([0, 1])))
    np.testing.assert_allclose(swapped.mean, belief.mean[::-1], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(rewards.believe(asked), belief)
    assert (rewards.draw(np.random.default_rng(1), asked, n) != drawn).any()


@pytest.mark.parametrize("make", [backprop, neural_linear, streamed])
def test_the_unit_of_rewards_does_not_matter(make):
    one, other = taught(make(), n=12), taught(make(8.0), n=12, unit=8.0)
    asked = choices_in(np.array([0.7, -0.2]), ARMS, BOTH)
    drawn = [model.draw(np.random.default_rng(0), asked, 3) for model in (one, other)]
    np.testing.assert_allclose(8.0 * drawn[0], drawn[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "context", "paid", "message"),
    [
        (LinearRewards, 1.0, 1e200, r"too large .* nothing was learnt; divide"),
        (LinearRewards, 1e200, 1.0, r"too large .* nothing was learnt; divide"),
        (backprop, 1.0, 1e39, r"rewards / reward_scale must be at most 1e\+12"),
        (backprop, 1e13, 1.0, r"contexts must be at most 1e\+12 in size, got 1e\+13"),
        (neural_linear, 1e13, 1.0, r"contexts must be at most 1e\+12 in size, got 1e\+13"),
        (streamed, 1e40, 1.0, "nothing was learnt; divide"),
    ],
)
def test_numbers_too_large_to_work_with_are_refused_and_nothing_is_learnt(
    make, context, paid, message
):
    rewards = taught(make(), n=3)
    header, arrays = rewards.to_stored()
    rows = Choices(np.array([[1.0, 1.0], [context, context]]), ARMS, BOTH)
    last = Choices(rows.contexts[1:], ARMS, rows.numbers[1:])
    for some, rewards_paid in ((rows, np.array([1.0, paid])), (last, np.array([paid]))):
        with pytest.raises(ValueError, match=message):
            rewards.learn(some, rewards_paid)
    after = rewards.to_stored()
    assert after.header == header
    for name, array in arrays.items():
        np.testing.assert_array_equal(after.arrays[name], array)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (LinearRewards(prior_prec=0.0), "prior_prec must be a finite number > 0, got 0.0"),
        (LinearRewards(noise_rate=np.inf), "noise_rate must be a finite number > 0, got inf"),
        (LinearRewards(noise_shape=1.0), "noise_shape must be a finite number > 1, got 1.0"),
        (NeuralLinearRewards(network(n_members=2)), "n_members=1"),
        (NeuralLinearRewards(BayesByBackpropRegressor((4,))), "PointNetworkRegressor"),
        (NeuralLinearRewards(network(hidden_layer_sizes=())), "must have a hidden layer"),
        (NeuralLinearRewards(noise_shape=1.0), "noise_shape must be a finite number > 1"),
        (NeuralLinearRewards(least_noise=0.0), "least_noise must be"),
        (ReplayedRewards(BatchEPRegressor()), "trained by gradient steps.*BatchEPRegressor"),
        (ReplayedRewards(network(), reward_scale=0.0), "reward_scale must be a finite number > 0"),
        (ReplayedRewards(network(), every=0), "every must be an int >= 1"),
        (ReplayedRewards(network(), buffer_size=1.5), "buffer_size must be an int >= 1"),
        (ReplayedRewards(BayesByBackpropRegressor(n_draws=-1)), "n_draws must be an int >= 1"),
        (ReplayedRewards(BayesByBackpropRegressor(kl_weights="geometric")), "must be 'uniform'"),
        (StreamedRewards(network()), "must be a PBPRegressor, got PointNetwork"),
        (StreamedRewards(PBPRegressor(activation="erf")), "activation='relu', batch_size=1"),
        (StreamedRewards(n_recalled=-1), "n_recalled must be an int >= 0, got -1"),
        (RefittedRewards(LinearRegression()), "does not say how sure it is"),
        (RefittedRewards(BayesianRidge(), buffer_size=10), "<= buffer_size, 10, got 20: raise"),
    ],
)
def test_wrong_settings_are_said(rewards, message):
    with pytest.raises(ValueError, match=message):
        rewards.begin(3, Arms(["a"]), 0)


KINDS = {
    RefittedRewards: ("laplace", "closed-form-vi", "deep-ensemble", "mcmc", "batch-ep",
                      GaussianProcessRegressor(), network(n_members=2)),
    ReplayedRewards: ("bayes-by-backprop", "mc-dropout", "network"),
    StreamedRewards: ("pbp", PBPRegressor((5,))),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimator_is_served_by_what_it_can_do(kind):
    assert {type(rewards_of(model)) for model in KINDS[kind]} == {kind}

"""Bandits in files: whatever the moment, they go on as if never interrupted."""

from __future__ import annotations

import numpy as np
import pytest
from reward_rows import state

from bayesprop import (
    BayesByBackpropRegressor,
    EpsilonGreedy,
    Greedy,
    PBPRegressor,
    PointNetworkRegressor,
    ThompsonSampler,
    UpperConfidence,
)
from bayesprop.bandits.linear_rewards import LinearRewards
from bayesprop.bandits.policies import Bandit
from bayesprop.bandits.refitted_rewards import RefittedRewards
from bayesprop.bandits.replayed_rewards import NeuralLinearRewards, ReplayedRewards
from bayesprop.bandits.streamed_rewards import StreamedRewards
from bayesprop.estimators.linear_regression import BayesianLinearRegressor
from bayesprop.sealed import ModelFileError, write_sealed
from bayesprop.store import save_model

SMALL = {"n_steps": 3, "batch_size": 4, "buffer_size": 8, "reward_scale": 2.0}
MODELS = {
    "linear": lambda: LinearRewards(prior_prec=0.7, noise_rate=0.3),
    "replayed": lambda: ReplayedRewards(
        BayesByBackpropRegressor((3,), noise=0.1, n_draws=9), every=2, **SMALL
    ),
    "neural-linear": lambda: NeuralLinearRewards(
        PointNetworkRegressor((3,)), every=3, prior_prec=0.5, **SMALL
    ),
    "streamed": lambda: StreamedRewards(PBPRegressor((4,)), n_recalled=3, refresh_every=5),
    "refitted": lambda: RefittedRewards(
        BayesianLinearRegressor(), first=4, growth=0.5, buffer_size=5, keep="sample"
    ),
    "refitted to the last": lambda: RefittedRewards(
        BayesianLinearRegressor(), first=4, growth=0.5, buffer_size=5, keep="last"
    ),
}
POLICIES = {
    ThompsonSampler: {"n_averaged": 2},
    Greedy: {},
    EpsilonGreedy: {"epsilon": 0.4},
    UpperConfidence: {"width": 1.5},
}


def interact(bandit, n, *, settle=True):
    chosen = []
    for k in range(n):
        one = bandit.select([np.sin(bandit.n_selected_), 0.5])
        chosen.append(one)
        if settle and k % 3:
            bandit.settle(one, np.cos(k) if one.action == "a" else 0.1)
    return chosen


def assert_goes_on(bandit, path):
    bandit.save(path)
    loaded = Bandit.load(path)
    assert type(loaded) is type(bandit)
    assert state(loaded) == state(bandit)
    assert loaded.is_pending(bandit.n_selected_ - 1) == bandit.is_pending(bandit.n_selected_ - 1)
    assert interact(loaded, 8) == interact(bandit, 8)
    for name in list(bandit.pending_)[::-1]:
        for one in (bandit, loaded):
            one.settle(name, float(name))
    assert state(loaded) == state(bandit)
    return loaded


KNOWN = [[1.0, 0.0, 2.0], [0.5, -1.0, 0.0]]  # as wide as the columns of names


OTHERS = [kind for kind in POLICIES if kind is not ThompsonSampler]


@pytest.mark.parametrize("about", [{"room": 3}, {"arm_features": KNOWN}], ids=["names", "features"])
@pytest.mark.parametrize(
    ("model", "policy"),
    [*((model, ThompsonSampler) for model in MODELS), *(("linear", one) for one in OTHERS)],
)
def test_a_loaded_bandit_goes_on_as_if_never_interrupted(model, policy, about, tmp_path):
    bandit = policy(MODELS[model](), ["a", 2], random_state=11, **about, **POLICIES[policy])
    bandit.begin(2)
    bandit = assert_goes_on(bandit, tmp_path / "bandit")  # before anything
    interact(bandit, 5, settle=False)
    bandit = assert_goes_on(bandit, tmp_path / "bandit")  # with decisions that wait
    bandit.add_arm("c", [0.0, 3.0, 1.0] if "arm_features" in about else None).remove_arm("a")
    assert_goes_on(bandit, tmp_path / "bandit")


def test_schemas_and_other_files_are_told_apart(tmp_path):
    path = tmp_path / "b"
    write_sealed(path, {"bandit": 2}, {})
    with pytest.raises(ModelFileError, match="has schema 2, and this bayesprop reads up to 1"):
        Bandit.load(path)
    save_model(path, BayesianLinearRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.5]))
    with pytest.raises(ModelFileError, match="holds no bandit"):
        Bandit.load(path)


def test_a_kind_loads_its_own_only(tmp_path):
    path = tmp_path / "b"
    ThompsonSampler("linear", ["a"]).begin(1).save(path)
    assert ThompsonSampler.load(path).actions == ["a"]
    with pytest.raises(ModelFileError, match="holds a 'ThompsonSampler'"):
        EpsilonGreedy.load(path)
    EpsilonGreedy("linear", ["a"]).begin(1).save(path)
    assert isinstance(Greedy.load(path), EpsilonGreedy)  # which is one


class Mine(LinearRewards):
    pass


class MySampler(ThompsonSampler):
    pass


def test_only_what_could_be_read_again_is_saved(tmp_path):
    with pytest.raises(TypeError, match="only reward models of bayesprop can be saved, got Mine"):
        ThompsonSampler(Mine(), ["a"]).begin(1).save(tmp_path / "b")
    with pytest.raises(TypeError, match="only bandits of bayesprop can be saved, got MySampler"):
        MySampler("linear", ["a"]).begin(1).save(tmp_path / "b")
    assert not (tmp_path / "b").exists()

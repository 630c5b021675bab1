"""The mushroom bandit, small: runs that are stopped and go on, sums of regret, the table."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import PointNetworkRegressor, ThompsonSampler
from bayesprop.bandits.replayed_rewards import NeuralLinearRewards
from papers import bandit_simulation as simulation
from papers import bbb_bandits
from papers.bbb_bandits import AGENTS, N_POINTS, Config
from papers.mushrooms import Mushroom, expected_regret

TINY = Config(n_interactions=400, hidden_layer_sizes=(4,))
LETTERS = [["red", "large"], ["red", "small"], ["brown", "large"], ["brown", "small"]]


class Few(Mushroom):
    def __init__(self):
        super().__init__(LETTERS, [False, False, True, True])


def test_a_cell_sums_the_regret_of_what_was_chosen(monkeypatch):
    monkeypatch.setattr(bbb_bandits, "Mushroom", Few)
    found = bbb_bandits.fit_cell(TINY, {"agent": "linear", "run": 2})
    bandit, chosen = AGENTS["linear"].make(TINY, 1002), []
    stream = Few().draw(400, seed=1002)
    for context, paid in zip(stream.context, stream.realised, strict=True):
        decision = bandit.select(context)
        chosen.append(["eat", "leave"].index(decision.action))
        bandit.update(context, decision.action, paid[chosen[-1]])
    regret = expected_regret(stream, np.array(chosen))
    assert len(found["expected"]) == N_POINTS
    np.testing.assert_allclose(found["expected"], regret.reshape(N_POINTS, 2).sum(1).cumsum())
    assert found["last_fifth"] == pytest.approx(regret[320:].sum())
    assert found["eaten"] == pytest.approx(np.mean(np.array(chosen) == 0))
    assert found["expected"][-1] < 0.2 * 400 * 5.0  # uniform's is half of 7.5 and 2.5 a step


def tiny_neural_linear(_config, seed):
    network = PointNetworkRegressor((3,), weight_decay=1.0)
    rewards = NeuralLinearRewards(network, n_steps=2, batch_size=4, buffer_size=30, every=5)
    return ThompsonSampler(rewards, Mushroom.arms, random_state=seed)


@pytest.mark.parametrize("make", [AGENTS["linear"].make, tiny_neural_linear])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(make, tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "_STEPS_A_CHECKPOINT", 40)
    path, n = tmp_path / "run.checkpoint", 100

    def go(checkpoint=None):
        return simulation.run(lambda: make(TINY, 7), Few(), n, seed=3, checkpoint=checkpoint)

    whole, settle = go(), simulation.Bandit.settle

    def stopped(bandit, decision, reward):
        if decision.id == 93:
            raise KeyboardInterrupt
        return settle(bandit, decision, reward)

    with monkeypatch.context() as patch:
        patch.setattr(simulation.Bandit, "settle", stopped)
        with pytest.raises(KeyboardInterrupt):
            go(path)
    assert path.exists()
    np.testing.assert_array_equal(go(path).chosen, whole.chosen)
    assert not path.exists()


def test_every_agent_is_made_for_the_arms():
    for about in AGENTS.values():
        assert about.make(Config(), 1).actions == ["eat", "leave"]
    labels = [about.label for about in AGENTS.values() if about.is_published]
    assert len(labels) == 4
    assert AGENTS["bayes-by-backprop"].make(Config(), 1).n_averaged == 2

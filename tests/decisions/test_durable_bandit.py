"""A bandit in a folder: killed, damaged, contended for, and read as the log of a policy."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bayesprop import (
    BayesByBackpropRegressor,
    DurableBandit,
    EpsilonGreedy,
    ThompsonSampler,
)
from bayesprop.decisions import bandit_files, durable_bandit
from bayesprop.decisions.bandit import Bandit
from bayesprop.decisions.bandit_records import policy_log
from bayesprop.decisions.replayed_rewards import ReplayedRewards
from bayesprop.store import ModelFileError

CONTEXTS = np.random.default_rng(0).standard_normal((100, 2))


def thompson():
    return ThompsonSampler("linear", ["a", "b"], room=3).begin(2)


def same(one, other):
    (header, arrays), (others, expected) = map(bandit_files.to_stored, (one, other))
    assert header == others
    assert set(arrays) == set(expected)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])


def everything(bandit):
    """Every kind of change, with a decision left open."""
    first, second = bandit.select(CONTEXTS[0]), bandit.select(CONTEXTS[1])
    noted = bandit.note(CONTEXTS[2], "a")
    bandit.add_arm("c").teach(CONTEXTS[3:6], ["a", "c", np.str_("b")], [1, 0.1, np.float32(0.3)])
    bandit.update(list(CONTEXTS[6]), "c", 1e-300).remove_arm("a")
    bandit.settle(noted, 0.7).settle(np.int64(second.id), 2)
    return first


@pytest.mark.parametrize("how", ["random", "everywhere"])
def test_killed_at_any_moment_nothing_is_lost_or_doubled(how, tmp_path):
    script = Path(__file__).parent / "killed_bandit.py"
    done = subprocess.run(
        [sys.executable, script, how, tmp_path / "bandit"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) >= {"random": 12, "everywhere": 50}[how]  # kills that hit


@pytest.mark.parametrize("every", [1, 3, 1000])
def test_reopened_it_is_the_bandit_that_was_never_kept(tmp_path, every):
    alone = thompson()
    with DurableBandit(tmp_path, thompson, snapshot_every=every) as shop:
        assert everything(shop) == everything(alone)
        same(shop.bandit, alone)
    with DurableBandit(tmp_path, snapshot_every=every, sync=True) as shop:
        same(shop.bandit, alone)
        assert shop.n_records == 9
        assert (shop.is_pending(0), shop.is_pending(1)) == (True, False)
        with pytest.raises(ValueError, match="decision 1 has its reward already"):
            shop.settle(1, 2.0)
        assert shop.select(CONTEXTS[7]) == alone.select(CONTEXTS[7])
        shop.settle(0, 1.0)
    same(DurableBandit(tmp_path).bandit, alone.settle(0, 1.0))


def test_a_network_goes_on_in_the_middle_as_if_never_interrupted(tmp_path):
    def make():
        net = BayesByBackpropRegressor((5,), learning_rate=1e-2, noise=0.1)
        rewards = ReplayedRewards(net, n_steps=4, batch_size=8, every=2, buffer_size=16)
        return ThompsonSampler(rewards, ["a", "b"], n_averaged=2).begin(2)

    def interact(bandit, rows):
        chosen = [bandit.select(context) for context in CONTEXTS[rows]]
        for one in chosen[::-1]:
            bandit.settle(one, 1.0 if one.action == "b" else CONTEXTS[one.id, 0] - 2.0)
        return chosen

    alone, chosen = make(), []
    expected = [interact(alone, slice(k, k + 8)) for k in range(0, 32, 8)]
    for k in range(0, 32, 8):
        with DurableBandit(tmp_path, make, snapshot_every=11) as shop:
            chosen.append(interact(shop, slice(k, k + 8)))
    assert chosen == expected
    assert {one.action for part in chosen for one in part} == {"a", "b"}
    same(DurableBandit(tmp_path).bandit, alone)


def test_what_is_refused_leaves_no_record(tmp_path):
    with DurableBandit(tmp_path, thompson) as shop:
        decision = shop.select(CONTEXTS[0])
        for wrong in (
            lambda: shop.settle(decision, float("nan")),
            lambda: shop.settle(7, 1.0),
            lambda: shop.update([1.0], "a", 1.0),
            lambda: shop.update(CONTEXTS[0], "z", 1.0),
            lambda: shop.select([np.inf, 0.0]),
            lambda: shop.note(CONTEXTS[0], "z"),
            lambda: shop.add_arm("a"),
            lambda: shop.remove_arm("z"),
            lambda: shop.teach(CONTEXTS[:2], ["a", "b"], [1.0, np.nan]),
        ):
            with pytest.raises(ValueError):  # noqa: PT011
                wrong()
        assert shop.n_records == 1
        shop.settle(decision, 1.0)
    with DurableBandit(tmp_path) as shop:
        assert (shop.n_records, shop.bandit.n_learnt_) == (2, 1)


def test_a_full_disk_is_said_and_the_folder_is_as_before_the_call(tmp_path, monkeypatch):
    shop = DurableBandit(tmp_path, thompson)
    decision = shop.select(CONTEXTS[0])

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(ModelFileError, match=r"cannot write journal.*No space left"):
            shop.settle(decision, 1.0)
    with pytest.raises(RuntimeError, match="close it and open the folder again"):
        shop.settle(decision, 1.0)
    shop.close()
    with DurableBandit(tmp_path) as shop:
        assert shop.is_pending(decision)
        shop.settle(decision, 1.0)


def test_a_failed_snapshot_loses_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise ModelFileError("cannot write it")

    shop = DurableBandit(tmp_path, thompson, snapshot_every=3)
    with monkeypatch.context() as patch:
        patch.setattr(durable_bandit, "write_sealed", full)
        with pytest.warns(UserWarning, match="cannot write it; nothing is lost"):
            decisions = [shop.select(row) for row in CONTEXTS[:5]]
    shop.close()
    with DurableBandit(tmp_path, snapshot_every=3) as shop:
        assert all(map(shop.is_pending, decisions))
        for one in decisions:
            shop.settle(one, 1.0)
    with DurableBandit(tmp_path) as shop:
        assert (shop.n_records, shop.bandit.n_learnt_) == (10, 5)


def test_folders_that_hold_something_else_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match="there is no folder"):
        DurableBandit(tmp_path / "none")
    with pytest.raises(ModelFileError, match="holds no bandit: give make"):
        DurableBandit(tmp_path)
    with pytest.raises(ValueError, match="must return a bandit that has begun"):
        DurableBandit(tmp_path, lambda: ThompsonSampler("linear", ["a"]))
    with DurableBandit(tmp_path, thompson) as shop:
        everything(shop)
        with pytest.raises(ModelFileError, match="is in use"):
            DurableBandit(tmp_path)
    snapshot = tmp_path / "snapshot.bandit"
    whole = snapshot.read_bytes()
    for place in (0, 8, 200, len(whole) // 2, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 0x10
        snapshot.write_bytes(flipped)
        with pytest.raises(ModelFileError, match="model file"):
            DurableBandit(tmp_path)
    thompson().save(snapshot)
    with pytest.raises(ModelFileError, match="belongs to no journal"):
        DurableBandit(tmp_path)
    snapshot.unlink()
    with pytest.raises(ModelFileError, match="lacks the snapshot"):
        DurableBandit(tmp_path, thompson)
    snapshot.write_bytes(whole)
    with DurableBandit(tmp_path) as shop:
        assert shop.bandit.n_learnt_ == 6
    assert isinstance(Bandit.load(snapshot), ThompsonSampler)
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.tex").write_text("precious")
    with pytest.raises(ModelFileError, match=r"holds no bandit, but 'thesis.tex'"):
        DurableBandit(strange, thompson)
    real = os.getpid
    with DurableBandit(tmp_path) as shop:
        monkeypatch.setattr(os, "getpid", lambda: real() + 1)
        with pytest.raises(RuntimeError, match="in the process that uses it"):
            shop.select(CONTEXTS[0])


def test_records_that_do_not_fit_the_bandit_are_refused(tmp_path):
    for place, record in enumerate(
        (
            {"do": "settle", "id": 5, "reward": 1.0},
            {"do": "select", "id": 7, "context": [1.0, 2.0], "action": "a", "probability": None},
            {"do": "select", "id": 0, "context": [1.0], "action": "a", "probability": None},
            {"do": "__import__", "id": 0},
            {"nothing": 1},
        )
    ):
        folder = tmp_path / str(place)
        with DurableBandit(folder, thompson) as shop:
            shop._journal.append(record)
        with pytest.raises(ModelFileError, match=r"record 0 in .* does not fit") as error:
            DurableBandit(folder)
        assert "\n" not in str(error.value)


def test_threads_take_turns(tmp_path):
    def one_visitor(row):
        decision = shop.select(CONTEXTS[row])
        shop.settle(decision, float(CONTEXTS[row, 0]))
        return decision.id

    with DurableBandit(tmp_path, thompson, snapshot_every=10) as shop:
        with ThreadPoolExecutor(8) as pool:
            ids = list(pool.map(one_visitor, range(60)))
        assert sorted(ids) == list(range(60))
        found = shop.bandit
    with DurableBandit(tmp_path) as shop:
        same(shop.bandit, found)
        assert shop.bandit.n_learnt_ == 60


def test_the_journal_is_a_log_to_compare_policies_by(tmp_path):
    def make():
        return EpsilonGreedy("linear", ["a", "b"], epsilon=0.5, room=3).begin(2)

    rewards = np.random.default_rng(1).standard_normal(60)
    with DurableBandit(tmp_path, make, snapshot_every=7) as shop:
        chosen = [shop.select(row) for row in CONTEXTS[:30]]
        shop.add_arm("c")
        chosen += [shop.select(row) for row in CONTEXTS[30:60]]
        shop.note(CONTEXTS[60], "a")
        shop.settle(60, 1.0)
        for one in chosen[:1:-1]:
            shop.settle(one, rewards[one.id])
        log = policy_log(tmp_path, first=5)  # while the bandit is at work
    order = np.arange(59, 4, -1)
    assert log.names == ("a", "b", "c")
    assert log.action.tolist() == [chosen[k].action for k in order]
    np.testing.assert_array_equal(log.reward, rewards[order])
    np.testing.assert_array_equal(log.context, CONTEXTS[order])
    assert log.propensity.tolist() == [chosen[k].probability for k in order]
    with DurableBandit(tmp_path, keep_records=False) as shop:
        shop.snapshot()
        rows = [shop.select(CONTEXTS[0]).id for _ in range(2)]
        for one in rows:
            shop.settle(one, 1.0)
    assert len(policy_log(tmp_path)) == 2  # of the rest only the bandit knows


def test_unknown_propensities_are_said(tmp_path):
    with DurableBandit(tmp_path, thompson) as shop:
        for row in CONTEXTS[:4]:
            shop.settle(shop.select(row), 1.0)
    with pytest.raises(ValueError, match=r"of 4 decisions, the last of them 3, the prob.*_draws"):
        policy_log(tmp_path)
    with DurableBandit(tmp_path, propensity_draws=10) as shop:
        for row in CONTEXTS[4:8]:
            shop.settle(shop.select(row), 1.0)
    assert len(policy_log(tmp_path, first=4)) == 4


def test_inverse_estimated_propensities_are_unbiased_but_for_the_stated_share(tmp_path):
    n_draws, n = 3, 3000
    context, bandit = np.array([1.0, 0.0]), thompson()
    bandit.teach([context] * 2, ["a", "b"], [0.0, 1.0])
    exact = probability_of_a(bandit, context)
    with DurableBandit(tmp_path, lambda: bandit, propensity_draws=n_draws) as shop:
        chosen = [shop.select(context) for _ in range(n)]
        weight = [(one.action == "a") / one.probability for one in chosen]
    stated = 1.0 - (1.0 - exact) ** (n_draws + 1)
    assert 1.0 - stated > 0.05  # the share is there to be seen
    assert abs(np.mean(weight) - stated) < 4.0 * np.std(weight) / np.sqrt(n)


def probability_of_a(bandit, context):
    """P(t_a > t_b) for two independent Student-t by quadrature."""
    belief = bandit.rewards.believe(context, bandit.arms, np.array([0, 1]))
    dof = 2.0 * (2.0 + 0.5)  # InverseGamma(2, 1) and a row each
    a, b = (
        stats.t(dof, mean, np.sqrt(var * (dof - 2.0) / dof))
        for mean, var in zip(*belief, strict=True)
    )
    grid = np.linspace(-60.0, 60.0, 200_001)
    return float(np.trapezoid(a.pdf(grid) * b.cdf(grid), grid))

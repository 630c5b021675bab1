"""A bandit in a file: killed, damaged, shared, and read as the log of a policy."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from reward_rows import state
from scipy import stats

from bayesprop import DurableBandit, EpsilonGreedy, ThompsonSampler
from bayesprop.bandits import durable as durable_bandit
from bayesprop.bandits.arms import choices_in
from bayesprop.bandits.durable import policy_log
from bayesprop.sealed import ModelFileError
from test_forged_files import changed

CONTEXTS = np.random.default_rng(0).standard_normal((100, 2))


def thompson():
    return ThompsonSampler("linear", ["a", "b"], room=3).begin(2)


def everything(bandit):
    """Every kind of change, with a decision left open."""
    first, second = bandit.select(CONTEXTS[0]), bandit.select(CONTEXTS[1])
    noted = bandit.note(CONTEXTS[2], "a")
    bandit.add_arm("c").teach(CONTEXTS[3:6], ["a", "c", np.str_("b")], [1, 0.1, np.float32(0.3)])
    bandit.update(list(CONTEXTS[6]), "c", 1e-300).remove_arm("a")
    bandit.settle(noted, 0.7).settle(np.int64(second.id), 2)
    return first


@pytest.fixture
def file(tmp_path):
    return tmp_path / "shop.sqlite"


def in_processes(how, path):
    script = Path(__file__).parent / "killed_bandit.py"
    done = subprocess.run([sys.executable, script, how, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout)


def test_killed_at_any_statement_nothing_is_lost_or_doubled(file):
    assert in_processes("everywhere", file) >= 35


def test_processes_take_turns(file):
    assert in_processes("together", file) == 3 * 40


@pytest.mark.parametrize("every", [1, 3, 1000])
def test_reopened_it_is_the_bandit_that_was_never_kept(file, every):
    alone = thompson()
    with DurableBandit(file, thompson, snapshot_every=every) as shop:
        assert everything(shop) == everything(alone)
        assert state(shop.bandit) == state(alone)
    with DurableBandit(file, snapshot_every=every, sync=True) as shop:
        assert state(shop.bandit) == state(alone)
        assert shop.n_records == 9
        assert (shop.is_pending(0), shop.is_pending(1)) == (True, False)
        assert shop.settle(1, 2.0).n_records == 9  # said again
        with pytest.raises(ValueError, match="decision 1 has the reward 2 already: 3"):
            shop.settle(1, 3.0)
        assert shop.select(CONTEXTS[7]) == alone.select(CONTEXTS[7])
        shop.settle(0, 1.0)
    assert state(DurableBandit(file).bandit) == state(alone.settle(0, 1.0))


def test_what_is_refused_leaves_no_record(file):
    with DurableBandit(file, thompson) as shop:
        decision = shop.select(CONTEXTS[0])
        for wrong in (
            lambda: shop.settle(decision, float("nan")),
            lambda: shop.update([1.0], "a", 1.0),
            lambda: shop.select([np.inf, 0.0]),
            lambda: shop.add_arm("a"),
            lambda: shop.teach(CONTEXTS[:2], ["a", "b"], [1.0, np.nan]),
        ):
            with pytest.raises(ValueError):  # noqa: PT011
                wrong()
        assert shop.n_records == 1
        shop.settle(decision, 1.0)
    with DurableBandit(file) as shop:
        assert (shop.n_records, shop.bandit.n_learnt_) == (2, 1)


def test_two_that_are_open_at_once_are_one_bandit(file):
    alone = thompson()
    with DurableBandit(file, thompson) as one, DurableBandit(file, snapshot_every=4) as other:
        for k in range(12):
            decision = (one, other)[k % 2].select(CONTEXTS[k])
            assert decision == alone.select(CONTEXTS[k])
            assert (other, one)[k % 2].is_pending(decision)
            if k % 3:
                (other, one)[k % 2].settle(decision, 0.1 * k)
                alone.settle(decision, 0.1 * k)
        other.keep_records = False  # the snapshot is then all that says what came
        one.add_arm("c")
        other.snapshot()
        assert one.actions == alone.add_arm("c").actions
        assert state(one.bandit) == state(alone)
        assert one.n_records == 21
    assert state(DurableBandit(file).bandit) == state(alone)


def test_a_full_disk_is_said_and_the_file_is_as_before_the_call(file, monkeypatch):
    files, connect = [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **how: files.append(connect(*args, **how)) or files[-1]
    )
    alone = thompson()
    with DurableBandit(file, thompson, snapshot_every=10) as shop:
        (n_pages,) = files[0].execute("PRAGMA page_count").fetchone()
        files[0].execute(f"PRAGMA max_page_count = {n_pages}")
        with pytest.raises(ModelFileError, match=r"cannot be read or written: .*full"):
            [shop.select(CONTEXTS[n % 100]) for n in range(1000)]
        files[0].execute("PRAGMA max_page_count = 1000000")
        n = shop.n_records
        expected = [alone.select(CONTEXTS[k % 100]) for k in range(n + 1)]
        assert shop.select(CONTEXTS[n % 100]) == expected[-1]
        assert state(shop.bandit) == state(alone)
    with DurableBandit(file) as shop:
        assert state(shop.bandit) == state(alone)


def test_a_call_that_fails_half_way_is_undone(file, monkeypatch):
    with DurableBandit(file, thompson) as shop:
        decision = shop.select(CONTEXTS[0])
        with monkeypatch.context() as patch:
            patch.setattr(durable_bandit, "_as_json", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                shop.settle(decision, 1.0)
        assert shop.is_pending(decision)
        shop.settle(decision, 1.0)
        assert (shop.n_records, shop.bandit.n_learnt_) == (2, 1)


@contextlib.contextmanager
def interrupted(event):
    """Raise KeyboardInterrupt before the n-th line of Python that runs, in whichever file."""
    count = itertools.count()

    def at_line(frame, what, _):
        if what == "line" and next(count) == event:
            raise KeyboardInterrupt
        return at_line

    before = sys.gettrace()
    sys.settrace(at_line)
    try:
        yield
    finally:
        sys.settrace(before)


class InterruptedBandits(RuleBasedStateMachine):
    """Two open bandits of a file, whose calls are interrupted at any line, and one in memory."""

    WHICH, EVENT = st.integers(0, 1), st.none() | st.integers(0, 600)

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path, self.alone = Path(self.folder.name) / "shop.sqlite", thompson()
        self.shops = [DurableBandit(self.path, thompson, snapshot_every=k) for k in (3, 5)]
        self.caught = []  # with their frames, as an interactive session keeps the last one

    def call(self, which, event, name, *arguments):
        n_records = len(self.records())
        try:
            with interrupted(event):
                getattr(self.shops[which], name)(*arguments)
        except KeyboardInterrupt as interrupt:
            self.caught = [*self.caught[-3:], interrupt]
        if len(self.records()) > n_records:
            getattr(self.alone, name)(*arguments)

    def records(self):
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            return [number for (number,) in file.execute("SELECT number FROM records")]

    @rule(which=WHICH, event=EVENT, row=st.integers(0, 99))
    def select(self, which, event, row):
        self.call(which, event, "select", CONTEXTS[row])

    @rule(which=WHICH, event=EVENT, place=st.integers(0, 9))
    def settle(self, which, event, place):
        if self.alone.n_selected_:
            decision = place % self.alone.n_selected_
            self.call(which, event, "settle", decision, 0.1 * decision)
            if event is None:
                assert not self.shops[1 - which].is_pending(decision)

    @rule(which=WHICH)
    def forget_interrupts(self, which):
        self.caught = []
        self.shops[which].snapshot()

    @rule(which=WHICH)
    def open_again(self, which):
        self.shops[which].close()
        self.shops[which] = DurableBandit(self.path, snapshot_every=3 + which)

    @invariant()
    def all_are_one_bandit(self):
        records = self.records()
        assert records == list(range(len(records)))
        for shop in self.shops:
            assert shop.actions == self.alone.actions
            assert state(shop.bandit) == state(self.alone)

    def teardown(self):
        for shop in self.shops:
            shop.close()
        self.folder.cleanup()


TestInterruptedBandits = InterruptedBandits.TestCase
TestInterruptedBandits.settings = settings(max_examples=30, stateful_step_count=20)


def test_a_time_out_is_none_of_the_bandits_refusals_nor_damage(file, monkeypatch):
    class TimeIsUp(ValueError):
        """As a handler of a signal may raise it, in whatever call."""

    class Late(Exception):
        """As another one may."""

    def interrupt(kind):
        def stop(*_, **__):
            raise kind

        return stop

    with DurableBandit(file, thompson) as shop, DurableBandit(file) as other:
        decision = shop.select(CONTEXTS[0])
        with monkeypatch.context() as patch:
            patch.setattr(type(shop.bandit), "_learn", interrupt(TimeIsUp))
            with pytest.raises(TimeIsUp):
                shop.settle(decision, 1.0)
        shop.settle(decision, 1.0)
        with monkeypatch.context() as patch:
            patch.setattr(type(shop.bandit), "_learn", interrupt(Late))
            with pytest.raises(Late):
                other.is_pending(decision)
        assert not other.is_pending(decision)
        assert state(other.bandit) == state(shop.bandit)


def refused(path, words, make=None):
    with pytest.raises(ModelFileError, match=words) as error:
        DurableBandit(path, make)
    assert "\n" not in str(error.value)


def test_files_that_hold_something_else_are_refused_and_left_alone(tmp_path, file):
    refused(tmp_path / "none", "there is no bandit file")
    assert not (tmp_path / "none").exists()
    refused(tmp_path, "is a folder: a bandit is kept in a file", thompson)
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", "is empty: give make")
    with pytest.raises(ValueError, match="must return a bandit that has begun"):
        DurableBandit(tmp_path / "new", lambda: ThompsonSampler("linear", ["a"]))
    refused(tmp_path / "new", "is empty: give make")
    for content in (b"precious " * 200, pickle.dumps({"a": 1}), b"\0" * 5000):
        (tmp_path / "strange").write_bytes(content)
        refused(tmp_path / "strange", "file is not a database", thompson)
        assert (tmp_path / "strange").read_bytes() == content
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE precious (a)")
    other.close()
    whole = (tmp_path / "other").read_bytes()
    refused(tmp_path / "other", "is of another program", thompson)
    assert (tmp_path / "other").read_bytes() == whole
    DurableBandit(file, thompson).close()
    altered(file, "PRAGMA user_version = 2")
    refused(file, "has schema 2, this bayesprop reads 1: upgrade")


def altered(path, *statements):
    file = sqlite3.connect(path)
    with file:
        for statement in statements:
            file.execute(statement)
    file.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file of nine calls, the first two in the snapshot too, and where the forged one goes."""
    with DurableBandit(path := tmp_path_factory.mktemp("shop") / "whole", thompson) as shop:
        everything(shop)
    return path.read_bytes(), path.with_name("forged")


def is_refused(path):
    """Whether a file is refused, in one line; else its bandit goes on."""
    try:
        DurableBandit(path).close()
    except ModelFileError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
        return True
    with DurableBandit(path) as shop:
        shop.select(CONTEXTS[0])
    return False


@given(data=st.data())
def test_forged_records_are_refused_or_the_bandit_goes_on(whole, data):
    content, path = whole
    place(path, content)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        rows = [list(row) for row in file.execute("SELECT * FROM records")]
        rows = {str(k): [*row[:4], json.loads(row[4])] for k, row in enumerate(rows)}
        forged, _ = data.draw(changed(rows))
        file.execute("DELETE FROM records")
        for row in forged.values():
            row = row if isinstance(row, list) else [row]
            row = [one if isinstance(one, str | None) else json.dumps(one) for one in row]
            with contextlib.suppress(sqlite3.Error):  # a row that no file can have
                file.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
    is_refused(path)


def place(path, content):
    """Write a file without the journals of an earlier one."""
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    path.write_bytes(content)


@given(data=st.data())
def test_damage_is_refused_or_not_in_what_is_read(whole, data):
    content, path = whole
    sealed = content.index(b'{"__metadata__"')
    cut = data.draw(st.sampled_from((4096, 5000, len(content) - 4096, len(content))))
    at = data.draw(st.integers(0, len(content) - 1) | st.integers(sealed, sealed + 500))
    wrong = bytearray(content)
    wrong[at] ^= 0x11
    place(path, wrong[:cut])
    is_damaged = cut < len(content) or 0 <= at - sealed <= 500
    assert is_refused(path) or not is_damaged


def test_a_process_that_did_not_open_it_is_refused(file, monkeypatch):
    real = os.getpid
    with DurableBandit(file, thompson) as shop:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: real() + 1)
            with pytest.raises(RuntimeError, match="in the process that uses it"):
                shop.select(CONTEXTS[0])
        shop.select(CONTEXTS[0])
    with pytest.raises(RuntimeError, match="is closed: open it again"):
        shop.select(CONTEXTS[0])


def test_a_record_that_is_missing_or_no_call_is_noticed(file):
    with DurableBandit(file, thompson) as shop:
        everything(shop)
    altered(file, "UPDATE records SET call = 'save' WHERE number = 3")
    refused(file, "record 3 of bandit file .* does not fit")
    altered(file, "DELETE FROM records WHERE number = 3")
    refused(file, "lacks the record 3")
    altered(file, "DELETE FROM snapshot")
    refused(file, "holds no bandit")


def test_threads_take_turns(file):
    def one_visitor(row):
        decision = shop.select(CONTEXTS[row])
        shop.settle(decision, float(CONTEXTS[row, 0]))
        return decision.id

    with DurableBandit(file, thompson, snapshot_every=10) as shop:
        with ThreadPoolExecutor(8) as pool:
            ids = list(pool.map(one_visitor, range(60)))
        assert sorted(ids) == list(range(60))
        found = shop.bandit
    with DurableBandit(file) as shop:
        assert state(shop.bandit) == state(found)
        assert shop.bandit.n_learnt_ == 60


def test_the_records_are_a_log_of_actions_rewards_and_propensities(file):
    def make():
        return EpsilonGreedy("linear", ["a", "b"], epsilon=0.5, room=3).begin(2)

    rewards = np.random.default_rng(1).standard_normal(60)
    with DurableBandit(file, make, snapshot_every=7) as shop:
        chosen = [shop.select(row) for row in CONTEXTS[:30]]
        shop.add_arm("c")
        chosen += [shop.select(row) for row in CONTEXTS[30:60]]
        shop.note(CONTEXTS[60], "a")
        shop.settle(60, 1.0)
        for one in chosen[:1:-1]:
            shop.settle(one, rewards[one.id])
        log = policy_log(file, first=5)  # while the bandit is at work
    order = np.arange(59, 4, -1)
    assert log.arms == ("a", "b", "c")
    assert log.action == [chosen[k].action for k in order]
    np.testing.assert_array_equal(log.reward, rewards[order])
    np.testing.assert_array_equal(log.context, CONTEXTS[order])
    assert log.propensity.tolist() == [chosen[k].probability for k in order]
    with DurableBandit(file, keep_records=False) as shop:
        shop.snapshot()
        rows = [shop.select(CONTEXTS[0]).id for _ in range(2)]
        for one in rows:
            shop.settle(one, 1.0)
    assert len(policy_log(file).reward) == 2  # of the rest only the bandit knows


def test_unknown_propensities_are_said(file):
    with DurableBandit(file, thompson) as shop:
        for row in CONTEXTS[:4]:
            shop.settle(shop.select(row), 1.0)
    with pytest.raises(ValueError, match=r"of 4 decisions, the last of them 3, the prob.*_draws"):
        policy_log(file)
    with DurableBandit(file, propensity_draws=10) as shop:
        for row in CONTEXTS[4:8]:
            shop.settle(shop.select(row), 1.0)
    assert len(policy_log(file, first=4).reward) == 4


def test_inverse_estimated_propensities_are_unbiased_but_for_the_stated_share(file):
    n_draws, n = 3, 3000
    context, bandit = np.array([1.0, 0.0]), thompson()
    bandit.teach([context] * 2, ["a", "b"], [0.0, 1.0])
    exact = probability_of_a(bandit, context)
    with DurableBandit(file, lambda: bandit, propensity_draws=n_draws) as shop:
        chosen = [shop.select(context) for _ in range(n)]
        weight = [(one.action == "a") / one.probability for one in chosen]
    stated = 1.0 - (1.0 - exact) ** (n_draws + 1)
    assert 1.0 - stated > 0.05  # the share is there to be seen
    assert abs(np.mean(weight) - stated) < 4.0 * np.std(weight) / np.sqrt(n)


def probability_of_a(bandit, context):
    """P(t_a > t_b) for two independent Student-t by quadrature."""
    belief = bandit.rewards.believe(choices_in(context, bandit.arms, np.array([0, 1])))
    dof = 2.0 * (2.0 + 0.5)  # InverseGamma(2, 1) and a row each
    a, b = (
        stats.t(dof, mean, np.sqrt(var * (dof - 2.0) / dof))
        for mean, var in zip(*belief, strict=True)
    )
    grid = np.linspace(-60.0, 60.0, 200_001)
    return float(np.trapezoid(a.pdf(grid) * b.cdf(grid), grid))

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


@pytest.mark.exhaustive
def test_killed_at_any_statement_nothing_is_lost_or_doubled(file):
    assert in_processes("everywhere", file) >= 35


def test_processes_take_turns(file):
    assert in_processes("together", file) == 3 * 40


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


class TimeIsUp(Exception):
    """As a handler of a signal may raise it, in whatever call."""


@contextlib.contextmanager
def interrupted(event, kind):
    """Raise an exception before the n-th line of Python that runs, in whichever file."""
    count = itertools.count()

    def at_line(frame, what, _):
        if "hypothesis" in frame.f_code.co_filename:  # which listens to the garbage collector
            return None
        if what == "line" and next(count) == event:
            raise kind
        return at_line

    before = sys.gettrace()
    sys.settrace(at_line)
    try:
        yield
    finally:
        sys.settrace(before)


ROW = st.integers(0, 99).map(lambda row: CONTEXTS[row])
CALLS = st.one_of(
    st.tuples(st.just("select"), ROW),
    st.tuples(st.just("note"), ROW, st.sampled_from("abz")),
    st.tuples(st.just("update"), ROW, st.sampled_from("abc"), st.sampled_from((1e-300, np.nan))),
    st.tuples(st.just("teach"), st.just(CONTEXTS[:2]), st.just(["a", np.str_("b")]),
              st.sampled_from(([1, np.float32(0.3)], [1.0, np.nan]))),
    st.tuples(st.sampled_from(("add_arm", "remove_arm")), st.sampled_from("ac")),
)  # fmt: skip
"""Every kind of change, some of them refused at times: an unknown arm, the last one, a NaN."""


class InterruptedBandits(RuleBasedStateMachine):
    """Two open bandits of a file, whose calls are interrupted at any line, and one in memory."""

    WHICH, EVENT = st.integers(0, 1), st.none() | st.integers(0, 600)
    KIND = st.sampled_from((KeyboardInterrupt, TimeIsUp))

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path, self.alone = Path(self.folder.name) / "shop.sqlite", thompson()
        self.shops = [DurableBandit(self.path, thompson, snapshot_every=k) for k in (3, 5)]
        self.caught = []  # with their frames, as an interactive session keeps the last one

    def call(self, which, event, kind, name, *arguments):
        n_before, is_refused = self.n_changes(), False
        try:
            with interrupted(event, kind):
                getattr(self.shops[which], name)(*arguments)
        except kind as interrupt:
            self.caught = [*self.caught[-3:], interrupt]
        except ValueError:
            is_refused = True
        if self.n_changes() > n_before:
            assert not is_refused
            getattr(self.alone, name)(*arguments)
        elif is_refused:
            with pytest.raises(ValueError):  # noqa: PT011
                getattr(self.alone, name)(*arguments)

    def n_changes(self):
        """How many changes the file holds, in its records or in what is written whole."""
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            numbers = [number for (number,) in file.execute("SELECT number FROM records")]
            ((n_in_snapshot,),) = file.execute("SELECT n_records FROM snapshot")
        n = max(numbers, default=-1) + 1
        assert numbers == list(range(n))[n - len(numbers) :]
        return max(n, n_in_snapshot)

    @rule(which=WHICH, event=EVENT, kind=KIND, call=CALLS)
    def change(self, which, event, kind, call):
        self.call(which, event, kind, *call)

    @rule(which=WHICH, event=EVENT, kind=KIND, place=st.integers(0, 9))
    def settle(self, which, event, kind, place):
        if self.alone.n_selected_:
            decision = place % self.alone.n_selected_
            if not self.shops[which].keep_records and not self.alone.is_pending(decision):
                return  # a reward that is said again needs its record
            self.call(which, event, kind, "settle", np.int64(decision), 0.1 * decision)
            if event is None:
                assert not self.shops[1 - which].is_pending(decision)

    @rule(which=WHICH)
    def forget_interrupts(self, which):
        self.caught = []
        self.shops[which].snapshot()

    @rule(which=WHICH, keep_records=st.booleans(), sync=st.booleans())
    def open_again(self, which, keep_records, sync):
        self.shops[which].close()
        how = {"keep_records": keep_records, "sync": sync}
        self.shops[which] = DurableBandit(self.path, snapshot_every=3 + which, **how)

    @invariant()
    def all_are_one_bandit(self):
        n_changes = self.n_changes()
        shop = self.shops[n_changes // 4 % 2]  # the other one may fall behind
        assert shop.actions == self.alone.actions
        assert shop.n_records == n_changes
        assert state(shop.bandit) == state(self.alone)

    def teardown(self):
        for shop in self.shops:
            shop.close()
        self.folder.cleanup()


TestInterruptedBandits = InterruptedBandits.TestCase
TestInterruptedBandits.settings = settings(max_examples=30, stateful_step_count=20)


def test_a_time_out_among_values_is_no_refusal_of_the_bandit(file, monkeypatch):
    class Late(ValueError):
        """As a handler of a signal may raise it."""

    learn = ThompsonSampler._learn

    def stop(*given):
        learn(*given)
        raise Late

    with DurableBandit(file, thompson) as shop, DurableBandit(file) as other:
        decision = shop.select(CONTEXTS[0])
        with monkeypatch.context() as patch:
            patch.setattr(type(shop.bandit), "_learn", stop)
            with pytest.raises(Late):
                shop.settle(decision, 1.0)
        assert not shop.settle(decision, 1.0).is_pending(decision)
        with pytest.raises(ValueError, match="decision 0 has the reward 1 already: 3"):
            shop.settle(decision, 3.0)
        assert not other.is_pending(decision)
        assert state(shop.bandit) == state(other.bandit)


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


@pytest.mark.exhaustive
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

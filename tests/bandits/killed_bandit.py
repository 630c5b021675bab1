"""A process that lets bandits run and kills them; test_durable_bandit.py starts it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import sys
from pathlib import Path

import numpy as np
from reward_rows import state

from bayesprop import ThompsonSampler
from bayesprop.bandits.durable import DurableBandit


def make():
    return ThompsonSampler("linear", ["a", "b", "c"], random_state=5).begin(3)


def step(bandit, decisions, n):
    """Do what the state of the bandit asks for next; return what was done, None at the end."""
    if len(decisions.pending_) < 4 and decisions.n_selected_ < n:
        context = np.random.default_rng(decisions.n_selected_).standard_normal(3)
        chosen = bandit.select(context)
        return ["select", chosen.id, chosen.action]
    if not decisions.pending_:
        return None
    waiting = sorted(decisions.pending_)
    name = waiting[decisions.n_learnt_ % len(waiting)]  # late, and out of order
    context, arm = decisions.pending_[name]
    bandit.settle(name, float(context[arm] + np.sin(name)))
    return ["settle", name]


def finished(n):
    bandit = make()
    while step(bandit, bandit, n):
        pass
    return bandit


def run(path, n, **settings):
    """Go on with what is in the file; write down what has returned."""
    with DurableBandit(path, make, **settings) as shop, open(f"{path}.done", "ab") as log:
        while done := step(shop, shop.bandit, n):
            os.write(log.fileno(), json.dumps(done).encode() + b"\n")


def check(path, **settings):
    """Compare a bandit after a kill with what its calls had returned before."""
    log = Path(f"{path}.done")
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    with DurableBandit(path, make, **settings) as shop:
        selected = [one for one in done if one[0] == "select"]
        settled = [one[1] for one in done if one[0] == "settle"]
        assert shop.bandit.n_selected_ - len(selected) in (0, 1), "a decision was lost or doubled"
        assert shop.bandit.n_learnt_ - len(settled) in (0, 1), "a reward was lost or doubled"
        assert not any(map(shop.is_pending, settled))
        for _, name, action in selected:
            if shop.is_pending(name):
                assert shop.bandit.arms.names[shop.bandit.pending_[name][1]] == action


def forked(work):
    """Start work in a process of its own."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)


def die_at(event):
    """Kill this process before its n-th statement of SQL: amid transactions, too."""
    count, connect = itertools.count(), sqlite3.connect

    def moment(_):
        if next(count) == event:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(*args, **settings):
        file = connect(*args, **settings)
        file.set_trace_callback(moment)
        return file

    sqlite3.connect = watched


def kill_everywhere(path, n):
    settings = {"snapshot_every": 3, "keep_records": False}
    wanted = state(finished(n))

    def work(event):
        for end in ("", "-wal", "-shm", ".done"):
            Path(f"{path}{end}").unlink(missing_ok=True)

        def to_death():
            die_at(event)
            run(path, n, **settings)

        _, status = os.waitpid(forked(to_death), 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return False
        check(path, **settings)
        run(path, n, **settings)
        with DurableBandit(path) as shop:
            assert state(shop.bandit) == wanted, event
        return True

    return next(event for event in itertools.count() if not work(event))


def work_together(path, n_processes=3, n_each=40):
    """Let processes use a file at once, from its making on; count what was learnt."""

    def work(seed):
        with DurableBandit(path, make, snapshot_every=7) as shop:
            for row in np.random.default_rng(seed).standard_normal((n_each, 3)):
                chosen = shop.select(row)
                assert shop.is_pending(chosen)
                shop.settle(chosen, row[0])
                assert not shop.is_pending(chosen)

    children = [forked(lambda seed=seed: work(seed)) for seed in range(n_processes)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * n_processes
    with DurableBandit(path) as shop:
        assert not shop.bandit.pending_
        assert shop.n_records == 2 * shop.bandit.n_selected_
        return shop.bandit.n_learnt_


WORK = {"everywhere": lambda path: kill_everywhere(path, 2), "together": work_together}

if __name__ == "__main__":
    print(WORK[sys.argv[1]](sys.argv[2]))

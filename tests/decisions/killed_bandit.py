"""A process that lets bandits run in a folder and kills them; test_durable_bandit.py starts it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

from bayesprop import ThompsonSampler
from bayesprop.decisions import bandit_files
from bayesprop.decisions.durable_bandit import DurableBandit

WRITE = os.write


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


def run(folder, n, **settings):
    """Go on with what is in the folder; write down, behind the back of `os`, what has returned."""
    with DurableBandit(folder, make, **settings) as shop, open(f"{folder}.done", "ab") as log:
        while done := step(shop, shop.bandit, n):
            WRITE(log.fileno(), json.dumps(done).encode() + b"\n")


def check(folder, **settings):
    """Compare a bandit after a kill with what its calls had returned before."""
    log = Path(f"{folder}.done")
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    with DurableBandit(folder, make, **settings) as shop:
        selected = [one for one in done if one[0] == "select"]
        settled = [one[1] for one in done if one[0] == "settle"]
        assert shop.bandit.n_selected_ - len(selected) in (0, 1), "a decision was lost or doubled"
        assert shop.bandit.n_learnt_ - len(settled) in (0, 1), "a reward was lost or doubled"
        assert len(set(settled)) == len(settled)
        assert not any(map(shop.is_pending, settled))
        names = shop.bandit.arms.names
        for _, name, action in selected:
            if shop.is_pending(name):
                assert names[shop.bandit.pending_[name][1]] == action
        # What came through, but of which nobody heard, is known from now on.
        unheard = set(range(shop.bandit.n_selected_)) - {one[1] for one in selected}
        fresh = [["select", name, names[shop.bandit.pending_[name][1]]] for name in unheard]
        learnt = set(range(shop.bandit.n_selected_)) - set(shop.bandit.pending_)
        fresh += [["settle", name] for name in learnt - set(settled)]
        with log.open("a") as file:
            file.writelines(json.dumps(one) + "\n" for one in fresh)


def state(bandit):
    header, arrays = bandit_files.to_stored(bandit)
    return json.dumps(header, sort_keys=True), {k: v.tobytes() for k, v in arrays.items()}


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


def kill_at_random(folder, kills, seed):
    rng, endless = np.random.default_rng(seed), 10**9
    for _ in range(kills):
        child = forked(lambda: run(folder, endless, snapshot_every=20))
        time.sleep(rng.uniform(0.002, 0.06))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        check(folder, snapshot_every=20)
    with DurableBandit(folder) as shop:
        n = shop.bandit.n_selected_ + 20
    run(folder, n, snapshot_every=20)
    with DurableBandit(folder) as shop:
        assert state(shop.bandit) == state(finished(n))
        assert shop.n_records == 2 * n
    return kills


CALLS = ("write", "fsync", "open", "replace", "unlink", "truncate")


def die_at(event):
    """Kill this process at the n-th of the moments before, amid and after calls of the system."""
    count = itertools.count()

    def moment():
        if next(count) == event:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(name, call):
        def called(*args, **kwargs):
            moment()
            if name == "write":
                args = (args[0], memoryview(args[1]))
                half = call(args[0], args[1][: len(args[1]) // 2])
                moment()
                return half + call(args[0], args[1][half:])
            result = call(*args, **kwargs)
            moment()
            return result

        return called

    for name in CALLS:
        setattr(os, name, dying(name, getattr(os, name)))


def kill_everywhere(folder, n):
    settings = {"snapshot_every": 3, "keep_records": False}
    wanted = state(finished(n))

    def work(event):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        Path(f"{folder}.done").unlink(missing_ok=True)

        def to_death():
            die_at(event)
            run(folder, n, **settings)

        _, status = os.waitpid(forked(to_death), 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return False
        check(folder, **settings)
        run(folder, n, **settings)
        with DurableBandit(folder) as shop:
            assert state(shop.bandit) == wanted, event
        return True

    return next(event for event in itertools.count() if not work(event))


if __name__ == "__main__":
    os.fsync = lambda handle: None  # what a kill leaves does not depend on it, and disks are slow
    how, where = sys.argv[1:3]
    print(kill_at_random(where, 12, 0) if how == "random" else kill_everywhere(where, 3))

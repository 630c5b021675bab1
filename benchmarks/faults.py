"""`python -m benchmarks.faults`: shards learnt by workers and schedulers that are killed.

PBP on made rows in eight shards, by two Dask workers with nannies on this machine. A worker is
killed by `kill -9` at ten moments of a fit, then the scheduler at three, after which the same call
goes on from its checkpoint with another one. All must give the bytes of a fit in peace.
"""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bayesprop import PBPRegressor, fit_shards
from bayesprop.cli.console import print_table
from bayesprop.scale.cluster import NoCluster, connected
from benchmarks.machines import Machines
from benchmarks.shards import made

N_ROWS, N_SHARDS, ROUNDS = 100_000, 8, 10
WORKER_KILLS, SCHEDULER_KILLS = 10, 3


class Fit(NamedTuple):
    """What a fit gave, and how long it took."""

    digest: str
    seconds: float


def fit(address: str, **how: Any) -> Fit:
    """Fit to all shards on a cluster."""
    X, y = made(N_ROWS)
    shards = [(X[k::N_SHARDS], y[k::N_SHARDS]) for k in range(N_SHARDS)]
    started = time.perf_counter()
    with connected(address, "") as client:
        model = PBPRegressor(random_state=0)
        model = fit_shards(model, shards, rounds=ROUNDS, executor=client, **how)
    digest = hashlib.sha256()
    for _, array in sorted(model.to_stored().arrays.items()):
        digest.update(array.tobytes())
    return Fit(digest.hexdigest()[:12], time.perf_counter() - started)


def with_kill(kill: Callable[[], None], after: float, job: Callable[[], Fit]) -> Fit:
    """Do something in the midst of a fit."""
    timer = threading.Timer(after, kill)
    timer.start()
    try:
        return job()
    finally:
        timer.join()


def cluster(folder: Path, n_workers: int = 2) -> Machines:
    """Start a scheduler, and workers that nannies start again."""
    folder.mkdir()
    machines = Machines(folder)
    for _ in range(n_workers):
        machines.add_worker("--nanny")
    with connected(machines.address, "") as client:
        client.wait_for_workers(n_workers, timeout=60.0)
    return machines


def kill_worker(address: str, number: int) -> None:
    """End the process of a worker."""
    with connected(address, "") as client:
        pids = sorted(client.run(os.getpid).values())
    os.kill(pids[number % len(pids)], signal.SIGKILL)


def kill_workers(machines: Machines, peace: Fit) -> list[tuple[str, ...]]:
    """Kill one worker a fit, each time later in it."""
    lines, address = [], machines.address
    for k in range(WORKER_KILLS):
        after = peace.seconds * k / WORKER_KILLS
        one = with_kill(partial(kill_worker, address, k), after, partial(fit, address))
        lines.append(("worker", f"{after:.1f}", f"{one.seconds:.1f}", one.digest))
    return lines


def kill_schedulers(folder: Path, peace: Fit) -> list[tuple[str, ...]]:
    """Kill the scheduler in the midst of a fit, and go on with another one."""
    lines = []
    for k in range(SCHEDULER_KILLS):
        place, after = folder / f"{k}.rounds", peace.seconds * (k + 1) / (SCHEDULER_KILLS + 1)
        machines = cluster(folder / f"lost-{k}")
        job = partial(fit, machines.address, checkpoint=place)
        try:
            with_kill(machines.kill_scheduler, after, job)
            raise RuntimeError("the fit was over before the scheduler was killed")
        except NoCluster:
            machines.stop()
        machines = cluster(folder / f"next-{k}")
        one = fit(machines.address, checkpoint=place)
        machines.stop()
        lines.append(("scheduler", f"{after:.1f}", f"{one.seconds:.1f} (the rest)", one.digest))
    return lines


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder, lines = Path(name), []
        for n_workers in (1, 2, 4):
            machines = cluster(folder / f"of-{n_workers}", n_workers)
            fit(machines.address)  # loads the compiled code
            one = fit(machines.address)
            lines.append((f"none, {n_workers} workers", "", f"{one.seconds:.1f}", one.digest))
            if n_workers == 2:
                peace = one
                lines += kill_workers(machines, one)
            machines.stop()
        lines += kill_schedulers(folder, peace)
    print_table("PBP in 8 shards", ("killed", "after s", "seconds", "bytes"), lines)
    if len({line[-1] for line in lines}) > 1:
        raise SystemExit("bytes differ")


if __name__ == "__main__":
    main()

"""`python -m benchmarks.network_worker WHAT`: one program under test, in a process of its own.

It trains an epoch for every line that it reads, and answers with milliseconds a step. Own processes
because the thread pools of two libraries in one process take the cores from each other. With one
core (`taskset -c 1`) the time is the process's own, which other programs disturb less.
"""

from __future__ import annotations

import sys
import time
import warnings

from benchmarks import network_problem


def main(what: str) -> None:
    """Compile and warm up, say so, then wait for lines."""
    network_problem.use_same_cores()
    warnings.simplefilter("ignore")
    library, _, name = what.partition(":")
    try:
        epoch = _epoch(library, name)
    except ImportError as missing:
        print(f"skip {missing}", flush=True)
        return
    for _ in range(2):
        epoch()
    print("ready", flush=True)
    clock = time.process_time if network_problem.N_THREADS == 1 else time.perf_counter
    for _ in sys.stdin:
        started = clock()
        epoch()
        seconds = clock() - started
        print(1e3 * seconds / network_problem.N_STEPS, flush=True)


def _epoch(library: str, name: str) -> network_problem.Epoch:
    if library == "ours":
        from benchmarks import network_ours as module
    elif library == "torch":
        from benchmarks import network_torch as module
    else:
        from benchmarks import network_peers as module
    return module.EPOCHS[name]()


if __name__ == "__main__":
    main(sys.argv[1])

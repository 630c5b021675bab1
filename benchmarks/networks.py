"""`python -m benchmarks.networks`: milliseconds a training step beside PyTorch.

784-1200-1200-10, 128 rows a step, float32, two cores, or the one of `taskset -c 1`. The programs
take turns, an epoch each, so that whatever else the machine does falls on all of them; a ratio is
the median over the turns of the ratio within a turn. Those that need PyTorch are skipped where it
is not installed (`uv pip install --group bench`; pip from 25.1 on has `--group`, too).
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from bayesprop.cli.console import note, print_table
from benchmarks.network_problem import N_STEPS, N_THREADS, Epoch, use_same_cores

N_TURNS = 15
_WORK = "--work"


class Line(NamedTuple):
    """One method: what ours is called, and with which programs it is compared."""

    text: str
    name: str
    others: tuple[str, ...]


LINES = (
    Line("plain SGD", "plain", ("torch:plain",)),
    Line("MC dropout", "mc-dropout", ("torch:mc-dropout",)),
    Line(
        "Bayes by Backprop, scale mixture",
        "bbb-mixture",
        ("torch:bbb-mixture", "peer:blitz-bayesian-pytorch"),
    ),
    Line(
        "Bayes by Backprop, Gaussian, closed KL",
        "bbb-gaussian",
        ("torch:bbb-gaussian", "peer:bayesian-torch"),
    ),
    Line("local reparameterisation", "local", ("torch:local", "torch:local, compiled")),
    Line(
        "closed form (Roth & Pernkopf)",
        "closed-form",
        ("torch:closed-form", "torch:closed-form, compiled"),
    ),
)


def work(what: str) -> None:
    """Compile and warm up, say so, then train an epoch for every line: milliseconds a step.

    In a process of its own, because the thread pools of two libraries in one process take the
    cores from each other. With one core (`taskset -c 1`) the time is the process's own, which
    other programs disturb less.
    """
    use_same_cores()
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
    clock = time.process_time if N_THREADS == 1 else time.perf_counter
    for _ in sys.stdin:
        started = clock()
        epoch()
        seconds = clock() - started
        print(1e3 * seconds / N_STEPS, flush=True)


def _epoch(library: str, name: str) -> Epoch:
    if library == "ours":
        from benchmarks import network_ours as module
    elif library == "torch":
        from benchmarks import network_torch as module
    else:
        from benchmarks import network_peers as module
    return module.EPOCHS[name]()


class Program:
    """A program under test, waiting in its own process; `reason` says why it cannot run."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.networks", _WORK, what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        answer = self._answer()
        self.reason = None if answer == "ready" else answer.removeprefix("skip ") or "it failed"

    def step_ms(self) -> float:
        """Train an epoch; milliseconds a step."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._answer())

    def stop(self) -> None:
        """End its process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class Measured(NamedTuple):
    """Milliseconds a step, medians; `ratio` is theirs over ours. NaN without a program of ours."""

    text: str
    other: str
    ours_ms: float
    other_ms: float
    ratio: float


def measure(line: Line, *, n_turns: int = N_TURNS) -> list[Measured]:
    """Run the programs of a line in turn."""
    programs = [Program(what) for what in (f"ours:{line.name}", *line.others)]
    try:
        for program in programs:
            if program.reason is not None:
                note(f"{program.what} is left out: {program.reason}")
        running = [program for program in programs if program.reason is None]
        if programs[0] not in running:
            return []
        turns = [[program.step_ms() for program in running] for _ in range(n_turns)]
    finally:
        for program in programs:
            program.stop()
    ours, *others = zip(*turns, strict=True)
    if not others:
        return [Measured(line.text, "-", median(ours), float("nan"), float("nan"))]
    return [
        Measured(
            line.text,
            _named(program.what),
            median(ours),
            median(theirs),
            median(b / a for a, b in zip(ours, theirs, strict=True)),
        )
        for program, theirs in zip(running[1:], others, strict=True)
    ]


def _named(what: str) -> str:
    library, _, name = what.partition(":")
    if library == "peer":
        return name
    return "torch.compile" if name.endswith("compiled") else "torch, by hand"


def print_measured(measured: Sequence[Measured]) -> None:
    """Print the table."""
    print_table(
        f"784-1200-1200-10, 128 rows a step, float32, {N_THREADS} core(s): milliseconds a step",
        ("method", "ours", "beside", "theirs", "theirs / ours"),
        [
            (m.text, f"{m.ours_ms:.1f}", m.other, f"{m.other_ms:.1f}", f"{m.ratio:.2f}")
            for m in measured
        ],
        right=(1, 3, 4),
    )


def main(names: Sequence[str]) -> None:
    """Measure the lines named, all by default."""
    measured = []
    for line in LINES:
        if not names or line.name in names:
            note(f"{line.text} ...")
            measured += measure(line)
    print_measured(measured)


if __name__ == "__main__":
    if sys.argv[1:2] == [_WORK]:
        work(sys.argv[2])
    else:
        main(sys.argv[1:])

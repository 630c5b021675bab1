"""`python -m benchmarks.mesh`: a training step over a mesh of devices, its time and its traffic.

The devices are eight virtual ones of the processor, which share its cores: what a step over them
loses there is what partitioning costs; what it gains only real devices show. Traffic is read off
the compiled program, and stands beside the model on paper: the gradients, summed once a step.
"""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

_N_DEVICES = 8
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={_N_DEVICES}"
)

import jax  # noqa: E402  (devices are counted when it is imported)
import numpy as np  # noqa: E402

from bayesprop import catalogue  # noqa: E402
from bayesprop.cli.console import print_table  # noqa: E402
from bayesprop.model.task import Classes  # noqa: E402
from bayesprop.numerics import loops  # noqa: E402
from bayesprop.numerics.filling import device_rows  # noqa: E402
from bayesprop.numerics.loops import partitioned_by_xla  # noqa: E402
from bayesprop.numerics.rows import Rows  # noqa: E402
from benchmarks.problems import best_seconds  # noqa: E402

_N_INPUTS, _N_CLASSES, _SIZES = 784, 10, (400, 400)
_N_ROWS, _BATCH, _EPOCHS = 8192, 1024, 3
_METHODS = ("network", "bayes-by-backprop", "closed-form-vi")
_NUMBERS = re.compile(r"f32\[([\d,]*)\]")


def program(name: str, rows: Rows) -> tuple[Any, Any]:
    """Return an epoch of a method's training, of the state, and the state at the start."""
    estimator = catalogue.make(name, task="classification", hidden_layer_sizes=_SIZES)
    method = estimator.build_method(Classes(np.arange(_N_CLASSES)), _N_INPUTS)
    gradient = method.gradient
    key = jax.random.key(0)
    run = partial(loops.epoch, gradient.update, key=key, data=rows, batch_size=_BATCH)
    return run, method.start(0).network


def megabytes_summed(compiled: str) -> float:
    """Return the size of all float32 arrays that a compiled program sums over devices."""
    size = 0
    for line in compiled.splitlines():
        head, is_sum, _ = line.partition(" all-reduce(")
        if is_sum and "=" in head:
            shapes = _NUMBERS.findall(head.split("=", 1)[1])
            size += sum(int(np.prod([int(n) for n in shape.split(",") if n])) for shape in shapes)
    return 4e-6 * size


def over(n_devices: int) -> AbstractContextManager[Any]:
    """Return the mesh of so many devices, to be put in force."""
    return nullcontext() if n_devices == 1 else jax.set_mesh(jax.make_mesh((n_devices,), ("rows",)))


def milliseconds(run: Any, state: Any) -> float:
    """Return the time of a step, least of some epochs."""
    jax.block_until_ready(run(state=state))
    seconds = best_seconds(lambda: jax.block_until_ready(run(state=state)), n_runs=_EPOCHS)
    return 1e3 * seconds * _BATCH / _N_ROWS


def main() -> None:
    """Measure every method on one device and on all of them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((_N_ROWS, _N_INPUTS))
    rows = device_rows(Rows(x, rng.integers(0, _N_CLASSES, _N_ROWS)), _N_ROWS)
    lines = []
    for name in _METHODS:
        run, state = program(name, rows)
        step = {}
        for n_devices in (1, _N_DEVICES):
            with over(n_devices), partitioned_by_xla():
                step[n_devices] = milliseconds(run, state)
                text = run.func.lower(*run.args, **run.keywords, state=state).compile().as_text()
        weights = 4e-6 * sum(np.size(leaf) for leaf in jax.tree.leaves(state))
        figures = *step.values(), weights, megabytes_summed(text)
        lines.append([name, *(f"{figure:.3g}" for figure in figures)])
    columns = ["method", "ms, 1 device", f"ms, {_N_DEVICES}", "state, MB", "summed, MB a step"]
    title = f"a step of {_BATCH} rows, {_N_INPUTS}-400-400-{_N_CLASSES}"
    print_table(title, columns, lines, right=range(1, 5))


if __name__ == "__main__":
    main()

"""A table that comes in blocks: one block is the table in memory, and of many every row is met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayesprop import BayesByBackpropRegressor, ClosedFormVIClassifier, ClosedFormVIRegressor
from bayesprop.estimators.stored import write_state
from bayesprop.model.method import LearnsParts, Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import training as engine
from bayesprop.tabular_default.method import ClassEnsemble, NetworkEnsemble

N = 120  # of which each of four folds leaves whole batches
SETTABLE = {
    "n_inputs": 2,
    "hidden_layer_sizes": (5,),
    "n_epochs": 8,
    "n_members": 4,
    "batch_size": 10,
    "learns_processes": False,
    "are_exchangeable": True,
    "step_size": 0.01,
}
NUMBERS = NetworkEnsemble(**SETTABLE, n_outputs=1)
CLASSES = ClassEnsemble(**SETTABLE, n_classes=3, order=(2, 0, 1))


def made(n: int = N, *, of_classes: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 2))
    y = np.sin(2.0 * x[:, :1]) + 0.3 * rng.standard_normal((n, 1))
    return Rows(x, np.arange(n) % 3 if of_classes else y)


def in_blocks(rows: Rows, n_blocks: int = 1) -> Parts:
    """Return rows as a table whose sample is the first block."""
    blocks = [
        Rows(rows.x[at], rows.y[at], group=None if rows.group is None else at)
        for at in np.array_split(np.arange(len(rows.x)), n_blocks)
    ]
    n = len(rows.x)
    return Parts(blocks[0]._replace(group=None), n, float(n), n_blocks, lambda: iter(blocks))


def arrays_of(method, learned) -> dict[str, np.ndarray]:
    return write_state(method, learned.state).arrays


def same(method, one, other) -> None:
    arrays = arrays_of(method, one)
    assert arrays.keys() == arrays_of(method, other).keys()
    for name, array in arrays_of(method, other).items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


@pytest.mark.parametrize("method", [NUMBERS, CLASSES], ids=["numbers", "classes"])
def test_one_block_is_the_table_in_memory(method, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine, "_ORDERED_AT_A_TIME", 1)  # an epoch in a piece, as in a block
    rows = made(of_classes=method is CLASSES)
    alone = None if method is NUMBERS else np.arange(N)
    whole = method.fit(rows._replace(group=alone), np.random.RandomState(0), SILENT)
    parts = in_blocks(rows._replace(group=np.arange(N)))
    same(method, whole, method.fit_parts(parts, np.random.RandomState(0), SILENT))


def test_every_member_meets_every_row_of_many_blocks(monkeypatch: pytest.MonkeyPatch):
    met: dict[int, set[float]] = {}

    def advance(work, rules, x, y, weight, order, size, first_step, losses):
        del rules, y, weight, first_step
        assert len(order) == size * len(losses)
        losses[:] = 0.0
        if x.shape[1] == 2:  # not of the companion, which is given ramps and takes fewer steps
            met.setdefault(id(work), set()).update(x[order, 0].tolist())

    monkeypatch.setattr(engine, "OF_NUMBERS", engine.OF_NUMBERS._replace(advance=advance))
    rows, method = made(3001), replace(NUMBERS, n_epochs=1)
    learned = method.fit_parts(in_blocks(rows, 43), np.random.RandomState(0), SILENT)
    assert learned.report.n_rows == 3001
    assert learned.n_iter == 301 + 42
    assert len(met) == 4
    assert all(values == set(rows.x[:, 0].astype(np.float32)) for values in met.values())


@pytest.mark.parametrize(
    "estimator",
    [
        ClosedFormVIRegressor(n_epochs=4, kl_warm_up=2.0),
        ClosedFormVIClassifier(n_epochs=4),
        BayesByBackpropRegressor(n_epochs=4),
    ],
    ids=lambda one: type(one).__name__,
)
def test_epochs_on_one_block_are_those_in_memory(estimator):
    rows = made(of_classes="Classifier" in type(estimator).__name__)
    target = rows.y if rows.y.ndim == 1 else rows.y[:, 0]
    method: Any = estimator.fit(rows.x, target).fitted_.method
    assert issubclass(type(method), LearnsParts)
    whole = method.fit(rows, np.random.RandomState(0), SILENT)
    blocks = method.fit_parts(in_blocks(rows), np.random.RandomState(0), SILENT)
    same(method, whole, blocks)
    assert blocks.report.trace == whole.report.trace


def test_a_block_stands_for_all_rows_and_all_are_met():
    rows = made(600)
    method: Any = ClosedFormVIRegressor(n_epochs=2).fit(rows.x, rows.y[:, 0]).fitted_.method
    learned = method.fit_parts(in_blocks(rows, 5), np.random.RandomState(0), SILENT)
    assert (learned.report.n_rows, learned.report.n_epochs) == (600, 5)
    assert (learned.report.n_updates, learned.n_iter) == (5 * 4, 5)  # of 120 rows, 32 a step


def test_blocks_end_in_time():
    progress = Progress(deadline=0.0)
    rows = made(600)
    method: Any = ClosedFormVIRegressor(n_epochs=2).fit(rows.x, rows.y[:, 0]).fitted_.method
    learned = method.fit_parts(in_blocks(rows, 5), np.random.RandomState(0), progress)
    assert learned.report.n_rows == 120
    assert "120 of 600 rows in 1 epochs" in progress.cuts[0]

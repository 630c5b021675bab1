"""The runner: nothing lost to a kill, nothing done twice, failures recorded and tried again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import slow_cells
from slow_cells import CELLS, NAME, Config

from bayesprop.experiments import protocol, rows
from bayesprop.experiments.protocol import Selection

SECONDS = 0.04


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / f"{NAME}.jsonl"


def start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, slow_cells.__file__, str(folder), str(SECONDS)],
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_rows(file: Path, n: int) -> None:
    deadline = time.monotonic() + 30.0
    while not file.exists() or file.read_bytes().count(b"\n") < n:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def assert_each_cell_once(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert Counter(line["cell"]["number"] for line in lines) == Counter(range(len(CELLS)))
    assert all(line["result"]["square"] == line["cell"]["number"] ** 2 for line in lines)


def test_kill_and_resume(tmp_path, file):
    for n_rows in (1, 4, 7):
        process = start(tmp_path)
        wait_for_rows(file, n_rows)
        time.sleep(random.uniform(0.0, SECONDS))
        process.kill()
        process.communicate()
        kept = file.read_bytes()
        assert len(rows.read(file)) >= n_rows
    resumed = slow_cells.run(tmp_path, Config(seconds=SECONDS))
    assert file.read_bytes().startswith(kept)
    assert_each_cell_once(file)
    assert [row.cell["number"] for row in resumed] == list(range(len(CELLS)))


def test_two_runs_at_once(tmp_path, file):
    processes = [start(tmp_path) for _ in range(2)]
    told = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert_each_cell_once(file)
    assert sum("waiting for another run" in text for text in told) <= 1
    assert any("12 of 12 cells done before" in text for text in told)


def test_a_finished_run_does_nothing(tmp_path, file):
    first = slow_cells.run(tmp_path, Config())
    content = file.read_bytes()
    assert slow_cells.run(tmp_path, Config()) == first
    assert file.read_bytes() == content


def test_other_settings_are_other_cells(tmp_path, file):
    slow_cells.run(tmp_path, Config())
    slow_cells.run(tmp_path, Config(seconds=0.001))
    assert len(rows.done(rows.read(file))) == 2 * len(CELLS)


@pytest.mark.parametrize("torn", [b'{"experiment":"slow","cell":{"numb', b"\0\0\0\0", b"\xff"])
def test_a_torn_last_line_is_cut_off(tmp_path, file, torn):
    slow_cells.run(tmp_path, Config())
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + torn)
    assert len(rows.read(file)) == len(CELLS) - 1
    slow_cells.run(tmp_path, Config())
    assert_each_cell_once(file)


def test_a_damaged_line_is_an_error(tmp_path, file):
    slow_cells.run(tmp_path, Config())
    file.write_bytes(b"{}\n" + file.read_bytes())
    with pytest.raises(rows.RowsError, match=r"slow.jsonl, line 1, is not a row") as caught:
        slow_cells.run(tmp_path, Config())
    assert "\n" not in str(caught.value)


def test_a_failed_cell_is_recorded_and_tried_again(tmp_path, file):
    broken = tmp_path / "broken"
    broken.touch()
    config = Config(broken=str(broken))
    attempted = slow_cells.run(tmp_path, config)
    failed = [row for row in attempted if not row.is_done]
    assert [row.cell["number"] for row in failed] == [0, 5, 10]
    assert {row.error for row in failed} == {"ArithmeticError: a cell that fails"}
    with pytest.raises(protocol.CellsFailed, match=r"^3 of 12 cells .* first 0: Arithmetic"):
        protocol.check_all_done(attempted)
    broken.unlink()
    told: list[str] = []
    assert slow_cells.run(tmp_path, config, told.append) == attempted
    assert told == [
        "slow: 9 of 12 cells done before, 3 failed before (--retry-failed tries them again)"
    ]
    again = slow_cells.run(tmp_path, config, retry_failed=True)
    protocol.check_all_done(again)
    assert [row for row in again if row.cell["number"] % 5] == [r for r in attempted if r.is_done]
    assert len(rows.read(file)) == len(CELLS) + 3
    assert len(rows.done(rows.read(file))) == len(CELLS)


def test_a_full_disk_leaves_whole_lines(tmp_path, file, monkeypatch):
    slow_cells.run(tmp_path, Config())
    content, write = file.read_bytes(), os.write
    monkeypatch.setattr(rows.os, "write", lambda handle, line: write(handle, line[:20]))
    with pytest.raises(OSError, match=r"No space left.*slow\.jsonl"):
        slow_cells.run(tmp_path, Config(seconds=0.001))
    assert file.read_bytes() == content


def test_a_row_says_where_it_comes_from(tmp_path):
    row = slow_cells.run(tmp_path, Config())[3]
    assert row.experiment == NAME
    assert row.config == {"seed": 1, "seconds": 0.0, "broken": None}
    assert row.result == {"square": 9, "undefined": None, "thread": row.result["thread"]}
    assert row.python == ".".join(map(str, sys.version_info[:3]))
    assert row.peak_mib > 10.0
    assert row.seconds < 5.0


def test_progress_counts_and_estimates(tmp_path):
    told = []
    slow_cells.run(tmp_path, Config(seconds=0.01), told.append)
    assert told[0] == "slow: 0 of 12 cells done before, time left unknown"
    assert told[-1].startswith("slow: 12 of 12 cells, about 0 s left (")


def test_cells_run_on_a_dask_cluster(tmp_path, file):
    distributed = pytest.importorskip("distributed")
    import joblib

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        found = slow_cells.run(tmp_path, Config())
    assert_each_cell_once(file)
    assert all("Dask" in row.result["thread"] for row in found)


def test_unknown_parts_are_named():
    experiment = replace(slow_cells.EXPERIMENT, parts=lambda config: ("a", str(config.seed)))
    config = experiment.settings(seed=3)
    assert experiment.select(config) == Selection(["a", "3"])
    assert experiment.select(config, ["3"], quick=True) == Selection(["3"], named=True, quick=True)
    with pytest.raises(protocol.NothingToRun, match=r"no part 'c' .* there are a, 3"):
        experiment.select(config, ["c"])

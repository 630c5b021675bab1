"""The runner: nothing lost to a kill, nothing done twice, failures recorded and tried again."""

from __future__ import annotations

import base64
import csv
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import slow_cells
from slow_cells import CELLS, NAME, Config

from papers import rows, runner
from papers.protocol import Cell

SECONDS = 0.04


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / f"{NAME}.jsonl"


def start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, slow_cells.__file__, str(folder), str(SECONDS)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": slow_cells.PYTHONPATH},
    )


def assert_each_cell_once(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert Counter(line["cell"]["number"] for line in lines) == Counter(range(len(CELLS)))
    assert all(line["result"]["square"] == line["cell"]["number"] ** 2 for line in lines)


def test_two_runs_at_once(tmp_path, file):
    processes = [start(tmp_path) for _ in range(2)]
    told = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert_each_cell_once(file)
    assert sum("waiting for another run" in text for text in told) <= 1
    assert any("12 of 12 cells done before" in text for text in told)


def test_the_summary_is_of_the_settings_asked_for(tmp_path):
    experiment = replace(
        slow_cells.EXPERIMENT,
        section=lambda found: f"## Seeds\n\n{sorted({row.config['seed'] for row in found})}",
    )
    for seed in (1, 2, 1):
        runner.run(experiment, out=tmp_path, seed=seed, jobs=2)
        assert (tmp_path / "slow.md").read_text().endswith(f"[{seed}]")
    table = list(csv.DictReader((tmp_path / "slow.csv").read_text().splitlines()))
    assert len(table) == 2 * len(CELLS)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda key: {"found": {1, 2}}, "not JSON serializable"),
        (lambda key: sys.exit("enough"), "SystemExit: enough"),
        (Mock(side_effect=ValueError("caf\udce9")), "ValueError: caf\udce9"),
        (lambda key: key.update(more=1) or {}, None),
    ],
)
def test_a_cell_has_its_row_whatever_happens(tmp_path, file, work, message):
    experiment = replace(slow_cells.EXPERIMENT, work=lambda config, key: work(key))
    (row,) = runner.run_cells(experiment, Config(), CELLS[:1], out=tmp_path)
    assert row.cell == CELLS[0].key
    assert row == rows.read(file)[0]
    assert row.is_done if message is None else message in row.error


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
    with pytest.raises(runner.CellsFailed, match=r"^3 of 12 cells .* first 0: Arithmetic"):
        runner.check_all_done(attempted)
    broken.unlink()
    told: list[str] = []
    assert slow_cells.run(tmp_path, config, told.append) == attempted
    failures = "3 failed before (--retry-failed tries them again)"
    assert told == [f"slow: 9 of 12 cells done before, {failures}"]
    again = slow_cells.run(tmp_path, config, retry_failed=True)
    runner.check_all_done(again)
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
    assert row.config == vars(Config())
    assert row.result == {"square": 9, "undefined": None, "process": os.getpid()}
    assert row.python == ".".join(map(str, sys.version_info[:3]))
    assert row.peak_mib > 10.0
    assert row.seconds < 5.0


def test_a_lone_cell_has_no_neighbour(tmp_path):
    cells = [Cell({"number": n}, alone=n % 3 == 0) for n in range(7)]
    times = {}

    def work(config, key):
        begin = time.perf_counter()
        time.sleep(0.02)
        times[key["number"]] = (begin, time.perf_counter())
        return {}

    experiment = replace(slow_cells.EXPERIMENT, work=work)
    runner.run_cells(experiment, Config(), cells, out=tmp_path, jobs=3)
    for lone in (0, 3, 6):
        begin, end = times.pop(lone)
        assert all(b >= end or e <= begin for b, e in times.values())


def test_what_is_left_beside_the_rows(tmp_path):
    broken = tmp_path / "broken"
    broken.touch()

    def draw(found, stem):
        stem.with_suffix(".svg").write_text(f"<svg>{len(found)}</svg>")

    def section(found):
        return (
            "## Squares of 1 < 2\n\n![a <picture>](slow.svg)\n\n![none](other.svg)\n\n"
            "| a | b |\n| --- | ---: |\n| 1 | **2** |\n\n[here](page.md) and "
            "[there](https://x.org) <script>alert(1)</script>"
        )

    def work(config, key):
        return slow_cells.square(config, key) | {"deep": {"er": 1.5}, "curve": [1, 2]}

    experiment = replace(slow_cells.EXPERIMENT, draw=draw, section=section, work=work)
    experiment = replace(experiment, quick={"broken": str(broken), "n": 6})
    with pytest.raises(runner.CellsFailed):
        runner.run(experiment, out=tmp_path, quick=True)
    table = list(csv.DictReader((tmp_path / "slow.csv").read_text().splitlines()))
    assert [row["cell.number"] for row in table] == ["0", "5", "1", "2", "3", "4"]
    assert table[0]["error"] == "ArithmeticError: a cell that fails"
    assert (table[5]["result.square"], table[5]["result.deep.er"]) == ("16", "1.5")
    assert table[5]["config.broken"] == str(broken)
    assert not any("curve" in name for name in table[0])
    page = (tmp_path / "slow.html").read_text()
    assert "img-src data:" in page
    assert page.count("<img") == 1
    picture = base64.b64decode(page.partition("data:image/svg+xml;base64,")[2].partition('"')[0])
    assert picture == (tmp_path / "slow.svg").read_bytes()
    assert picture.endswith(b">4</svg>")
    for part in (
        "<h1>Squares of 1 &lt; 2</h1>", 'alt="a &lt;picture&gt;"', "here and ",
        '<td style="text-align:right"><strong>2</strong></td>',
        '<a href="https://x.org">there</a>', "4 with a result, 2 failed",
    ):  # fmt: skip
        assert part in page
    assert page.count("<script") == 1, "that of every page"


def test_a_cell_keeps_its_files_beside_the_rows_or_where_the_machine_can(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told = []

    def work(config, key, scratch):
        scratch.tell(f"in {scratch.folder.name}")
        (scratch.folder / "kept").touch()
        return {}

    for folder in ("rows", "nowhere"):
        (tmp_path / "rows").mkdir(exist_ok=True)
        row = runner.Attempt("slow", work, Config(), tmp_path / folder)({"number": 0}, told.append)
        assert row.is_done, row.error
    shared = f"bayesprop-{os.getuid()}"
    assert told == ["in rows", f"in {shared}"]
    assert (tmp_path / shared / "kept").exists()
    experiment = replace(slow_cells.EXPERIMENT, work=work, scratch=True)
    runner.run_cells(experiment, Config(), CELLS[:1], out=tmp_path / "out", tell=told.append)
    assert told[-2:-1] == ["in out"]
    assert (tmp_path / "out" / "kept").exists()

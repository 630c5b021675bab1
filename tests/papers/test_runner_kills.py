"""kill -9 at random moments of a quick run: no row is lost, none is done twice."""

from __future__ import annotations

import multiprocessing
import random
import time

import slow_cells

from papers import rows

N_KILLS, N_CELLS, SECONDS = 10, 120, 0.01


def test_ten_kills_lose_nothing_and_double_nothing(tmp_path):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["slow_cells", "papers.experiment_page"])

    def started(folder, n=N_CELLS):
        arguments = (str(folder), n, SECONDS)
        process = processes.Process(target=slow_cells.reproduce, args=arguments)
        process.start()
        return process

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = started(whole)
    process.join()
    file, counts = killed / "slow.jsonl", [0]
    kept = b""
    for _ in range(N_KILLS):
        process = started(killed)
        wait_for_rows(file, counts[-1] + random.randint(0, 5))
        time.sleep(random.uniform(0.0, 2.0 * SECONDS))
        process.kill()
        process.join()
        content = file.read_bytes() if file.exists() else b""
        assert content.startswith(kept)
        kept = content[: content.rfind(b"\n") + 1]
        counts.append(kept.count(b"\n"))
    assert 0 < counts[-1] < N_CELLS
    process = started(killed)
    process.join()
    assert process.exitcode == 0
    first, second = (rows.read(folder / "slow.jsonl") for folder in (whole, killed))
    assert file.read_bytes().startswith(kept)
    assert results(first) == results(second)
    assert len(first) == len(second) == N_CELLS
    assert (whole / "slow.md").read_text() == (killed / "slow.md").read_text()


def wait_for_rows(file, n):
    deadline = time.monotonic() + 30.0
    while n > 0 and (not file.exists() or file.read_bytes().count(b"\n") < n):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def results(found):
    return {row.identity: row.result["square"] for row in found}

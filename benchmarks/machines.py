"""Processes of Dask on this machine: a scheduler and workers, which may be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Machines:
    """A scheduler and its address; workers are added one by one, without a nanny.

    paths
        Where the workers look for modules.
    """

    def __init__(self, folder: Path, paths: Iterable[str] = sys.path, allowed_failures: int = 3):
        self._folder, self._file = folder, folder / "scheduler.json"
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
        }
        self.workers: list[subprocess.Popen] = []
        how = ("--host", "127.0.0.1", "--port", "0", "--no-show", "--scheduler-file", self._file)
        self._scheduler = self._start("scheduler", *how)
        deadline, text = time.monotonic() + 60.0, ""
        while not text.endswith("}"):  # there, and whole
            assert time.monotonic() < deadline
            time.sleep(0.02)
            text = self._file.read_text().strip() if self._file.exists() else ""
        self.address = json.loads(text)["address"]

    def add_worker(self, *how: str) -> None:
        """Start a worker of one thread; `how`: further options, "--nanny" among them."""
        how = ("--nthreads", "1", "--local-directory", str(self._folder), *(how or ("--no-nanny",)))
        self.workers.append(self._start("worker", self.address, *how))

    def _start(self, kind: str, *words: Any) -> subprocess.Popen:
        log = (self._folder / f"{kind}-{len(self.workers)}.log").open("w")
        command = [sys.executable, "-m", "dask", kind, "--no-dashboard", *map(str, words)]
        with log:
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)

    def kill_scheduler(self) -> None:
        """Kill it as `kill -9` does."""
        self._scheduler.kill()
        self._scheduler.wait()

    def stop(self) -> None:
        """End everything: a nanny ends its worker when it is asked to."""
        for process in self.workers:
            process.terminate()
        for process in self.workers:
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.kill_scheduler()

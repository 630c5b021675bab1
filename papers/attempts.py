"""One attempt at one cell, here or on another machine: its row, whatever happens."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bayesprop import __version__
from papers import peak_memory
from papers import rows as row_files
from papers.cells import Key, Progress, Scratch, Work, silent
from papers.rows import Row


@dataclass(frozen=True)
class Attempt:
    """What all attempts at the cells of a run share.

    name
        Of the experiment.
    folder
        Of the rows, if the work keeps files; a machine that does not have it uses a folder of its
        own, which all experiments share.
    """

    name: str
    work: Work
    config: Any
    folder: Path | None

    def __call__(self, key: Key, tell: Progress = silent) -> Row:
        """Do the work of one cell; an error becomes the row's."""
        result, error = None, None
        started = time.perf_counter()
        with peak_memory.watched() as peak:
            try:
                result = row_files.plain(self._work(dict(key), tell))
                row_files.text(result)
            except (Exception, SystemExit) as failure:
                result, error = None, row_files.one_line(failure)
        return self.row(
            key, result, error, seconds=time.perf_counter() - started, peak_mib=peak.mib
        )

    def _work(self, key: Key, tell: Progress) -> dict[str, Any]:
        if self.folder is None:
            return self.work(self.config, key)
        folder = self.folder
        if not folder.is_dir():
            folder = Path(tempfile.gettempdir()) / f"bayesprop-{os.getuid()}"
            folder.mkdir(mode=0o700, exist_ok=True)
        return self.work(self.config, key, Scratch(folder, tell))

    def row(
        self,
        key: Key,
        result: dict[str, Any] | None,
        error: str | None,
        *,
        seconds: float,
        peak_mib: float,
    ) -> Row:
        """Return a row of this process and this moment."""
        return Row(
            experiment=self.name,
            cell=row_files.plain(key),
            config=row_files.settings(self.config),
            result=result,
            error=error,
            seconds=round(seconds, 4),
            peak_mib=peak_mib,
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
            version=__version__,
            commit=_commit(),
            python=platform.python_version(),
            numpy=np.__version__,
            jax=metadata.version("jax"),
        )


def version() -> str:
    """Name the version of this package, for another process to ask."""
    return __version__


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """Name the commit of this file's checkout; None where git does not keep this file."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], **_QUIET)
        told = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=12"], **_QUIET)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None


_QUIET: dict[str, Any] = {
    "check": True,
    "capture_output": True,
    "text": True,
    "timeout": 20,
    "env": os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
}

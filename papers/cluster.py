"""Cells on a Dask cluster: other machines work, this process alone writes rows.

Not through joblib's Dask backend: a cell that takes its workers with it (out of memory, say) ends
there in an error that joblib 1.6 never hears of, and the run would wait for ever.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from bayesprop import __version__
from papers import rows as row_files
from papers.attempts import Attempt, version
from papers.cells import Cell, Progress
from papers.rows import Row

_CONNECT_SECONDS, _WORKER_SECONDS, _LOOK_SECONDS, _PAUSE_SECONDS = 10.0, 30.0, 5.0, 0.02
_ENDED = ("finished", "error", "cancelled")


class NoCluster(ValueError):
    """The cluster cannot be used; the message is one line."""


class ClusterLost(RuntimeError):
    """The scheduler went away in mid-run; the message is one line."""


class Cluster:
    """The workers of a scheduler; one that dies is survived, and its cells run elsewhere.

    A cell whose workers have died four times (the scheduler's `allowed-failures` and one) fails.
    """

    def __init__(self, client: Any, address: str, tell: Progress) -> None:
        self._client, self._address, self._tell = client, address, tell
        self._counted = 1

    def count(self) -> int:
        """Count the cells that can run at a time, now; when last heard of if nobody answers."""
        with suppress(OSError):
            self._counted = sum(self._client.nthreads().values())
        return self._counted

    def rows(self, attempt: Attempt, cells: Sequence[Cell]) -> Generator[Row]:
        """Give rows in the order in which they end; closing it cancels the rest."""
        keys = {}
        for cell in cells:
            name = f"{attempt.name}-{uuid4().hex}"
            keys[self._client.submit(attempt, cell.key, key=name, pure=False)] = cell.key
        looked = time.monotonic()
        try:
            while keys:
                # Asked, not told: a result that is lost with its worker is no longer finished.
                ended = [future for future in keys if future.status in _ENDED]
                for future in ended:
                    row = self._row(attempt, keys[future], future)
                    if row is not None:
                        del keys[future]
                        yield row
                if ended:
                    looked = time.monotonic()
                elif time.monotonic() - looked > _LOOK_SECONDS:
                    self._look()
                    looked = time.monotonic()
                else:
                    time.sleep(_PAUSE_SECONDS)
        finally:
            with suppress(Exception):  # of a scheduler that is gone
                self._client.cancel(list(keys))

    def _row(self, attempt: Attempt, key: dict[str, Any], future: Any) -> Row | None:
        """Return the row of a cell, made here if its workers could not; None if it was lost."""
        try:
            return self._checked(attempt, future.result(timeout=_LOOK_SECONDS))
        except TimeoutError:
            self._look()
            return None
        except (Exception, CancelledError) as error:
            if future.status != "error":
                raise self._lost() from error
            told = row_files.one_line(error)
            return attempt.row(key, None, told, seconds=0.0, peak_mib=0.0)

    def _checked(self, attempt: Attempt, row: Row) -> Row:
        """Refuse what a worker of another version made, which joined when the others had begun."""
        if row.version == __version__:
            return row
        told = f"a worker has bayesprop {row.version}: install {__version__} there as it is here"
        return attempt.row(row.cell, None, told, seconds=row.seconds, peak_mib=row.peak_mib)

    def _look(self) -> None:
        """Say that nobody works; raise ClusterLost where there is no scheduler any more."""
        if self._client.status not in ("running", "connecting"):
            raise self._lost()
        if not self.count():
            self._tell(f"no worker is left: waiting for one (dask worker {self._address})")

    def _lost(self) -> ClusterLost:
        return ClusterLost(
            f"the scheduler at {self._address} is gone; the same command goes on where it stopped"
        )


@contextmanager
def connected(address: str, tell: Progress) -> Iterator[Cluster]:
    """Connect to a scheduler whose workers can do what this process does.

    Raises NoCluster where Dask is not installed, nobody answers, there is no worker, or a worker
    has another version of this package.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise NoCluster("--cluster needs Dask: pip install 'dask[distributed]'") from error
    try:
        if not re.search(r":\d+$", address):  # Dask would look for a scheduler for ever
            raise ValueError("an address without a port")
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False, name="bayesprop")
    except (OSError, ValueError) as error:
        raise NoCluster(
            f"no Dask scheduler answers at {address!r} (dask scheduler starts one; its address "
            "reads tcp://HOST:8786)"
        ) from error
    with client:
        _await_workers(client, address)
        yield Cluster(client, address, tell)


def _await_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError as error:
        raise NoCluster(
            f"the scheduler at {address} has no worker: start one with dask worker {address}"
        ) from error
    for worker, found in client.run(version, on_error="return").items():
        if found != __version__:
            said = row_files.one_line(found) if isinstance(found, Exception) else f"has {found}"
            raise NoCluster(
                f"worker {worker} {said}: install bayesprop {__version__} there as it is here"
            )

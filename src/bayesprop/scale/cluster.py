"""Where jobs run: here, by an executor, or on the workers of a Dask cluster, which hold rows."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from bayesprop import __version__
from bayesprop.table.errors import one_line

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as FutureOfDask


Job: TypeAlias = "Future | FutureOfDask"
Pool: TypeAlias = "Executor | Client"

CONNECT_SECONDS, WORKER_SECONDS, CLOSE_SECONDS = 10.0, 30.0, 2.0


class NoCluster(ValueError):
    """The cluster cannot be used; the message is one line."""


@contextmanager
def connected(address: str, afterwards: str) -> Iterator[Client]:
    """Connect to a Dask scheduler whose workers have this version; NoCluster in one line.

    afterwards
        What to do where the scheduler is lost, in words.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise NoCluster("a cluster needs Dask: pip install 'dask[distributed]'") from error
    try:
        if not re.search(r":\d+$", address):  # Dask would look for a scheduler for ever
            raise ValueError("an address without a port")
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="bayesprop")
    except (OSError, ValueError) as error:
        raise NoCluster(
            f"no Dask scheduler answers at {address!r} (dask scheduler starts one; its address "
            "reads tcp://HOST:8786)"
        ) from error
    log = logging.getLogger("distributed.client")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what is lost is said in a line
    try:
        _check_workers(client, address)
        yield client
    except (OSError, CancelledError) as lost:
        if getattr(lost, "filename", None) is not None:
            raise  # of a file here, not of the cluster
        raise NoCluster(f"the scheduler at {address} is gone; {afterwards}") from lost
    except KilledWorker as error:
        raise NoCluster(
            f"the workers at {address} died one after another of one job: give them more memory"
        ) from error
    finally:
        with suppress(OSError, RuntimeError):  # of a client whose scheduler has died
            client.close(CLOSE_SECONDS)
        log.setLevel(level)


def _check_workers(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        raise NoCluster(
            f"the scheduler at {address} has no worker: start one with dask worker {address}"
        ) from error
    answers: Any = client.run(version, on_error="return")
    for worker, theirs in answers.items():
        has_died = isinstance(theirs, OSError)  # just now: its jobs run elsewhere
        if theirs != __version__ and not has_died:
            raise NoCluster(
                f"worker {worker} answers {theirs}: it must have bayesprop {__version__}, as it is "
                "here"
            )


def version() -> str:
    """Name the version of the package, for another process to ask."""
    return __version__


class Workers:
    """Runs jobs, whose arguments may be the futures of other jobs.

    executor
        A client of `dask.distributed`; anything else with `submit`, as `concurrent.futures` has
        it; None: this thread.
    """

    def __init__(self, executor: Pool | None) -> None:
        self.executor = executor
        self.are_of_dask = hasattr(executor, "get_executor")

    def submit(self, job: Callable, *arguments: Any) -> Job:
        """Run a job on any free worker; return its future."""
        if self.executor is None:
            return _at_once(job, arguments)
        if not self.are_of_dask:
            return self.executor.submit(job, *map(_value, arguments))
        with warnings.catch_warnings():
            # Rows of this process travel with a job, not by `scatter`: what is scattered to a
            # worker that dies is lost, and a job runs again.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.executor.submit(job, *arguments, pure=False)

    def beside_rows(self, job: Callable, *arguments: Any) -> Job:
        """Run a job where its rows are: on a worker that then holds the result, or here."""
        return self.submit(job, *arguments) if self.are_of_dask else _at_once(job, arguments)


def results(jobs: Iterable[Job], numbers: Iterable[int]) -> list:
    """Wait for the jobs of some shards; ValueError names the shard whose rows cannot be used."""
    values = []
    for number, job in zip(numbers, jobs, strict=True):
        error = job.exception()
        if isinstance(error, ValueError | TypeError | OSError):
            raise ValueError(f"shard {number}: {one_line(str(error))}") from error
        values.append(job.result())
    return values


def _value(argument: Any) -> Any:
    return argument.result() if isinstance(argument, Future) else argument


def _at_once(job: Callable, arguments: Sequence) -> Future:
    """Do a job when it is handed in; it fails where what it needs has failed."""
    done = Future()
    try:
        done.set_result(job(*map(_value, arguments)))
    except Exception as error:
        done.set_exception(error)
    return done

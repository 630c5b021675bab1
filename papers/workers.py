"""Who does the work: threads of this process."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from typing import Protocol, cast

from papers.attempts import Attempt
from papers.cells import Cell, Progress
from papers.rows import Row


class Workers(Protocol):
    """What turns cells into rows."""

    def count(self) -> int:
        """Count the cells that can run at a time."""
        ...

    def rows(self, attempt: Attempt, cells: Sequence[Cell]) -> Generator[Row]:
        """Give rows in the order in which they end; closing the generator cancels the rest."""
        ...


class Threads:
    """Cells at a time in this process, through joblib: the numerical libraries release the lock.

    jobs
        Cells at a time; -1 for one a core.
    """

    def __init__(self, jobs: int, tell: Progress) -> None:
        self._jobs, self._tell = jobs, tell

    def count(self) -> int:
        """Count the cells that run at a time."""
        from joblib import effective_n_jobs

        return effective_n_jobs(self._jobs)

    def rows(self, attempt: Attempt, cells: Sequence[Cell]) -> Generator[Row]:
        """Give rows in the order in which they end."""
        if not cells:
            return
        from joblib import Parallel, delayed

        run = Parallel(n_jobs=self._jobs, backend="threading", return_as="generator_unordered")
        arriving = cast(
            Generator[Row], run(delayed(attempt)(cell.key, self._tell) for cell in cells)
        )
        try:
            # `yield from` would close it before the warning is silenced.
            for row in arriving:  # noqa: UP028
                yield row
        finally:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "[0-9]+ tasks")  # cancelled: they run later
                arriving.close()

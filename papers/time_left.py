"""How far a run is, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median

from papers.cells import Cell, Progress, described, kind
from papers.rows import Row


class Clock:
    """Says after every cell how far the run is and how long the rest may take.

    A cell is expected to take as long as the others of its kind, also those of earlier runs; before
    there are any, as long as its cost says at the rate of all cells that have ended.
    """

    def __init__(
        self,
        name: str,
        cells: Mapping[str, Cell],
        *,
        left: Iterable[str],
        earlier: Mapping[str, Row],
        n_workers: Callable[[], int],
        tell: Progress,
    ) -> None:
        self._name, self._cells, self._tell = name, cells, tell
        self._left = dict.fromkeys(left)
        self._n_workers = n_workers
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        self._total = self._cost = 0.0
        for row in earlier.values():
            if row.identity in cells:
                self._note(row)

    def start(self, n_failed: int) -> None:
        """Say what was done before."""
        done = len(self._cells) - len(self._left) - n_failed
        failed = f", {n_failed} failed before (--retry-failed tries them again)" if n_failed else ""
        left = f", {self._estimate()}" if self._left else ""
        self._tell(f"{self._name}: {done} of {len(self._cells)} cells done before{failed}{left}")

    def tick(self, row: Row) -> None:
        """Count one more cell."""
        self._left.pop(row.identity, None)
        if row.is_done:
            self._note(row)
        how = "" if row.is_done else " FAILED"
        n = len(self._cells) - len(self._left)
        self._tell(
            f"{self._name}: {n} of {len(self._cells)} cells, {self._estimate()} "
            f"({described(row.cell)}{how})"
        )

    def seconds_left(self) -> float | None:
        """Return the expected time, s; None before any cell has ended."""
        if not self._cost:
            return None
        together, alone = [0.0], 0.0
        for name in self._left:
            cell = self._cells[name]
            if cell.alone:
                alone += self._expected(cell)
            else:
                together.append(self._expected(cell))
        return alone + max(max(together), sum(together) / max(1, self._n_workers()))

    def _note(self, row: Row) -> None:
        cell = self._cells[row.identity]
        self._total += row.seconds
        self._cost += cell.cost
        self._seconds.setdefault(kind(cell.key), []).append(row.seconds)

    def _expected(self, cell: Cell) -> float:
        alike = self._seconds.get(kind(cell.key))
        return median(alike) if alike else cell.cost * self._total / self._cost

    def _estimate(self) -> str:
        seconds = self.seconds_left()
        return "time left unknown" if seconds is None else f"about {_duration(seconds)} left"


def _duration(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5970.0 else f"{seconds / 3600.0:.1f} h"

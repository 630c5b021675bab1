"""How a command shows how far it is: a bar in a terminal, elsewhere a line now and then.

Nothing is shown of what is done sooner.
"""

from __future__ import annotations

import math
import sys
import time
from threading import Event, Thread
from typing import Self

BAR_AFTER, LINE_EVERY = 2.0, 10.0
"""Seconds before there is a bar, and between lines."""
_FRAME = 0.1
_WIDE, _BAR, _SMALL_BAR = 80, 20, 8  # columns


class Display:
    """Follows one computation from a thread of its own, on stderr."""

    def __init__(self, text: str, deadline: float = math.inf) -> None:
        self.text = text
        self._started, self._deadline = time.monotonic(), deadline
        self._share, self._where = 0.0, ""
        self._done = Event()
        self._thread = Thread(target=self._bar if sys.stderr.isatty() else self._lines, daemon=True)

    def show(self, share: float, where: str) -> None:
        """Take note of the share that is done, which never falls, and of where that is."""
        self._share, self._where = max(self._share, share), where

    def __enter__(self) -> Self:
        """Begin to follow."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""
        self._done.set()
        self._thread.join()

    @property
    def words(self) -> str:
        """Percent, seconds so far and left, and where: "42 %, 12 s, 16 s left, epoch 3"."""
        share, elapsed = self._share, time.monotonic() - self._started
        parts = [duration(elapsed)]
        if share > 0.0:
            left = min(elapsed * (1.0 - share) / share, self._deadline - time.monotonic())
            percent = f"{100.0 * min(share, 1.0):.0f} %"
            parts = [percent, *parts, f"{duration(max(left, 0.0))} left"]
        return ", ".join([*parts, self._where] if self._where else parts)

    def _lines(self) -> None:
        while not self._done.wait(LINE_EVERY):
            print(f"{self.text}: {self.words}", file=sys.stderr, flush=True)

    def _bar(self) -> None:
        if self._done.wait(BAR_AFTER):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        console = Console(stderr=True)
        width = _BAR if console.width >= _WIDE else _SMALL_BAR
        room = console.width - width - 2  # columns have a blank between them
        before = min(len(self.text), room // 2)

        def text(name: str, width: int) -> TextColumn:
            column = Column(no_wrap=True, overflow="ellipsis", max_width=width)
            return TextColumn(f"{{task.{name}}}", markup=False, table_column=column)

        columns = (
            text("description", before),
            BarColumn(width, table_column=Column(min_width=width)),
            text("fields[words]", room - before),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(self.text, total=None, words="")
            while not self._done.wait(_FRAME):
                total = 1.0 if self._share > 0.0 else None
                bar.update(task, total=total, completed=self._share, words=self.words)


def duration(seconds: float) -> str:
    """Word a time as a person would: "12 s", "3 min", "1.5 h"."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5970.0 else f"{seconds / 3600.0:.1f} h"

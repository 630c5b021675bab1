"""What a command printed, as tests of the command lines read it."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, NamedTuple


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} in JSON")

        assert self.out.count("\n") == 1, "one object on one line"
        return json.loads(self.out, parse_constant=refuse)

    @property
    def rows(self) -> list[dict[str, str]]:
        """The table of predictions on stdout."""
        return list(csv.DictReader(io.StringIO(self.out)))

    @property
    def numbers(self) -> list[float]:
        """Every number of that table, row numbers left out."""
        return [float(cell) for row in self.rows for name, cell in row.items() if name != "row"]

    @property
    def refusal(self) -> str:
        """The one line that says what was wrong with a request."""
        assert self.code == 2, self.err
        return self.error

    @property
    def error(self) -> str:
        """The one line that a failed command prints."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]

"""What an experiment leaves beside its rows: summary, picture, flat table, one page of all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesprop.atomic import write_atomically
from papers import markdown
from papers import rows as row_files
from papers.rows import Row

if TYPE_CHECKING:
    from papers.protocol import Experiment

_PICTURES = (".svg", ".png")


def write(experiment: Experiment, out: Path, config: Any) -> None:
    """Sum up the rows of certain settings in a folder: .md, .html, pictures; .csv has all rows."""
    from papers import experiment_page

    name, every = experiment.name, row_files.read(out / f"{experiment.name}.jsonl")
    settings = row_files.settings(config)
    rows = [row for row in every if row.config == settings]
    latest = markdown.latest(rows)
    if experiment.draw is not None and latest:
        experiment.draw(latest, out / name)
    text = experiment.section(rows)
    pictures = {
        path.name: path.read_bytes()
        for path in sorted(out.glob(f"{name}*"))
        if path.suffix in _PICTURES
    }
    page = experiment_page.page(name, text, pictures, _facts(rows, latest))
    for suffix, content in ((".md", text), (".csv", flat_table(every)), (".html", page)):
        write_text(out / f"{name}{suffix}", content)


def flat_table(rows: Sequence[Row]) -> str:
    """Set the last row of every cell as CSV, lists left out.

    Columns are "cell.", "config." and "result." with the names in them, and what else a row says.
    """
    last = row_files.failed(rows) | row_files.done(rows)
    records = [dict(_flat(asdict(row) | {"result": row.result or {}})) for row in last.values()]
    columns = dict.fromkeys(name for record in records for name in record)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def _flat(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            yield f"{before}{name}", value


def _facts(rows: Sequence[Row], latest: Sequence[Row]) -> dict[str, str]:
    """Say what was run, for the end of the page."""
    if not latest:
        return {}
    newest = max(latest, key=lambda row: row.finished_at)
    versions = {f"bayesprop {row.version}, {row.commit or 'no commit'}": None for row in latest}
    failed = len(row_files.failed(rows))
    return {
        "cells": f"{len(latest)} with a result" + (f", {failed} failed" if failed else ""),
        "time": f"{sum(row.seconds for row in latest):.0f} s summed over cells",
        "last cell": newest.finished_at,
        "code": "; ".join(versions),
        "settings": ", ".join(f"{name} {value}" for name, value in newest.config.items()),
        "every cell": f"{newest.experiment}.jsonl; as a flat table, {newest.experiment}.csv",
    }


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    write_atomically(path, lambda file: file.write(text.encode()))

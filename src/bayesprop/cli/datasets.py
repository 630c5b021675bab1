"""`datasets`: list the known data sets."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from bayesprop.cli.actions import Datasets
from bayesprop.cli.console import print_json, print_table, width, wrapped
from bayesprop.datasets import registry

_WIDE = 100
"""Columns below which licences are left to --json."""


def run(options: Datasets) -> None:
    """List the data sets and where each would come from; nothing is read or fetched."""
    known = [registry.describe(name) for name in registry.names()]
    if options.as_json:
        print_json(
            {
                "datasets": [
                    asdict(data) | {"task": data.task, "source": _source(data)} for data in known
                ]
            }
        )
        return
    rows = [
        (
            data.name,
            f"{data.n}",
            f"{data.d}",
            data.target,
            f"{len(data.classes)} classes" if data.classes else data.task,
            _source(data) or "you",
            data.licence,
        )
        for data in known
    ]
    names = ("name", "n", "d", "target", "task", "from", "licence")
    shown = len(names) if (width() or _WIDE) >= _WIDE else -1
    print_table("", names[:shown], [row[:shown] for row in rows], right=(1, 2))
    where = f"the folder {registry.FOLDER_VARIABLE}, bayesprop, scikit-learn, openml.org, or you"
    print(f"\n{wrapped(f'from: {where}')}")


def _source(data: registry.DataSet) -> str | None:
    """Name the first place that has the data set; None if the user has to supply the file."""
    folder = os.environ.get(registry.FOLDER_VARIABLE)
    if data.file and folder and (Path(folder) / data.file).is_file():
        return registry.FOLDER_VARIABLE
    if data.packaged is not None:
        return "bayesprop"
    if data.bundled is not None:
        return "scikit-learn"
    return None if data.openml is None else "openml.org"

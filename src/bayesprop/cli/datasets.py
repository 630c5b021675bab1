"""`datasets`: the tables that can be named."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from bayesprop.cli.actions import Datasets
from bayesprop.cli.console import print_json, print_table
from bayesprop.datasets import registry


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
    print_table("", ("name", "n", "d", "target", "task", "from", "licence"), rows, right=(1, 2))
    print(f"\nfrom: the folder {registry.FOLDER_VARIABLE} names, scikit-learn, openml.org, or you")


def _source(data: registry.DataSet) -> str | None:
    """Name the first place that would be asked; None where the user has to supply the file."""
    folder = os.environ.get(registry.FOLDER_VARIABLE)
    if data.file and folder and (Path(folder) / data.file).is_file():
        return registry.FOLDER_VARIABLE
    if data.bundled is not None:
        return "scikit-learn"
    return None if data.openml is None else "openml.org"

"""What an experiment leaves beside its rows: the Markdown summary and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bayesprop.data.atomic import write_atomically
from bayesprop.experiments import markdown
from bayesprop.experiments import rows as row_files

if TYPE_CHECKING:
    from bayesprop.experiments.protocol import Experiment


def write(experiment: Experiment, out: Path) -> None:
    """Sum up all rows that an experiment has left in a folder."""
    stem = out / experiment.name
    rows = row_files.read(stem.with_suffix(".jsonl"))
    text = experiment.section(rows).encode()
    write_atomically(stem.with_suffix(".md"), lambda file: file.write(text))
    finished = markdown.latest(rows)
    if experiment.draw is not None and finished:
        experiment.draw(finished, stem)

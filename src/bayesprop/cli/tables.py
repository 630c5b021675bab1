"""Tables by file or name, what a model predicts for their rows, and how good that is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from bayesprop.cli.console import print_table, width
from bayesprop.table_model.plain_values import LABELS, Scores, figure
from bayesprop.table_model.refusals import InputError

_WIDE = 100
"""Columns below which scores stand without what they mean."""


def check_output(path: Path, option: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written or holds an input."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable")
    for source in inputs:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {path} would overwrite an input; choose another name")


def print_scores(
    title: str, scores: Scores, unit: str, errors: Mapping[str, float] | None = None
) -> None:
    """Print one row a metric, one column a model, and what the metric means.

    errors
        Standard errors of the model's.
    """
    rows = []
    for metric in scores["model"]:
        label, meaning = LABELS.get(metric, (metric, ""))
        model, *others = (figure(values.get(metric)) for values in scores.values())
        error = None if errors is None else errors.get(metric)
        spread = () if errors is None else ("" if error is None else figure(error, 2),)
        rows.append((label, model, *spread, *others, meaning))
    if (width() or _WIDE) < _WIDE:
        rows = [(*row[:-1], "") for row in rows]
    first, *others = scores
    names = (first, *(() if errors is None else ("± s.e.",)), *others)
    heading = f"{title} (in {unit})" if unit else title
    print_table(heading, ("", *names, ""), rows, right=range(1, 1 + len(names)))

"""The report of a fitted model: one HTML file to read, print or forward."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesprop.atomic import write_atomically
from bayesprop.report.contents import collect
from bayesprop.report.page import fill
from bayesprop.report.rows import Rows
from bayesprop.report.tasks import task_of

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

__all__ = ["Rows", "write_report"]


def write_report(
    path: str | PathLike[str],
    *,
    estimator: Any,
    encoding: TableEncoding | None,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
) -> None:
    """Judge a fitted regressor of one output, or a classifier, and write the page.

    The page appears whole or not at all.

    estimator
        Fitted: `predict_dist`, `fit_report_`, `x_scaler_` and `get_params` are used, and
        `classes_`, which makes it a classifier.
    encoding
        How the table became numbers; it groups encoded columns and names them. Without it the
        columns have the names that the estimator was fitted with, or x1, x2, ...
    train
        The rows it was fitted to: what the baselines are fitted to and the effects averaged over.
        None for a model whose training rows are gone; then the effects are those over `test`.
    test
        The rows to judge it on. None if there are no others: then it is judged on `train`, and
        the page says how little that means.
    metadata
        All optional. Text: "title", "target", "unit", "source" (name of the table), "command",
        "created"; "seed", an int, which also draws the rows of the figures; "versions", a dict of
        library versions; "remarks", sentences to put at the head of the page. "baselines" is what
        `Baselines.fit(X, y, classes).to_dict()` of `report.baselines` gave at fit time; without
        it they are fitted to `train`, and where that is None, too, "train_summary" with "y_mean"
        and "y_var" still gives a regressor's constant baseline, and the page says what is missing.
        Where its rows are pictures, "image_shape" is [height, width] or [height, width, channels],
        and "image_pixels" says which value of the picture each column is, where some were dropped.

    Raises ValueError if there are no rows, several outputs, or a prediction that is not finite;
    OSError if the file cannot be written.
    """
    task = task_of(estimator)
    contents = collect(
        task, estimator=estimator, encoding=encoding, train=train, test=test, metadata=metadata
    )
    text = fill(task, contents)
    content = text.encode("utf-8", errors="replace")
    write_atomically(Path(path), lambda file: file.write(content))

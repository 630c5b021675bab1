"""The report page of a model that knows its table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesprop.report.page import write_report
from bayesprop.table_model.notes import Notes

if TYPE_CHECKING:
    from bayesprop.store import SavedModel
    from bayesprop.table.encoding import Rows, TableEncoding


def write_page(
    path: str | Path,
    saved: SavedModel,
    encoding: TableEncoding,
    *,
    train: Rows | None,
    test: Rows | None,
    about: dict[str, Any],
    models: Mapping[str, Any] | None = None,
) -> None:
    """Write the page of a saved model, dated today; `about` goes over the notes of its fit.

    models
        Predictions of the rows to judge by, where they were made without them.
    """
    notes = Notes(saved).for_report() | {
        "versions": saved.header["versions"],
        "created": datetime.date.today().isoformat(),
    }
    write_report(
        path,
        estimator=saved.estimator,
        encoding=encoding,
        train=train,
        test=test,
        metadata=notes | about,
        models=models,
    )

"""The page that judges a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayesprop.report import class_prose
from bayesprop.report.class_contents import collect
from bayesprop.report.class_figures import MAX_BALANCED, draw
from bayesprop.report.page import fill
from bayesprop.report.unsure import Rows

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

_MODELS = {
    "model": "This model",
    "logistic": "Logistic regression",
    "constant": "Class frequencies",
}


def page(
    *,
    estimator: Any,
    encoding: TableEncoding | None,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
) -> str:
    """Judge the classifier and return the page; arguments as in `write_report`."""
    contents = collect(
        estimator=estimator, encoding=encoding, train=train, test=test, metadata=metadata
    )
    return fill(
        "classification.html",
        contents,
        draw(contents),
        prose=class_prose,
        models=_MODELS,
        max_balanced=MAX_BALANCED,
    )

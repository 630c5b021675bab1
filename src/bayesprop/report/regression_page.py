"""The page that judges a regressor of one output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayesprop.report import prose, words
from bayesprop.report.contents import ReportContents, collect
from bayesprop.report.figures import draw
from bayesprop.report.page import fill
from bayesprop.report.unsure import Rows

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

_MODELS = {"model": "This model", "linear": "Bayesian linear", "constant": "Training mean"}


def page(
    *,
    estimator: Any,
    encoding: TableEncoding | None,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
) -> str:
    """Judge the regressor and return the page; arguments as in `write_report`."""
    contents = collect(
        estimator=estimator, encoding=encoding, train=train, test=test, metadata=metadata
    )
    unsure = _unsure(contents)
    return fill(
        "regression.html", contents, draw(contents), prose=prose, models=_MODELS, unsure=unsure
    )


def _unsure(contents: ReportContents) -> list[dict[str, object]]:
    """Rows of the table, numbers with as many decimals as their interval deserves."""
    found = []
    for row in contents.unsure:
        numbers = words.alike([row.mean, row.low, row.high, row.actual], (row.high - row.low) / 3)
        mean, low, high, actual = numbers
        found.append(
            {
                "name": words.label(row.row_id, 40),
                "mean": mean,
                "low": low,
                "high": high,
                "actual": actual,
                "missed": not row.low <= row.actual <= row.high,
                "share": words.percent(row.epistemic_share),
                "unusual": row.unusual,
            }
        )
    return found

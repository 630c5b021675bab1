"""Rows made up."""

from __future__ import annotations

from typing import Any

from papers.rows import Row


def made(cell: dict[str, Any], result: dict[str, Any] | None, **fields: Any) -> Row:
    """Return a row of `pbp-table1`, unless the fields say otherwise."""
    usual: dict[str, Any] = {
        "experiment": "pbp-table1",
        "config": {"seed": 1, "n_epochs": 40},
        "error": None,
        "seconds": 2.0,
        "peak_mib": 100.0,
        "finished_at": "2026-01-02T03:04:05+00:00",
        "version": "0.1.0",
        "commit": "0123456789ab",
        "python": "3.11.0",
        "numpy": "2.0.0",
    }
    return Row(cell=cell, result=result, **usual | fields)


def row_of_today(dataset: str, method: str, split: int, **result: float | None) -> Row:
    """Return a row of `uci-today`."""
    cell = {"dataset": dataset, "method": method, "split": split}
    usual = {"coverage_90": 0.9, "fit_cpu_seconds": 1.0, "predict_cpu_seconds": 0.001}
    usual |= {"is_first": split == 0, "crps": 1.0, "rmse": 2.0, "log_likelihood": -1.0}
    return made(cell, usual | result, experiment="uci-today")

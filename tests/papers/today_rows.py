"""Rows of `uci-today`, made up."""

from __future__ import annotations

from papers.rows import Row


def row(dataset: str, method: str, split: int, **result: float | None) -> Row:
    usual = {"coverage_90": 0.9, "fit_cpu_seconds": 1.0, "predict_cpu_seconds": 0.001}
    return Row(
        "uci-today",
        {"dataset": dataset, "method": method, "split": split},
        {"seed": 1},
        usual | {"is_first": split == 0, "crps": 1.0, "rmse": 2.0, "log_likelihood": -1.0} | result,
        error=None,
        seconds=1.0,
        peak_mib=1.0,
        finished_at="2026-01-01",
        version="0",
        commit=None,
        python="3",
        numpy="2",
    )

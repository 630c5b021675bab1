"""Rows that stand in the table twice: told by hand, and set apart in the section."""

from __future__ import annotations

import numpy as np

from papers import runner, uci_default
from papers.protocol import Cell
from papers.uci import TrainTest


def test_scores_at_new_rows_stand_beside_those_at_all(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((80, 2)), 0.1 * rng.standard_normal(80)
    y = np.where(np.arange(80) < 40, x[:, 0] + noise, 7.0)  # known rows are predicted well
    data = TrainTest(x[:40], y[:40], x[20:60], y[20:60])
    monkeypatch.setattr(uci_default.uci, "train_test", lambda *_: data)
    cells = [Cell({"dataset": "wine_red", "split": 0})]
    config = uci_default.Config()
    rows = runner.run_cells(uci_default.EXPERIMENT, config, cells, out=tmp_path)
    runner.check_all_done(rows)
    result = rows[0].result
    assert result is not None
    assert result["share_again"] == 0.5
    assert result["log_likelihood_new"] < result["log_likelihood"]
    old = result["rmse"] ** 2 * 2.0 - result["rmse_new"] ** 2
    assert 0.0 < old < 0.1
    text = uci_default.section(rows)
    assert "| wine_red | 50.0% |" in text
    half = result["coverage_50"]  # two standard errors of a half among forty rows: .158
    bold = "" if abs(half - 0.5) <= 0.158 else "**"
    assert f"| wine_red | {bold}{100.0 * half:.1f} ± 15.8{bold} |" in text
    assert "at new rows" not in uci_default.section([])

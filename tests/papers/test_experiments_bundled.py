"""Methods untuned on scikit-learn's tables: the rivals' scores by hand, and the text."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold

from papers import bundled_tables, runner
from papers.bundled_tables import Config
from papers.protocol import Cell

RIDGE = "scikit-learn: BayesianRidge"


def test_scores_of_a_rival_by_hand():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    folds = KFold(5, shuffle=True, random_state=1).split(X)
    train, test = list(folds)[2]
    mean, std = X[train].mean(axis=0), X[train].std(axis=0)
    ridge = BayesianRidge().fit((X[train] - mean) / std, y[train])
    found, spread = ridge.predict((X[test] - mean) / std, return_std=True)
    cell = bundled_tables.fit_cell(Config(), {"dataset": "diabetes", "method": RIDGE, "fold": 2})
    assert cell["log_likelihood"] == pytest.approx(norm.logpdf(y[test], found, spread).mean())
    assert cell["rmse"] == pytest.approx(np.sqrt(np.mean((y[test] - found) ** 2)))


def test_constant_classifier_knows_the_shares_only():
    cell = bundled_tables.fit_cell(Config(), {"dataset": "iris", "method": "constant", "fold": 0})
    assert cell["log_likelihood"] == pytest.approx(-np.log(len(set(load_iris().target))))


def test_rows_and_text(tmp_path):
    cells = [
        Cell({"dataset": "diabetes", "method": method, "fold": fold})
        for method in ("constant", RIDGE, "pbp")
        for fold in (0, 1)
    ]
    rows = runner.run_cells(bundled_tables.EXPERIMENT, Config(), cells, out=tmp_path)
    assert [row.error for row in rows] == [None] * len(rows)
    text = bundled_tables.section(rows)
    assert text.count("| pbp |") == 1
    constant, ridge = (
        np.mean([r.result["log_likelihood"] for r in rows if r.cell["method"] == method])
        for method in ("constant", RIDGE)
    )
    assert constant < ridge

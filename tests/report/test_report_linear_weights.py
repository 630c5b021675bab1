"""The weights of a line in the report: the right number beside the right name."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier
from bayesprop.report.contents import MAX_LINES, collect, weights_of
from bayesprop.report.page import write_report
from page_reader import HOSTILE, Page, plain
from report_fakes import given, table

RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, 3)) * [1.0, 20.0, 0.1]
SLOPES = np.array([2.0, 0.0, -50.0])
Y = 7.0 + X @ SLOPES + RNG.normal(size=200)


def text_of(path, model, y, x=X):
    part = table(x, y)
    write_report(path / "r.html", collect(**given(part, None, estimator=model)))
    return plain(Page((path / "r.html").read_text()).text)


def test_weights_are_those_of_least_squares_surest_first():
    found = weights_of(BayesianLinearRegressor().fit(X, Y), ["a", HOSTILE[0], "c"])
    design = np.column_stack([np.ones(200), X])
    exact, squares, *_ = np.linalg.lstsq(design, Y, rcond=None)
    std = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * squares / 196)
    assert [line.column for line in found.lines] == ["c", "a", HOSTILE[0]]
    assert [line.is_sure for line in found.lines] == [True, True, False]
    for line, i in zip(found.lines, (3, 1, 2), strict=True):
        assert line.mean == pytest.approx(exact[i], abs=0.1 * std[i])
        # 1.645 standard deviations either side, the noise being known but for a tenth.
        assert line.high - line.low == pytest.approx(3.29 * std[i], rel=0.1)
    assert found.n_more == 0


@pytest.mark.exhaustive
def test_a_page_shows_them_and_says_what_they_mean(tmp_path):
    page = text_of(tmp_path, BayesianLinearRegressor().fit(X, Y), Y)
    assert "One more unit of a column" in page
    assert "adds its weight to the predicted strength" in page
    two = np.where(np.median(Y) > Y, "low", "high")
    page = text_of(tmp_path, BayesianLogisticClassifier().fit(X, two), two)
    assert "adds its weight to the log odds of low" in page
    three = np.array(["bottom", "middle", "top"])[np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))]
    page = text_of(tmp_path, BayesianLogisticClassifier().fit(X, three), three)
    assert "only differences between classes matter" in page


def test_every_class_has_its_own_and_the_least_sure_are_counted():
    wide = RNG.normal(size=(90, 12))
    model = BayesianLogisticClassifier().fit(wide, np.arange(90) % 3)
    found = weights_of(model, [f"column {i}" for i in range(12)])
    assert set(found.classes) == {"0", "1", "2"}
    assert len(found.lines) == MAX_LINES
    assert found.n_more == 36 - MAX_LINES


def test_a_column_may_be_called_as_the_intercept_is():
    frame = pl.DataFrame(X, schema=["intercept", "b", "c"])
    model = BayesianLinearRegressor().fit(frame, Y)
    found = weights_of(model, ["intercept", "b", "c"])
    by_name = {line.column: line.mean for line in found.lines}
    assert [by_name[n] for n in ("intercept", "c")] == pytest.approx([2.0, -50.0], rel=0.2)


def test_constant_columns_and_weights_put_out_are_shown(tmp_path):
    x = X.copy()
    x[:, 1] = 5.0
    for prior in ("evidence", "ard"):
        model = BayesianLinearRegressor(prior).fit(x, Y)
        assert len(weights_of(model, ["a", "b", "c"]).lines) == 3
    assert "One more unit" in text_of(tmp_path, model, Y, x)


def test_columns_of_a_basis_keep_their_names_and_others_have_none():
    found = weights_of(BayesianLinearRegressor(basis="polynomial").fit(X, Y), ["a", "b", "c"])
    assert "a" not in {line.column for line in found.lines}
    assert weights_of(object(), ["a"]) is None

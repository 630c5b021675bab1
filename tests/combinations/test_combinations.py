"""Every two abilities together: each situation of the table is fitted, predicted and compared."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache

import numpy as np
import polars as pl
import pytest
from covering import allowed_combinations, covering_array
from invariants import alike, check_prediction, same
from models import command, file_of, model_of, predict
from situations import BLOCK, FACTORS, FAST, REFUSED, is_good, is_refused_once, reasons

import bayesprop
from bayesprop.model import fitted
from bayesprop.model.input_model import COMPLETIONS
from bayesprop.table_model import model as table_model
from tables import LABELS, plain, rows_to_predict, typed


@cache
def factors_of(method: str) -> dict[str, tuple[str, ...]]:
    return {**FACTORS, "method": (method,)}


def good_ones(method: str) -> list[dict[str, str]]:
    return covering_array(factors_of(method), is_good)


def refused_ones(method: str) -> list[dict[str, str]]:
    good = set(allowed_combinations(factors_of(method), is_good))
    return covering_array(factors_of(method), is_refused_once, but=good)


def cases(choose) -> list:
    """Situations as parameters of a test."""
    return [pytest.param(s, id="; ".join(s.values())) for method in FAST for s in choose(method)]


@pytest.fixture(autouse=True)
def small_blocks(request, monkeypatch):
    """Predict so few rows at a time that a few rows are several blocks."""
    s = getattr(request.node, "callspec", None) and request.node.callspec.params.get("s")
    times = COMPLETIONS if s and s["gap in"] != "no block" else 1
    monkeypatch.setattr(fitted, "MOST_ROWS", BLOCK * times)
    monkeypatch.setattr(table_model, "CHUNK_ROWS", 2 * BLOCK)


def predicted(s: Mapping[str, str], folder, rows=None):
    """The prediction in a situation, and the model that made it."""
    model = model_of(s, folder)
    rows = typed(s, rows_to_predict(s), {}) if rows is None else rows
    if s["face"] == "command line":
        return by_command(s, model, rows, folder), bayesprop.load(model)
    return predict(s, model, rows), model


def by_command(s, model, rows, folder):
    """The command's predictions are those of Python, to the last bit."""
    table, out = file_of(s, rows, folder / "rows"), folder / "predicted.parquet"
    command("predict", model, table, "--allow-missing-columns", "--out", out, "--quiet")
    loaded = bayesprop.load(model)
    with warnings.catch_warnings(action="ignore"):
        ours = loaded.predict(str(table), allow_missing_columns=True)
    theirs = pl.read_parquet(out).drop("row")
    assert theirs.equals(ours), (theirs, ours)
    return predict(s, loaded, str(table))


def check(s, tmp_path):
    labels = LABELS.get(s["task"])
    rows = typed(s, rows_to_predict(s), {})
    predictive, model = predicted(s, tmp_path, rows)
    gap = np.isnan(rows_to_predict(s)).any(axis=1) | (s["missing"] == "a whole column")
    check_prediction(predictive, gap, s["task"], labels)
    fresh = s | {"stage": "fresh" if s["face"] != "command line" else "saved and loaded"}
    if s["stage"] in ("saved and loaded", "in threads", "in a fork") and s != fresh:
        same(predict(fresh, model_of(fresh, tmp_path), rows), predictive)
    if s["stage"] != "in a fork":
        rows_are_predicted_alike_in_any_company(s, model, rows, predictive)
    if plain(s) != s and s["face"] != "command line":
        other, _ = predicted(plain(s), tmp_path)
        alike(predictive, other)
    if s["face"] != "estimator":
        columns_have_names_and_no_order(s, model, rows, predictive)


def rows_are_predicted_alike_in_any_company(s, model, rows, predictive):
    backwards = np.arange(len(rows))[::-1].tolist()
    take = rows.iloc if hasattr(rows, "iloc") else rows
    alike(predict(s, model, take[backwards]), predictive[backwards])
    for k in {0, len(rows) - 1, len(rows) // 2}:
        alike(predict(s, model, take[k : k + 1]), predictive[[k]])


def columns_have_names_and_no_order(s, model, rows, predictive):
    names = list(rows.columns)[::-1]
    more = rows[names].assign(z=1.0) if hasattr(rows, "iloc") else rows[names].with_columns(z=1.0)
    alike(predict(s, model, more), predictive)


@pytest.mark.parametrize("s", cases(good_ones))
def test_every_pair(s, tmp_path):
    check(s, tmp_path)


@pytest.mark.parametrize("s", cases(refused_ones))
def test_what_cannot_be_is_refused_in_one_sentence(s, tmp_path):
    (rule,) = reasons(s, REFUSED)
    with pytest.raises((ValueError, TypeError, AttributeError), match=rule.says) as refusal:
        predicted(s, tmp_path)
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize("method", FAST)
def test_every_pair_is_covered(method):
    """By situations that have a meaning; of these, most pairs are good in one."""
    good, refused = good_ones(method), refused_ones(method)
    assert all(map(is_good, good))
    assert all(map(is_refused_once, refused))
    covered = {pair for s in (*good, *refused) for pair in pairs(s)}
    allowed = set(allowed_combinations(factors_of(method), is_good))
    allowed |= set(allowed_combinations(factors_of(method), is_refused_once))
    assert allowed <= covered
    assert len(allowed) > 850
    assert len(good) + len(refused) < 250


def pairs(s: Mapping[str, str]):
    items = list(s.items())
    return (frozenset((a, b)) for k, a in enumerate(items) for b in items[k + 1 :])

"""Every two abilities together: each situation is fitted, predicted and compared."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache

import numpy as np
import polars as pl
import pytest
from covering import allowed_combinations, covering_array
from invariants import alike, check_prediction
from models import command, figures, file_of, model_of, predict
from situations import (
    BLOCK,
    FACTORS,
    FAMILIES,
    REFUSED,
    WITHOUT_JAX,
    has,
    is_good,
    is_refused_once,
    reasons,
)

import bayesprop
from bayesprop.catalogue import METHODS
from bayesprop.distributions.gaussian_copula import COMPLETIONS
from bayesprop.model import task as of_task
from bayesprop.model.method import Streams
from method_settings import silently
from tables import LABELS, plain, rows_to_predict, typed


class Arrays:
    """Situations that cover the pairs of a method; of several, also each with every other value.

    allowed, refused
        Pairs that some situation holds which is good, and which is refused for one reason.
    """

    def __init__(self, *methods: str) -> None:
        factors = FACTORS | {"method": methods}
        self.allowed = set(allowed_combinations(factors, is_good))
        self.refused = set(allowed_combinations(factors, is_refused_once))
        self.good = covering_array(factors, is_good)
        self.refused_ones = covering_array(factors, is_refused_once, but=self.allowed)


arrays = cache(Arrays)
OTHERS = tuple(method for method in METHODS if method not in (*WITHOUT_JAX, *FAMILIES))
TOGETHER = [*((method,) for method in WITHOUT_JAX), FAMILIES, OTHERS]
"""Those whose programs compile for a second take turns."""


OWN_WAYS = FACTORS | {
    "task": ("numbers", "several outputs", "censored", "many classes", "ordered classes"),
    "stage": ("fresh", "saved and loaded", "updated", "merged"),
    "dtype": ("float64", "pandas, index shuffled", "polars", "categorical"),
    "size": ("1", "block + 1", "3 blocks"),
}
"""Values that differ by more than a map of the target, a thread or a cast: triples are of these."""


def triples(*methods: str) -> list[dict[str, str]]:
    return covering_array(OWN_WAYS | {"method": methods}, is_good, 3)


TRIED = {
    "test_every_pair": lambda *methods: arrays(*methods).good,
    "test_every_triple": triples,
    "test_what_cannot_be_is_refused_in_one_sentence": lambda *methods: (
        arrays(*methods).refused_ones
    ),
}


def pytest_generate_tests(metafunc):
    """Situations of each method; `make test` lists every sixth one of those without JAX."""
    name = metafunc.function.__name__
    is_quick = metafunc.config.getoption("markexpr") == "not exhaustive"
    if name not in TRIED:
        return
    together = TOGETHER[: len(WITHOUT_JAX)] if is_quick else TOGETHER
    if name == "test_every_triple":
        together = [] if is_quick else [("default",)]
    situations = [s for methods in together for s in TRIED[name](*methods)]
    situations = situations[::6] if is_quick else situations
    metafunc.parametrize(
        "s",
        [
            pytest.param(
                s,
                id="; ".join(s.values()),
                marks=[] if s["method"] in WITHOUT_JAX else pytest.mark.exhaustive,
            )
            for s in situations
        ],
    )


@pytest.fixture(autouse=True)
def small_blocks(request, monkeypatch):
    """Predict so few rows at a time that a few rows are several blocks."""
    s = getattr(request.node, "callspec", None) and request.node.callspec.params.get("s")
    times = COMPLETIONS if s and s["gap in"] != "no block" else 1
    monkeypatch.setattr(of_task, "MOST_ROWS", BLOCK * times)
    monkeypatch.setattr("bayesprop.table_model.predict.CHUNK_ROWS", 2 * BLOCK)


def predicted(s: Mapping[str, str], folder, rows=None):
    """The prediction in a situation, and the model that made it."""
    model = model_of(s, folder)
    rows = typed(s, rows_to_predict(s)) if rows is None else rows
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
    rows = typed(s, rows_to_predict(s))
    predictive, model = predicted(s, tmp_path, rows)
    gap = np.isnan(rows_to_predict(s)).any(axis=1) | (s["missing"] == "a whole column")
    check_prediction(predictive, gap, s["task"], labels)
    stage_changes_what_it_should(s, rows, predictive, tmp_path)
    asked = s | {"stage": "fresh"}
    rows_are_predicted_alike_in_any_company(asked, model, rows, predictive)
    if plain(s) != s and s["face"] != "command line":
        other, _ = predicted(plain(s), tmp_path)
        alike(predictive, other)
    if s["face"] == "estimator":
        functions_are_drawn_at_every_row(model, rows)
    else:
        columns_have_names_and_no_order(asked, model, rows, predictive)


def stage_changes_what_it_should(s, rows, predictive, folder):
    """New rows change a prediction; files, threads and forks do not."""
    streams = has(s["method"], s["task"], Streams)
    learns = s["stage"] == "updated" or (s["stage"] == "merged" and streams)
    fresh = s | {"stage": "fresh"}
    if s["face"] != "command line":
        before = predict(fresh, model_of(fresh, folder), rows)
    elif learns:
        first = bayesprop.load(folder / "m.bayesprop")
        before = predict(fresh, first, str(next(folder.glob("rows.*"))))
    else:
        return  # the one file that predicted
    assert np.array_equal(figures(before), figures(predictive)) != learns


def rows_are_predicted_alike_in_any_company(s, model, rows, predictive):
    backwards = np.arange(len(rows))[::-1].tolist()
    take = rows.iloc if hasattr(rows, "iloc") else rows
    alike(predict(s, model, take[backwards]), predictive[backwards])
    for k in {0, len(rows) - 1, len(rows) // 2}:
        alike(predict(s, model, take[k : k + 1]), predictive[[k]])


def functions_are_drawn_at_every_row(model, rows):
    for ask in ("sample_y", "posterior_features"):
        drawn = silently(getattr(model, ask), rows) if hasattr(model, ask) else np.zeros(len(rows))
        assert len(drawn) == len(rows)
        assert np.isfinite(drawn).all()


def columns_have_names_and_no_order(s, model, rows, predictive):
    names = list(rows.columns)[::-1]
    more = rows[names].assign(z=1.0) if hasattr(rows, "iloc") else rows[names].with_columns(z=1.0)
    alike(predict(s, model, more), predictive)


def test_every_pair(s, tmp_path):
    check(s, tmp_path)


@pytest.mark.exhaustive
def test_every_triple(s, tmp_path):
    check(s, tmp_path)


def test_what_cannot_be_is_refused_in_one_sentence(s, tmp_path):
    (rule,) = reasons(s, REFUSED)
    refusals = ValueError, TypeError, AttributeError, RuntimeError
    with pytest.raises(refusals, match=rule.says) as refusal:
        predicted(s, tmp_path)
    assert len(str(refusal.value)) < 600


@pytest.mark.exhaustive
@pytest.mark.parametrize("methods", TOGETHER, ids=lambda methods: methods[0])
def test_every_pair_is_covered(methods):
    """By situations that have a meaning; of these, most pairs are good in one."""
    tried = arrays(*methods)
    assert all(map(is_good, tried.good))
    assert all(map(is_refused_once, tried.refused_ones))
    covered = {pair for s in (*tried.good, *tried.refused_ones) for pair in pairs(s)}
    allowed = tried.allowed | tried.refused
    assert allowed <= covered
    assert len(allowed) > 850
    assert len(tried.good) + len(tried.refused_ones) < 250


def pairs(s: Mapping[str, str]):
    items = list(s.items())
    return (frozenset((a, b)) for k, a in enumerate(items) for b in items[k + 1 :])

"""Active learning on the UCI sets, small: divisions, pairs of runs, the published table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_rows import made

from bayesprop.active_learning.learner import ActiveLearner
from papers import compare, pbp_active_curves, pbp_table2, uci
from papers.pbp_table2 import COLUMNS, Config

pytestmark = pytest.mark.usefixtures("uci_data")
TINY = Config(n_additions=2, n_epochs=2, n_hidden=3, n_warmup=20, n_draws=10)


def test_division():
    first, second = (pbp_table2.problem(Config(), "yacht", repeat) for repeat in (0, 1))
    known = np.concatenate([first.train, first.test])
    assert (len(first.train), len(first.test), len(set(known))) == (20, 100, 120)
    np.testing.assert_array_equal(np.flatnonzero(~first.in_pool), np.sort(known))
    assert set(first.test) != set(second.test)


def test_columns_are_made_as_the_section_says():
    made = {name: column.make(Config(), 3) for name, column in COLUMNS.items()}
    laplace, once, chains = made["laplace"], made["laplace-once"], made["mcmc"]
    assert (laplace.structure, laplace.activation) == ("diagonal", "erf")
    assert (once.structure, once.n_rounds) == ("diagonal", 1)
    assert chains.n_chains * chains.n_draws == 500
    eight = made["hmc-eight"]
    assert (eight.sampler, eight.n_chains, eight.n_draws, eight.n_warmup) == ("hmc", 8, 1000, 500)
    assert eight.weight_precision == eight.noise_prior == chains.weight_precision
    assert (made["pbp"].n_epochs, made["batch-ep-sparse"].relevance) == (40, True)
    for name, column in COLUMNS.items():
        if name != pbp_table2.RIDGE:
            assert (made[name].hidden_layer_sizes, made[name].random_state) == ((10,), 3)
        assert f"{column.anchor}_r" in compare.anchors("pbp_table2.csv")["yacht"]


def test_active_asks_where_the_variance_is_largest():
    """The run by hand, with fits and choices of its own."""
    key = {"dataset": "yacht", "method": "pbp", "collection": "active", "repeat": 3}
    found = pbp_table2.fit_cell(TINY, key)["rmse"]
    data = pbp_table2.problem(TINY, "yacht", 3)
    train, pool = list(data.train), np.flatnonzero(data.in_pool)
    for error in found:
        model = COLUMNS["pbp"].make(TINY, uci.cell_seed(1, 3, 1)).fit(data.X[train], data.y[train])
        off = model.predict(data.X[data.test]) - data.y[data.test]
        assert error == pytest.approx(np.sqrt(np.mean(off**2)))
        row = pool[np.argmax(model.predict(data.X[pool], return_std=True)[1])]
        train.append(row)
        pool = pool[pool != row]


def test_curves_take_the_runs_of_the_table(reproduce, tmp_path):
    table, curves = (reproduce(name, "yacht") for name in ("pbp-table2", "pbp-active-curves"))
    assert [replace(row, experiment=pbp_active_curves.NAME) for row in table] == curves
    assert len(table) == 4
    starts = {(row.cell["repeat"], row.result["rmse"][0]) for row in table}
    assert len(starts) == 2  # both collections start alike
    text = (tmp_path / "pbp-table2.md").read_text()
    assert "| yacht | 2 | 5.388±0.339 |" in text


def test_active_collection_is_held_against_the_words_of_the_paper():
    """Pairs in closed form: gains of 1 ± 1, so that n pairs are sqrt(n - 1) standard errors."""
    table = [
        made(
            {"dataset": dataset, "method": "pbp", "collection": collection, "repeat": repeat},
            {"rmse": [9.0, 5.0 - gain * (1 + (-1) ** repeat) * (collection == "active")]},
        )
        for dataset, gain, n in (("yacht", 1, 4), ("energy", 1, 10), ("naval", -1, 10))
        for repeat in range(n)
        for collection in ("active", "random")
    ]
    expected = {"energy": 3.0, "naval": -3.0, "yacht": 3.0**0.5}
    assert pbp_table2.gains(table, "pbp") == pytest.approx(expected)
    text = pbp_table2.section(table)
    assert "two standard errors or more on energy, and more on naval. Of the paper's four" in text
    assert "that is energy (gains in standard errors: energy +3.0, yacht +1.7)" in text


def test_the_last_random_table_is_that_of_every_column():
    data, seed = pbp_table2.problem(TINY, "yacht", 3), uci.cell_seed(1, 3, 1)
    learner = ActiveLearner(COLUMNS["pbp"].make(TINY, seed), "random", random_state=seed)
    rows, left = data.train.tolist(), data.in_pool.copy()
    learner.teach(data.X[rows], data.y[rows])
    for _ in range(TINY.n_additions):
        row = learner.query(data.X, allowed=left).indices
        left[row] = False
        rows += row.tolist()
        learner.teach(data.X[row], data.y[row])
    assert pbp_table2.random_rows(data, TINY, seed) == rows


def test_chains_are_counted_that_disagree():
    """Two repeats of eight chains beside two chains and the control, of the same repeats alone."""
    key = {"dataset": "yacht", "collection": "random"}
    table = [
        made(key | {"method": method, "repeat": repeat}, result)
        for repeat in range(3)
        for method, result in (
            ("mcmc", {"rmse": [9.0, 2.0 + repeat]}),
            ("ridge", {"rmse": [9.0, 5.0 + 2 * repeat]}),
            ("hmc-eight", {"rmse": [1.5], "r_hat": 1.004 + repeat, "r_hat_predictions": 1.001,
                           "least_ess": 400.0 - repeat, "n_divergent": 3.0}),
        )
        if repeat < 2 or method != "hmc-eight"
    ]  # fmt: skip
    text = pbp_table2.section(table)
    assert (
        "2 of 360 fits to the tables that random collection ends with are run; in 1 R-hat" in text
    )
    errors = "1.5 | 2.500 ± 0.500 | 6.000 ± 1.000 | 4.644±0.237"
    assert f"| yacht | 2 | 2.004 | 1.001 | 399 | 6 | {errors} |" in text
    assert "less than the column HMC on none, and more on yacht 6.9" in text

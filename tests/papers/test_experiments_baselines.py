"""The tuned baselines: one datum a step, by hand; searches go on; tables of a small set."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprop.numerics import loops
from papers import pbp_deep_baselines, pbp_table1_baselines, tuned_network
from papers.protocol import NothingToRun, Scratch, silent
from papers.tuned_network import Network, Rows, Trial

SETTINGS = {"learning_rate": 0.05, "momentum": 0.6, "weight_decay": 0.3}


def line(n, method="bp", n_epochs=1):
    """Rows of a line, and a network without hidden units."""
    x = np.linspace(-1.0, 1.0, n)[:, None]
    return Rows(x, 2.0 * x), Network(method, (1, 1), n_epochs, n_draws=10)


def test_an_epoch_of_backpropagation_by_hand(monkeypatch):
    """v <- momentum v - step (dE/dw + decay w), E = (y - f)² / 2, rows in order."""
    monkeypatch.setattr(
        loops, "permutation", lambda _key, _n, n_slots: jnp.arange(n_slots, dtype=int)
    )
    rows, network = line(5)
    start = Network("bp", (1, 1), 0, 1).fit(rows, SETTINGS, 3)
    w, v = np.array(start.params.weights[0], float)[:, 0], np.zeros(2)
    for x, y in zip(rows.x[:, 0], rows.y[:, 0], strict=True):
        slope = (w @ [x, 1.0] - y) * np.array([x, 1.0])
        v = SETTINGS["momentum"] * v - SETTINGS["learning_rate"] * (
            slope + SETTINGS["weight_decay"] * w
        )
        w = w + v
    jax.clear_caches()
    fitted = network.fit(rows, SETTINGS, 3)
    jax.clear_caches()
    assert np.asarray(fitted.params.weights[0])[:, 0] == pytest.approx(w, rel=1e-5)


def test_vi_starts_narrow_or_as_wide_as_its_means():
    rows, _ = line(5)
    settings = {"learning_rate": 0.01, "momentum": 0.5}
    narrow, wide = (
        Network(method, (1, 3, 1), 0, 1).fit(rows, settings, 0) for method in ("vi", "vi-wide")
    )
    assert [
        float(jax.nn.softplus(rho[0, 0])) for rho in narrow.params.weights.rho
    ] == pytest.approx([0.05] * 2)
    stds = [float(jax.nn.softplus(rho[0, 0])) for rho in wide.params.weights.rho]
    assert stds == pytest.approx([1 / math.sqrt(2.0), 1 / 2.0], rel=1e-5)
    assert float(wide.params.likelihood[0]) == 0.0
    quarter = Network("vi-rmse", (1, 3, 1), 0, 1).fit(rows, settings, 0)
    stds = [float(jax.nn.softplus(rho[0, 0])) for rho in quarter.params.weights.rho]
    assert stds == pytest.approx([0.25 / math.sqrt(2.0), 0.125], rel=1e-5)


@pytest.mark.parametrize("method", ["bp", "vi-rmse", "vi"])
def test_trials_are_scored_by_rmse_or_by_log_likelihood(method):
    rows, network = line(30, method, n_epochs=3)
    settings, seeds = SETTINGS | {"learning_rate": 1e-3}, [0, 1, 2]
    loss = tuned_network.validation_loss(network, rows, rows, settings, seeds)
    state = network.fit(rows, settings, 1)
    found = network.predict(state, rows.x, 2, noise_var=1.0)
    off = found.mean - rows.y[:, 0]
    by_hand = np.log(np.mean(off**2)) / 2.0
    assert loss == pytest.approx(
        by_hand if method != "vi" else -np.mean(found.log_prob(rows.y[:, 0]))
    )


def test_settings_that_diverge_on_all_rows_give_way_to_the_next():
    rows, network = line(20, n_epochs=20)
    wild = {"learning_rate": 1e6, "momentum": 0.5, "weight_decay": 0.0}
    good = wild | {"learning_rate": 1e-2}
    trials = [Trial(wild, -2.0), Trial(good, -1.0)]
    fit, n_diverged = tuned_network.first_finite(network, rows, trials, 0)
    assert (n_diverged, tuned_network.is_finite(fit)) == (1, True)
    with pytest.raises(ValueError, match="all settings that were tried diverge"):
        tuned_network.first_finite(network, rows, trials[:1], 0)
    assert tuned_network.validation_loss(network, rows, rows, wild, [0, 0, 0]) == math.log(2.0)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("uci_data")
def test_the_tables_are_made_of_tuned_fits(reproduce, monkeypatch, tmp_path):
    few = {"quick": {"n_trials": 2}}
    rows = reproduce(replace(pbp_table1_baselines.EXPERIMENT, **few), "yacht", jobs=2)
    assert len(rows) == 2 * len(pbp_table1_baselines.METHODS)
    spread = 15.2  # of the target
    for row in rows:
        result = row.result
        assert result["rmse"] < spread
        assert result["log_likelihood"] > -math.log(spread) - 1.42  # a Gaussian at the mean
        assert (result["epistemic_share"] == 0.0) == (row.cell["method"] == "bp")
    text = (tmp_path / "pbp-table1-baselines.md").read_text()
    assert len(re.findall(r"^\| yacht \| 2 \|", text, re.M)) == 4
    assert "1.182±0.1645" in text
    assert "6.887±0.6749" in text

    # Depth 1 is taken over.
    monkeypatch.setattr(pbp_deep_baselines, "LAYERS", (1, 2))
    deep = reproduce(replace(pbp_deep_baselines.EXPERIMENT, **few), "yacht")
    before = {row.identity: row for row in rows}
    taken = [row for row in deep if row.cell["layers"] == 1]
    assert len(deep) == 4
    assert all(before[row.identity].result == row.result for row in taken)
    text = (tmp_path / "pbp-deep-baselines.md").read_text()
    assert len(re.findall(r"^\| yacht \|", text, re.M)) == 2


@pytest.mark.usefixtures("uci_data")
def test_a_killed_search_goes_on(monkeypatch, tmp_path):
    losses = []

    def loss(*_arguments):
        losses.append(0.5 + 0.01 * len(losses))
        if len(losses) == 3:
            raise KeyboardInterrupt
        return losses[-1]

    monkeypatch.setattr(tuned_network, "validation_loss", loss)
    key = {"dataset": "yacht", "split": 0, "method": "bp", "layers": 1}
    config = tuned_network.Config(n_epochs=1, n_trials=5)
    with pytest.raises(KeyboardInterrupt):
        tuned_network.fit_cell(config, key, Scratch(tmp_path, silent))
    result = tuned_network.fit_cell(config, key, Scratch(tmp_path, silent))
    assert len(losses) == 6  # the one that was killed is tried again
    assert result["validation_loss"] == 0.5
    assert 1e-5 <= result["learning_rate"] <= 0.1


def test_want_of_optuna_is_said_before_anything_runs(reproduce, monkeypatch):
    monkeypatch.setattr(tuned_network, "find_spec", lambda _name: None)
    with pytest.raises(NothingToRun, match="pip install optuna"):
        reproduce(pbp_table1_baselines.EXPERIMENT, "yacht")

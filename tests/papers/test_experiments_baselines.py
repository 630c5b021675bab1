"""Bayesian optimisation against plain facts, and the tuned baselines on a small set."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from papers import pbp_baselines, pbp_deep_baselines, tuned_network, tuning, uci
from papers.cells import Scratch, silent
from papers.protocol import NothingToRun
from papers.tuning import Range, expected_improvement, tune

SPACE = {"step": Range(1e-4, 1.0, is_log=True), "momentum": Range(0.0, 0.99)}


def bowl(settings):
    """Least at step 0.01, momentum 0.7."""
    return (math.log10(settings["step"]) + 2.0) ** 2 + 4.0 * (settings["momentum"] - 0.7) ** 2


def test_expected_improvement_is_the_mean_of_the_gain_above_zero():
    gain, std = np.array([-1.0, 0.0, 0.3, 2.0]), np.array([0.5, 1.0, 0.2, 0.1])
    draws = gain + std * np.random.default_rng(0).standard_normal((200_000, 4))
    gains = np.maximum(draws, 0.0)
    se = gains.std(axis=0) / math.sqrt(len(gains))
    assert (abs(expected_improvement(gain, std) - gains.mean(axis=0)) < 4.0 * se).all()
    assert expected_improvement(np.array([0.5, -0.5]), np.zeros(2)).tolist() == [0.5, 0.0]


def test_a_range_goes_there_and_back():
    for bounds in SPACE.values():
        assert bounds.at(0.0) == pytest.approx(bounds.low)
        assert bounds.at(1.0) == pytest.approx(bounds.high)
        assert bounds.share(bounds.at(0.3)) == pytest.approx(0.3)
    assert SPACE["step"].at(0.5) == pytest.approx(0.01)


def test_proposals_close_in_on_the_minimum():
    """Far closer than the best of as many at random, over five seeds."""
    model, random = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        model.append(
            tune(bowl, SPACE, study="bowl", storage=None, n_trials=15, seed=seed).losses[0]
        )
        points = [{n: r.at(rng.random()) for n, r in SPACE.items()} for _ in range(15)]
        random.append(min(bowl(point) for point in points))
    assert np.median(model) < 0.25 * np.median(random)


def test_a_killed_search_goes_on_as_if_nothing_had_been(tmp_path):
    """Killed within a trial: that trial alone is repeated."""
    whole = tune(bowl, SPACE, study="a", storage=None, n_trials=9, seed=3)
    calls = []

    def dies(settings):
        calls.append(settings)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return bowl(settings)

    how = {"storage": tmp_path / "killed.db", "n_trials": 9, "seed": 3}
    with pytest.raises(KeyboardInterrupt):
        tune(dies, SPACE, study="a", **how)
    resumed = tune(dies, SPACE, study="a", **how)
    assert len(calls) == 10
    assert calls[6] == calls[7]
    assert (resumed.settings, resumed.losses) == (whole.settings, whole.losses)
    assert resumed.losses == sorted(resumed.losses)
    other = tune(bowl, SPACE, study="another", **how | {"n_trials": 1, "seed": 4})
    assert len(other.losses) == 1


def test_a_flat_loss_is_searched_at_random():
    found = tune(lambda _settings: 3.0, SPACE, study="flat", storage=None, n_trials=8, seed=1)
    assert len({settings["step"] for settings in found.settings}) == 8


@pytest.fixture
def uci_data(uci_folder, monkeypatch):
    monkeypatch.setenv("BAYESPROP_DATA", str(uci_folder))
    monkeypatch.delenv(tuned_network.STORAGE, raising=False)
    uci.loaded.cache_clear()
    yield
    uci.loaded.cache_clear()


@pytest.mark.usefixtures("uci_data")
def test_the_tables_are_made_of_tuned_fits(reproduce, monkeypatch, tmp_path):
    rows = reproduce(pbp_baselines.EXPERIMENT, "yacht", jobs=2)
    assert len(rows) == 2 * len(pbp_baselines.METHODS)
    spread = 15.2  # of the target
    for row in rows:
        result = row.result
        assert result["rmse"] < 0.5 * spread
        assert result["log_likelihood"] > -math.log(spread) - 1.42  # a Gaussian at the mean
        assert (result["epistemic_share"] == 0.0) == (row.cell["method"] == "bp")
    assert (tmp_path / "tuning.optuna.sqlite3").exists()
    text = (tmp_path / "pbp-table1-baselines.md").read_text()
    assert len(re.findall(r"^\| yacht \| 2 \|", text, re.M)) == 3
    assert "1.182±0.1645" in text
    assert "6.887±0.6749" in text

    # Depth 1 is taken over, and a cell run again by hand is the same.
    monkeypatch.setattr(pbp_deep_baselines, "LAYERS", (1, 2))
    deep = reproduce(pbp_deep_baselines.EXPERIMENT, "yacht")
    before = {row.identity: row for row in rows}
    taken = [row for row in deep if row.cell["layers"] == 1]
    assert len(deep) == 4
    assert all(before[row.identity].result == row.result for row in taken)
    text = (tmp_path / "pbp-deep-baselines.md").read_text()
    assert len(re.findall(r"^\| yacht \|", text, re.M)) == 2
    row = taken[0]
    config = pbp_baselines.EXPERIMENT.settings(quick=True)
    again = tuned_network.fit_cell(config, row.cell, Scratch(tmp_path / "elsewhere", silent))
    assert again["rmse"] == pytest.approx(row.result["rmse"], rel=1e-9)


@pytest.mark.usefixtures("uci_data")
def test_settings_that_diverge_on_all_rows_give_way_to_the_next(monkeypatch, tmp_path):
    found = tuning.Tuned(
        [
            {"learning_rate": 1e6, "momentum": 0.5, "weight_decay": 0.0},
            {"learning_rate": 1e-2, "momentum": 0.5, "weight_decay": 0.0},
        ],
        [-2.0, -1.0],
        0.0,
    )
    monkeypatch.setattr(tuned_network, "tune", lambda *_args, **_how: found)
    key = {"dataset": "yacht", "split": 0, "method": "bp", "layers": 1}
    config = tuned_network.Config(n_epochs=2)
    result = tuned_network.fit_cell(config, key, Scratch(tmp_path, silent))
    assert result["settings_diverged"] == 1
    assert (result["learning_rate"], result["validation_loss"]) == (1e-2, -1.0)


def test_want_of_optuna_is_said_before_anything_runs(reproduce, monkeypatch):
    monkeypatch.setattr(tuned_network, "find_spec", lambda _name: None)
    with pytest.raises(NothingToRun, match=r"bayesprop\[tune\]"):
        reproduce(pbp_baselines.EXPERIMENT, "yacht")


@pytest.mark.parametrize("url", ["trials", "nosuch://host/trials", "sqlite:////nowhere/trials"])
def test_a_database_that_cannot_be_opened_is_refused_before_any_cell(reproduce, monkeypatch, url):
    monkeypatch.setenv(tuned_network.STORAGE, url)
    with pytest.raises(NothingToRun, match=rf"TUNING_STORAGE must be the URL.* got '{url}': "):
        reproduce(pbp_baselines.EXPERIMENT, "yacht")


def test_the_database_of_trials_can_be_named(monkeypatch, tmp_path):
    monkeypatch.delenv(tuned_network.STORAGE, raising=False)
    assert tuned_network.storage(tmp_path) == tmp_path / "tuning.optuna.sqlite3"
    monkeypatch.setenv(tuned_network.STORAGE, "postgresql://host/trials")
    assert tuned_network.storage(tmp_path) == "postgresql://host/trials"

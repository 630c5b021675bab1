"""The experiments of the paper on Bayes by Backprop, small, on scikit-learn's digits."""

from __future__ import annotations

import os
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprop.networks.mlp import init_weights
from bayesprop.numerics import loops
from bayesprop.numerics.rows import Rows
from papers import (
    bbb_curves,
    bbb_mnist,
    bbb_pruning,
    bbb_regression,
    bbb_weights,
    digit_networks,
    runner,
)
from papers.digit_networks import KINDS, Config
from papers.protocol import Scratch, silent


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run every experiment once in one folder, Table 1 first."""
    out, found, said = tmp_path_factory.mktemp("results"), {}, []
    parts = {bbb_mnist: [f"{kind}-32" for kind in KINDS if kind != "bbb-normal"]}
    for module in (bbb_mnist, bbb_curves, bbb_weights, bbb_pruning):
        how = {"quick": True, "only": parts.get(module), "tell": said.append}
        found[module] = runner.run(module.EXPERIMENT, out=out, **how)
    return out, found, said


def test_table_1(finished):
    out, found, _ = finished
    by_method = {row.cell["method"]: row.result for row in found[bbb_mnist]}
    assert set(by_method) == {*KINDS} - {"bbb-normal"}
    for result in by_method.values():
        chosen = result["best_epoch"] - 1
        assert result["validation_error"] == min(result["validation_errors"])
        assert result["test_error"] == result["test_errors"][chosen]
        assert result["n_weights"] == 65 * 32 + 33 * 32 + 33 * 10
    assert by_method["sgd"]["test_error"] < 0.4
    assert {"last_test_error_averaged"} <= set(by_method["bbb-mixture"])
    text = (out / "bbb-mnist.md").read_text("utf-8")
    assert "bbb-mixture-32" in text


def test_networks_are_trained_once(finished):
    out, _, said = finished
    trained = [line for line in said if "validation error" in line]
    assert sum("bbb-mixture-32-0" in line for line in trained) == 1
    assert len(list((out / "networks").glob("*.npz"))) == len(KINDS) - 2 + bbb_mnist.N_MEMBERS


def test_pruning_removes_the_share(finished):
    _, found, _ = finished
    (row,) = found[bbb_pruning]
    for left in row.result["pruned"]:
        removed = row.result["n_weights"] - left["n_left"]
        assert removed == round(left["share"] * row.result["n_weights"])
    errors = [left["test_error"] for left in row.result["pruned"]]
    assert errors[0] == found[bbb_curves][-1].result["test_errors"][-1]


def test_weights_are_near_zero_and_pictures_are_drawn(finished):
    out, found, _ = finished
    assert {"bbb-curves.svg", "bbb-weights.svg", "bbb-pruning.svg"} <= set(os.listdir(out))
    assert all(0.0 < row.result["near_zero"] < 1.0 for row in found[bbb_weights])


def test_training_goes_on_from_its_file(tmp_path, monkeypatch):
    config = Config(**digit_networks.QUICK | {"n_epochs": (3, 3, 3)})
    whole = digit_networks.trained(config, "bbb-normal", 32, Scratch(tmp_path / "whole", silent))
    parts_folder = tmp_path / "parts"
    monkeypatch.setattr(digit_networks, "SAVED_EVERY", 1)
    interrupted = Scratch(parts_folder, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        digit_networks.trained(config, "bbb-normal", 32, interrupted)
    monkeypatch.undo()
    parts = digit_networks.trained(config, "bbb-normal", 32, Scratch(parts_folder, silent))
    assert parts.trace["test_error"] == whole.trace["test_error"]
    for a, b in zip(jax.tree.leaves(parts.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("kind", "own", "foreign"),
    [
        ("sgd", {"momentum": 0.5}, {"bbb_step": 0.1, "narrow_std": 0.1, "units": (32, 64)}),
        ("bbb-normal", {"prior_std": 2.0}, {"sgd_step": 0.3, "share": 0.9, "n_draws": 3}),
        ("bbb-mixture", {"share": 0.9}, {"sgd_step": 0.3, "prior_std": 2.0}),
        ("bbb-mixture-local", {"share": 0.9}, {"n_samples": 3, "prior_std": 2.0}),
        ("bbb-normal-sgd", {"prior_std": 2.0}, {"kl_weights": "geometric", "share": 0.9}),
    ],
)
def test_a_network_is_trained_anew_for_its_own_settings_alone(tmp_path, kind, own, foreign):
    base = digit_networks.QUICK | {"n_epochs": (1, 1, 1)}
    for settings, n_files in ((base, 1), (base | foreign, 1), (base | own, 2)):
        digit_networks.trained(Config(**settings), kind, 32, Scratch(tmp_path, silent))
        assert len(list((tmp_path / "networks").glob("*.npz"))) == n_files


@pytest.mark.parametrize("kind", digit_networks.BY_SGD)
def test_plain_sgd_follows_the_public_recipe(kind):
    config = Config().of_kind(kind)
    assert Config().epochs_of(kind) == 600
    assert (config.n_samples, config.kl_weights, config.share) == (1, "uniform", 0.75)
    assert 0.03 <= config.init_std <= 0.05
    assert config.narrow_std == pytest.approx(np.exp(-8.0), rel=1e-6)
    # Gradients are means over a batch, and the step is 1e-3 on their sums.
    assert config.bbb_step / config.batch_size == pytest.approx(1e-3)


def test_plain_sgd_steps_are_a_tenth_from_half_of_the_epochs_on():
    config, rng = Config(**digit_networks.QUICK), np.random.default_rng(0)
    n, key = config.batch_size, jax.random.key(0)
    method = digit_networks._method(config, "bbb-normal-sgd", n)
    rows = Rows(rng.normal(size=(n, 2)).astype(np.float32), rng.integers(10, size=n), np.ones(n))
    rows = jax.tree.map(jnp.asarray, rows)
    start = method.init(key, init_weights(key, (2, 10)))
    moved = []
    for step in (0, 9, 10, 19):  # one batch an epoch, five times four epochs
        at = jax.tree.map(lambda leaf, step=step: leaf + step if leaf.ndim == 0 else leaf, start)
        after, _ = loops.epoch(method.update, at, key, rows, batch_size=n)
        moved.append(after.params.weights.m[0] - start.params.weights.m[0])
    for move, share in zip(moved, (1.0, 1.0, 0.1, 0.1), strict=True):
        np.testing.assert_allclose(move, share * moved[0], atol=1e-6)
    assert np.abs(moved[0]).min() > 1e-4


def test_regression(reproduce):
    (row,) = reproduce("bbb-regression", "bayes-by-backprop")
    assert row.result["width_inside"] > 0.0
    np.testing.assert_allclose(bbb_regression.curve(np.array([0.0, 0.25])), [0.0, 0.55], atol=1e-12)

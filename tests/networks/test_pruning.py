"""Pruning keeps the right weights: brute force over small arrays."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop.networks import pruning


@pytest.fixture
def gaussians():
    rng = np.random.default_rng(0)
    m = {"a": rng.normal(size=(5, 4)), "b": rng.normal(size=7) * 10.0}
    std = {name: rng.uniform(0.1, 2.0, w.shape) for name, w in m.items()}
    return m, std


def ratios(m, std):
    return {name: np.abs(m[name]) / std[name] for name in m}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_the_lowest_go(gaussians, share):
    masks = pruning.keep(*gaussians, share)
    r = ratios(*gaussians)
    kept = np.concatenate([r[name][masks[name]] for name in r])
    gone = np.concatenate([r[name][~masks[name]] for name in r])
    assert len(gone) == round(share * 27)
    if len(kept) and len(gone):
        assert kept.min() > gone.max()
        between = pruning.threshold(*gaussians, share)
        assert gone.max() <= between * 1.5
        assert between <= kept.min()


def test_per_layer_each_loses_its_share(gaussians):
    masks = pruning.keep(*gaussians, 0.5, per_layer=True)
    assert masks["a"].sum() == 10
    assert masks["b"].sum() == 7 - round(3.5)
    r = ratios(*gaussians)
    for name in r:
        assert r[name][masks[name]].min() > r[name][~masks[name]].max()


def test_equal_ratios_still_lose_the_exact_share():
    masks = pruning.keep((np.zeros((4, 5)),), (np.ones((4, 5)),), 0.25)
    assert (~masks[0]).sum() == 5


def test_without_variance():
    ratio = pruning.signal_to_noise((np.array([0.0, -2.0, 3.0]),), (np.array([0.0, 0.0, 1.5]),))
    np.testing.assert_array_equal(ratio[0], [0.0, np.inf, 2.0])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_other_shares_are_refused(gaussians, share):
    with pytest.raises(ValueError, match="share must be from 0 to 1"):
        pruning.keep(*gaussians, share)

"""The compiled engine equals the readable JAX form to rounding, over whole epochs."""

from __future__ import annotations

import compiled_passes
import jax
import numpy as np
import pytest

from bayesprop.moments.pbp import engine, updates
from bayesprop.moments.pbp import state as pbp_state


def problem(sizes, n, seed=0, targets="numbers"):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, sizes[0]))
    if targets == "classes":
        label = np.digitize(x[:, 0] + 0.5 * rng.normal(size=n), [0.0, 0.7, 1.5][: sizes[-1] - 1])
        label = np.where(x[:, 0] > 0.0, 1, -1) if sizes[-1] == 1 else label
        return pbp_state.init(rng, sizes, start_in_prior=True), x, label[:, None].astype(float)
    f = np.sin(x.sum(axis=1) / np.sqrt(sizes[0]))
    y = np.stack([f * (k + 1) + 0.3 * rng.normal(size=n) for k in range(sizes[-1])], axis=1)
    state = pbp_state.init(rng, sizes)
    return state, (x - x.mean(0)) / x.std(0), (y - y.mean(0)) / y.std(0)


@pytest.mark.parametrize(
    ("sizes", "inference", "targets"),
    [
        ((4, 20, 1), "adf", "numbers"),
        ((3, 7, 5, 2), "adf", "numbers"),
        ((2, 1), "adf", "numbers"),
        ((4, 10, 1), "sep", "numbers"),
        ((3, 6, 5, 4), "adf", "classes"),
        ((3, 6, 1), "sep", "classes"),
    ],
)
def test_epochs_agree(sizes, inference, targets):
    start, x, y = problem(sizes, 60, targets=targets)
    weight = np.random.default_rng(1).integers(0, 3, size=60).astype(float)
    one = other = start
    infos = [pbp_state.PBPInfo(), pbp_state.PBPInfo()]
    rule = {"inference": inference, "targets": targets}
    for epoch in range(3):
        order = np.random.default_rng(epoch).permutation(60)
        one, absorbed = updates.data_pass(one, x, y, order, weight, **rule)
        one, refreshed = updates.refresh_prior(one, targets=targets)
        infos[0] += absorbed + refreshed
        other, (info,) = compiled_passes.train(other, x, y, [order], weight, **rule)
        infos[1] += info
    assert infos[0].guards == infos[1].guards
    assert infos[0].epistemic_share == pytest.approx(infos[1].epistemic_share, rel=1e-10)
    assert infos[0].log_z == pytest.approx(infos[1].log_z, rel=1e-10)
    for name, a, b in zip(one._fields, one, other, strict=True):
        scale = max(np.abs(leaf).max(initial=0.01) for leaf in jax.tree.leaves(a))
        for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-10, atol=1e-10 * scale, err_msg=name)


def test_predictions_agree():
    state, x, _ = problem((3, 8, 6, 2), 50)
    np.testing.assert_allclose(
        updates.predict_moments(state, x), engine.predict_moments(state, x), rtol=1e-11
    )

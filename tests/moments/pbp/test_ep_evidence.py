"""Evidence estimates where the truth is known: linear models with known noise and prior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesprop.moments.pbp import ep_evidence, updates
from bayesprop.moments.pbp import state as pbp_state
from bayesprop.moments.pbp.state import GammaPrior

KNOWN = 1e7  # with 1e10 the normalisers of the noise cancel to five digits
NOISE, PRIOR = 0.4, 1.7


def fitted(x, y, n_epochs: int):
    state = pbp_state.init(
        np.random.default_rng(0),
        (x.shape[1], 1),
        weight_prior=GammaPrior(KNOWN, KNOWN * PRIOR),
        noise_prior=GammaPrior(KNOWN, KNOWN * NOISE),
    )
    first = None
    for _ in range(n_epochs):
        state, info = updates.data_pass(state, x, y, np.arange(len(x)), inference="sep")
        first = first or info.log_z
    return state, first


def exact_log_evidence(x, y):
    design = np.column_stack([x, np.ones(len(x))]) / np.sqrt(x.shape[1] + 1)
    cov = NOISE * np.eye(len(x)) + PRIOR * design @ design.T
    return stats.multivariate_normal(np.zeros(len(x)), cov).logpdf(y[:, 0])


def test_both_estimates_are_exact_for_one_weight():
    x, y = np.zeros((10, 0)), np.random.default_rng(1).normal(0.7, 0.6, size=(10, 1))
    state, prequential = fitted(x, y, n_epochs=200)
    exact = exact_log_evidence(x, y)
    assert prequential == pytest.approx(exact, rel=1e-7)
    estimate = ep_evidence.ep_log_evidence(state, x, y)
    assert estimate == pytest.approx(exact, rel=1e-4)  # 2e-5 without fused products


def test_estimates_err_little_where_the_weights_hardly_correlate():
    rng = np.random.default_rng(2)
    design = np.linalg.qr(np.column_stack([np.ones(60), rng.normal(size=(60, 3))]))[0] * np.sqrt(60)
    x = design[:, 1:] * np.sign(design[0, 0])
    y = (x @ [[0.5], [-0.3], [0.8]]) + np.sqrt(NOISE) * rng.normal(size=(60, 1))
    state, prequential = fitted(x, y, n_epochs=300)
    exact = exact_log_evidence(x, y)
    estimate = ep_evidence.ep_log_evidence(state, x, y)
    assert prequential == pytest.approx(exact, abs=1.0)
    assert estimate == pytest.approx(exact, abs=1.0)


def test_an_improper_division_is_nan():
    x, y = np.zeros((4, 0)), np.ones((4, 1))
    state, _ = fitted(x, y, n_epochs=3)
    broken = state._replace(lik_prec=(state.lik_prec[0] + 100.0,))
    assert np.isnan(ep_evidence.ep_log_evidence(broken, x, y))

"""Laplace's approximation of the toolbox: slopes, evidence and variances from explicit matrices."""

from __future__ import annotations

import numpy as np
import pytest

from papers.toolbox_laplace import ToolboxLaplace, linearise


@pytest.fixture
def wave():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return X, 3.0 + 5.0 * np.sin(X[:, 0]) + rng.normal(size=40)


def fitted(wave, *, is_diagonal):
    return ToolboxLaplace((4,), is_diagonal=is_diagonal, n_epochs=5000, random_state=0).fit(*wave)


def test_slopes_are_those_of_finite_differences():
    rng = np.random.default_rng(1)
    w, x, h = rng.normal(size=3 * 4 + 5), rng.normal(size=(6, 2)), 1e-6
    by_hand = [
        (linearise(w + h * e, x, 4)[0] - linearise(w - h * e, x, 4)[0]) / (2 * h)
        for e in np.eye(len(w))
    ]
    np.testing.assert_allclose(linearise(w, x, 4)[1], np.transpose(by_hand), atol=1e-8)


@pytest.mark.parametrize("is_diagonal", [False, True])
def test_ends_where_evidence_and_gradient_agree(wave, is_diagonal):
    """MacKay's gamma = p - 2 alpha tr A^-1, from the inverse; no gradient is left."""
    X, y = wave
    model = fitted(wave, is_diagonal=is_diagonal)
    (beta, alpha), w = model.precisions_, model.mode_.w
    f, slopes = linearise(w, (X - X.mean(0)) / X.std(0), 4)
    off = f - (y - y.mean()) / y.std()
    squares = slopes.T @ slopes
    squares = np.diag(np.diag(squares)) if is_diagonal else squares
    inverse = np.linalg.inv(2.0 * beta * squares + 2.0 * alpha * np.eye(len(w)))
    gamma = len(w) - 2.0 * alpha * np.trace(inverse)
    assert beta * off @ slopes + alpha * w == pytest.approx(np.zeros(len(w)), abs=1e-3)
    assert 2.0 * alpha * w @ w == pytest.approx(gamma, rel=1e-2)
    assert 2.0 * beta * off @ off == pytest.approx(len(y) - gamma, rel=1e-2)
    found = model.predict_dist(X)
    by_hand = np.sum(slopes @ inverse * slopes, axis=1) * y.var()
    np.testing.assert_allclose(found.epistemic_var, by_hand, rtol=1e-6)
    np.testing.assert_allclose(found.noise_var, y.var() / (2.0 * beta))

"""Linear regression against dense Gaussian conditioning, scikit-learn, and its own invariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, stats

from bayesprop.linear import regression, sums
from bayesprop.linear.regression import NoisePrior
from bayesprop.numerics.evidence import FIXED, Groups


def table(n=40, d=4, o=2, seed=0):
    rng = np.random.default_rng(seed)
    phi = np.hstack([np.ones((n, 1)), rng.normal(1.0, 2.0, (n, d)) @ rng.normal(size=(d, d))])
    y = phi @ rng.normal(size=(d + 1, o)) + np.array([0.5, 2.0])[:o] * rng.normal(size=(n, o))
    weight = rng.uniform(0.2, 3.0, n)
    return phi, y, weight


PREC = np.array([0.01, 1.0, 2.0, 0.5, 4.0])
NOISE = np.array([0.3, 3.0])


def fitted(phi, y, weight=None):
    return sums.update(sums.init(phi.shape[1], y.shape[1]), phi, y, weight)


def known_noise(state, prec, noise_var):
    """The posterior where nothing is to be found."""
    nothing = Groups(np.full(len(prec), FIXED))
    return regression.maximise(state, prec, nothing, noise_var=noise_var).posterior


def dense(phi, y, weight, prec, noise_var, rows):
    """Condition the joint Gaussian of y and f(rows), whose covariance is Phi P^-1 Phi'."""
    among = phi @ np.diag(1.0 / prec) @ phi.T + np.diag(noise_var / weight)
    across = rows @ np.diag(1.0 / prec) @ phi.T
    gain = linalg.solve(among, across.T, assume_a="pos").T
    var = np.diag(rows @ np.diag(1.0 / prec) @ rows.T - gain @ across.T)
    return gain @ y, var, stats.multivariate_normal(cov=among).logpdf(y)


@pytest.mark.parametrize("weighted", [False, True])
def test_known_noise_is_the_conditional_of_the_joint_gaussian(weighted):
    phi, y, weight = table()
    weight = weight if weighted else np.ones(len(phi))
    rows = table(seed=1)[0][:7]
    found = known_noise(fitted(phi, y, weight), PREC, NOISE)
    means, variances = regression.predict(found, rows)
    for o in range(2):
        mean, var, evidence = dense(phi, y[:, o], weight, PREC, NOISE[o], rows)
        np.testing.assert_allclose(means[:, o], mean, rtol=1e-8)
        np.testing.assert_allclose(variances[:, o], var, rtol=1e-8)
        # A weight multiplies the log-likelihood: N(y; f, v)^w is N(y; f, v / w) but for a constant.
        log_v = np.log(2 * np.pi * NOISE[o])
        evidence += 0.5 * np.sum((1 - weight) * log_v - np.log(weight))
        assert found.log_evidence[o] == pytest.approx(evidence, abs=1e-8)


def test_conjugate_is_the_conditional_of_the_joint_student_t():
    phi, y, _ = table(o=1)
    rows, (shape, rate) = table(seed=1)[0][:5], (1.5, 0.7)
    found = regression.conjugate(fitted(phi, y), PREC[None], NoisePrior(shape, rate))
    means, variances = regression.predict(found, rows)
    among = phi @ np.diag(1.0 / PREC) @ phi.T + np.eye(len(phi))
    joint = stats.multivariate_t(shape=rate / shape * among, df=2 * shape)
    assert found.log_evidence[0] == pytest.approx(joint.logpdf(y[:, 0]), abs=1e-8)
    # Conditioning a t: the location is the Gaussian's, the scale grows with the misfit.
    mean, var, _ = dense(phi, y[:, 0], np.ones(len(phi)), PREC, 1.0, rows)
    misfit = y[:, 0] @ linalg.solve(among, y[:, 0])
    dof = 2 * shape + len(y)
    scale2 = (2 * rate + misfit) / dof * (1.0 + var)
    np.testing.assert_allclose(means[:, 0], mean, rtol=1e-8)
    total = variances[:, 0] + found.noise_var
    np.testing.assert_allclose(total, scale2 * dof / (dof - 2), rtol=1e-8)
    assert found.dof == dof


def test_draws_have_the_posteriors_moments():
    phi, y, _ = table(o=1)
    found = regression.conjugate(fitted(phi, y), PREC[None], NoisePrior(1.5, 0.7))
    n = 40_000
    weights, noise_var = regression.sample(np.random.RandomState(0), found, n)
    w = weights[:, 0]
    cov = found.root[0] @ found.root[0].T
    assert (np.abs(w.mean(axis=0) - found.mean[0]) < 4 * np.sqrt(np.diag(cov) / n)).all()
    np.testing.assert_allclose(np.cov(w.T), cov, atol=5 * np.diag(cov).max() / np.sqrt(n))
    se = noise_var.std() / np.sqrt(n)
    assert abs(noise_var.mean() - found.noise_var[0]) < 4 * se


def everything(state):
    found = regression.conjugate(state, np.stack([PREC, PREC]), NoisePrior(2.0, 1.0))
    cov = found.root @ found.root.transpose(0, 2, 1)
    return np.concatenate([a.ravel() for a in (found.mean, cov, found.log_evidence)])


def test_order_and_batching_do_not_matter():
    phi, y, weight = table(n=60)
    whole = everything(fitted(phi, y, weight))
    rng = np.random.default_rng(5)
    for sizes in ([60], [1] * 60, [1, 0, 29, 30]):
        order, state = rng.permutation(60), sums.init(5, 2)
        for part in np.split(order, np.cumsum(sizes)[:-1]):
            state = sums.update(state, phi[part], y[part], weight[part])
        np.testing.assert_allclose(everything(state), whole, rtol=1e-10, atol=1e-10)


def test_no_rows_leave_the_prior():
    found = known_noise(sums.init(5), PREC, np.array([0.3]))
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_allclose(found.root[0] @ found.root[0].T, np.diag(1 / PREC), atol=1e-15)
    assert found.log_evidence[0] == pytest.approx(0.0, abs=1e-12)


def test_a_column_far_from_zero_costs_no_digits():
    """Normal equations would leave nothing of the slope: the offset squared is 1e12."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 1))
    y = 3.0 * x + 0.1 * rng.normal(size=x.shape)
    prec = np.array([1e-18, 1.0])
    near = fitted(np.hstack([np.ones_like(x), x]), y)
    far = fitted(np.hstack([np.ones_like(x), x + 1e6]), y)
    slopes = [known_noise(s, prec, np.array([0.01])).mean[0, 1] for s in (near, far)]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-6)


@pytest.mark.parametrize("case", ["more columns", "collinear", "constant", "one row"])
def test_degenerate_tables_have_the_dense_answer(case):
    n = {"more columns": 3, "one row": 1}.get(case)
    phi, y = (part[:n] for part in table(o=1)[:2])
    phi[:, 2] = phi[:, 1] if case == "collinear" else phi[:, 2]
    phi[:, 3] *= case != "constant"
    found = known_noise(fitted(phi, y), PREC, NOISE[:1])
    rows = table(seed=1)[0][:5]
    mean, var, evidence = dense(phi, y[:, 0], np.ones(len(phi)), PREC, NOISE[0], rows)
    means, variances = regression.predict(found, rows)
    np.testing.assert_allclose(means[:, 0], mean, rtol=1e-7)
    np.testing.assert_allclose(variances[:, 0], var, rtol=1e-7)
    assert found.log_evidence[0] == pytest.approx(evidence, abs=1e-7)

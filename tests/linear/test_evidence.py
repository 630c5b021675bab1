"""The maximum of the evidence: against scipy on the dense log density, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from bayesprop.linear import regression, sums
from bayesprop.numerics.evidence import Groups

ONE_PRECISION, RELEVANCE = Groups(np.array([-1, 0, 0, 0, 0, 0])), Groups(np.arange(-1, 5))


def table(n=60, d=5, noise=0.7, seed=0, offset=3.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.array([1.0, 5.0, 0.2, 1.0, 1.0])[:d]
    true = np.array([2.0, -0.3, 4.0, 0.0, 0.0])[:d]
    y = offset + x @ true + noise * rng.normal(size=n)
    return np.hstack([np.ones((n, 1)), x]), y[:, None]


def statistics(phi, y):
    return sums.update(sums.init(phi.shape[1], y.shape[1]), phi, y)


def dense_log_evidence(phi, y, prec, noise_var):
    cov = phi @ np.diag(1.0 / prec) @ phi.T + noise_var * np.eye(len(y))
    root = np.linalg.cholesky(cov)
    return stats.norm.logpdf(np.linalg.solve(root, y)).sum() - np.log(np.diag(root)).sum()


def idle_table(n, d):
    """More columns than rows, or columns that tell nothing: MacKay's steps alone creep."""
    rng = np.random.default_rng(4)
    x, z = rng.standard_normal((n, d)), rng.standard_normal(n)
    y = x[:, 0] - x[:, 1] + 0.5 * z if d > n else z
    return np.column_stack([np.ones(n), x]), y[:, None]


NELDER_MEAD = {"method": "Nelder-Mead", "tol": 1e-10}
BOUNDED = {"method": "L-BFGS-B", "bounds": [(-12, 12)] * 6, "options": {"ftol": 1e-14}}
MAXIMA = {
    "one precision": (table(), ONE_PRECISION, None, NELDER_MEAD, 1e-8),
    "relevance": (table(), RELEVANCE, None, BOUNDED, 1e-3),  # the bounds of the search
    "known noise": (table(), ONE_PRECISION, np.array([0.49]), NELDER_MEAD, 1e-6),
    "more columns": (
        idle_table(40, 80),
        Groups(np.array([-1] + [0] * 80)),
        None,
        NELDER_MEAD,
        1e-3,
    ),
    "idle columns": (idle_table(200, 5), ONE_PRECISION, None, NELDER_MEAD, 1e-3),
}


@pytest.mark.parametrize("name", MAXIMA)
def test_is_the_maximum_of_the_dense_log_density(name):
    (phi, y), groups, known, search, apart = MAXIMA[name]
    fixed, n_groups = np.full(phi.shape[1], 1e-2), groups.number.max() + 1
    found = regression.maximise(statistics(phi, y), fixed, groups, noise_var=known)
    (ascent,), noise_var = found.ascents, found.posterior.noise_var
    assert ascent.converged
    assert len(ascent.trace) < 60 or name == "relevance"
    assert (np.diff(ascent.trace) > -1e-7).all()

    def loss(logs):
        prec = np.where(groups.number < 0, fixed, np.exp(logs)[groups.number])
        return -dense_log_evidence(
            phi, y[:, 0], prec, np.exp(-logs[-1]) if known is None else known
        )

    best = optimize.minimize(loss, np.zeros(n_groups + (known is None)), **search)
    assert -1e-6 < found.posterior.log_evidence[0] + best.fun < apart
    if name == "one precision":
        assert ascent.gradient < 1e-6
        logs = np.log([found.posterior.prior_prec[0, 1], 1.0 / noise_var[0]])
        np.testing.assert_allclose(logs, best.x, atol=1e-4)
    elif name == "relevance":
        relevant, idle = found.posterior.prior_prec[0, [1, 3]], found.posterior.prior_prec[0, 4:]
        assert idle.min() > 30 * relevant.max()
    assert known is None or noise_var[0] == known[0]


def test_outputs_are_maximised_each_on_its_own():
    phi, y = table()
    other = table(seed=3, noise=2.0)[1]
    fixed, groups = np.array([1e-2, 1, 1, 1, 1, 1]), ONE_PRECISION
    both = regression.maximise(statistics(phi, np.hstack([y, other])), fixed, groups)
    for o, alone in enumerate((y, other)):
        one = regression.maximise(statistics(phi, alone), fixed, groups)
        np.testing.assert_allclose(both.posterior.mean[o], one.posterior.mean[0], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("relevance", [False, True])
def test_units_do_not_matter(scale, relevance):
    phi, y = table(offset=0.0)
    x, groups = phi[:, 1:], Groups(np.arange(5) if relevance else np.zeros(5, int))
    base = regression.maximise(statistics(x, y), np.ones(5), groups)
    moved = regression.maximise(statistics(x * scale, y / scale), np.ones(5), groups)
    back = scale * (scale * x) @ moved.posterior.mean[0]
    np.testing.assert_allclose(x @ base.posterior.mean[0], back, rtol=1e-4, atol=1e-6)
    shift = len(y) * np.log(scale)
    np.testing.assert_allclose(moved.posterior.log_evidence - shift, base.posterior.log_evidence)
    assert moved.ascents[0].converged


@pytest.mark.parametrize("case", ["no noise", "constant", "more columns", "one row", "idle column"])
def test_degenerate_tables_end_finite(case):
    n = {"more columns": 4, "one row": 1}.get(case)
    phi, y = (part[:n] for part in table())
    phi[:, 2] *= case != "idle column"
    if case in ("no noise", "constant"):
        y = (case == "no noise") * phi @ np.arange(6.0)[:, None]
    for groups in (ONE_PRECISION, RELEVANCE):
        found = regression.maximise(statistics(phi, y), np.full(6, 1e-2), groups)
        mean, var = regression.predict(found.posterior, phi)
        assert np.isfinite(mean).all()
        assert (var >= 0).all()
        assert np.isfinite(found.posterior.log_evidence).all()
        assert found.posterior.noise_var[0] > 0
        if case in ("no noise", "constant"):
            assert found.n_noiseless == 1


def test_a_start_near_another_maximum_ends_where_the_usual_one_does():
    phi, y = table()
    fixed, noise = np.full(6, 1e-2), np.random.default_rng(2).normal(size=y.shape)
    near = regression.maximise(statistics(phi[:8], noise[:8]), fixed, ONE_PRECISION).posterior
    far = near._replace(prior_prec=near.prior_prec * 1e9, noise_var=near.noise_var * 1e-9)
    for start in (near, far):
        found = regression.maximise(statistics(phi, y), fixed, ONE_PRECISION, near=start)
        usual = regression.maximise(statistics(phi, y), fixed, ONE_PRECISION)
        np.testing.assert_allclose(
            found.posterior.prior_prec, usual.posterior.prior_prec, rtol=1e-5
        )
        np.testing.assert_allclose(found.posterior.mean, usual.posterior.mean, rtol=1e-6)

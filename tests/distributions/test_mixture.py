"""The mixture over members, noise scales and tails, against scipy and direct integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.distributions.mixture import BROAD_SHARE, MixturePredictive


def one_member(dof: float, n: int = 1, **changes: float) -> MixturePredictive:
    values = {"f_mean": 0.4, "f_var": 0.0, "log_noise_mean": -0.6, "log_noise_var": 0.0}
    arrays = {name: np.full((1, n), value) for name, value in (values | changes).items()}
    return MixturePredictive.of_networks(**arrays, dof=np.full((1, n), dof))


def three_members(rng: np.random.Generator, shape: tuple[int, ...]) -> MixturePredictive:
    def draw() -> np.ndarray:
        return rng.standard_normal((3, *shape))

    return MixturePredictive.of_networks(
        f_mean=draw(),
        f_var=np.exp(draw() - 2.0),
        log_noise_mean=draw() - 1.0,
        log_noise_var=np.exp(0.5 * draw() - 2.0),
        dof=3.0 + np.exp(draw() + 1.0),
    )


def exact_density(p: MixturePredictive, y: float, row: int = 0) -> float:
    """Integrate p(y | f, l) over f and l of every member, with scipy's own Student-t."""
    total = BROAD_SHARE * stats.norm.pdf(y)
    for k in range(len(p.f_mean)):
        m, v, l_m, l_v, dof = (
            getattr(p, name)[k, row]
            for name in ("f_mean", "f_var", "log_noise_mean", "log_noise_var", "dof")
        )
        f = m + np.sqrt(v) * np.linspace(-7, 7, 401)[:, None]
        log_var = l_m + np.sqrt(l_v) * np.linspace(-7, 7, 201)[None, :]
        weight = stats.norm.pdf(f, m, np.sqrt(v)) * stats.norm.pdf(log_var, l_m, np.sqrt(l_v))
        values = weight * stats.t.pdf(y, dof, loc=f, scale=np.exp(0.5 * log_var))
        inner = integrate.simpson(values, x=log_var[0], axis=1)
        total += (1 - BROAD_SHARE) / len(p.f_mean) * integrate.simpson(inner, x=f[:, 0])
    return float(total)


@pytest.mark.parametrize("dof", [3.0, 5.0, 12.0, 60.0, 1e4])
def test_certain_weights_leave_a_student_t(dof: float):
    p, y = one_member(dof, 5), np.array([0.4, 0.0, -1.2, 2.5, 5.0])
    t = stats.t(dof, loc=0.4, scale=np.exp(-0.3))
    share = 1.0 - BROAD_SHARE
    density = share * t.pdf(y) + BROAD_SHARE * stats.norm.pdf(y)
    np.testing.assert_allclose(np.exp(p.log_prob(y)), density, rtol=5e-3)
    np.testing.assert_allclose(
        p.cdf(y), share * t.cdf(y) + BROAD_SHARE * stats.norm.cdf(y), atol=2e-4
    )


@pytest.mark.parametrize("row", range(4))
def test_density_is_the_integral_over_all_that_is_unsure(row: int):
    p = three_members(np.random.default_rng(3), (4,))
    centre = float(p.mean[row])
    for y in (centre, centre + 1.0, centre - 3.0):
        got = float(p[[row]].log_prob(np.array([y]))[0])
        assert got == pytest.approx(np.log(exact_density(p, y, row)), abs=5e-3)


def test_quantile_stays_where_newton_has_converged():
    p = one_member(15.0)
    t = stats.t(15.0, loc=0.4, scale=np.exp(-0.3))
    for level in (0.25, 0.3, 0.31, 0.7):
        assert float(p.quantile(level)[0]) == pytest.approx(t.ppf(level), abs=2e-3)


def test_moments_are_those_of_the_members():
    p = three_members(np.random.default_rng(9), (5,))
    np.testing.assert_allclose(p.mean, p.f_mean.mean(axis=0))
    np.testing.assert_allclose(p.epistemic_var, p.f_mean.var(axis=0) + p.f_var.mean(axis=0))
    t_var = stats.lognorm(np.sqrt(p.log_noise_var), scale=np.exp(p.log_noise_mean)).mean()
    np.testing.assert_allclose(p.noise_var, np.mean(t_var * stats.t(p.dof).var(), axis=0))


def test_an_outlier_costs_at_most_the_broad_share():
    p = one_member(1e4, log_noise_mean=2.0 * np.log(1e-3))
    loss = stats.norm.logpdf(3.0) - float(p.log_prob(np.array([3.0]))[0])
    assert loss < -np.log(BROAD_SHARE) + 1e-6


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    from bayesprop.distributions import mixture

    p = three_members(np.random.default_rng(12), (50,))
    y = p.mean + 0.5
    whole = p.log_prob(y), p.quantile([0.2, 0.9])
    monkeypatch.setattr(mixture, "_MOST_COMPONENTS", 7 * (3 * 16 + 1))
    np.testing.assert_allclose(p.log_prob(y), whole[0], rtol=1e-10)
    np.testing.assert_allclose(p.quantile([0.2, 0.9]), whole[1], rtol=1e-9)


def near_targets(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    return rng.normal(0.0, 2.0, (4, n)), np.full((4, n), 0.01), rng.uniform(0.01, 0.15, (4, n))


def test_near_targets_are_gaussians_and_the_other_members_keep_the_rest():
    alone, (near_y, near_var, share) = (
        three_members(np.random.default_rng(3), (5,)),
        near_targets(5),
    )
    both, y = alone.with_gaussians(near_y, near_var, share), np.linspace(-2.0, 2.0, 5)
    broad = BROAD_SHARE * stats.norm.pdf(y)
    near = np.sum(share * stats.norm.pdf(y, near_y, 0.1), axis=0)
    expected = (1.0 - share.sum(axis=0)) * (np.exp(alone.log_prob(y)) - broad)
    expected += (1.0 - BROAD_SHARE) * near + broad
    np.testing.assert_allclose(np.exp(both.log_prob(y)), expected, rtol=1e-9)
    np.testing.assert_allclose(both.cdf(both.quantile(0.3)), 0.3, atol=1e-8)
    grid = np.linspace(-60.0, 60.0, 60_001)
    for row in range(5):
        below = both[[row]].cdfs(grid[:, None])[:, 0]
        crps = integrate.trapezoid((below - (grid >= y[row])) ** 2, grid)
        np.testing.assert_allclose(both.crps(y)[row], crps, rtol=5e-3)


def test_near_targets_differ_by_noise():
    """A draw of a member, or of all of them: its mean and what is around it."""
    alone, (near_y, near_var, near_share) = (
        three_members(np.random.default_rng(3), (2,)),
        near_targets(2),
    )
    both, total = alone.with_gaussians(near_y, near_var, near_share), near_share.sum(axis=0)
    means = np.vstack([alone.f_mean, np.sum(near_share * near_y, axis=0) / total])
    share = np.vstack([np.full((3, 2), 1.0 / 3.0) * (1.0 - total), total])
    np.testing.assert_allclose(both.mean, np.sum(share * means, axis=0))
    epistemic = np.sum(share * (means - both.mean) ** 2, axis=0)
    epistemic += (1.0 - total) * np.mean(alone.f_var, axis=0)
    np.testing.assert_allclose(both.epistemic_var, epistemic)
    drawn = both.sample(np.random.default_rng(0), 400_000)
    se = np.sqrt(both.var / 400_000)
    assert (np.abs(drawn.mean(axis=0) - both.mean * (1.0 - BROAD_SHARE)) < 5.0 * se).all()
    doubled = both.rescaled(1.0, 2.0)
    np.testing.assert_allclose(doubled.quantile(0.7), 1.0 + 2.0 * both.quantile(0.7), atol=1e-6)
    np.testing.assert_allclose(doubled.mean_log_noise_var, both.mean_log_noise_var + np.log(4.0))
    some = both.over_completions(1, n_members=2)
    assert (len(some.dof), len(some.means)) == (2, 5), "of Gaussians all stay"
    np.testing.assert_allclose(some.t_share.sum(axis=0) + some.share.sum(axis=0), 1.0)


def test_near_targets_all_but_out_of_reach_change_nothing():
    alone = three_members(np.random.default_rng(3), (2,))
    share = np.array([[0.0, 5e-324], [0.0, 0.0]])
    both = alone.with_gaussians(np.ones((2, 2)), np.full((2, 2), 1e-30), share)
    for part in ("mean", "epistemic_var", "noise_var", "mean_log_noise_var"):
        np.testing.assert_array_equal(getattr(both, part), getattr(alone, part))
    np.testing.assert_allclose(both.log_prob(np.ones(2)), alone.log_prob(np.ones(2)))

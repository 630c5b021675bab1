"""Maps between targets and the whole line: slopes by differences, round trips, what is learnt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from bayesprop import codec
from bayesprop.targets import censoring
from bayesprop.targets.bijectors import (
    CENSORED,
    COUNT,
    NONNEGATIVE,
    NUMBERS,
    POSITIVE,
    SHARE,
    Logit,
    SoftplusInverse,
    TargetMap,
)
from bayesprop.targets.censoring import PRECISIONS, CensoredMap, Tendency, curves
from bayesprop.targets.censoring import Ridge as WeightedRows
from bayesprop.targets.kinds import CountScores, guessed_kind, learnt_map
from latent_predictives import from_zero, limited

SCORES = CountScores(np.array([0.5, 1.5, 4.5, 20.5]), np.array([-0.4, 0.2, 1.1, 2.5]))
HIGH = CountScores(np.array([30.5, 50.5]), np.array([-2.0, 1.0]))
OF_RATES = np.array([-0.3, 1.5, 20.0]), np.array([-0.4, 0.2, 2.5])
RATES = CountScores(*OF_RATES, exposure=np.array([0.1, 1.0, 30.0]))
PLACES = {
    "short": (SoftplusInverse(0.2), np.array([1e-9, 0.01, 0.3, 1.0, 40.0])),
    "long": (SoftplusInverse(1e4), np.array([1e-9, 0.01, 0.3, 1.0, 40.0])),
    "share": (Logit(), np.array([1e-6, 0.01, 0.5, 0.9, 1.0 - 1e-6])),
    "per cent": (Logit(100.0), np.array([1e-4, 1.0, 50.0, 90.0, 100.0 - 1e-4])),
    "scores": (SCORES, np.array([-0.49, 0.1, 0.9, 3.0, 10.0, 100.0])),
    "high scores": (HIGH, np.array([-0.4, 10.0, 40.0, 60.0])),
    "rates": (RATES, np.array([-0.4, 3.0, 1000.0])),
    "nonnegative": (
        from_zero(np.inf, least=0.3, scale=2.0, largest=30.0, gap=0.01),
        np.array([1e-3, 0.1, 0.29, 1.0, 7.0, 60.0]),
    ),
    "nonnegative, a log": (
        from_zero(np.inf, least=1e-3, scale=1e-2, largest=1e5, gap=1e-4),
        np.array([1e-4, 0.1, 3.0, 800.0]),
    ),
    "bounded share": (
        from_zero(1.0, least=0.1, scale=0.5, largest=0.9, gap=0.02),
        np.array([0.05, 0.2, 0.6, 0.95]),
    ),
    "bounded per cent": (
        from_zero(100.0, least=10.0, scale=50.0, largest=90.0, gap=0.02),
        np.array([5.0, 20.0, 60.0, 95.0]),
    ),
    "above a limit": (limited(-4.0, np.inf), np.array([-3.9, -3.0, 1e-3, 7.0, 60.0])),
    "below a limit": (limited(-np.inf, 9.0), np.array([-90.0, -20.0, 1.0, 8.9])),
    "positive, between limits": (
        limited(0.5, 70.0, SoftplusInverse(3.0)),
        np.array([0.51, 0.9, 4.0, 69.9]),
    ),
    "one score": (CountScores(np.array([0.5]), np.array([1.0])), np.array([-0.4, 0.2, 3.0])),
}
EVERY = pytest.mark.parametrize(("map", "y"), PLACES.values(), ids=PLACES)


@EVERY
def test_maps_come_back_rise_and_are_read_as_they_were_written(map, y):
    z = map.forward(y)
    assert (np.diff(z) > 0.0).all()
    np.testing.assert_allclose(map.inverse(z), y, rtol=1e-8)
    exposure = getattr(map, "exposure", None)
    bare = map if exposure is None else replace(map, exposure=None)
    read = codec.from_json(TargetMap, codec.to_json(bare, TargetMap))
    read = read if exposure is None else replace(read, exposure=exposure)
    np.testing.assert_array_equal(read.forward(y), z)


@EVERY
def test_slopes_are_differences(map, y):
    to_most = map.support[1] - y if map.kind == SHARE else 1.0
    step = 1e-6 * np.minimum(np.abs(y), np.minimum(to_most, 1.0))
    step = np.maximum(step, 1e-5 * (map.kind == CENSORED))
    slope = (map.forward(y + step) - map.forward(y - step)) / (2.0 * step)
    np.testing.assert_allclose(map.log_slope(y), np.log(slope), atol=1e-4)
    np.testing.assert_allclose(map.inverse_slope(map.forward(y)), 1.0 / slope, rtol=1e-4)


@EVERY
def test_everything_maps_into_the_support(map, y):
    z = np.array([[-1e8], [-800.0], [-30.0], [0.0], [30.0], [800.0], [1e8]]) + np.zeros(len(y))
    low, high = map.support
    back = map.inverse(z)
    least = -0.5 if map.kind == COUNT else low
    assert np.isfinite(back).all()
    ends_at_high = isinstance(map, CensoredMap) and map.kind != NONNEGATIVE
    assert ((back >= least) & ((back < high) | ends_at_high)).all()
    if map.kind != COUNT and not isinstance(map, CensoredMap):
        assert (back > low).all()


def test_spread_counts_are_normal_and_keep_their_interval():
    rng = np.random.default_rng(0)
    y = rng.negative_binomial(0.7, 0.2, size=(4000, 1)).astype(float)
    learnt = learnt_map(COUNT, np.ones((4000, 1)), y)
    z = learnt.encode(y, np.random.RandomState(1), np.ones((4000, 1)))
    assert (z > learnt.forward(y - 0.5)).all()
    assert (z < learnt.forward(y + 0.5)).all()
    inside = z[z < learnt.scores[-1]]
    below = stats.truncnorm(-np.inf, learnt.scores[-1])
    assert stats.kstest(inside, below.cdf).pvalue > 1e-4
    # Knots have the shares of the rows below.
    shares = [np.sum(y < knot) / 4001.0 for knot in learnt.knots]
    np.testing.assert_allclose(stats.norm.cdf(learnt.scores), shares, atol=1e-12)


def test_a_count_is_drawn_from_a_normal_about_its_tendency_within_its_interval():
    tendency = Tendency(np.array([0.8, 0.0]), 0.3, 0.5)
    learnt = replace(SCORES, tendency=tendency)
    for k, x in ((0.0, 1.0), (2.0, -1.0), (2.0, 4.0)):
        rows = np.full((4000, 1), k), np.random.RandomState(2), np.tile([x, 0.0], (4000, 1))
        z = learnt.encode(*rows)
        m, s = 0.3 + 0.8 * x, 0.5
        low, high = SCORES.forward(np.array([k - 0.5, k + 0.5]))
        law = stats.truncnorm((low - m) / s, (high - m) / s, m, s)
        assert stats.kstest(z[:, 0], law.cdf).pvalue > 1e-4
    far = learnt.encode(np.array([[0.0]]), np.random.RandomState(0), np.array([[60.0, 0.0]]))
    assert np.isfinite(far).all()
    assert far < SCORES.forward(np.array([0.5])), "where the normal has nothing"


def test_what_is_drawn_has_the_slopes_of_an_ordered_probit():
    rng = np.random.default_rng(3)
    n, slopes = 3000, np.array([0.9, -0.5, 0.0])
    x = rng.normal(size=(n, 3))
    latent = x @ slopes + rng.normal(size=n)
    y = np.maximum(np.floor(latent + 0.5), 0.0)
    edges = np.concatenate([[-np.inf], np.arange(0.5, y.max()), [np.inf]])

    def minus_log_likelihood(w):
        below, above = (edges[y.astype(int) + j] - x @ w for j in (0, 1))
        return -np.sum(np.log(np.maximum(stats.norm.cdf(above) - stats.norm.cdf(below), 1e-300)))

    best = optimize.minimize(minus_log_likelihood, np.zeros(3)).x
    learnt = learnt_map(COUNT, x, y[:, None])
    found = learnt.tendency.slopes / learnt.tendency.std
    np.testing.assert_allclose(found, best, atol=0.1)
    spread = replace(learnt, tendency=None).encode(y[:, None], np.random.RandomState(0), x)
    z = learnt.encode(y[:, None], np.random.RandomState(0), x)
    of_spread, of_drawn = (np.linalg.lstsq(x, one[:, 0], rcond=None)[0] for one in (spread, z))
    assert abs(of_spread[0]) < 0.9 * abs(of_drawn[0]), "spread evenly, slopes shrink"


def learnt_and_drawn(kind, x, y):
    """The map of targets (n,), and the scores that it draws for them."""
    learnt = learnt_map(kind, x, y[:, None])
    return learnt, learnt.encode(y[:, None], np.random.RandomState(0), x)[:, 0]


def spending(rng, x):
    """Log-normal where a latent number is above 0, 0 elsewhere; the latent number, too."""
    latent = x[:, 0] - 0.3 + 0.6 * rng.normal(size=len(x))
    return np.where(latent > 0.0, 100.0 * np.exp(latent), 0.0), latent


def test_zeros_lie_below_the_threshold_and_other_numbers_above():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1500, 2))
    y, _ = spending(rng, x)
    learnt, z = learnt_and_drawn(NONNEGATIVE, x, y)
    np.testing.assert_array_equal(z > learnt.thresholds[0], y > 0.0)
    np.testing.assert_allclose(learnt.inverse(z)[y > 0.0], y[y > 0.0], rtol=1e-9)
    assert (learnt.inverse(z)[y == 0.0] == 0.0).all()
    plain = replace(learnt, tendency=None).encode(y[:, None], np.random.RandomState(0), x)
    np.testing.assert_array_equal(plain > learnt.thresholds[0], y[:, None] > 0.0)
    assert learnt.map.gap < 0.01 * np.std(z), "next to nothing between 0 and the least"


@pytest.mark.parametrize("is_log", [True, False])
def test_the_scale_follows_the_errors(is_log):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(1500, 2))
    latent = x[:, 0] + 0.5 * rng.normal(size=1500)
    y = np.where(latent > 0.0, np.expm1(4.0 * latent) if is_log else latent, 0.0)
    learnt = learnt_map(NONNEGATIVE, x, y[:, None])
    assert (learnt.map.scale > np.median(y[y > 0.0])) != is_log
    y = np.exp(latent) if is_log else 20.0 + 2.0 * latent
    learnt = learnt_map(POSITIVE, x, y[:, None])
    assert (learnt.scale > np.median(y)) == is_log


@pytest.mark.parametrize("kind", [NONNEGATIVE, SHARE])
def test_the_scale_is_the_likeliest_of_rows_left_out(kind, monkeypatch):
    rng = np.random.default_rng(11)
    x = rng.normal(size=(40, 2))
    y = np.maximum(np.sinh(1.5 * x[:, 0] + 0.3 * rng.normal(size=40)), 0.0)
    y = np.minimum(y / 3.0, 1.0) if kind == SHARE else y
    best, scores, scales = learnt_map(kind, x, y[:, None]), [], censoring._SCALES
    for scale in scales:
        monkeypatch.setattr(censoring, "_SCALES", (scale,))
        one, z = learnt_and_drawn(kind, x, y)
        by_precision = []
        for precision in PRECISIONS:
            ridges = (Ridge(precision).fit(x[row], z[row]) for row in ~np.eye(40, dtype=bool))
            m = np.array([ridge.predict(x[[i]])[0] for i, ridge in enumerate(ridges)])
            law = stats.laplace(m, np.mean(np.abs(z - m)))
            step = 1e-6 * np.minimum(y, 1.0 - y if kind == SHARE else y)
            slope = (one.forward(y + step) - one.forward(y - step)) / np.maximum(2.0 * step, 1e-99)
            density = law.logpdf(z) + np.log(np.maximum(slope, 1e-99))
            low, high = (law.logcdf(one.thresholds[0]), law.logsf(one.thresholds[1]))
            at_most = (y == 1.0) & (kind == SHARE)
            by_precision.append(np.mean(np.select([y == 0.0, at_most], [low, high], density)))
        scores.append((max(by_precision), one.map.scale))
    assert best.map.scale == max(scores)[1]


def test_a_ridge_of_curves_is_one_of_a_kernel():
    x = np.random.default_rng(12).normal(size=(30, 4))
    columns = curves(x)
    kernel = rbf_kernel(x, gamma=0.5 / (9.0 * 4.0)) + 0.3 * linear_kernel(x) / 4.0
    np.testing.assert_allclose(columns @ columns.T / 30.0, kernel, atol=1e-7)


def test_ones_far_from_other_shares_have_their_probability():
    rng = np.random.default_rng(13)
    x = rng.normal(size=(600, 2))
    for small in (1e-3, 1e-200):
        y = np.where(rng.random(600) < 0.3, 1.0, small * rng.random(600))
        _, z = learnt_and_drawn(SHARE, x, y)
        assert np.isfinite(z).all()
        assert np.abs(z).max() < 100.0


def test_shares_of_zero_and_one_lie_beyond_the_thresholds():
    rng = np.random.default_rng(9)
    n, slopes = 4000, np.array([0.3, -0.2])
    x = rng.normal(size=(n, 2))
    y = np.clip(0.6 + x @ slopes + 0.3 * rng.normal(size=n), 0.0, 1.0)
    learnt, z = learnt_and_drawn(SHARE, x, y)
    low, high = learnt.thresholds
    np.testing.assert_array_equal(z < low, y == 0.0)
    np.testing.assert_array_equal(z > high, y == 1.0)
    np.testing.assert_allclose(learnt.inverse(z), y, rtol=1e-9)

    def minus_log_likelihood(w):
        m, std = w[0] + x @ w[1:3], np.exp(w[3])
        parts = stats.norm.logcdf(-m / std), stats.norm.logsf((1.0 - m) / std)
        return -np.sum(np.select([y == 0.0, y == 1.0], parts, stats.norm.logpdf(y, m, std)))

    best = optimize.minimize(minus_log_likelihood, [0.5, 0.0, 0.0, -1.0]).x
    tendency = learnt.tendency
    found = tendency.slopes / tendency.std
    np.testing.assert_allclose(found, best[1:3] / np.exp(best[3]), atol=0.1)
    inside = learnt_map(SHARE, x, np.clip(y, 0.01, 0.99)[:, None])
    assert isinstance(inside, Logit), "nothing at a bound"


@pytest.mark.parametrize(
    "y", [np.zeros(30), np.full(30, 4.0), np.eye(30)[0] * 7.0, np.arange(1.0, 31.0)]
)
def test_few_zeros_or_nothing_else_can_be_learnt(y):
    x = np.random.default_rng(7).normal(size=(30, 2))
    learnt, z = learnt_and_drawn(NONNEGATIVE, x, y)
    assert np.isfinite(z).all()
    np.testing.assert_allclose(learnt.inverse(z), y, rtol=1e-9)
    np.testing.assert_allclose(learnt.forward(np.array([0.0])), learnt.thresholds[0])


def test_left_out_errors_are_those_of_fits_without_the_row():
    rng = np.random.default_rng(1)
    x, z, weight = rng.normal(size=(12, 3)), rng.normal(size=(12, 1)), rng.uniform(0.5, 2.0, 12)
    rows = WeightedRows.of(x, weight)
    errors = rows.left_out_errors(z)[:, :, 0]
    for precision, of_rows in zip(PRECISIONS, errors, strict=True):
        for row in range(12):
            others = np.arange(12) != row
            # The shift of the penalty's origin with the row is what a ridge without centring has.
            model = Ridge(alpha=precision).fit(x[others], z[others, 0], weight[others])
            gap = z[row, 0] - model.predict(x[[row]])[0]
            assert of_rows[row] == pytest.approx(gap, rel=1e-6)
        slopes, intercept = rows.line(z[:, 0], precision)
        model = Ridge(alpha=precision).fit(x, z[:, 0], weight)
        np.testing.assert_allclose(slopes, model.coef_, rtol=1e-7)
        assert intercept == pytest.approx(model.intercept_)
    least = np.average(np.square(errors), axis=1, weights=weight).min()
    assert rows.left_out(z[:, 0]).mean_square == pytest.approx(least, rel=2e-6)


def test_rows_of_weight_zero_teach_nothing():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 2)), np.exp(rng.normal(size=(60, 1)))
    weight = np.concatenate([np.ones(40), np.zeros(20)])
    far = np.where(weight[:, None] > 0.0, y, 1e6)
    for kind, targets in ((POSITIVE, far), (NONNEGATIVE, far), (COUNT, np.floor(far))):
        with_zeros = learnt_map(kind, x, targets, weight)
        without = learnt_map(kind, x[:40], targets[:40])
        assert codec.to_json(with_zeros, TargetMap) == codec.to_json(without, TargetMap)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [(POSITIVE, 0.0), (NONNEGATIVE, -0.1), (SHARE, 120.0), (SHARE, -0.1), (COUNT, 2.5),
     (COUNT, -1.0)],
)  # fmt: skip
def test_targets_outside_are_named(kind, bad):
    y = np.full((5, 1), 0.5 if kind == SHARE else 3.0)
    y[3] = bad
    with pytest.raises(ValueError, match=f"'{kind}', got {bad:g} in row 3: .*'numbers'"):
        learnt_map(kind, np.ones((5, 1)), y)


def of_shares(bounds, n=400):
    """Standardised inputs, and shares of which some are 0 or 1 where they have bounds."""
    rng = np.random.default_rng(14)
    x = rng.normal(size=(n, 2))
    latent = 0.5 + 0.4 * x[:, 0] + 0.2 * rng.normal(size=n)
    return x, np.clip(latent, 0.0, 1.0) if bounds else stats.norm.cdf(2.0 * latent - 1.0)


@pytest.mark.parametrize("bounds", [True, False])
def test_the_map_of_per_cent_is_that_of_the_shares(bounds):
    x, y = of_shares(bounds)
    (of_whole, z), (of_hundred, drawn) = (learnt_and_drawn(SHARE, x, u * y) for u in (1.0, 100.0))
    assert of_hundred.support == (0.0, 100.0)
    assert isinstance(of_hundred, CensoredMap if bounds else Logit)
    np.testing.assert_allclose(drawn, z, rtol=1e-6, atol=1e-6)
    assert of_hundred.holds(np.array([1.5])).all()
    assert not of_whole.holds(np.array([1.5])).any()
    with pytest.raises(ValueError, match=r"(and below|to) 1 for .* got 1.5 in row 0"):
        of_whole.check(np.full((1, 1), 1.5))


def test_rows_of_weight_zero_say_nothing_of_the_whole():
    x, y = of_shares(bounds=False)
    with pytest.raises(ValueError, match=r"from 0 to 1 for .* got 30 in row 400"):
        learnt_map(SHARE, np.r_[x, x[:1]], np.r_[y, 30.0][:, None], np.r_[np.ones(400), 0.0])


def test_per_cent_signs_make_shares_of_what_would_be_guessed_otherwise():
    x, inside = of_shares(bounds=False)
    _, bounded = of_shares(bounds=True)
    few_ends = np.where(np.arange(400) < 3, np.arange(400) % 2.0, inside)
    for y in (inside, bounded, np.maximum(bounded, 0.01), few_ends, np.round(bounded, 2)):
        assert guessed_kind(x, 100.0 * y, is_percent=True) == SHARE
        assert guessed_kind(x, 100.0 * y) != SHARE
    for y in (120.0 * inside, 0.9 * inside, 100.0 * inside - 50.0):
        assert guessed_kind(x, y, is_percent=True) != SHARE, "growth, and what may exceed 1 %"


def test_a_count_told_by_sums_is_a_number_however_far_a_few_rows_lie():
    rng = np.random.default_rng(0)
    parts = np.floor(np.exp(2.5 * rng.standard_normal((400, 3)) - 2.0))
    total = parts.sum(axis=1) + 1000.0 * (np.arange(400) == 7)
    x = np.column_stack([parts[:, 1:], total, np.arange(400) == 7])
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    assert np.mean(parts[:, 0] == 0.0) > 0.5
    assert guessed_kind(z, parts[:, 0]) == NUMBERS


def test_high_counts_with_a_cliff_are_numbers():
    """A few zeros, told by an input, and next to nothing between them and the rest."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 3))
    high = np.round(85.0 + 4.0 * x[:, 0] + rng.standard_normal(600))
    is_down = np.arange(600) % 28 == 0
    x[:, 2] = 5.0 * is_down + 0.1 * rng.standard_normal(600)
    assert guessed_kind(x, np.where(is_down, 0.0, high)) == NUMBERS
    spread = rng.negative_binomial(1.0, 1.0 / (1.0 + 30.0 * np.exp(0.5 * x[:, 0])))
    assert np.min(spread) == 0
    assert np.median(spread) > 10.0
    assert guessed_kind(x, spread.astype(float)) == COUNT


def test_the_kind_is_what_rows_left_out_do_not_deny():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 30, (200, 4)).astype(float)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    for y, kind in (
        (x.sum(axis=1) - x.sum(axis=1).min(), NUMBERS),  # told by a sum
        (rng.poisson(np.exp(z[:, 0])), COUNT),
        (rng.random(200) < 0.02, NUMBERS),  # two values
        (rng.poisson(0.05, 200) + 2 * (rng.random(200) < 0.02), COUNT),  # nearly all 0
        (
            np.round(x.sum(axis=1) * np.exp(0.3 * rng.standard_normal(200)) * 1e3 * (x[:, 0] > 0)),
            COUNT,
        ),
        (stats.norm.cdf(z[:, 0] + 0.3 * rng.standard_normal(200)), SHARE),
        (0.5 + z.sum(axis=1) / 20.0, NUMBERS),
        (np.exp(2.0 * z[:, 0] + rng.standard_normal(200)), POSITIVE),
        (spending(rng, z)[0], NONNEGATIVE),
        (np.maximum(z[:, 0] + 0.3 * rng.standard_normal(200), 0.0), NONNEGATIVE),
        (np.where(np.arange(200) < 3, 0.0, spending(rng, z)[0] + 50.0), NUMBERS),  # few zeros
        (np.clip(0.5 + 0.5 * z[:, 0] + 0.2 * rng.standard_normal(200), 0.0, 1.0), SHARE),
        ((z[:, 0] - z[:, 0].min()) * 0.31, NUMBERS),  # told by an input
        (np.maximum(np.abs(z[:, 0]) - 0.5, 0.0), NUMBERS),  # by a curve
        (100.0 + z[:, 0] + rng.standard_normal(200), NUMBERS),
        (z[:, 0], NUMBERS),
    ):
        y = np.asarray(y, np.float64)
        assert guessed_kind(z, y) == kind
        weight = np.r_[np.ones(200), np.zeros(50)]
        rows = np.r_[z, np.zeros((50, 4))], np.r_[y, np.full(50, -1e9)]
        assert guessed_kind(*rows, weight) == kind


@pytest.mark.parametrize(("low", "high"), [(-0.8, np.inf), (-np.inf, 1.1), (-0.8, 1.1)])
def test_limits_are_the_ends_that_many_rows_have(low, high):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1500, 2))
    latent = x[:, 0] + 0.5 * rng.normal(size=1500)
    y = np.clip(latent, low, high)
    learnt, z = learnt_and_drawn(CENSORED, x, y)
    assert learnt.support == pytest.approx((low, high))
    is_low, is_high = y == low, y == high
    first, last = learnt.thresholds
    assert (z[is_low] <= first).all()
    assert (z[is_high] >= last).all()
    np.testing.assert_allclose(learnt.inverse(z), y, atol=1e-9)
    # A line through what is drawn is that through the numbers before limits hid them.
    line = np.linalg.lstsq(x, z, rcond=None)[0]
    np.testing.assert_allclose(line, [1.0, 0.0], atol=0.08)


def test_numbers_without_limits_are_refused():
    y = np.arange(200.0)
    with pytest.raises(ValueError, match=r"in 5 rows or more .* got 0 in 1 and 199 in 1: take"):
        learnt_map(CENSORED, np.ones((200, 1)), y[:, None])
    with pytest.raises(ValueError, match="got 3 in 9 and 3 in 9"):
        learnt_map(CENSORED, np.ones((9, 1)), np.full((9, 1), 3.0))


def test_numbers_above_zero_with_a_limit_above_stay_above_zero():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1000, 1))
    y = np.minimum(np.exp(x[:, 0] + 0.3 * rng.normal(size=1000)), 3.0)
    learnt, z = learnt_and_drawn(CENSORED, x, y)
    assert learnt.support == (0.0, 3.0)
    assert (learnt.inverse(np.append(z, [-50.0, 50.0])) > 0.0).all()
    # A log of these is a line, with a fifth of the rows hidden beyond the limit.
    assert np.corrcoef(x[:, 0], z)[0, 1] > 0.93


@pytest.mark.parametrize("shape", [1.6, 2.0])
def test_intervals_that_would_begin_below_0_make_numbers_positive(shape):
    """A line with noise, its sign gone: the map gains less than a tenth of a nat."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 2))
    y = np.abs(shape + x[:, 0] + 0.7 * rng.standard_normal(600)) + 0.01
    assert guessed_kind(x, y) == "positive"
    away = np.exp(0.25 * x[:, 0]) * rng.gamma(14.0, 1.0 / 14.0, 600)
    assert guessed_kind(x, away) == "numbers"

import numpy as np
import pytest
from scipy import stats

from bayesprop.report.calibration import binomial_band, coverage_curve, pit_histogram
from bayesprop.report.calibration_tests import (
    anderson_darling,
    chance_of_flat,
    ks_chance,
    ks_distance,
)
from bayesprop.report.verdict import judge

HELD = ((0.5, 0.5), (0.9, 0.9), (0.95, 0.95))


@pytest.mark.parametrize("n", [1, 7, 45, 300, 100_000])
def test_the_band_is_the_binomial_quantile(n):
    chance = np.array([0.001, 0.02, 0.1, 0.5, 0.9, 0.98])
    low, high = binomial_band(n, chance)
    np.testing.assert_array_equal(low, stats.binom.ppf(0.025, n, chance))
    np.testing.assert_array_equal(high, stats.binom.ppf(0.975, n, chance))


def test_pit_histogram_counts_every_row():
    u = np.random.default_rng(0).random(437)
    found = pit_histogram(np.concatenate([u, [0.0, 1.0]]))
    assert found is not None
    assert found.counts.sum() == 439
    assert found.expected * len(found.counts) == pytest.approx(439)
    assert found.low < found.expected < found.high
    assert pit_histogram(u[:19]) is None


def test_coverage_curve_counts_rows_inside_central_intervals():
    u = np.random.default_rng(1).beta(2.0, 2.0, 500)
    found = coverage_curve(u)
    assert found is not None
    for level, actual in zip(found.nominal, found.actual, strict=True):
        inside = (u >= (1 - level) / 2) & (u <= (1 + level) / 2)
        assert actual == pytest.approx(np.mean(inside))
    assert coverage_curve(u[:19]) is None


def test_distances_equal_scipy():
    u = np.random.default_rng(2).random(80)
    assert ks_distance(u) == pytest.approx(stats.kstest(u, "uniform").statistic)
    assert ks_chance(0.2, 80) == pytest.approx(stats.kstwo.sf(0.2, 80), abs=2e-4)
    # Against a known law: A² from its integral, n int (F_n - u)² / (u (1 - u)) du.
    grid = (np.arange(2_000_000) + 0.5) / 2_000_000
    empirical = np.searchsorted(np.sort(u), grid, side="right") / 80
    integral = 80 * np.mean((empirical - grid) ** 2 / (grid * (1 - grid)))
    assert anderson_darling(u) == pytest.approx(integral, rel=1e-4)


def test_a_calibrated_model_is_rarely_blamed():
    rng = np.random.default_rng(3)
    blamed = [judge(rng.random(150), 1.0, HELD).tone == "caution" for _ in range(1000)]
    # Hints at 2.5 % for width and for bias, a shape at 1 %: at most 6 % of honest models.
    assert np.mean(blamed) < 0.06 + 4 * np.sqrt(0.06 * 0.94 / 1000)


@pytest.mark.parametrize(
    ("true_std", "shift", "says"),
    [(1.6, 0.0, "overconfident"), (0.6, 0.0, "too cautious"), (1.0, 0.4, "biased")],
)
def test_faults_are_named(true_std, shift, says):
    rng = np.random.default_rng(4)
    y = shift + true_std * rng.standard_normal(400)
    stretch = np.quantile(np.abs(y), 0.9) / stats.norm.ppf(0.95)
    verdict = judge(stats.norm.cdf(y), stretch, HELD)
    assert verdict.tone == "caution"
    assert says in verdict.headline.lower()
    if shift:
        assert "too low" in verdict.headline
        assert any("above" in detail for detail in verdict.details)
    else:
        assert "times as wide" in verdict.details[0]


def test_wrong_tails_and_wrong_shapes_are_named():
    rng = np.random.default_rng(5)
    tails = rng.standard_t(2, 4000) / 1.6
    assert "tails" in judge(stats.norm.cdf(tails), 1.0, HELD).headline
    # |2u - 1| is uniform and u has mean 1/2, yet its side depends on its distance.
    folded = (np.arange(400) + 0.5) / 400
    lopsided = 0.5 + 0.5 * folded * np.where(folded < np.sqrt(0.5), 1, -1)
    assert "shape" in judge(lopsided, 1.0, HELD).headline


def test_a_bias_is_not_called_overconfidence():
    y = 0.8 + np.random.default_rng(7).standard_normal(500)
    assert judge(stats.norm.cdf(y), 1.4, HELD).headline == "Biased: predictions sit too low."


def test_a_hint_is_hedged():
    folded = np.linspace(0.0, 1.0, 202)[1:-1] ** 0.81
    u = 0.5 + 0.5 * folded * np.where(np.arange(200) % 2, 1, -1)
    statistic = anderson_darling(folded)
    assert 3.077 < statistic < 3.878
    verdict = judge(u, 1.1, HELD)
    assert verdict.headline.startswith("Perhaps overconfident")


def test_small_deviations_of_large_tables_are_called_small():
    u = stats.norm.cdf(1.02 * np.random.default_rng(6).standard_normal(200_000))
    verdict = judge(u, 1.02, HELD)
    assert verdict.tone == "good"
    assert "200,000 rows" in verdict.headline


def test_few_rows_are_not_judged_and_certain_misses_do_not_break_it():
    assert judge(np.array([0.3]), 1.0, HELD).tone == "unknown"
    verdict = judge(np.repeat([0.0, 1.0], 20), 50.0, HELD)
    assert verdict.tone == "caution"
    assert "Overconfident" in verdict.headline


def test_a_histogram_that_is_not_flat_is_seen_even_where_the_distribution_function_hardly_is():
    """Bars of 133 and 67 in turn, for which a Kolmogorov-Smirnov test has no eye."""
    counts = np.tile([133, 67], 10)
    assert chance_of_flat(counts) == pytest.approx(stats.chisquare(counts).pvalue)
    u = np.concatenate([(k + (np.arange(m) + 0.5) / m) / 20 for k, m in enumerate(counts)])
    assert ks_chance(ks_distance(u), len(u)) > 0.5
    verdict = judge(u, 1.0, HELD)
    assert verdict.tone == "caution"
    assert "shape" in verdict.headline


def test_too_few_rows_to_tell_are_not_called_calibrated():
    even = {n: (np.arange(n) + 0.5) / n for n in (25, 99, 400)}
    said = {n: judge(u, 1.0, HELD) for n, u in even.items()}
    assert [verdict.tone for verdict in said.values()] == ["unknown", "unknown", "good"]
    assert "25 rows are too few to tell" in said[25].headline
    assert (
        "Of 400 rows, chance alone moves the share inside 90 % intervals by 3.0"
        in said[400].details[0]
    )


def test_a_target_hit_exactly_is_not_called_a_fault():
    u = np.random.default_rng(8).permutation((np.arange(40) + 0.5) / 40)
    assert judge(np.append(u, 0.5), 1.0, HELD).tone == "unknown"

"""What is behind the pictures of calibration, its tests and conformal sentences, by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.evaluation.calibration import (
    abstaining,
    anderson_darling,
    chance_of_sum,
    coverage_by_group,
    coverage_curve,
    diagram,
    histogram,
    pit_histogram,
)
from bayesprop.evaluation.words import number
from bayesprop.report import of_classes, of_numbers

RNG = np.random.default_rng(0)
N = 57
RANK = math.ceil(0.9 * (N + 1))


def test_pit_histogram_counts_every_row():
    u = np.random.default_rng(0).random(437)
    found = pit_histogram(np.concatenate([u, [0.0, 1.0]]))
    assert found is not None
    assert found.counts.sum() == 439
    assert found.expected * len(found.counts) == pytest.approx(439)
    assert np.all(found.low < found.expected)
    assert np.all(found.expected < found.high)
    assert pit_histogram(u[:19]) is None


def test_coverage_curve_counts_rows_inside_central_intervals():
    u = np.random.default_rng(1).beta(2.0, 2.0, 500)
    found = coverage_curve(u)
    assert found is not None
    for level, actual in zip(found.promised, found.actual, strict=True):
        inside = (u >= (1 - level) / 2) & (u <= (1 + level) / 2)
        assert actual == pytest.approx(np.mean(inside))
    assert coverage_curve(u[:19]) is None


def shares_inside(inside_of, n_draws=200):
    """Mean share of bars inside their bands, over draws with seeds of their own, and its error."""
    each = [np.mean(inside_of(np.random.default_rng(seed))) for seed in range(n_draws)]
    return np.mean(each), np.std(each, ddof=1) / np.sqrt(n_draws)


def shared_errors(rng, n_groups=100, size=8, correlation=0.8):
    """Standard normal errors that rows of one group have most of in common, and the groups."""
    group = np.repeat(rng.permutation(n_groups), size)
    own, other = rng.normal(size=n_groups)[group], rng.normal(size=len(group))
    return np.sqrt(correlation) * own + np.sqrt(1.0 - correlation) * other, group


def pit_bars(rng, *, by_group):
    z, group = shared_errors(rng)
    found = pit_histogram(stats.norm.cdf(z), group if by_group else None)
    return (found.low <= found.counts) & (found.counts <= found.high)


def coverages(rng, *, by_group):
    z, group = shared_errors(rng)
    found = coverage_curve(stats.norm.cdf(z), group if by_group else None)
    return (found.low <= found.actual) & (found.actual <= found.high)


def events(rng, by_group):
    """Probabilities of rows, whether what they are of happened, and what group says of both."""
    z, group = shared_errors(rng)
    p = rng.uniform(0.5, 1.0, len(z))
    return p, stats.norm.cdf(z) < p, group if by_group else None


def diagram_bars(rng, *, by_group):
    found = diagram(*events(rng, by_group))
    return (found.low <= found.actual) & (found.actual <= found.high)


def abstentions(rng, *, by_group):
    found = abstaining(*events(rng, by_group))
    return np.abs(found.error - found.expected) <= stats.norm.ppf(0.975) * found.std


def balances(rng, *, by_group):
    p, happened, group = events(rng, by_group)
    proba, classes = np.outer(1.0 - p, [0.5, 0.5, 0.0]), np.array(["never", "no", "yes"])
    proba[:, 2] = p
    predicted = ClassPredictive(proba, np.zeros(len(p)), classes)
    y = np.where(happened, "yes", rng.choice(classes[:2], len(p)))
    scores = of_classes.details(predicted, y, np.arange(5), group).class_scores
    return [abs(s.n_actual - s.expected) <= stats.norm.ppf(0.975) * s.band for s in scores]


@pytest.mark.parametrize("bars", [pit_bars, coverages, diagram_bars, abstentions, balances])
def test_of_calibrated_groups_that_err_alike_95_of_100_bars_lie_in_their_band(bars):
    share, error = shares_inside(lambda rng: bars(rng, by_group=True))
    assert abs(share - 0.95) < 4.0 * error
    share, error = shares_inside(lambda rng: bars(rng, by_group=False))
    assert share < 0.95 - 4.0 * error, "rows are not independent"


def test_groups_of_one_row_are_independent_rows():
    u = np.random.default_rng(3).random(2000)
    for curve in (pit_histogram, coverage_curve):
        alone, grouped = curve(u), curve(u, np.arange(2000))
        np.testing.assert_allclose(alone.high - alone.low, grouped.high - grouped.low, rtol=0.1)


def test_the_statistic_of_anderson_and_darling_is_an_integral():
    u = np.random.default_rng(2).random(80)
    # Against a known law: A² = n int (F_n - u)² / (u (1 - u)) du.
    grid = (np.arange(2_000_000) + 0.5) / 2_000_000
    empirical = np.searchsorted(np.sort(u), grid, side="right") / 80
    integral = 80 * np.mean((empirical - grid) ** 2 / (grid * (1 - grid)))
    assert anderson_darling(u) == pytest.approx(integral, rel=1e-4)


@pytest.mark.parametrize("n", [100, 5000])
def test_the_diagram_counts_every_row(n):
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(n), [0.0, 1.0]])
    happened = rng.random(n + 2) < p
    found = diagram(p, happened)
    assert found is not None
    assert found.n_rows.sum() == n + 2
    width = 0.1 if n < 2000 else 0.05
    first = p < width
    assert found.promised[0] == pytest.approx(np.mean(p[first]))
    assert found.actual[0] == pytest.approx(np.mean(happened[first]))
    expected = stats.binom.ppf((0.025, 0.975), found.n_rows[3], found.promised[3])
    np.testing.assert_allclose((found.low[3], found.high[3]), expected / found.n_rows[3])
    assert diagram(p[:19], happened[:19]) is None


def test_the_histogram_begins_at_what_the_classes_allow():
    confidence = np.array([0.34, 0.5, 0.97, 1.0])
    found = histogram(confidence, np.array([True, False, True, True]), 3)
    assert found.edges[0] == pytest.approx(0.3)
    assert found.right.sum() == 3
    assert found.wrong.sum() == 1
    assert found.right[-1] == 2
    assert histogram(np.full(3, 0.5), np.ones(3, bool), 2).right.sum() == 3


def test_abstaining_leaves_the_least_sure_out():
    rng = np.random.default_rng(1)
    confidence = rng.permutation(np.linspace(0.5, 1.0, 200))
    right = rng.random(200) < confidence
    found = abstaining(confidence, right)
    assert found is not None
    assert found.answered[-1] == 1.0
    assert found.error[-1] == pytest.approx(1.0 - np.mean(right))
    at = int(np.argmin(np.abs(found.answered - 0.4)))
    surest = confidence >= np.quantile(confidence, 0.6)
    assert found.answered[at] == 0.4
    assert found.error[at] == pytest.approx(1.0 - np.mean(right[surest]))
    assert found.expected[at] == pytest.approx(1.0 - np.mean(confidence[surest]))
    var = np.sum(confidence[surest] * (1.0 - confidence[surest]))
    assert found.std[at] == pytest.approx(np.sqrt(var) / 80)
    assert abstaining(confidence[:19], right[:19]) is None
    alike = abstaining(np.full(100, 0.6), np.arange(100) >= 40)
    np.testing.assert_allclose(alike.error, 0.4)  # rows of equal confidence share their errors


def exact(p: np.ndarray, total: int) -> float:
    """Two-sided chance by convolving the distributions of the rows."""
    density = np.ones(1)
    for one in p:
        density = np.convolve(density, [1.0 - one, one])
    tail = density[total:] if total >= np.sum(p) else density[: total + 1]
    return min(1.0, 2.0 * float(np.sum(tail)))


@pytest.mark.parametrize(("a", "b", "n"), [(2.0, 1.0, 60), (20.0, 1.0, 300), (1.0, 30.0, 400)])
def test_the_chance_of_a_sum_is_that_of_convolution(a, b, n):
    p = np.random.default_rng(2).beta(a, b, n)
    for total in range(n + 1):
        chance = exact(p, total)
        if 0.003 < chance < 0.9:
            assert chance_of_sum(float(total), p) == pytest.approx(chance, rel=0.12, abs=0.002)
    assert (chance_of_sum(5.0, np.ones(5)), chance_of_sum(4.0, np.ones(5))) == (1.0, 0.0)


def test_intervals_are_stretched_by_the_rank_of_the_scores():
    mean, std = RNG.standard_normal(N), 0.5 + RNG.random(N)
    y = mean + 2.0 * std * RNG.standard_normal(N)
    found = of_numbers.conformal(GaussianPredictive(mean, 0.1 * std**2, 0.9 * std**2), y)
    wide = np.sort(np.abs(y - mean) / std)[RANK - 1]
    times = wide / 1.6448536269514722
    assert f"interval mean ± {number(wide)} std: {number(times)} times" in found


def test_sets_hold_the_classes_above_the_rank_of_the_probabilities():
    proba = RNG.dirichlet(np.ones(3), N)
    classes = np.array(["a", "b", "c"])
    y = np.array([RNG.choice(classes, p=row) for row in proba])
    found = of_classes.conformal(ClassPredictive(proba, np.zeros(N), classes), y)
    own = proba[np.arange(N), np.searchsorted(classes, y)]
    limit = np.sort(own)[N - RANK]
    assert f"probability {number(limit)} or more" in found
    assert f"{number(np.mean(np.sum(proba >= limit, axis=1)))} classes on average" in found


def test_not_on_too_few_rows():
    """The 9th of 9 scores covers with probability 9 / 10; of 8 none does."""
    for n in (8, 9):
        said = of_numbers.conformal(GaussianPredictive(*np.ones((3, n))), RNG.random(n))
        assert (said == "") == (n == 8)
    proba = RNG.dirichlet(np.ones(3), 8)
    classes = ClassPredictive(proba, np.zeros(8), np.arange(3))
    assert of_classes.conformal(classes, RNG.integers(3, size=8)) == ""


def test_coverage_by_group_lists_both_kinds_and_the_least_likely_groups():
    rng = np.random.default_rng(3)
    group = np.repeat([*"abcdefgh", " row 9"], [40, 40, 40, 40, 40, 40, 3, 2, 1])
    y = rng.standard_normal(len(group))
    y[group == "b"] *= 4.0
    y[np.isin(group, ["g", " row 9"])] = 9.0
    predicted = GaussianPredictive(np.zeros(len(y)), np.zeros(len(y)), np.ones(len(y)))
    is_known = np.isin(group, [*"abc"])
    rows = {one.name: one for one in coverage_by_group(predicted, y, group, is_known)}
    inside = np.abs(y) <= stats.norm.ppf(0.95)
    for name, at in (("known groups", is_known), ("new groups", ~is_known), ("b", group == "b")):
        assert (rows[name].n_rows, rows[name].coverage) == (at.sum(), inside[at].mean())
    assert [*rows][:4] == ["known groups", "new groups", "b", "g"]
    assert " row 9" not in rows
    assert rows["b"].error == pytest.approx(0.3 / np.sqrt(40))
    means = np.array([inside[group == name].mean() for name in "abc"])
    assert rows["known groups"].error == pytest.approx(means.std(ddof=1) / np.sqrt(3))
    whole, *_ = coverage_by_group(predicted, y, group)
    assert (whole.name, whole.n_rows) == ("all groups", len(y))
    (one, *_) = coverage_by_group(predicted[:40], y[:40], group[:40])
    assert one.facts["error"] is None
    assert one.words[3] == ""

"""Verdicts: honest models are rarely blamed, each fault has its name, few rows are not judged."""

import numpy as np
import pytest
from scipy import stats

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.evaluation.baselines import Baselines
from bayesprop.evaluation.calibration import anderson_darling, temperature
from bayesprop.evaluation.scores import rivals, scores
from bayesprop.evaluation.verdict import judge, of_classes, verdict
from bayesprop.evaluation.words import percent


def predictive(proba: np.ndarray) -> ClassPredictive:
    classes = np.array([f"c{k}" for k in range(proba.shape[1])])
    return ClassPredictive(proba, np.zeros(len(proba)), classes)


def drawn(n: int, c: int, seed: int, power: float = 1.0) -> tuple[ClassPredictive, np.ndarray]:
    """Labels from random probabilities, and a model that says their power."""
    rng = np.random.default_rng(seed)
    honest = predictive(rng.dirichlet(np.full(c, 0.5), n))
    stated = np.maximum(honest.proba, 1e-9) ** power
    return predictive(stated / stated.sum(axis=1, keepdims=True)), honest.sample(rng, 1)[0]


@pytest.mark.parametrize(
    ("true_std", "shift", "says"),
    [(1.6, 0.0, "overconfident"), (0.6, 0.0, "too cautious"), (1.0, 0.8, "biased")],
)
def test_faults_are_named(true_std, shift, says):
    rng = np.random.default_rng(4)
    y = shift + true_std * rng.standard_normal(400)
    stretch = np.quantile(np.abs(y), 0.9) / stats.norm.ppf(0.95)
    verdict = judge(stats.norm.cdf(y), stretch)
    assert verdict.tone == "caution"
    assert says in verdict.headline.lower()
    if shift:
        assert verdict.headline == "Biased: predictions are too low."
        assert any("above" in detail for detail in verdict.details)
    else:
        assert "times as wide" in verdict.details[0]


def test_a_headline_names_the_level_where_90_percent_hold():
    shares = (np.arange(400) + 0.5) / 400
    folded = np.interp(shares, [0.0, 0.7, 0.9, 1.0], [0.0, 0.5, 0.9, 1.0])
    u = 0.5 + 0.5 * folded * np.where(np.arange(400) % 2, 1, -1)
    verdict = judge(u, 1.0)
    assert "Too cautious: the 50" in verdict.headline.replace("\N{NO-BREAK SPACE}", " ")
    assert "contain 70" in verdict.headline
    assert "nearly right" in verdict.details[0]


def test_wrong_tails_and_wrong_shapes_are_named():
    rng = np.random.default_rng(5)
    tails = rng.standard_t(2, 4000) / 1.6
    assert "tails" in judge(stats.norm.cdf(tails), 1.0).headline
    # |2u - 1| is uniform and u has mean 1/2, yet its side depends on its distance.
    folded = (np.arange(400) + 0.5) / 400
    lopsided = 0.5 + 0.5 * folded * np.where(folded < np.sqrt(0.5), 1, -1)
    assert "skewed" in judge(lopsided, 1.0).headline


def test_a_hint_is_hedged():
    folded = np.linspace(0.0, 1.0, 202)[1:-1] ** 0.81
    u = 0.5 + 0.5 * folded * np.where(np.arange(200) % 2, 1, -1)
    statistic = anderson_darling(folded)
    assert 3.077 < statistic < 3.878
    verdict = judge(u, 1.1)
    assert verdict.headline.startswith("Perhaps overconfident")


def test_small_deviations_of_large_tables_are_called_small():
    u = stats.norm.cdf(1.02 * np.random.default_rng(6).standard_normal(200_000))
    verdict = judge(u, 1.02)
    assert verdict.tone == "good"
    assert "200,000 rows" in verdict.headline
    assert any("too narrow" in detail for detail in verdict.details)


def test_few_rows_are_not_judged_and_certainty_does_not_break_it():
    assert judge(np.array([0.3]), 1.0).tone == "unknown"
    assert of_classes(*drawn(19, 3, seed=8)).tone == "unknown"
    assert "Overconfident" in judge(np.repeat([0.0, 1.0], 20), 50.0).headline
    certain = predictive(np.tile([1.0, 0.0], (50, 1)))
    assert of_classes(certain, np.array(["c0"] * 50)).tone == "good"
    assert of_classes(certain, np.array(["c0"] * 49 + ["c1"])).tone == "caution"


def test_a_histogram_that_is_not_flat_is_seen_even_where_the_distribution_function_hardly_is():
    """Bars of 133 and 67 in turn, for which a Kolmogorov-Smirnov test has no eye."""
    counts = np.tile([133, 67], 10)
    u = np.concatenate([(k + (np.arange(m) + 0.5) / m) / 20 for k, m in enumerate(counts)])
    assert stats.kstest(u, "uniform").pvalue > 0.5
    verdict = judge(u, 1.0)
    assert verdict.tone == "caution"
    assert "shape" in verdict.headline


def test_too_few_rows_to_tell_are_not_called_calibrated():
    even = {n: (np.arange(n) + 0.5) / n for n in (25, 99, 400)}
    verdicts = {n: judge(u, 1.0) for n, u in even.items()}
    assert [verdict.tone for verdict in verdicts.values()] == ["unknown", "unknown", "good"]
    assert "25 rows are too few" in verdicts[25].headline
    assert "the share inside 90 % intervals varies by ± 3.0" in verdicts[400].details[0]
    for n, tone in ((30, "unknown"), (1000, "good")):
        model = predictive(np.tile([0.8, 0.2], (n, 1)))
        assert of_classes(model, np.where(np.arange(n) % 5, "c0", "c1")).tone == tone


def test_a_target_hit_exactly_is_not_called_a_fault():
    u = np.random.default_rng(8).permutation((np.arange(40) + 0.5) / 40)
    assert judge(np.append(u, 0.5), 1.0).tone == "unknown"


def test_the_temperature_undoes_a_power():
    model, y = drawn(20_000, 3, seed=3, power=2.5)
    # Its information at T = 1, from the variance of log p under each row's distribution.
    log_p = np.log(np.maximum(model.proba, 1e-300)) / 2.5
    honest = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    var = np.sum(honest * log_p**2, axis=1) - np.sum(honest * log_p, axis=1) ** 2
    error = 2.5 / np.sqrt(np.sum(var))
    assert temperature(model, y) == pytest.approx(2.5, abs=4 * error)


@pytest.mark.parametrize(("n", "c"), [(150, 1), (100, 2), (400, 5)])
def test_an_honest_model_is_rarely_blamed(n, c):
    rng = np.random.default_rng(3)
    found = (
        judge(rng.random(n), 1.0) if c == 1 else of_classes(*drawn(n, c, s)) for s in range(600)
    )
    # Hints at 2.5 % for width (or confidence) and for bias (or balance), a shape (or levels) at
    # 1 %: at most 6 % of honest models.
    blamed = np.mean([one.tone == "caution" for one in found])
    assert blamed < 0.06 + 4 * np.sqrt(0.06 * 0.94 / 600)


@pytest.mark.parametrize("c", [2, 4])
@pytest.mark.parametrize(
    ("power", "says", "detail"),
    [(2.5, "Overconfident", "points above"), (0.4, "Too cautious", "points below")],
)
def test_dishonest_confidence_is_named(c, power, says, detail):
    verdict = of_classes(*drawn(800, c, seed=5, power=power))
    assert verdict.tone == "caution"
    assert verdict.headline.startswith(says)
    assert detail in verdict.details[0]
    assert f"log-odds by {power:.2}"[:-1] in verdict.details[0]


def test_a_class_that_comes_too_often_is_named():
    rng = np.random.default_rng(6)
    proba = np.tile([0.4, 0.35, 0.25], (600, 1))
    y = rng.choice(["c0", "c1", "c2"], 600, p=[0.4, 0.2, 0.4])
    verdict = of_classes(predictive(proba), y)
    assert verdict.headline.startswith("Unbalanced: the probabilities of c")
    assert "rows; there are" in verdict.details[0]


def test_wrong_levels_are_named_where_the_average_is_right():
    p = np.repeat([0.6, 0.9], 500)
    right = np.concatenate([np.arange(500) < 375, np.arange(500) < 375])
    model = predictive(np.column_stack([p, (1.0 - p) / 2, (1.0 - p) / 2]))
    wrong = np.where(np.arange(1000) % 2, "c1", "c2")
    # Enough wrong answers go to either other class that the balance is right, too.
    verdict = of_classes(model, np.where(right, "c0", wrong))
    assert verdict.headline == "Right on average, but not at every level of confidence."


def test_what_is_small_is_called_small_and_what_is_not_is_not():
    model, y = drawn(200_000, 3, seed=7, power=1.03)
    verdict = of_classes(model, y)
    assert verdict.tone == "good"
    assert "small" in verdict.headline
    # One error in a hundred where one in a thousand is announced: a point, but ten times as many.
    rare = predictive(np.tile([0.999, 0.001], (20_000, 1)))
    assert of_classes(rare, np.where(np.arange(20_000) % 100, "c0", "c1")).tone == "caution"


@pytest.mark.parametrize(("sign", "side"), [(1.0, "high"), (-1.0, "low")])
def test_a_skew_is_named_by_its_side(sign, side):
    # A density 1 + 0.8 P_3 leaves mean and |2u - 1| as they are when uniform (Legendre).
    grid = np.linspace(0.0, 1.0, 100_001)
    t = 2.0 * grid - 1.0
    below = grid + sign * 0.4 * (1.25 * t**4 - 1.5 * t**2 + 0.25) / 2.0
    u = np.interp((np.arange(2000) + 0.5) / 2000, below, grid)
    verdict = judge(u, 1.0)
    assert verdict.tone == "caution"
    assert f"skewed than predicted, towards {side} values" in verdict.headline


def test_rows_of_a_group_are_one_row_to_the_verdict():
    """Honest for each group, whose rows share their error: seldom blamed, never by few groups."""
    rng = np.random.default_rng(0)
    blamed = 0
    for _ in range(200):
        group = np.repeat(np.arange(60), 20)
        y = np.repeat(rng.standard_normal(60), 20) + 0.01 * rng.standard_normal(1200)
        predicted = GaussianPredictive(np.zeros(1200), np.ones(1200), np.zeros(1200))
        blamed += verdict(predicted, y, group).tone == "caution"
    assert blamed <= 0.05 * 200 + 3.0 * np.sqrt(200 * 0.05 * 0.95)
    judged = verdict(predicted, y, group)
    assert judged.details[-1].startswith("Assessed on one row of each of 60 groups. Over all rows")
    few = verdict(predicted[:240], y[:240], group[:240])
    assert few.headline == (
        "Too few groups to assess calibration: 12 of the 20 groups that are needed."
    )
    proba = np.tile([0.3, 0.7], (1200, 1))
    of_classes = ClassPredictive.of_sure_weights(proba, np.array(["a", "b"]))
    labels = np.where(np.repeat(rng.random(60) < 0.3, 20), "a", "b")
    assert "of each of 60 groups" in verdict(of_classes, labels, group).details[-1]


def test_counts_quote_the_intervals_that_the_page_shows():
    """A PIT that is drawn between two probabilities holds fewer rows than the interval does."""
    y = np.random.default_rng(1).poisson(1.0, 300).astype(float)
    x = np.zeros((300, 1))
    predicted = Baselines.fit(x, y, kind="count").predict(x)["constant"]
    inside = metrics.coverage(predicted, y, 0.9)
    assert inside > np.mean(np.abs(2.0 * metrics.pit(predicted, y) - 1.0) <= 0.9) + 0.02
    assert (
        f"{percent(0.9)} intervals contain {percent(inside)}" in verdict(predicted, y).details[-1]
    )
    shown = next(one for one in scores({"model": predicted}, y) if one.metric.key == "inside_0.9")
    assert shown.values == (inside,)


def test_leads_and_scores_err_over_groups():
    """Twenty rows of each of thirty groups that err alike: as uncertain as thirty rows."""
    rng = np.random.default_rng(2)
    group, y = np.repeat(np.arange(30), 20), np.repeat(rng.standard_normal(30), 20)
    one, two = (GaussianPredictive(m * np.ones(600), np.ones(600), np.zeros(600)) for m in (0, 0.1))

    def error(y, group=None, at=slice(None)):
        pair = {"model": one[at], "other": two[at]}
        leads = {lead.loss: lead.by for lead in rivals(pair, y, group)[0].leads}
        return leads["log-likelihood"].error

    many = error(y, group)
    assert many == pytest.approx(error(y[::20], at=slice(None, None, 20)))
    assert error(y) < 0.3 * many
    assert error(y, np.zeros(600)) == np.inf
    rmse = [scores({"model": one}, y, labels)[0].errors[0] for labels in (None, group)]
    assert rmse[1] > 4.0 * rmse[0]

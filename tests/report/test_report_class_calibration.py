import numpy as np
import pytest
from scipy import stats

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.report.calibration import abstaining, diagram, histogram
from bayesprop.report.calibration_tests import chance_of_sum, temperature
from bayesprop.report.verdict import of_classes


def predictive(proba: np.ndarray) -> ClassPredictive:
    classes = np.array([f"c{k}" for k in range(proba.shape[1])])
    return ClassPredictive(proba, np.zeros(len(proba)), classes)


def drawn(n: int, c: int, seed: int, power: float = 1.0) -> tuple[ClassPredictive, np.ndarray]:
    """Labels from random probabilities, and a model that says their power."""
    rng = np.random.default_rng(seed)
    honest = predictive(rng.dirichlet(np.full(c, 0.5), n))
    said = np.maximum(honest.proba, 1e-9) ** power
    return predictive(said / said.sum(axis=1, keepdims=True)), honest.sample(rng, 1)[0]


@pytest.mark.parametrize("n", [100, 5000])
def test_the_diagram_counts_every_row(n):
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(n), [0.0, 1.0]])
    happened = rng.random(n + 2) < p
    found = diagram(p, happened)
    assert found is not None
    assert found.count.sum() == n + 2
    width = 0.1 if n < 2000 else 0.05
    first = p < width
    assert found.predicted[0] == pytest.approx(np.mean(p[first]))
    assert found.actual[0] == pytest.approx(np.mean(happened[first]))
    expected = stats.binom.ppf((0.025, 0.975), found.count[3], found.predicted[3])
    np.testing.assert_allclose((found.low[3], found.high[3]), expected / found.count[3])
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


def test_rows_of_equal_confidence_share_their_errors():
    right = np.arange(100) >= 40
    found = abstaining(np.full(100, 0.6), right)
    assert found is not None
    np.testing.assert_allclose(found.error, 0.4)


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


def test_the_chance_of_a_certain_sum():
    assert chance_of_sum(5.0, np.ones(5)) == 1.0
    assert chance_of_sum(4.0, np.ones(5)) == 0.0


def test_the_temperature_undoes_a_power():
    model, y = drawn(20_000, 3, seed=3, power=2.5)
    # Its information at T = 1, from the variance of log p under each row's distribution.
    log_p = np.log(np.maximum(model.proba, 1e-300)) / 2.5
    honest = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    var = np.sum(honest * log_p**2, axis=1) - np.sum(honest * log_p, axis=1) ** 2
    error = 2.5 / np.sqrt(np.sum(var))
    assert temperature(model, y) == pytest.approx(2.5, abs=4 * error)


@pytest.mark.parametrize(("n", "c"), [(100, 2), (400, 5)])
def test_an_honest_model_is_rarely_blamed(n, c):
    blamed = [of_classes(*drawn(n, c, seed=seed)).tone == "caution" for seed in range(600)]
    # Hints at 2.5 % for confidence and for balance, levels at 1 %: at most 6 % of honest models.
    assert np.mean(blamed) < 0.06 + 4 * np.sqrt(0.06 * 0.94 / 600)


@pytest.mark.parametrize("c", [2, 4])
@pytest.mark.parametrize(
    ("power", "says", "detail"),
    [(2.5, "Overconfident", "too sure"), (0.4, "Too cautious", "not sure enough")],
)
def test_dishonest_confidence_is_named(c, power, says, detail):
    verdict = of_classes(*drawn(800, c, seed=5, power=power))
    assert verdict.tone == "caution"
    assert verdict.headline.startswith(says)
    assert detail in verdict.details[0]
    assert f"divided by {power:.2}"[:-1] in verdict.details[0]


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


def test_few_rows_are_not_judged_and_certainty_does_not_break_it():
    model, y = drawn(19, 3, seed=8)
    assert of_classes(model, y).tone == "unknown"
    certain = predictive(np.tile([1.0, 0.0], (50, 1)))
    assert of_classes(certain, np.array(["c0"] * 50)).tone == "good"
    assert of_classes(certain, np.array(["c0"] * 49 + ["c1"])).tone == "caution"


def test_too_few_rows_to_tell_are_not_called_calibrated():
    for n, tone in ((30, "unknown"), (1000, "good")):
        model = predictive(np.tile([0.8, 0.2], (n, 1)))
        y = np.where(np.arange(n) % 5, "c0", "c1")
        assert of_classes(model, y).tone == tone

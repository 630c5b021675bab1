"""Class probabilities: entropies against scipy, labels of every kind, draws against shares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.pooled import pooled


def posterior(n=50, s=30, c=4, seed=0):
    """Probabilities of every draw, (s, n, c)."""
    logits = 2.0 * np.random.default_rng(seed).standard_normal((s, n, c))
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


@pytest.fixture
def pred():
    p = posterior()
    expected_entropy = stats.entropy(p, axis=-1).mean(axis=0)
    return ClassPredictive(p.mean(axis=0), expected_entropy, np.array(["a", "b", "c", "d"]))


def test_entropy(pred):
    np.testing.assert_allclose(pred.entropy, stats.entropy(pred.proba, axis=1), rtol=1e-12)


def test_mutual_information_is_the_mean_divergence_from_the_mean(pred):
    """I(y; w) = E KL(p(y | w) || E p(y | w)): another formula for the same number."""
    p = posterior()
    divergence = stats.entropy(p, np.broadcast_to(pred.proba, p.shape), axis=-1).mean(axis=0)
    np.testing.assert_allclose(pred.mutual_information, divergence, rtol=1e-9)
    assert pred.epistemic_share == pytest.approx(divergence.sum() / pred.entropy.sum())


def test_one_network_has_no_epistemic_doubt():
    p = posterior(s=1)[0]
    pred = ClassPredictive(p, stats.entropy(p, axis=1), np.arange(4))
    np.testing.assert_allclose(pred.mutual_information, 0.0, atol=1e-12)


def test_several_labels_of_a_row_are_predicted_each_by_itself():
    p = posterior(c=6).reshape(30, 50, 3, 2)
    p /= p.sum(axis=-1, keepdims=True)
    inside, classes = stats.entropy(p, axis=-1).mean(axis=0), np.array([0, 1])
    both = ClassPredictive(p.mean(axis=0), inside, classes, 0.5 * inside)
    y = np.random.default_rng(1).integers(2, size=(50, 3))
    draws = both.sample(np.random.default_rng(2), 4000)
    se = np.sqrt(np.prod(both.proba, axis=-1) / 4000)
    assert np.all(np.abs(draws.mean(axis=0) - both.proba[..., 1]) < 5.0 * se)
    for k in range(3):
        proba = p.mean(axis=0)[:, k]
        one = ClassPredictive(proba, inside[:, k], classes, 0.5 * inside[:, k])
        for name in ("entropy", "mutual_information", "gap_share", "confidence", "label"):
            values = getattr(one, name)
            np.testing.assert_array_equal(getattr(both, name)[:, k], values, err_msg=name)
            np.testing.assert_array_equal(getattr(both.target(k), name), values, err_msg=name)
        np.testing.assert_array_equal(both.log_prob(y)[:, k], one.log_prob(y[:, k]))
    assert both.is_finite.shape == (50,)
    with pytest.raises(ValueError, match=r"row and column, shape \(50, 3\), got \(50,\)"):
        both.log_prob(y[:, 0])
    with pytest.raises(ValueError, match=r"got 2$"):
        both.log_prob(np.where(np.arange(3) == 1, 2, y))


def test_certain_rows():
    pred = ClassPredictive(np.eye(3), np.zeros(3), np.array([1, 2, 3]))
    np.testing.assert_array_equal(pred.entropy, 0.0)
    assert pred.epistemic_share == 0.0
    np.testing.assert_array_equal(pred.label, [1, 2, 3])
    np.testing.assert_array_equal(pred.log_prob(np.array([1, 2, 1])), [0.0, 0.0, -np.inf])


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["b", "kk", "z"]),
        np.array(["b", "kk", "z"], dtype=object),
        np.array([-1, 0, 9]),
        np.array([0.5, 1.5, 2.5]),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_labels_of_every_kind(classes):
    p = posterior(n=3, s=1, c=3)[0]
    pred = ClassPredictive(p, np.zeros(3), classes)
    y = classes[[2, 0, 1]]
    np.testing.assert_array_equal(pred.codes(y), [2, 0, 1])
    np.testing.assert_allclose(pred.log_prob(y), np.log([p[0, 2], p[1, 0], p[2, 1]]))
    assert set(pred.label) <= set(classes)


@pytest.mark.parametrize("kind", [np.float64, np.float32, object, str])
def test_numbers_are_classes_of_text(kind):
    """A table with the classes 0, 0.5 and 1 holds them as text."""
    pred = ClassPredictive(
        p := posterior(n=3, s=1, c=3)[0], np.zeros(3), np.array(["0", "0.5", "1"])
    )
    y = np.array([0.0, 0.5, 1.0]).astype(kind) if kind is not str else pred.classes
    np.testing.assert_array_equal(pred.codes(y), [0, 1, 2])
    np.testing.assert_allclose(pred.pmf(y[1]), p[:, 1])  # one label for all rows
    with pytest.raises(ValueError, match=r"\(0, 0.5, 1\), got '?0.7"):
        pred.pmf(0.7)


def test_unknown_labels_are_named(pred):
    y = np.array(["a"] * 49 + ["zebra"])
    with pytest.raises(ValueError, match=r"\(a, b, c, d\), got .*zebra"):
        pred.log_prob(y)
    with pytest.raises(ValueError, match=r"one label a row, shape \(50,\), got \(3,\)"):
        pred.codes(np.array(["a", "b", "c"]))


def test_draws_have_the_right_shares(pred):
    n = 20_000
    drawn = pred.sample(np.random.default_rng(3), n)
    assert drawn.shape == (n, 50)
    shares = np.stack([(drawn == label).mean(axis=0) for label in pred.classes], axis=1)
    standard_error = np.sqrt(pred.proba * (1.0 - pred.proba) / n)
    assert (np.abs(shares - pred.proba) < 5.0 * standard_error).all()


@pytest.fixture
def ordered():
    """Columns a, b, c, d; from the lowest: c, a, d, b."""
    rng = np.random.default_rng(1)
    proba = rng.dirichlet(np.ones(4), 60)
    return ClassPredictive(proba, np.zeros(60), np.array(["a", "b", "c", "d"]), order=(2, 0, 3, 1))


def test_the_ranked_probability_score_is_the_crps_of_the_class_number(ordered):
    """Oracle: E|k - y| - E|k - k'| / 2 over all pairs of classes."""
    y = np.random.default_rng(2).choice(["a", "b", "c", "d"], 60)
    rank = {"c": 0, "a": 1, "d": 2, "b": 3}
    number, came = np.arange(4), np.array([rank[label] for label in y])
    p = ordered.proba[:, [2, 0, 3, 1]]
    spread = np.abs(number[:, None] - number)
    want = np.sum(p * np.abs(number - came[:, None]), axis=1)
    want -= 0.5 * np.einsum("nj,jk,nk->n", p, spread, p)
    np.testing.assert_allclose(ordered.rps(y), want, rtol=1e-9, atol=1e-12)


def test_medians_and_intervals_count_classes_in_their_order(ordered):
    words = np.array(["c", "a", "d", "b"])
    for k, p in enumerate(ordered.proba[:, [2, 0, 3, 1]]):
        at = lambda level, p=p: words[next(j for j in range(4) if p[: j + 1].sum() >= level)]  # noqa: E731
        assert ordered.median[k] == at(0.5)
        np.testing.assert_array_equal(ordered.interval(0.8)[k], [at(0.1), at(0.9)])
    assert ordered.quantile([0.2, 0.5, 0.7]).shape == (60, 3)
    assert (ordered.quantile(1.0) == "b").all()
    sure = ClassPredictive(np.eye(3), np.zeros(3), np.arange(3), order=(0, 1, 2))
    np.testing.assert_array_equal(sure.interval(0.9), np.arange(3)[:, None].repeat(2, axis=1))


def test_the_order_stays_with_chosen_and_joined_rows(ordered):
    assert ordered[3:5].order == ClassPredictive.joined([ordered[:3], ordered[3:]]).order
    assert ordered[3:5].order == (2, 0, 3, 1)


def test_classes_without_order_have_no_median(pred, ordered):
    for ask in (lambda: pred.median, lambda: pred.interval(0.9), lambda: pred.rps(pred.label)):
        with pytest.raises(ValueError, match="these have no order"):
            ask()
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        ordered.interval(1.0)


def test_pooled_classes_are_put_in_order():
    rng = np.random.default_rng(3)
    proba = rng.dirichlet(np.ones(3), 6)
    every = ClassPredictive(proba, rng.uniform(0.0, 0.1, 6), np.array(["a", "b", "c"]))
    places = np.split(rng.permutation(6), [2, 3])
    whole = pooled([every[at] for at in places], places)
    np.testing.assert_array_equal(whole.proba, proba)
    np.testing.assert_array_equal(whole.expected_entropy, every.expected_entropy)

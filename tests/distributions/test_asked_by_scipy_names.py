"""Every kind of prediction answers what scipy's distributions do: against scipy and integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.imputed import completed
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.targets.bijectors import Logit, SoftplusInverse
from latent_predictives import EPISTEMIC, FEW, LATENTS, MEAN, NOISE, N, from_zero

GAUSSIAN = LATENTS["gaussian"]
DENSE = LATENTS | {
    "positive": TransformedPredictive.of(GAUSSIAN, SoftplusInverse(1.5)),
    "share": TransformedPredictive.of(GAUSSIAN, Logit()),
    "pooled": pooled([GAUSSIAN[:1], GAUSSIAN[1:]], [np.array([2]), np.array([0, 1, 3])]),
    "completed": completed(GAUSSIAN, 2),
}
COUNTED = {
    "count": TransformedPredictive.of(GAUSSIAN, FEW),
    "completed counts": TransformedPredictive.of(completed(GAUSSIAN, 2), FEW),
}
FROM_ZERO = TransformedPredictive.of(
    GAUSSIAN, from_zero(least=0.3, scale=1.0, largest=40.0, gap=0.02)
)
EVERY = DENSE | COUNTED | {"nonnegative": FROM_ZERO}
every = pytest.mark.parametrize("name", EVERY)
LEVELS = np.array([0.01, 0.3, 0.5, 0.95])


@pytest.mark.parametrize("name", COUNTED)
def test_counts_have_probabilities_and_no_density(name):
    p, k = COUNTED[name], np.full(len(COUNTED[name]), 2.0)
    np.testing.assert_array_equal(p.pmf(k), np.exp(p.logpmf(k)))
    with pytest.raises(TypeError, match="no density: ask for logpmf"):
        p.pdf(k)


@pytest.mark.parametrize("name", DENSE)
def test_other_numbers_have_a_density_and_no_probabilities(name):
    p = DENSE[name]
    with pytest.raises(TypeError, match="no probability: ask for logpdf"):
        p.pmf(p.mean)


@every
def test_levels_of_any_shape(name):
    p = EVERY[name]
    square = LEVELS.reshape(2, 2)
    assert p.quantile(square).shape == (len(p), 2, 2)
    np.testing.assert_array_equal(p.ppf(square)[1, 0], p.quantile(LEVELS[2]))
    np.testing.assert_allclose(p.quantile([0.05, 0.95]), p.interval(0.9), rtol=1e-12)
    np.testing.assert_array_equal(p.cdf(1.0), p.cdf(np.ones(len(p))))


@every
def test_rows_are_selected_and_joined(name):
    p = EVERY[name]
    again = type(p).joined([p[:2], p[2:]])
    for part in ("mean", "epistemic_var", "noise_var"):
        np.testing.assert_allclose(getattr(again, part), getattr(p, part), rtol=1e-12)
        assert (getattr(p, part) >= 0.0).all() or part == "mean"
    np.testing.assert_allclose(again.quantile(0.3), p.quantile(0.3), rtol=1e-9)
    if isinstance(p, TransformedPredictive):
        with pytest.raises(TypeError, match="keeps its unit"):
            p.rescaled(0.0, 2.0)


@every
def test_draws_have_the_moments(name):
    p, n = EVERY[name], 20_000
    drawn = p.rvs(n, random_state=1)
    assert (drawn.shape, p.rvs().shape) == ((n, len(p)), (len(p),))
    np.testing.assert_array_equal(drawn, p.rvs(n, np.random.default_rng(1)))
    assert (np.abs(drawn.mean(axis=0) - p.mean) < 4.5 * drawn.std(axis=0) / np.sqrt(n)).all()
    square = (drawn - p.mean) ** 2
    assert (np.abs(square.mean(axis=0) - p.var) < 4.5 * square.std(axis=0) / np.sqrt(n)).all()


def test_names_are_those_of_scipy():
    ours, theirs = GAUSSIAN, stats.norm(MEAN, np.sqrt(EPISTEMIC + NOISE))
    y = MEAN + np.linspace(-2.0, 2.0, 3 * N).reshape(3, N)
    for name in ("pdf", "logpdf", "cdf"):
        np.testing.assert_allclose(getattr(ours, name)(y), getattr(theirs, name)(y), rtol=1e-10)
    np.testing.assert_allclose(ours.ppf(LEVELS), theirs.ppf(LEVELS[:, None]))
    np.testing.assert_allclose(ours.interval(0.8), np.stack(theirs.interval(0.8), axis=-1))
    with pytest.raises(ValueError, match=r"shape of the prediction, \(4,\), got \(1,\)"):
        ours.pdf(np.zeros((4, 1)))  # which would be all pairs


def classes(n):
    proba = np.linspace(0.1, 0.8, n)[:, None] * [1.0, 0.0] + [0.0, 0.1]
    proba = np.column_stack([proba, 1.0 - proba.sum(axis=1)])
    return ClassPredictive(proba, np.zeros(n), np.array(["<a>", "b", "c"]))


def test_classes_have_probabilities():
    p = classes(3)
    np.testing.assert_allclose(p.pmf(np.array(["<a>", "b", "c"])), p.proba[range(3), range(3)])
    assert p.rvs().shape == (3,)


@pytest.mark.parametrize("p", [*EVERY.values(), classes(3), classes(30)])
def test_it_shows_itself(p):
    from matplotlib import pyplot

    ax = p.plot()
    assert ax.get_xlabel()
    assert ax.get_legend() is not None
    _, own = pyplot.subplots()
    assert p.plot(own) is own
    pyplot.close("all")
    page = p._repr_html_()
    assert page.count("<tr>") == 1 + min(len(p), 10)
    assert "<a>" not in page


def test_the_probability_of_zero_is_a_dot():
    ax = FROM_ZERO.plot()
    dots = [line for line in ax.get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    at_zero = FROM_ZERO.cdf(0.0)
    assert [line.get_xdata().tolist() for line in dots] == [[0.0]] * len(dots)
    drawn = [line.get_ydata()[0] for line in dots]
    np.testing.assert_allclose(drawn, at_zero[at_zero > 0.002], rtol=1e-9)
    assert ax.get_ylabel() == "density (dots: probability)"


def test_many_rows_and_several_targets_show_themselves():
    many = GaussianPredictive(*np.linspace(0.5, 1.0, 72).reshape(3, 12, 2))
    assert "9, target 1" in many._repr_html_()
    assert "first 10 of 12 rows" in many._repr_html_()
    assert len(many.target(0).plot().collections) == 2
    with pytest.raises(ValueError, match=r"one target: choose it by target\(k\)"):
        many.plot()


@every
def test_draws_of_any_size_come_first(name):
    p = EVERY[name]
    draws = p.rvs(size=(2, 3), random_state=7)
    assert draws.shape == (2, 3, len(p))
    np.testing.assert_array_equal(draws.reshape(6, -1), p.rvs(size=6, random_state=7))
    np.testing.assert_array_equal(p.rvs(size=(), random_state=7), p.rvs(random_state=7))
    for size in (2.5, (2, 1.0), -1, "3"):
        with pytest.raises(ValueError, match="size must be a whole number of draws, or a tuple"):
            p.rvs(size=size)


@every
def test_a_prediction_shows_itself_in_a_line(name):
    p = EVERY[name]
    line = repr(p)
    assert line.startswith(f"{type(p).__name__}({len(p)} rows: ")
    assert line.endswith("; ...)") == (len(p) > 3)
    assert line.count("±") == min(len(p), 3)
    assert len(line) < 120


def test_lines_of_classes_of_several_targets_and_of_no_row():
    classes = ClassPredictive.of_sure_weights(np.array([[0.25, 0.75]]), np.array(["a", "b"]))
    assert repr(classes) == "ClassPredictive(1 row: b 0.750)"
    proba = np.array([[[0.25, 0.75], [0.9, 0.1]]])
    labels = ClassPredictive(proba, np.zeros((1, 2)), np.array([0, 1]))
    assert repr(labels) == "ClassPredictive(1 row: 1 0.750, 0 0.900)"
    assert "<td>0, target 1</td><td>0</td><td>0.900</td>" in labels._repr_html_()
    mean, var = np.array([[38321.7, 0.5]]), np.array([[1e4, 0.0]])
    two = GaussianPredictive(mean, var, np.ones((1, 2)) - [[1.0, 0.75]])
    assert repr(two) == "GaussianPredictive(1 row: 38,320 ± 100, 0.5000 ± 0.500)"
    assert repr(two[:0]) == "GaussianPredictive(0 rows: )"
    assert "<td>38,320</td>" in two._repr_html_()

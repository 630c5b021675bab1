"""The pictures of experiments: both files appear, and are the same each time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from papers.figures import (
    averaging_figure,
    band_figure,
    class_field_figure,
    curves_figure,
    relu_figure,
    snr_figure,
    weights_figure,
)


def band(stem):
    rng = np.random.default_rng(0)
    x, at = np.linspace(-6.0, 6.0, 121), rng.uniform(-4.0, 4.0, 20)
    std = 3.0 + np.maximum(np.abs(x) - 4.0, 0.0) * 20.0
    wide, narrow = (x**3 - 3 * std, x**3 + 3 * std), (x**3 - std, x**3 + std)
    y = at**3 + 3.0 * rng.standard_normal(20)
    panels = {
        "Bayesian": band_figure.Panel(x, x**3, (wide, narrow), at, y, truth=x**3),
        "plain": band_figure.Panel(x, 0.9 * x**3, (narrow,), at, y),
    }
    names = ("mean ± 3 std", "mean ± 1 std")
    band_figure.draw(stem, panels=panels, line_name="predictive mean", band_names=names)


def snr(stem):
    rng = np.random.default_rng(0)
    mean = np.concatenate([[0.0], 0.02 * rng.standard_normal(30_000), rng.standard_normal(10_000)])
    std = np.full(len(mean), 0.1)
    snr_figure.draw(stem, mean=mean, std=std, cut_share=0.75)


def weights(stem):
    rng = np.random.default_rng(0)
    found = {
        "Bayes by Backprop": 0.2 * rng.standard_normal(20_000),
        "dropout": 0.1 * rng.standard_normal(20_000),
        "SGD": 0.05 * rng.standard_normal(20_000),
    }
    weights_figure.draw(stem, weights=found)


def curves(stem):
    epochs = np.arange(1.0, 201.0)
    found = {"SGD": 1.8 + np.exp(-epochs / 5), "dropout": 1.5 + np.exp(-epochs[:150] / 30)}
    curves_figure.draw(stem, curves=found, limits=(0.8, 3.0))


def relu(stem):
    cases = []
    for m in (-1.0, 1.0):
        for v in (0.25, 1.0):
            a = m / np.sqrt(v)
            mean = m * stats.norm.cdf(a) + np.sqrt(v) * stats.norm.pdf(a)
            square = (m**2 + v) * stats.norm.cdf(a) + m * np.sqrt(v) * stats.norm.pdf(a)
            cases.append(relu_figure.Rectified(m, v, mean, square - mean**2))
    relu_figure.draw(stem, cases=cases[:3], n_columns=2)


def averaging(stem):
    rng = np.random.default_rng(0)
    n_draws = np.array([1, 2, 5, 10, 20, 50, 100])
    errors = 1.6 + 1.5 / n_draws[:, None] + 0.2 * rng.standard_normal((7, 25)) / n_draws[:, None]
    averaging_figure.draw(stem, n_draws=n_draws, errors=errors, closed_form=1.62)


def class_field(stem):
    rng = np.random.default_rng(0)
    x1, x2 = np.linspace(-2.0, 3.0, 60), np.linspace(-1.5, 2.0, 50)
    fields = {}
    for name, slope in (("sure", 6.0), ("unsure", 1.5)):
        p = 1.0 / (1.0 + np.exp(-slope * (x1[:, None] - x2)))
        entropy = -p * np.log(p) - (1.0 - p) * np.log1p(-p)
        fields[name] = class_field_figure.Field(p, entropy)
    x = rng.standard_normal((60, 2)) * 0.8
    positive = x[:, 0] > x[:, 1]
    class_field_figure.draw(stem, x1=x1, x2=x2, fields=fields, X_train=x, positive=positive)


@pytest.mark.parametrize(
    ("make", "says"),
    [(band, 0), (snr, 0), (weights, 0), (curves, 0), (relu, 0), (averaging, 0), (class_field, 1)],
)
def test_both_files_are_written_and_are_the_same_each_time(tmp_path, make, says):
    make(tmp_path / "picture")
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(first) == {"picture.png", "picture.svg"}
    assert first["picture.png"].startswith(b"\x89PNG")
    assert (b"<image" in first["picture.svg"]) == bool(says)
    make(tmp_path / "picture")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first

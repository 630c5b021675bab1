"""The lecture's practicals, tiny; logistic regression beside a sum over a grid of weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

from papers import (
    curve,
    lecture_linear,
    lecture_logistic,
    lecture_moons,
    mc_dropout_moons,
    mc_dropout_regression,
    runner,
)
from papers.protocol import Cell

TINY = {"n_points": 20, "n_hidden": 5, "n_epochs": 2}
FEW = TINY | {"n_vi_epochs": 2}


def test_clouds_have_the_moments_they_say():
    points = lecture_logistic.clouds(20_000, random_state=0)
    assert abs(points.y.mean() - 0.5) < 4.0 * 0.5 / np.sqrt(20_000)
    clouds = points.X - np.outer(2.0 * points.y - 1.0, [1.2, 0.8])
    for label in (0, 1):
        np.testing.assert_allclose(clouds[points.y == label].mean(axis=0), 0.0, atol=0.05)
        np.testing.assert_allclose(np.cov(clouds[points.y == label].T), np.eye(2), atol=0.06)


def exact(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """p(y = 1) at new rows under N(0, 1) weights and intercept, by a sum over a grid."""
    axis = np.linspace(-5.0, 6.0, 67)
    w = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    logits = w[:, :1] + w[:, 1:] @ x.T
    log_joint = special.log_expit(np.where(y == 1, logits, -logits)).sum(axis=1)
    log_joint -= 0.5 * np.sum(w * w, axis=1)
    weight = special.softmax(log_joint)
    return weight @ special.expit(w[:, :1] + w[:, 1:] @ new.T)


def test_map_is_the_most_probable_weights():
    points = lecture_logistic.clouds(40, random_state=3)
    X = (points.X - points.X.mean(axis=0)) / points.X.std(axis=0)
    columns, sign = np.column_stack([np.ones(len(X)), X]), 2.0 * points.y - 1.0

    def minus_log_joint(w):
        return 0.5 * w @ w - special.log_expit(sign * (columns @ w)).sum()

    def slope(w):
        return w - columns.T @ (sign * special.expit(-sign * (columns @ w)))

    best = optimize.minimize(minus_log_joint, np.zeros(3), jac=slope, options={"gtol": 1e-10}).x
    model = lecture_logistic.model(lecture_logistic.Config(), "map", 0).fit(points.X, points.y)
    proba = model.predict_dist(points.X).proba[:, 1]
    np.testing.assert_allclose(proba, special.expit(columns @ best), atol=1e-6)


def test_every_method_approximates_the_same_posterior():
    config = lecture_logistic.Config(n_warmup=500, n_draws=1000)
    points = lecture_logistic.clouds(40, random_state=3)
    grid = np.array([[0.0, 0.0], [1.0, -1.0], [4.0, 2.0], [-3.0, 3.0], [-6.0, -5.0]])
    mean, std = points.X.mean(axis=0), points.X.std(axis=0)
    truth = exact((points.X - mean) / std, points.y, (grid - mean) / std)
    far = {"map": 0.2, "laplace-mc": 0.06, "laplace-probit": 0.06, "vi": 0.04, "nuts": 0.02}
    for method, most in far.items():
        model = lecture_logistic.model(config, method, 0).fit(points.X, points.y)
        off = np.abs(model.predict_dist(grid).proba[:, 1] - truth)
        assert off.max() < most, (method, off)


def test_points_lie_about_the_curve():
    toy = curve.points(4000, random_state=0)
    error = toy.y - (toy.X[:, 0] + np.sin(toy.X[:, 0]))
    assert abs(error.mean()) < 4.5 * 0.5 / np.sqrt(4000)
    assert error.std() == pytest.approx(0.5, rel=0.06)
    assert np.abs(toy.X).max() <= 6.0


def test_moons_are_half_circles():
    moons = mc_dropout_moons.moons(500, 0.0, random_state=0)
    upper, lower = moons.X[moons.y == 0], moons.X[moons.y == 1]
    np.testing.assert_allclose(np.hypot(*upper.T), 1.0)
    np.testing.assert_allclose(np.hypot(*(lower - [1.0, 0.5]).T), 1.0)
    assert (upper[:, 1] >= 0.0).all()
    assert (lower[:, 1] <= 0.5).all()


@pytest.mark.parametrize(
    ("experiment", "config", "methods"),
    [
        (lecture_moons, lecture_moons.Config(**FEW), ("network", "bayes-by-backprop")),
        (lecture_logistic, lecture_logistic.Config(), ("map", "laplace-mc", "vi")),
        (lecture_linear, lecture_linear.Config(), ("mode", "waves", "polynomial", "bumps")),
        (mc_dropout_regression, mc_dropout_regression.Config(**TINY), ("network", "mc-dropout")),
        (mc_dropout_moons, mc_dropout_moons.Config(**TINY), ("network", "mc-dropout")),
    ],
)
def test_cells_text_and_figure(experiment, config, methods, tmp_path):
    cells = [Cell({"method": method, "draw": 0}) for method in methods]
    rows = runner.run_cells(experiment.EXPERIMENT, config, cells, out=tmp_path)
    runner.check_all_done(rows)
    experiment.EXPERIMENT.draw(rows, tmp_path / experiment.NAME)
    picture = (tmp_path / f"{experiment.NAME}.svg").read_text()
    text = experiment.EXPERIMENT.section(rows)
    labels = getattr(experiment, "PLANE", getattr(experiment, "CURVE", None)).labels
    for method in methods:
        assert f"<!-- {labels[method]} -->" in picture
        assert labels[method] in text
    # A point estimate has no doubt that more data would remove.
    doubts = [name for name in rows[0].result if "epistemic" in name or "information" in name]
    assert doubts
    for point, *others in ([row.result[name] for row in rows] for name in doubts):
        assert point == pytest.approx(0.0, abs=1e-6)
        assert min(others) > 0.0

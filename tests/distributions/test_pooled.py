"""Predictions of several fits, each of rows of its own, as one."""

import numpy as np

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import GaussianPredictive


def parts(seed=0):
    rng = np.random.default_rng(seed)
    gaussian = GaussianPredictive(*rng.uniform(0.5, 2.0, (3, 4)))
    mixture = MixturePredictive.of(rng.standard_normal((5, 3)), rng.uniform(0.5, 2.0, (5, 3)))
    order = rng.permutation(7)
    return [gaussian, mixture], np.split(order, [4])


def test_every_row_is_predicted_by_its_own_fit():
    each, places = parts()
    whole, y = pooled(each, places), np.random.default_rng(1).standard_normal(7)
    assert len(whole) == 7
    for part, at in zip(each, places, strict=True):
        for name in ("log_prob", "cdf", "crps"):
            np.testing.assert_array_equal(getattr(whole, name)(y)[at], getattr(part, name)(y[at]))
        for name in ("mean", "epistemic_var", "noise_var", "std"):
            np.testing.assert_array_equal(getattr(whole, name)[at], getattr(part, name))
        np.testing.assert_array_equal(whole.interval(0.9)[at], part.interval(0.9))
    assert whole.is_finite.all()


def test_rows_are_chosen_and_rescaled():
    each, places = parts()
    whole, y = pooled(each, places), np.random.default_rng(1).standard_normal(7)
    for rows in (np.array([6, 0, 3]), y > 0.0, slice(1, 5), places[0]):
        chosen = whole[rows]
        np.testing.assert_array_equal(chosen.log_prob(y[rows]), whole.log_prob(y)[rows])
        np.testing.assert_array_equal(chosen.mean, whole.mean[rows])
    moved = whole.rescaled(3.0, 2.0)
    np.testing.assert_allclose(moved.quantile(0.3), 3.0 + 2.0 * whole.quantile(0.3), rtol=1e-9)


def test_classes_are_put_in_order():
    rng = np.random.default_rng(3)
    proba = rng.dirichlet(np.ones(3), 6)
    every = ClassPredictive(proba, rng.uniform(0.0, 0.1, 6), np.array(["a", "b", "c"]))
    places = np.split(rng.permutation(6), [2, 3])
    whole = pooled([every[at] for at in places], places)
    np.testing.assert_array_equal(whole.proba, proba)
    np.testing.assert_array_equal(whole.expected_entropy, every.expected_entropy)

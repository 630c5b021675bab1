"""Rows in shards make the model of all rows, whoever learns them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from bayesprop import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianMLPRegressor,
    PBPClassifier,
    PBPRegressor,
    fit_shards,
)
from bayesprop.scale import shards as home

RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(600)
LABELS = np.where(X[:, 0] + RNG.standard_normal(600) > 0.0, "yes", "no")
EMPTY = (X[:0], Y[:0])


@pytest.fixture(autouse=True)
def _few_rows_to_start(monkeypatch):
    monkeypatch.setattr(home, "START_ROWS", 60)


def divided(x, y, n_shards):
    return [(x[k::n_shards], y[k::n_shards]) for k in range(n_shards)]


def test_linear_is_one_fit_whatever_the_number_of_shards():
    one = BayesianLinearRegressor().fit(X, Y)
    for n_shards in (1, 4, 64):
        model = fit_shards(BayesianLinearRegressor(), [*divided(X, Y, n_shards), EMPTY])
        np.testing.assert_allclose(model.predict(X), one.predict(X), rtol=1e-10, atol=1e-12)


def test_laplace_is_that_of_all_rows_even_where_a_shard_holds_one_class():
    settings: dict[str, Any] = {"posterior": "laplace", "prior_prec": 1.0}
    start = BayesianLogisticClassifier(**settings).fit(X[:60], LABELS[:60])
    rest, labels = X[60:], LABELS[60:]
    is_yes = labels == "yes"
    shards = [(rest[is_yes], labels[is_yes]), (rest[~is_yes], labels[~is_yes]), (X[:0], labels[:0])]
    model = fit_shards(BayesianLogisticClassifier(**settings), shards, start=start)
    one = start.partial_fit(rest, labels)
    np.testing.assert_allclose(model.posterior_.mean, one.posterior_.mean, atol=1e-4)
    np.testing.assert_allclose(model.posterior_.cov, one.posterior_.cov, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_results_do_not_depend_on_the_workers(n_workers):
    model = PBPRegressor((5,), n_epochs=4, random_state=0)
    shards = [*divided(X, Y, 5), EMPTY]
    serial = fit_shards(model, shards, rounds=2)
    with ThreadPoolExecutor(n_workers) as pool:
        parallel = fit_shards(model, shards, rounds=2, executor=pool)
    for name, array in serial.state_.to_arrays().items():
        np.testing.assert_array_equal(parallel.state_.to_arrays()[name], array)
    assert not hasattr(model, "learned_")


def test_a_network_of_shards_is_near_one_of_all_rows():
    settings: dict[str, Any] = {"n_epochs": 20, "random_state": 0}
    one = PBPRegressor((10,), **settings).fit(X[:400], Y[:400])
    model = fit_shards(PBPRegressor((10,), **settings), divided(X[:400], Y[:400], 4), rounds=5)
    scores = [each.log_likelihood(X[400:], Y[400:]) for each in (one, model)]
    assert scores[1] > scores[0] - 0.2
    assert model.fit_report_.n_rows == 400


def test_classes_come_in_shards():
    model = fit_shards(PBPClassifier((5,), random_state=0), divided(X, LABELS, 3), rounds=2)
    assert model.score(X, LABELS) > 0.7
    sorted_labels = divided(X[np.argsort(LABELS)], np.sort(LABELS), 1)
    with pytest.raises(ValueError, match="must hold all 2 classes"):
        fit_shards(PBPClassifier((5,), random_state=0), sorted_labels)


def test_what_cannot_be_learnt_in_shards_is_refused():
    with pytest.raises(ValueError, match="whose posteriors multiply, got BayesianMLPRegressor"):
        fit_shards(BayesianMLPRegressor(), divided(X, Y, 2))
    with pytest.raises(ValueError, match="shards must hold rows"):
        fit_shards(PBPRegressor(), [EMPTY])
    with pytest.raises(ValueError, match="same columns, got 2 in shard 0 and 1 in shard 1"):
        fit_shards(PBPRegressor(), [(X[:9, :2], Y[:9]), (X[:9, :1], Y[:9])])

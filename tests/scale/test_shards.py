"""Rows in shards make the model of all rows, whoever learns them."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from bayesprop import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianRegressor,
    ClosedFormVIRegressor,
    PBPClassifier,
    PBPRegressor,
    fit_shards,
    time_limit,
)
from bayesprop.scale import shards as home

RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(600)
LABELS = np.where(X[:, 0] + RNG.standard_normal(600) > 0.0, "yes", "no")
EMPTY = (X[:0], Y[:0])
LINEAR = BayesianLinearRegressor()


@pytest.fixture(autouse=True)
def _few_rows_to_start(monkeypatch):
    monkeypatch.setattr(home, "START_ROWS", 60)


def divided(x, y, n_shards):
    return [(x[k::n_shards], y[k::n_shards]) for k in range(n_shards)]


def test_linear_is_one_fit_whatever_the_number_of_shards():
    one = BayesianLinearRegressor().fit(X, Y)
    for n_shards in (1, 4, 64):
        model = fit_shards(LINEAR, iter([*divided(X, Y, n_shards), EMPTY]))
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
    for name, array in serial.to_stored().arrays.items():
        np.testing.assert_array_equal(parallel.to_stored().arrays[name], array)
    assert not hasattr(model, "learned_")


class Mortal:
    """Runs some jobs, then dies as a cluster does."""

    def __init__(self, n_jobs):
        self.left = n_jobs

    def submit(self, job, *arguments):
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("gone")
        return ThreadPoolExecutor(1).submit(job, *arguments)


KINDS = pytest.mark.parametrize(
    ("model", "targets"),
    [(PBPRegressor((5,), n_epochs=4, random_state=0), Y), (BayesianLogisticClassifier(), LABELS)],
    ids=["averaged", "sites"],
)


@KINDS
def test_a_fit_that_died_goes_on_from_its_last_round(tmp_path, model, targets):
    shards, file = [*divided(X, targets, 3), (X[:0], targets[:0])], tmp_path / "fit.rounds"
    whole = fit_shards(model, shards, rounds=3)
    with pytest.raises(ConnectionError):
        fit_shards(model, shards, rounds=3, executor=Mortal(7), checkpoint=file)
    pool = Mortal(3)  # the two rounds that are over need no more
    resumed = fit_shards(model, shards, rounds=3, executor=pool, checkpoint=file)
    again = fit_shards(model, shards, rounds=3, executor=Mortal(0), checkpoint=file)
    for name, array in whole.to_stored().arrays.items():
        np.testing.assert_array_equal(resumed.to_stored().arrays[name], array)
        np.testing.assert_array_equal(again.to_stored().arrays[name], array)
    assert resumed.fit_report_.guards == whole.fit_report_.guards
    assert resumed.fit_report_.n_rows == 600


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    model, file = PBPRegressor((3,), n_epochs=2, random_state=0), tmp_path / "fit.rounds"
    shards = divided(X, Y, 2)
    fitted = fit_shards(model, shards, rounds=2, checkpoint=file)
    before = file.read_bytes()
    for other, parts, rounds, words in (
        (PBPRegressor((3,), n_epochs=2, random_state=1), shards, 2, "random_state was 0, not 1"),
        (model, shards, 3, "rounds was 2, not 3"),
        (model, divided(X, Y, 3), 2, "n_shards was 2, not 3"),
        (model, [shards[0], (X[1::2], Y[1::2] + 1.0)], 2, "shard 1 has changed"),
    ):
        with pytest.raises(ValueError, match=words):
            fit_shards(other, parts, rounds=rounds, checkpoint=file)
    with pytest.raises(ValueError, match="start was None"):
        fit_shards(model, shards, rounds=2, checkpoint=file, start=fitted)
    assert file.read_bytes() == before
    file.write_bytes(before[:-9])
    with pytest.raises(ValueError, match=r"checksum|cut short|do not fit"):
        fit_shards(model, shards, rounds=2, checkpoint=file)
    fitted.save(file)
    with pytest.raises(ValueError, match="is another file"):
        fit_shards(model, shards, rounds=2, checkpoint=file)
    with pytest.raises(ValueError, match=r"the folder .* does not exist"):
        fit_shards(model, shards, rounds=2, checkpoint=tmp_path / "no" / "fit.rounds")


def test_the_time_limit_ends_rounds(tmp_path):
    model, file = PBPRegressor((3,), n_epochs=2, random_state=0), tmp_path / "fit.rounds"
    with time_limit(1e-6), pytest.warns(UserWarning, match="time limit"):
        cut = fit_shards(model, divided(X, Y, 2), rounds=4, checkpoint=file)
    assert cut.n_iter_ == 1
    assert "stopped by the time limit" in str(cut.fit_report_.warnings)
    assert fit_shards(model, divided(X, Y, 2), rounds=4, checkpoint=file).n_iter_ == 4


@pytest.mark.parametrize(
    ("network", "n_shards", "rounds"),
    [
        (PBPRegressor((10,), n_epochs=20, random_state=0), 4, 5),
        (ClosedFormVIRegressor((10,), n_epochs=40, kl_warm_up=10, random_state=0), 2, 4),
    ],
)
def test_a_network_of_shards_is_near_one_of_all_rows(network, n_shards, rounds):
    one = clone(network).fit(X[:400], Y[:400])
    model = fit_shards(network, divided(X[:400], Y[:400], n_shards), rounds=rounds)
    scores = [each.log_likelihood(X[400:], Y[400:]) for each in (one, model)]
    assert scores[1] > scores[0] - 0.2
    assert model.fit_report_.n_rows == 400  # those of a start are learnt with the others


def test_averaged_weights_are_those_of_the_product_of_densities():
    """By quadrature, a weight at a time, of the geometric mean of what two shards learnt."""
    start = ClosedFormVIRegressor((2,), n_epochs=3, warm_start=True, random_state=0)
    parts = [copy.deepcopy(start).fit(X[k::2], Y[k::2]) for k in range(2)]
    method, powers = parts[0].fitted_.method, [0.3, 0.7]
    mean = method.combined([one.learned_ for one in parts], powers)
    gaussians = [method.gaussians(one) for one in (*(p.state_ for p in parts), mean.state)]
    for place in ((0, 0), (1, 1), (3, 0)):
        *each, product = [(float(one.m[0][place]), float(one.std[0][place])) for one in gaussians]

        def log_density(w, each=each):
            logs = [-0.5 * ((w - m) / std) ** 2 for m, std in each]
            return powers[0] * logs[0] + powers[1] * logs[1]

        m, std = product
        grid = np.linspace(m - 12.0 * std, m + 12.0 * std, 20_001)
        density = np.exp(log_density(grid) - log_density(m))
        expected = np.average(grid, weights=density)
        assert m == pytest.approx(expected, abs=1e-4 * std)
        assert std == pytest.approx(np.sqrt(np.average((grid - expected) ** 2, weights=density)))


def test_classes_come_in_shards():
    model = fit_shards(PBPClassifier((5,), random_state=0), divided(X, LABELS, 3), rounds=2)
    assert model.score(X, LABELS) > 0.7
    sorted_labels = divided(X[np.argsort(LABELS)], np.sort(LABELS), 1)
    with pytest.raises(ValueError, match="must hold all 2 classes"):
        fit_shards(PBPClassifier((5,), random_state=0), sorted_labels)


def test_what_cannot_be_learnt_in_shards_is_refused():
    with pytest.raises(ValueError, match="whose posteriors multiply, got BayesianRegressor"):
        fit_shards(BayesianRegressor(), divided(X, Y, 2))
    with pytest.raises(ValueError, match="shards must hold rows"):
        fit_shards(PBPRegressor(), [EMPTY])
    with pytest.raises(ValueError, match="same columns, got 2 in shard 0 and 1 in shard 1"):
        fit_shards(PBPRegressor(), [(X[:9, :2], Y[:9]), (X[:9, :1], Y[:9])])
    with pytest.raises(ValueError, match=r"shard 1: must be \(X, y\)"):
        fit_shards(PBPRegressor(), [(X[:9], Y[:9]), X[:9]])
    with pytest.raises(ValueError, match=r"shard 1: must have as many rows .* \[8, 9\]"):
        fit_shards(PBPRegressor(), [(X[:9], Y[:9]), (X[:9], Y[:8])])
    for row, model in [(1, PBPRegressor((3,))), (150, PBPRegressor((3,))), (1, LINEAR)]:
        broken, missing = X.copy(), Y.copy()
        broken[1::2][row], missing[1::2][row] = np.inf, np.nan
        with pytest.raises(ValueError, match=r"shard 1: Input X contains infinity"):
            fit_shards(model, divided(broken, Y, 2))
        with pytest.raises(ValueError, match=r"shard 1: Input y contains NaN"):
            fit_shards(model, divided(X, missing, 2))

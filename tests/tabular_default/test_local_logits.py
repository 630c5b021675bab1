"""Labels of the nearest rows against sums by hand, finite differences, and known fields."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special
from scipy.spatial import distance
from threadpoolctl import threadpool_info

from bayesprop import codec
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import neighbours
from bayesprop.tabular_default.experts import ClassState
from bayesprop.tabular_default.fit import Classes, fit
from bayesprop.tabular_default.neighbours import LocalLogits, LogitsLikelihood
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.training import FitInfo

LOG_LENGTHS = np.log([0.5, 1.5, 4.0])
LOGARITHMS = np.r_[LOG_LENGTHS, np.log(3.0)]


def rows(n: int, seed: int = 0, n_classes: int = 4) -> tuple[Rows, np.ndarray]:
    """Rows with codes of classes, and probabilities there."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3)).astype(np.float32)
    proba = special.softmax(rng.standard_normal((n, n_classes)), axis=1)
    return Rows(x, rng.integers(n_classes, size=n), rng.uniform(0.5, 2.0, n)), proba


def logits_of(known: Rows, proba: np.ndarray) -> LocalLogits:
    numbers = LOGARITHMS, np.int32(known.y), np.float32(proba)
    return LocalLogits(known.x, np.float32(known.weights), *numbers)


def moved_by_hand(near: Rows, proba: np.ndarray, x: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Probabilities `own` of a row x, by loops over near rows, of probabilities, and classes."""
    lengths, a_squared = np.exp(LOG_LENGTHS), 3.0
    f = np.zeros(len(own))
    for c in range(len(own)):
        pull, curvature = 0.0, 1.0 / a_squared
        for j in range(len(near.y)):
            r = np.sqrt(3.0) * np.linalg.norm((near.x[j] - x) / lengths)
            k, p = near.weights[j] * (1.0 + r) * np.exp(-r), proba[j, c]
            pull += k * ((near.y[j] == c) - p)
            curvature += k * (0.9 * p * (1.0 - p) + 0.1 * 0.25)
        f[c] = pull / curvature
    return special.softmax(np.log(own) + f)


def order(known: Rows, x: np.ndarray) -> np.ndarray:
    lengths = np.exp(LOG_LENGTHS)
    return np.argsort(distance.cdist(x[None] / lengths, known.x / lengths)[0], kind="stable")


def test_the_nearest_move_probabilities_as_sums_by_hand_do():
    (known, proba), (new, own) = rows(200), rows(7, seed=1)
    moved = logits_of(known, proba).moved(new.x, own)
    for i, x in enumerate(new.x):
        near = order(known, x)[:32]
        expected = moved_by_hand(known.at(near), proba[near], x, own[i])
        np.testing.assert_allclose(moved[i], expected, rtol=1e-5)


def test_the_step_is_newtons_where_the_bound_says_nothing():
    """One row, at no distance, whose probabilities are one half: the curvature is exact."""

    def loss(f: np.ndarray) -> float:
        log_p = special.log_softmax(np.log([0.5, 0.5]) + f)
        return float(-log_p[0] + np.sum(f**2) / (2.0 * 3.0))

    slopes = optimize.approx_fprime(np.zeros(2), loss, 1e-7)
    known = Rows(np.zeros((1, 3)), np.array([0]), np.ones(1))
    likelihood = LogitsLikelihood(known, proba=np.full((1, 2), 0.5))
    f, *_ = likelihood.shift(LOGARITHMS, np.zeros((1, 3)), np.array([[0]]), np.ones((1, 1)))
    np.testing.assert_allclose(f[0], -slopes / (0.25 + 1.0 / 3.0), rtol=1e-5)


@pytest.mark.parametrize("has_groups", [False, True])
def test_a_row_says_nothing_of_itself_nor_of_its_group(has_groups: bool):
    (known, proba), own = rows(200), np.array([3, 40])
    twins = np.concatenate([np.arange(200), [3, 3]])
    known, proba = known.at(twins), proba[twins]
    known = known._replace(group=np.arange(202) // 4 if has_groups else None)
    moved = LogitsLikelihood(known, proba=proba).predict_rows(LOGARITHMS, own)
    for i, row in enumerate(own):
        rest = np.arange(202) != row if known.group is None else known.group != known.group[row]
        near = order(known, known.x[row])
        near = near[rest[near]][:32]
        expected = moved_by_hand(known.at(near), proba[near], known.x[row], proba[row])
        np.testing.assert_allclose(moved[i], expected, rtol=1e-5)


def test_the_gradient_is_a_finite_difference():
    (known, proba), own, near = rows(45), np.arange(5), np.arange(5, 45).reshape(5, 8)
    likelihood = LogitsLikelihood(known, proba=proba)
    arguments = own, near, known.weights[near]
    value, gradient = likelihood.loss(LOGARITHMS, *arguments)
    for i in own:
        moved = moved_by_hand(known.at(near[i]), proba[near[i]], known.x[i], proba[i])
        np.testing.assert_allclose(value[i], -np.log(moved[known.y[i]]), rtol=1e-5)
    slopes = optimize.approx_fprime(
        LOGARITHMS, lambda at: likelihood.loss(at, *arguments)[0].sum(), 1e-6
    )
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)


def spots(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A chequered plane, whose third column says nothing, of two classes."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, (n, 3))
    is_one = (np.floor(2.0 * x[:, :2]).sum(axis=1) % 2).astype(bool)
    return x, np.where(rng.random(n) < 0.1, ~is_one, is_one).astype(int)


def test_what_is_local_is_learnt_where_networks_know_nothing():
    x, code = spots(2000, seed=3)
    nothing = np.full((2000, 2), 0.5)
    found = LocalLogits.fit(np.random.default_rng(0), Rows(x, code, np.ones(2000)), nothing)
    assert found is not None
    local, held, moved = found
    new, codes = spots(1000, seed=4)
    loss = -np.log(local.moved(new, nothing[:1000])[np.arange(1000), codes])
    held_out = -np.log(moved[np.arange(2000), code[held]]).mean()
    se = loss.std() / np.sqrt(1000)
    assert loss.mean() < 0.55  # of a coin .693, of who knows the field .325
    assert abs(loss.mean() - held_out) < 4.0 * np.hypot(se, loss.std() / np.sqrt(2000)) + 0.02
    lengths = local.log_lengths
    assert lengths[2] > lengths[:2].max() + 1.0


@pytest.mark.exhaustive
def test_labels_that_say_nothing_are_not_asked():
    """By chance they are now and then: of forty tables of 300 rows, of one."""
    n_kept = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, d = ((150, 5), (300, 20), (1000, 5))[seed % 3]
        x, p = rng.standard_normal((n, d)), rng.uniform(0.1, 0.9, n)
        code = (rng.random(n) < p).astype(int)
        known = Rows(x, code, np.ones(n))
        n_kept += LocalLogits.fit(rng, known, np.column_stack([1.0 - p, p])) is not None
    assert n_kept <= 1


def test_few_rows_and_groups_of_which_one_fold_has_all_keep_none():
    known, proba = rows(200)
    grouped = known._replace(group=np.where(np.arange(200) < 90, 0, 2))
    for rows_, p in ((known.at(slice(99)), proba[:99]), (grouped, proba)):
        assert LocalLogits.fit(np.random.default_rng(0), rows_, p) is None


FAST = EnsembleSettings(n_members=2, hidden_layer_sizes=(4,), n_steps=50)


@pytest.fixture(scope="module")
def fitted() -> tuple[ClassState, FitInfo]:
    return fit(1, Rows(*spots(1200, seed=5)), FAST, Classes(2))


def test_a_fit_asks_them_saves_them_and_gives_them_back(fitted):
    state, info = fitted
    assert state.neighbours is not None
    assert info.guards["neighbour_rows"] == len(state.neighbours.weight) == 1200
    x, code = spots(1000, seed=6)
    proba = state.predict(x).proba
    without = state._replace(neighbours=None).predict(x).proba
    gain = np.log(proba[np.arange(1000), code]) - np.log(without[np.arange(1000), code])
    assert gain.mean() > 4.0 * gain.std() / np.sqrt(1000)
    again = codec.read(ClassState, codec.write(state, ClassState))
    np.testing.assert_array_equal(again.predict(x).proba, proba)
    copied = pickle.loads(pickle.dumps(state.neighbours))
    np.testing.assert_array_equal(copied.moved(x, without), state.neighbours.moved(x, without))


def test_lengths_are_fitted_beside_no_waiting_threads_of_blas(monkeypatch):
    fit_one, numbers = LogitsLikelihood.fit, set()

    def counted(*args: Any) -> np.ndarray:
        numbers.update(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return fit_one(*args)

    monkeypatch.setattr(LogitsLikelihood, "fit", counted)
    monkeypatch.setattr(neighbours, "N_STEPS", 20)
    fit(1, Rows(*spots(400, seed=5)), FAST, Classes(2))
    assert numbers == {1}


def test_nobody_is_asked_where_the_file_must_hold_no_rows():
    x, code = spots(1200, seed=5)
    state, info = fit(1, Rows(x, code), replace(FAST, learns_processes=False), Classes(2))
    assert state.neighbours is None
    assert info.guards["neighbour_rows"] == 0
    assert not any(len(x) in a.shape for a in codec.write(state).arrays.values())


def test_doubt_stays_between_nothing_and_all(fitted):
    state, _ = fitted
    predicted = state.predict(spots(500, seed=7)[0])
    total = special.entr(predicted.proba).sum(axis=1)
    assert (predicted.expected_entropy >= 0.0).all()
    assert (predicted.expected_entropy <= total + 1e-9).all()


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("code", np.full(200, 9, np.int32), "code must be 0 to 3"),
        ("proba", np.full((200, 4), 1.5, np.float32), "proba must be 0 to 1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name: str, array: np.ndarray, message: str):
    labels = replace(logits_of(*rows(200)), **{name: array})
    with pytest.raises(ValueError, match=message):
        codec.read(LocalLogits, codec.write(labels, LocalLogits))

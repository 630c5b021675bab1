"""Batches: what a greedy choice should be, and that nothing is chosen twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression

from bayesprop import ActiveLearner, BayesianLinearRegressor, PBPClassifier, PBPRegressor
from bayesprop.active_learning import batches
from bayesprop.active_learning.acquisition import ACQUISITIONS
from bayesprop.active_learning.goal import Goal

NOISE = 0.1


def linear_learner(**settings):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 3))
    model = BayesianLinearRegressor(noise=NOISE, prior_prec=1.0)
    learner = ActiveLearner(model, update="stream", **settings)
    return learner.teach(X, X @ [1.0, 2.0, 3.0])


def design(learner, pool):
    """Covariance of the weights and the columns of the pool, from the definition."""
    model = learner.estimator_
    root, scale = model.posterior_.root[0], model.y_scaler_.scale[0]
    return root @ root.T * scale**2, np.column_stack(
        [np.ones(len(pool)), model.x_scaler_.transform(pool)]
    )


def test_the_best_next_point_of_a_linear_model():
    """The largest x'Sx: MacKay (1992), eq. 7."""
    learner = linear_learner()
    pool = np.random.default_rng(1).standard_normal((500, 3))
    cov, phi = design(learner, pool)
    chosen = learner.query(pool)
    gain = 0.5 * np.log1p(np.einsum("ni,ij,nj->n", phi, cov, phi) / NOISE)
    assert chosen.indices[0] == np.argmax(gain)
    np.testing.assert_allclose(learner.scores(pool), gain, rtol=1e-8)
    assert chosen.scores[0] == pytest.approx(gain.max())


def test_a_greedy_batch_is_greedy_on_the_determinant_and_near_the_best():
    """log det (I + Phi S Phi' / noise) / 2 of a batch is the sum of the scores; brute force."""
    learner = linear_learner()
    pool = np.random.default_rng(2).standard_normal((7, 3)).repeat(2, axis=0)
    pool[1::2] += 0.01
    cov, phi = design(learner, pool)

    def information(rows):
        k = phi[list(rows)] @ cov @ phi[list(rows)].T
        return 0.5 * np.linalg.slogdet(np.eye(len(k)) + k / NOISE)[1]

    picks = []
    for _ in range(3):
        rest = [row for row in range(14) if row not in picks]
        picks.append(max(rest, key=lambda row: information([*picks, row])))
    chosen = learner.query(pool, 3)
    assert chosen.indices.tolist() == picks
    assert chosen.scores.sum() == pytest.approx(information(picks))
    best = max(map(information, itertools.combinations(range(14), 3)))
    assert information(picks) > (1.0 - np.exp(-1.0)) * best
    top = linear_learner(batch="top").query(pool, 3)
    assert information(picks) > information(top.indices) + 0.1


def test_pending_rows_count_as_if_they_were_chosen_first(monkeypatch):
    """A batch of four is one of two, and two more while these are pending."""
    pool, goal = np.random.default_rng(4).standard_normal((60, 3)), Goal("max", 4.0)

    def query(n, **asked):
        learner = linear_learner(acquisition="log-expected-improvement")
        return learner.query(pool, n, goal=goal, **asked)

    for _ in range(2):  # over joint draws, then by teaching copies
        whole = query(4)
        first = whole.indices[:2]
        rest = query(2, pending=pool[first], allowed=np.isin(np.arange(60), first, invert=True))
        assert rest.indices.tolist() == whole.indices[2:].tolist()
        np.testing.assert_allclose(rest.scores, whole.scores[2:], rtol=1e-6)
        monkeypatch.setattr(batches, "can_be_drawn", lambda _: False)
    with pytest.raises(ValueError, match="pending rows are for a goal"):
        linear_learner().query(pool, pending=pool[:2])


def test_conditioning_and_learning_choose_alike(monkeypatch):
    """The closed form against really teaching copies the predicted value."""
    learner = linear_learner()
    pool = np.random.default_rng(3).standard_normal((40, 3))
    closed = learner.query(pool, 5)
    monkeypatch.setattr(batches, "can_be_drawn", lambda _: False)
    taught = learner.query(pool, 5)
    np.testing.assert_array_equal(closed.indices, taught.indices)
    np.testing.assert_allclose(closed.scores, taught.scores, rtol=1e-7)


def test_a_shortlist_still_sees_what_is_not_among_the_best(monkeypatch):
    """A crowd of the best rows at one place, and others that are better once it is measured."""
    learner = linear_learner()
    rng = np.random.default_rng(4)
    crowd = np.array([9.0, 9.0, 9.0]) + 1e-3 * rng.standard_normal((200, 3))
    pool = np.concatenate([crowd, rng.standard_normal((2000, 3))])
    whole = learner.query(pool, 3)
    assert sum(whole.indices < 200) == 1
    monkeypatch.setattr(batches, "SHORTLIST", 300)
    part = learner.query(pool, 3)
    assert sum(part.indices < 200) == 1
    assert part.scores.sum() > 0.8 * whole.scores.sum()


CASES = [(name, None) for name in ACQUISITIONS] + [("mutual-information", BayesianLinearRegressor)]


@pytest.mark.parametrize("batch", batches.BATCHES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_batch_holds_a_row_twice_or_takes_rows_with_gaps_for_one(name, kind, batch):
    """A pool of six different rows, three of which lack a value, four times each."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((30, 3))
    y, numbers = X[:, 0] + 0.1 * rng.standard_normal(30), "numbers" in ACQUISITIONS[name].targets
    X[:6, 1] = np.nan
    small = {"n_epochs": 5, "random_state": 0} if kind is None else {}
    kind = kind or (PBPRegressor if numbers else PBPClassifier)
    learner = ActiveLearner(kind(**small), name, batch=batch, n_draws=16)
    learner.teach(X, y if numbers else y > 0.0)
    pool = rng.standard_normal((6, 3))
    pool[::2, 1] = np.nan
    pool = pool.repeat(4, axis=0)
    reference = {"reference": X[-4:]} if name == "expected-entropy-reduction" else {}
    if ACQUISITIONS[name].goal:
        reference = {"goal": Goal("min")}
        if batch == "k-means++":
            pytest.skip("it has no batch for a goal")
    chosen = learner.query(pool, 6, **reference)
    assert sorted(chosen.indices // 4) == list(range(6))
    assert np.isfinite(chosen.scores).all()
    with pytest.raises(ValueError, match=r"at most 6, .* rows allowed, got 7: ask for fewer"):
        learner.query(pool, 7, **reference)


@pytest.mark.parametrize(
    ("model", "name", "batch"),
    [
        (PBPRegressor((10,), n_epochs=20, random_state=0), "mutual-information", "fantasy"),
        (PBPRegressor((10,), n_epochs=20, random_state=0), "mutual-information", "k-means++"),
        (PBPClassifier((10,), n_epochs=20, random_state=0), "mutual-information", "auto"),
        (GaussianProcessRegressor(RBF(1.0, "fixed"), alpha=0.01), "predictive-variance", "fantasy"),
        (GaussianProcessRegressor(RBF(1.0, "fixed"), alpha=0.01), "predictive-variance", "auto"),
        (LogisticRegression(), "predictive-entropy", "auto"),
    ],
)
def test_near_duplicates_are_avoided(model, name, batch):
    """Six clusters, each a hundredth wide: the four best come out of one or two of them."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((30, 2))
    labelled = hasattr(model, "predict_proba")
    learner = ActiveLearner(model, name, batch=batch)
    learner.teach(X, X[:, 0] > 0.0 if labelled else X[:, 0] + 0.1 * rng.standard_normal(30))
    pool = (3.0 * rng.standard_normal((6, 2))).repeat(30, axis=0)
    pool += 0.01 * rng.standard_normal(pool.shape)

    def n_clusters():
        return np.mean([len(set(learner.query(pool, 4).indices // 30)) for _ in range(3)])

    spread = n_clusters()
    learner.batch = "top"
    assert spread >= 2.0
    assert spread > n_clusters()


@pytest.mark.parametrize("batch", ["fantasy", "k-means++"])
def test_copies_do_not_crowd_out_the_rest(batch, monkeypatch):
    monkeypatch.setattr(batches, "SHORTLIST", 8)
    learner = linear_learner(batch=batch)
    pool = np.concatenate([np.full((2000, 3), 9.0), np.arange(15.0).reshape(5, 3) / 10.0])
    chosen = learner.query(pool, 6).indices
    assert sorted(chosen)[1:] == list(range(2000, 2005))


def test_costs_and_constraints():
    learner = linear_learner()
    pool = np.random.default_rng(7).standard_normal((60, 3))
    scores = learner.scores(pool)
    costs = np.random.default_rng(8).uniform(1.0, 20.0, 60)
    assert learner.query(pool, costs=costs).indices[0] == np.argmax(scores / costs)
    inside = learner.query(pool, 3, allowed=lambda rows: rows[:, 0] < 0.0)
    assert (pool[inside.indices, 0] < 0.0).all()
    mask = np.arange(60) >= 30
    assert (learner.query(pool, 3, allowed=mask, costs=costs).indices >= 30).all()
    for wrong, message in (
        ({"costs": costs[:5]}, r"costs must have the shape \(60\), got \(5,\)"),
        ({"costs": costs - 10.0}, "costs must be > 0, got -"),
        ({"allowed": costs}, "True or False"),
        ({"allowed": np.zeros(60, bool)}, "at most 0, the number of different rows allowed"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.query(pool, **wrong)


def test_a_score_of_ones_own():
    learner = linear_learner()
    pool = np.random.default_rng(9).standard_normal((60, 3))
    learner.acquisition = lambda doubt: -doubt.var[:, 0]
    assert learner.query(pool).indices[0] == np.argmin(learner.estimator_.predict_dist(pool).var)
    with pytest.raises(ValueError, match="costs divide scores"):
        learner.query(pool, costs=np.full(60, 2.0))
    learner.acquisition = lambda doubt: np.full(len(doubt.var), np.nan)
    with pytest.raises(ValueError, match="score of row 0 is not a number"):
        learner.query(pool)


def test_equal_scores_are_chosen_at_random():
    learner = linear_learner()
    learner.acquisition = lambda doubt: np.zeros(len(doubt.var))
    pool = np.arange(30.0).reshape(10, 3)
    assert len({int(learner.query(pool).indices[0]) for _ in range(30)}) > 3

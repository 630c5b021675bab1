"""The estimators of Bayes by Backprop and Graves' VI, and their pruned copies."""

from __future__ import annotations

import numpy as np
import optax
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes

import bayesprop
from bayesprop import codec
from bayesprop.estimators.bayes_by_backprop import (
    BayesByBackpropClassifier,
    BayesByBackpropRegressor,
)
from bayesprop.estimators.closed_form_vi import ClosedFormVIRegressor
from bayesprop.estimators.graves_vi import GravesVIRegressor
from bayesprop.estimators.pbp import PBPRegressor
from bayesprop.estimators.pruning import prune

FAST = {"hidden_layer_sizes": (8,), "n_epochs": 5, "n_draws": 5, "random_state": 0}
REGRESSORS = (BayesByBackpropRegressor, GravesVIRegressor)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X, np.array(["malignant", "benign"])[y]


@pytest.fixture(scope="module")
def fitted(diabetes):
    return {kind: kind(**FAST).fit(*diabetes) for kind in REGRESSORS}


@pytest.fixture(scope="module")
def wide(cancer):
    params = FAST | {"hidden_layer_sizes": (200, 200), "n_epochs": 3}
    return BayesByBackpropClassifier(**params).fit(*cancer)


@pytest.mark.parametrize(
    "params",
    [
        {"prior": "mixture", "kl_weights": "geometric", "n_samples": 2, "noise": "input"},
        {
            "local_reparameterisation": True,
            "optimizer": optax.chain(optax.clip(1.0), optax.rmsprop(1e-2)),
        },
        {"noise": 2500.0, "prediction": "mean", "optimizer": "rmsprop"},
    ],
    ids=("mixture", "local", "mean"),
)
def test_options(diabetes, params):
    X, y = diabetes
    model = BayesByBackpropRegressor(**(FAST | {"n_epochs": 30} | params)).fit(X, y)
    assert model.score(X, y) > 0.2
    predicted = model.predict_dist(X[:5])
    assert (predicted.epistemic_var > 0.0).all() == (params.get("prediction") != "mean")
    if params.get("noise") == 2500.0:
        np.testing.assert_allclose(predicted.noise_var, 2500.0, rtol=1e-5)
    assert clone(model).get_params()["optimizer"] is not None


class TestPruning:
    @pytest.mark.parametrize("kind", REGRESSORS, ids=lambda k: k.__name__)
    def test_draws_have_exact_zeros(self, kind, fitted, diabetes):
        import jax

        small = prune(fitted[kind], 0.6)
        gradient = small.fitted_.method.gradient
        weights = gradient.sample(jax.random.key(0), small.state_.network).weights
        values = np.concatenate([np.ravel(w) for w in weights])
        assert small.pruned_.n_weights == values.size
        assert (
            np.count_nonzero(values == 0.0) == small.pruned_.n_removed == round(0.6 * values.size)
        )
        assert not hasattr(fitted[kind], "pruned_")
        assert np.isfinite(small.predict(diabetes[0])).all()

    def test_nothing_removed_changes_nothing(self, fitted, diabetes):
        model = fitted[BayesByBackpropRegressor]
        X = diabetes[0]
        np.testing.assert_array_equal(prune(model, 0.0).predict(X), model.predict(X))

    def test_by_layer(self, fitted):
        small = prune(fitted[BayesByBackpropRegressor], 0.5, by_layer=True)
        for m in small.state_.network.params.weights.m:
            assert np.count_nonzero(np.asarray(m) == 0.0) == round(0.5 * m.size)

    def test_saved_small_and_loaded(self, wide, cancer, tmp_path):
        wide.save(tmp_path / "whole")
        small = prune(wide, 0.95)
        small.save(tmp_path / "small")
        n = small.pruned_.n_weights
        # A bit a weight, and mean and rho of every twentieth, beside the header and how inputs go
        # together.
        of_inputs = sum(array.nbytes for array in codec.write(small.inputs_.model).arrays.values())
        expected = n / 8 + 0.05 * n * 8 + of_inputs
        header = (tmp_path / "small").stat().st_size - expected
        assert 0 < header < 10_000
        whole = (tmp_path / "whole").stat().st_size - of_inputs
        assert (tmp_path / "small").stat().st_size - of_inputs < whole / 20
        again = bayesprop.load(tmp_path / "small")
        np.testing.assert_array_equal(
            again.predict_proba(cancer[0]), small.predict_proba(cancer[0])
        )
        assert again.pruned_ == small.pruned_

    def test_cannot_go_on_but_starts_afresh(self, fitted, diabetes):
        small = prune(fitted[BayesByBackpropRegressor], 0.5)
        with pytest.raises(ValueError, match="warm_start must be False to fit a pruned model"):
            small.set_params(warm_start=True).fit(*diabetes)
        assert not hasattr(small.set_params(warm_start=False).fit(*diabetes), "pruned_")

    @pytest.mark.parametrize(
        "model",
        [
            ClosedFormVIRegressor((20,), n_epochs=20, noise="learned", random_state=0),
            PBPRegressor((20,), n_epochs=5, random_state=0),
            PBPRegressor((20,), n_epochs=1, random_state=0, engine="jax"),
            PBPRegressor((20,), n_epochs=1, random_state=0, activation="leaky_relu"),
        ],
        ids=["closed-form-vi", "pbp", "pbp-jax", "pbp-leaky"],
    )
    def test_of_networks_of_moments_to_the_last_weight(self, model, diabetes, tmp_path):
        X, y = diabetes[0][:100], diabetes[1][:100]
        model.fit(X, y)
        for share in (0.9, 0.95, 0.98, 1.0):  # units that lost every weight among them
            small = prune(model, share)
            assert np.isfinite(small.predict(X, return_std=True)).all(), share
            small.save(tmp_path / "small")
            again = bayesprop.load(tmp_path / "small")
            np.testing.assert_array_equal(again.predict(X), small.predict(X))
            assert again.pruned_ == small.pruned_
        with pytest.raises(ValueError, match="warm_start must be False to fit a pruned model"):
            small.set_params(warm_start=True).fit(X, y)
        if hasattr(small, "partial_fit"):
            with pytest.raises(ValueError, match="partial_fit needs a model that was not pruned"):
                small.partial_fit(X, y)
        assert not hasattr(small.set_params(warm_start=False).fit(X, y), "pruned_")

    def test_others_are_refused(self, diabetes):
        from sklearn.linear_model import LinearRegression

        model = LinearRegression().fit(*diabetes)
        model.state_ = None
        with pytest.raises(TypeError, match="independent Gaussian a weight"):
            prune(model, 0.5)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_every_layer_may_have_a_prior_of_its_own(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(40)

    def fitted(prior_std):
        how = {"n_epochs": 100, "learning_rate": 1e-2, "random_state": 0}
        return kind((4,), prior_std=prior_std, **how).fit(X, y)

    one, each, narrow = (fitted(std) for std in (0.5, (0.5, 0.5), [0.01, 0.5]))
    np.testing.assert_allclose(each.predict(X), one.predict(X), atol=1e-4)
    sizes = [np.abs(model.state_.network.params.weights.m[0]).mean() for model in (narrow, one)]
    assert sizes[0] < 0.25 * sizes[1]
    with pytest.raises(ValueError, match="one for each of the 2 layers, got 3"):
        fitted((0.5, 0.5, 0.5))


def test_a_prior_that_follows_may_follow_every_layer(diabetes):
    models = [GravesVIRegressor(**FAST, prior_std=prior).fit(*diabetes) for prior in ("layer", 0.3)]
    assert not np.array_equal(*(model.predict(diabetes[0]) for model in models))
    with pytest.raises(ValueError, match="prior_std must be one of network, layer or a finite num"):
        GravesVIRegressor(prior_std="weight").fit(*diabetes)

"""What every method in the table keeps to, on one tiny fit each."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest
import sklearn
from sklearn.exceptions import NotFittedError

import bayesprop
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.model.progress import Progress, following
from bayesprop.networks import training as trained_network
from bayesprop.store import estimator_from_stored
from method_settings import ALL, X, Y, predicted, silently, targets, unfitted
from opened import SOURCE, opened

REGRESSORS = [name for name, task in ALL if task == REGRESSION]
UNINTERRUPTED = {"closed-form-vi", "bayes-by-backprop", "graves-vi", "mc-dropout", "network"}
UNINTERRUPTED |= {"deep-ensemble"}
"""Methods whose training that went on is training that never stopped; others go on otherwise."""
MOST_ON_THE_WAY = 12
MOST = {"default": 29, "laplace": 14, "pbp": 14, "deep-ensemble": 13, "network": 13}
"""Files that a fit opens with the mathematics, of which `numerics` is not counted; of
other methods 12."""


def fitted_to(name, task, x, y, *weight, **changes):
    return silently(unfitted(name, task, **changes).fit, x, y, *weight)


@pytest.fixture(scope="module", params=ALL, ids=lambda one: "-".join(one))
def fitted(request):
    """A model that no test may change, and what it predicts at X."""
    name, task = request.param
    model = fitted_to(name, task, X, targets(task))
    return model, task, predicted(model, X)


def test_rows_far_away_have_predictions_or_are_refused(fitted):
    model, _, _ = fitted
    far = predicted(model, (1e3 if hasattr(model, "n_chains") else 1e11) * X)
    assert np.isfinite(far[:, 0]).all()
    assert (far >= 0.0)[:, 1].all()  # a noise that depends on the input may be infinite
    with pytest.raises(ValueError, match=r"X must lie within .* in row 2, column 1"):
        model.predict(np.where(np.arange(72).reshape(24, 3) == 7, 1e60, X))


def test_uncertain_inputs_are_averaged_over(fitted):
    model, task, _ = fitted
    std, n = np.array([0.3, 0.0, 0.6]), 512
    drawn = X[:2] + std * np.random.default_rng(0).standard_normal((n, 1, 3))
    p, each = model.predict_dist(X[:2], X_std=std), model.predict_dist(drawn.reshape(-1, 3))
    if task == REGRESSION:
        m = each.mean.reshape(n, 2)
        v = each.var.reshape(n, 2) + (m - p.mean) ** 2
        pairs = [(p.mean, m), (p.var, v), (p.gap_share * p.var, (m - p.mean) ** 2)]
    else:
        pairs = [(p.proba, each.proba.reshape(n, 2, -1))]
    for of_mixture, of_draws in pairs:
        error = 4.0 * of_draws.std(axis=0) / np.sqrt(n)
        assert (np.abs(of_mixture - of_draws.mean(axis=0)) < error).all()
    np.testing.assert_array_equal(model.predict(X, X_std=0.0), model.predict(X))


def test_an_epoch_is_compiled_once_for_any_number_of_rows(fitted, monkeypatch):
    # A weakly typed leaf at the start makes the second epoch another program, and so does a shape.
    model, task, _ = fitted
    kinds = set()
    inner = trained_network._epoch

    def listening(method, state, *args):
        *args, batch_size = args
        kinds.add((batch_size, str(jax.tree.map(jax.typeof, (state, args)))))
        assert not any(leaf.weak_type for leaf in jax.tree.leaves(state))
        return inner(method, state, *args, batch_size)

    monkeypatch.setattr(trained_network, "_epoch", listening)
    for n_rows in (24, 23, 17):
        silently(sklearn.clone(model).fit, X[:n_rows], targets(task)[:n_rows])
    assert len(kinds) <= 1


def test_a_second_prediction_of_the_same_shape_compiles_nothing(fitted, caplog):
    model, _, _ = fitted
    model.predict(X[:20])
    with jax.log_compiles():
        model.predict(X[4:])
        assert not [one for one in caplog.records if "Compiling" in one.getMessage()]
        jax.jit(lambda x: x + 1.0)(X)
    assert [one for one in caplog.records if "Compiling" in one.getMessage()]


def test_few_files_are_on_the_way_of_a_fit(fitted, request):
    """A reader opens them to learn what it does."""
    model, y = sklearn.clone(fitted[0]), targets(fitted[1])
    name, _ = request.node.callspec.params["fitted"]
    silently(model.fit, X, y)  # compiles, so that no program is traced below
    kinds = inspect.getmro(model.method_class)[:-1]
    homes = {Path(inspect.getfile(kind)) for kind in kinds if kind.__module__[:9] == "bayesprop"}
    for learn in filter(None, (model.fit, getattr(model, "partial_fit", None))):
        files = opened(lambda learn=learn: silently(learn, X, y))
        files = {SOURCE / file for file in files if not file.startswith("numerics/")}
        assert len(files) <= MOST.get(name, MOST_ON_THE_WAY)
        way = {f for f in files if f.relative_to(SOURCE).parts[0] in ("estimators", "model")}
        assert len(way | files & homes) <= MOST_ON_THE_WAY


def test_a_fit_that_is_asked_to_end_keeps_what_it_has_and_says_so(fitted, tmp_path):
    model, task, _ = fitted
    shares, going, quick = [], Progress(), sklearn.clone(model)
    if hasattr(model, "n_warmup"):
        quick.set_params(n_warmup=2)  # so that there are draws before half of the steps

    # The last step of a search by `max_steps` may go from a third of the way to the end.
    early = 0.3 if hasattr(model, "max_steps") else 0.45

    def ask(share, _where):
        shares.append(share)
        if early <= share < 0.95:
            going.stop.set()

    with following(replace(going, show=ask)):
        part = silently(quick.fit, X, targets(task))
    advice = part.fit_report_.warnings
    assert any("stopped by an interrupt after" in one for one in advice) == going.stop.is_set()
    assert going.stop.is_set() or len(set(shares)) < 3
    part.save(tmp_path / "model")
    loaded = bayesprop.load(tmp_path / "model")
    np.testing.assert_array_equal(predicted(loaded, X), predicted(part, X))


def test_a_saved_model_is_the_same_model_and_goes_on(fitted, tmp_path):
    model, task, before = fitted
    model.save(tmp_path / "model")
    loaded = bayesprop.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(predicted(loaded, X), before)
    assert loaded.fit_report_ == model.fit_report_
    if hasattr(loaded, "partial_fit"):
        longer = silently(copy.copy(model).partial_fit, X[:5], targets(task)[:5])
        silently(loaded.partial_fit, X[:5], targets(task)[:5])
        np.testing.assert_array_equal(predicted(loaded, X), predicted(longer, X))
        loaded = bayesprop.load(tmp_path / "model")
    if hasattr(loaded, "warm_start"):
        silently(loaded.set_params(warm_start=True).fit, X, targets(task))
        assert loaded.n_iter_ == model.n_iter_ + loaded.fit_report_.n_epochs
    with pytest.raises(NotFittedError):
        sklearn.clone(model).save("never-written")


def test_arrays_of_another_kind_are_refused(fitted):
    header, arrays = fitted[0].to_stored()
    name = max(arrays, key=lambda name: arrays[name].size)
    array = arrays[name]
    other_type = np.float64 if array.dtype == np.float32 else np.float32
    for forged in (np.full_like(array, np.nan), array[None], array.astype(other_type)):
        with pytest.raises(ValueError, match=r"array .* must be"):
            estimator_from_stored(header, arrays | {name: forged})
    with pytest.raises(ValueError, match="is missing"):
        estimator_from_stored(header, {n: a for n, a in arrays.items() if n != name})
    for scale in (0.0, -1.0):
        forged = {"fit.encoding.scaler.std": np.array([1.0, scale, 1.0])}
        with pytest.raises(ValueError, match="std of a column must be > 0"):
            estimator_from_stored(header, arrays | forged)


def test_a_refused_fit_leaves_the_earlier_one(fitted):
    model, task, before = fitted
    attributes = dict(vars(model))
    wide = np.hstack([X, X])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
        model.fit(wide, targets(task)[:5])
    with pytest.raises(ValueError, match=r"positive entry|non-zero"):
        model.fit(wide, targets(task), sample_weight=np.zeros(24))
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match="training standard deviations"):
            model.partial_fit(X * 1e200, targets(task))
    assert vars(model) == attributes
    np.testing.assert_array_equal(predicted(model, X), before)


def test_an_interrupted_fit_leaves_the_earlier_one(fitted, monkeypatch):
    model, task, before = fitted
    attributes = dict(vars(model))
    monkeypatch.setattr("bayesprop.estimators.fitting.warn", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.hstack([X, X]), -5.0 * Y if task == REGRESSION else np.arange(24) % 3)
    monkeypatch.undo()
    assert vars(model) == attributes
    np.testing.assert_array_equal(predicted(model, X), before)


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def test_a_frame_is_checked_by_name_and_fitted_as_its_numbers(fitted, tmp_path):
    model, task, before = fitted
    table = pl.DataFrame(dict(zip(("<script>", "b c", ""), X.T, strict=True)))
    by_name = silently(sklearn.clone(model).fit, table, targets(task))
    assert list(by_name.feature_names_in_) == table.columns
    by_name.save(tmp_path / "model")
    for one in (by_name, bayesprop.load(tmp_path / "model")):
        np.testing.assert_array_equal(predicted(one, table), before)
        with pytest.raises(ValueError, match="feature names"):
            one.predict(table[["b c", "<script>", ""]])


OF_INPUT = {"noise": "input", "n_epochs": 20}
"""The noise depends on the input, by code of each method's own."""
FAR = [(name, {}) for name in REGRESSORS]
FAR += [(n, OF_INPUT) for n in ("closed-form-vi", "bayes-by-backprop", "network", "laplace")]
FAR += [("closed-form-vi", OF_INPUT | {"prediction": "draws"})]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "changes"), FAR)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_everything_asked_about_far_rows_is_finite(name, changes):
    model = fitted_to(name, REGRESSION, X, Y, **changes)
    for times in (100.0, 1e4, 1e8)[: 1 if hasattr(model, "n_chains") else 3]:
        predictive = model.predict_dist(times * X)
        samples = model.sample_y(times * X, 5, random_state=0, include_noise=True)
        parts = predictive.mean, predictive.std, predictive.log_prob(Y), predictive.crps(Y), samples
        assert all(np.isfinite(part).all() for part in parts), times
        assert (np.diff(predictive.interval(0.9)) > 0.0).all()


@pytest.mark.parametrize(("name", "task"), ALL)
def test_rows_without_weight_leave_no_trace(name, task):
    weight, y = np.where(np.arange(24) % 5 == 0, 0.0, 1.5), targets(task)
    garbage = np.where(weight == 0.0, y[1] if task == CLASSIFICATION else 1e6, y)
    far = np.where(weight[:, None] == 0.0, 1e3, X)
    first, second = (fitted_to(name, task, *rows, weight) for rows in ((X, y), (far, garbage)))
    np.testing.assert_allclose(predicted(first, X), predicted(second, X), rtol=1e-12)


@pytest.mark.parametrize(("name", "task"), [one for one in ALL if one[0] in UNINTERRUPTED])
def test_training_that_goes_on_is_training_that_never_stopped(name, task):
    y = targets(task)
    whole = fitted_to(name, task, X, y, n_epochs=6)
    parts = fitted_to(name, task, X, y, n_epochs=2, warm_start=True).set_params(n_epochs=4)
    silently(parts.fit, X, y)
    assert parts.n_iter_ == whole.n_iter_ == 6
    np.testing.assert_array_equal(predicted(parts, X), predicted(whole, X))


@pytest.mark.parametrize("name", REGRESSORS)
def test_several_outputs_have_their_shapes(name):
    model = fitted_to(name, REGRESSION, X, np.column_stack([Y, -2.0 * Y]))
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == model.predict_dist(X).epistemic_var.shape == (24, 2)
    assert model.predict_interval(X).shape == (24, 2, 2)
    assert model.predict_quantiles(X).shape == (24, 2, 3)
    assert model.sample_y(X, 4).shape == model.sample_y(X, 4, include_noise=True).shape
    assert model.sample_y(X, 4).shape == (24, 2, 4)
    with pytest.raises(ValueError, match=r"y must have the shape of the predictions"):
        model.log_likelihood(X[:2], np.zeros((4, 1)))


@pytest.mark.parametrize(
    "name", [n for n in REGRESSORS if hasattr(unfitted(n, REGRESSION), "noise")]
)
def test_known_noise_is_in_the_units_of_the_target(name):
    model = fitted_to(name, REGRESSION, X, 100.0 + 30.0 * Y, noise=49.0)
    np.testing.assert_allclose(model.predict_dist(X).noise_var, 49.0, rtol=1e-5)


@pytest.mark.parametrize("name", ["pbp", "closed-form-vi"])
def test_drawn_functions_have_the_moments_that_are_exact_of_one_hidden_layer(name):
    model, n = fitted_to(name, REGRESSION, X, Y, n_epochs=20), 4000
    drawn, found = model.sample_y(X[:6], n, random_state=1), model.predict_dist(X[:6])
    error = drawn.std(axis=1) / np.sqrt(n)
    assert (np.abs(drawn.mean(axis=1) - found.mean) < 4.5 * error).all()
    np.testing.assert_allclose(drawn.var(axis=1), found.epistemic_var, rtol=0.2)
    noisy = model.sample_y(X[:6], n, random_state=1, include_noise=True)
    np.testing.assert_allclose(noisy.var(axis=1), found.var, rtol=0.2)
    # A draw is one function: neighbours move together.
    pair = model.sample_y(np.stack([X[0], X[0] + [0.01, 0.0, 0.0]]), 400)
    assert np.corrcoef(pair)[0, 1] > 0.99


def test_arviz_gets_draws_at_rows(fitted):
    model, task, _ = fitted
    y = targets(task)
    data = model.to_inference_data(X[:7], y[:7], n_samples=400, random_state=1)
    drawn = data.posterior_predictive["y"].to_numpy()
    assert drawn.shape == (1, 400, 7)
    if task == REGRESSION:
        np.testing.assert_array_equal(data.observed_data["y"], y[:7])
        observed = model.sample_y(X[:7], 400, random_state=1, include_noise=True)
        np.testing.assert_array_equal(drawn[0], observed.T)
        if not hasattr(model, "n_chains"):
            f = model.sample_y(X[:7], 400, random_state=1)
            np.testing.assert_array_equal(data.posterior["f"][0], f.T)
    else:
        np.testing.assert_array_equal(data.observed_data["y"], y[:7] == "below")
        p = model.predict_proba(X[:7])[:, 1]
        error = np.abs(drawn[0].mean(axis=0) - p)
        assert np.all(error <= 4.5 * np.sqrt(p * (1.0 - p) / 400))
    assert "observed_data" not in model.to_inference_data(X[:2], n_samples=3)
    with pytest.raises(ValueError, match=r"y must have the shape \(7,\) at X, got \(6,\)"):
        model.to_inference_data(X[:7], y[:6], n_samples=3)


def test_parts_of_a_prediction_are_those_of_one_distribution(fitted):
    model, task, _ = fitted
    predictive, y = model.predict_dist(X), targets(task)
    assert model.log_likelihood(X, y) == pytest.approx(predictive.log_prob(y).mean())
    if task == CLASSIFICATION:
        np.testing.assert_array_equal(model.predict(X), predictive.label)
        np.testing.assert_allclose(predictive.proba.sum(axis=1), 1.0)
        return
    interval = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(interval, model.predict_quantiles(X, (0.1, 0.9)))
    np.testing.assert_allclose(predictive.cdf(interval[:, 1]), 0.9, rtol=1e-4)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1] ** 2, predictive.var)
    assert model.log_likelihood(X, y[:, None]) == model.log_likelihood(X, y)


@pytest.mark.parametrize("name", ["pbp", "ebp", "logistic"])
def test_a_stream_of_labels_names_them_first(name):
    y = targets(CLASSIFICATION)
    stream = unfitted(name, CLASSIFICATION).partial_fit(X[:1], y[:1], classes=["above", "below"])
    assert list(stream.partial_fit(X[1:9], y[1:9]).classes_) == ["above", "below"]
    other = "above" if y[0] == "below" else "below"
    began = unfitted(name, CLASSIFICATION).partial_fit(X[:1], [other], classes=["above", "below"])
    began.partial_fit(X[1:9], y[1:9])
    assert (predicted(began, X) != predicted(stream, X)).any(), "the first row still counts"
    with pytest.raises(ValueError, match="y must hold classes of the first fit"):
        stream.partial_fit(X[:1], ["never"])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        stream.partial_fit(X[:1], y[:1], classes=["above", "never"])
    with pytest.raises(ValueError, match="classes must be two labels at least"):
        unfitted(name, CLASSIFICATION).partial_fit(X[:1], y[:1], classes=["above"])


@pytest.mark.parametrize(("name", "task"), ALL)
def test_targets_of_the_wrong_kind_are_named(name, task):
    model = unfitted(name, task)
    if task == REGRESSION:
        with pytest.raises(ValueError, match=r"y must hold numbers .*'below'.* take a classifier"):
            model.fit(X, targets(CLASSIFICATION))
        for scale in (1e300, 1e-300):
            with pytest.raises(ValueError, match=r"standard deviation .*rescale the target"):
                model.fit(X, Y * scale)
        return
    with pytest.raises(ValueError, match="y must hold labels of one kind, got int, str"):
        model.fit(X, np.array(["a", 1] * 12, dtype=object))
    with pytest.raises(ValueError, match="at least two classes, got one class only: 'a'"):
        model.fit(X, np.full(24, "a"))


@pytest.mark.filterwarnings("ignore:the chains", "ignore:the draws", "ignore:draws that diverged")
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_constant_target_is_said(name):
    with pytest.warns(UserWarning, match="the target is constant"):
        model = unfitted(name, REGRESSION).fit(X, np.full(24, 3.0))
    assert any("the target is constant" in one for one in model.fit_report_.warnings)
    assert (model.predict_dist(X).std > 0.0).all()

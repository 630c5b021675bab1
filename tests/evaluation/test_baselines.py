"""The baselines of both tasks, against scikit-learn, and as a model file holds them."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import BayesianRidge, LogisticRegression

from bayesprop import metrics
from bayesprop.distributions.gaussian_copula import KnownInputs
from bayesprop.evaluation import baselines
from bayesprop.evaluation.baselines import (
    EVERY,
    Baselines,
    ConstantBaseline,
    FrequencyBaseline,
    GaussianProcess,
    LinearBaseline,
    LogisticBaseline,
)
from report_fakes import halves, imbalanced


def table(n=120, d=4, noise=0.7, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.logspace(-3, 3, d) + 5.0
    y = 40.0 + x @ (rng.standard_normal(d) / np.logspace(-3, 3, d)) + noise * rng.standard_normal(n)
    return x, y


@pytest.mark.parametrize(("n", "d"), [(120, 4), (30, 12), (15, 40)])
def test_linear_baseline_equals_bayesian_ridge(n, d):
    x, y = table(n, d)
    z = (x - x.mean(0)) / x.std(0)
    ridge = BayesianRidge(tol=1e-6).fit(z, y / y.std())
    mean, std = ridge.predict(z, return_std=True)
    ours = LinearBaseline.fit(x, y).predict_dist(x)
    np.testing.assert_allclose(ours.mean, mean * y.std(), rtol=1e-6)
    np.testing.assert_allclose(ours.std, std * y.std(), rtol=1e-6)


# The softmax has a vector of weights for each class. Two classes need one, and halving it into two
# opposite ones halves the penalty: that is C = 2 of the one-vector form.
@pytest.mark.parametrize(
    ("load", "strength"), [(load_wine, 1.0), (load_digits, 1.0), (load_breast_cancer, 2.0)]
)
def test_logistic_baseline_equals_scikit_learn(load, strength):
    x, y = (part[:400] for part in load(return_X_y=True))
    ours = LogisticBaseline.fit(x, y, np.unique(y))
    z = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1.0)
    other = LogisticRegression(C=strength, tol=1e-6, solver="newton-cg").fit(z, y)
    np.testing.assert_allclose(ours.predict_dist(x).proba, other.predict_proba(z), atol=1e-3)


def test_the_constant_baselines():
    pred = ConstantBaseline.fit(np.array([1.0, 2.0, 6.0])).predict_dist(np.zeros((2, 5)))
    np.testing.assert_allclose(pred.mean, [3.0, 3.0])
    np.testing.assert_allclose(pred.var, [14.0 / 3.0] * 2)
    y = np.array(["b", "a", "b", "b"])
    found = FrequencyBaseline.fit(y, np.array(["a", "b", "c"])).predict_dist(np.zeros((2, 5)))
    np.testing.assert_allclose(found.proba, [[1.5 / 5.5, 3.5 / 5.5, 0.5 / 5.5]] * 2)
    assert list(found.label) == ["b", "b"]
    np.testing.assert_allclose(found.mutual_information, 0.0)


@pytest.mark.parametrize("extreme", [1e300, 1e-300])
def test_extreme_constant_and_separable_columns_stay_finite(extreme):
    x, y = imbalanced(200)
    x[:, 1] *= extreme / np.max(np.abs(x[:, 1]))
    x[:, 2] = 4.0
    x[:, 3] = y == "fraud"
    train, test = halves(x, y)
    labels = Baselines.fit(train.X, train.y, np.unique(y)).predict(test.X)["logistic"]
    assert np.all(np.isfinite(labels.proba))
    assert np.mean(labels.label == test.y) == 1.0
    numbers = Baselines.fit(train.X, (train.y == "fraud") * 1.0).predict(test.X)["linear"]
    assert np.all(np.isfinite(numbers.mean))
    assert np.all(numbers.var > 0)


def test_constant_target_and_constant_columns():
    x, y = np.ones((10, 2)), np.full(10, 7.0)
    for pred in Baselines.fit(x, y).predict(x).values():
        np.testing.assert_allclose(pred.mean, 7.0)
        assert np.all(pred.var > 0)
        assert np.all(np.isfinite(pred.log_prob(y)))
    big = 1e9 + np.array([-3.0, -1.0, 1.0, 3.0])
    assert ConstantBaseline.fit(big).var == 5.0
    assert ConstantBaseline.fit(np.full(4, 1e9)).var == 1e6
    for beyond in ([1e200, 3e200], [1e200, 1e200]):
        assert ConstantBaseline.fit(np.array(beyond)).var == np.inf


@pytest.mark.parametrize("n_present", [1, 2])
def test_a_class_without_a_row_is_improbable_and_breaks_nothing(n_present):
    x, y = imbalanced(200)
    y = np.where(y == "fraud", "fraud" if n_present == 2 else "clean", "clean")
    found = LogisticBaseline.fit(x, y, np.array(["absent", "clean", "fraud"])).predict_dist(x)
    np.testing.assert_allclose(found.proba.sum(axis=1), 1.0)
    assert np.mean(found.proba[:, 0]) < 0.01
    assert set(found.label) <= {"clean", "fraud"}


@pytest.mark.parametrize("kind", ["numbers", "count", "nonnegative"])
@pytest.mark.parametrize("classes", [None, [False, True], ["no", "yes"], [3, 7], [0.5, 1.5]])
def test_round_trip_through_json(classes, kind):
    x, y = of_kind(kind)
    classes = None if classes is None else np.array(classes)
    about = {"kind": kind, "exposure": 2 if kind == "count" else None}
    if classes is not None:
        y, about = classes[(y > np.median(y)).astype(int)], {"classes": classes}
    fitted = Baselines.fit(x, y, **about)
    back = Baselines.from_dict(json.loads(json.dumps(fitted.to_dict())))
    anew, expected = fitted.again(x, y, classes).predict(x), fitted.predict(x)
    assert set(expected) == {"constant", "linear" if classes is None else "logistic"}
    for name, pred in back.predict(x).items():
        for part in ("mean", "var") if classes is None else ("proba", "expected_entropy"):
            np.testing.assert_array_equal(getattr(pred, part), getattr(expected[name], part))
            np.testing.assert_array_equal(getattr(anew[name], part), getattr(pred, part))


def test_what_is_not_a_stored_baseline_is_refused():
    x, y = imbalanced(100)
    labels = Baselines.fit(x, y, np.unique(y)).to_dict()
    numbers = Baselines.fit(x, (y == "fraud") * 1.0).to_dict()
    counts = Baselines.fit(x, (y == "fraud") * 1.0, kind="count").to_dict()

    def with_line(stored, **parts):
        ((kind, line),) = stored["line"].items()
        return stored | {"line": {kind: line | parts}}

    for damaged in (
        with_line(numbers, noise_var=-1.0),
        with_line(numbers, weight_mean=[1.0]),
        with_line(numbers, weight_cov=[[None]]),
        with_line(labels, weight=[[1.0, 2.0]]),
        labels | {"constant": {"FrequencyBaseline": {"share": [0.2, 0.8]}}},
        counts | {"target": {}},
        *(counts | {"exposure": bad} for bad in (-1, "a", 1.5)),
        numbers | {"exposure": 0},
        counts | {"target": counts["target"] | {"map": {"CountScores": {}}}},
    ):
        with pytest.raises((KeyError, ValueError, TypeError)):
            Baselines.from_dict(damaged)
    beyond = Baselines.from_dict(counts | {"exposure": 4})
    with pytest.raises(ValueError, match="damaged"):
        beyond.predict(x)


def test_wide_tables_and_many_classes_say_why_there_is_no_line():
    x, y = np.random.default_rng(0).standard_normal((5, 70)), np.arange(5.0)
    stored = Baselines.fit(x, y).to_dict()
    assert stored["line"] is None
    assert "64" in stored["note"]
    labels = np.array(["a", "b"] * 5)
    many = Baselines.fit(np.zeros((300, 99)), np.arange(300), np.arange(300))
    for made, reason in (
        (Baselines.fit(np.zeros((5, 1001)), y), "1,001"),
        (Baselines.fit(np.zeros((10, 1001)), labels, np.unique(labels)), "1,001 features"),
        (many, "30,000 weights"),
        (Baselines.from_dict(many.to_dict()), "30,000 weights"),
    ):
        assert set(made.models) == {"constant"}
        assert reason in made.note


def test_long_tables_are_sampled_and_say_so(monkeypatch):
    x, y = imbalanced(600)
    monkeypatch.setattr(baselines, "_MAX_VALUES", 5 * 400)
    found = Baselines.fit(x, y, np.unique(y))
    assert found.note == "The logistic baseline was fitted to 400 of the 600 training rows."
    assert np.mean(found.predict(x)["logistic"].label == y) > 0.85


def of_kind(kind, n=400):
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=(n, 2)), rng.uniform(0.5, 4.0, n)])
    y = {
        "numbers": x[:, 0] + rng.normal(size=n),
        "count": rng.choice([0.0, 1.0, 2.0, 20.0], size=n, p=[0.5, 0.2, 0.1, 0.2]),
        "positive": np.exp(rng.normal(size=n)),
        "nonnegative": np.maximum(rng.normal(size=n), 0.0),
        "share": rng.beta(2.0, 5.0, size=n),
    }[kind]
    return x, y


def test_the_constant_of_counts_has_their_shares():
    x, y = of_kind("count")
    constant = Baselines.fit(x, y, kind="count").predict(x[:1])["constant"]
    counts, n_of = np.unique(y, return_counts=True)
    for k, n in zip(counts, n_of, strict=True):
        assert np.exp(constant.log_prob(np.array([k])))[0] == pytest.approx(n / 400.0, abs=0.02)
    assert constant.log_prob(np.array([1.5])) == -np.inf


def test_the_constant_has_the_shares_of_bounds_as_near_as_a_normal_has():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 2))
    y = np.clip(0.4 + 0.5 * x[:, 0] + 0.2 * rng.normal(size=2000), 0.0, 1.0)
    for kind, target, bounds in (("share", y, (0.0, 1.0)), ("nonnegative", 30.0 * y, (0.0,))):
        constant = Baselines.fit(x, target, kind=kind).predict(x)["constant"]
        for bound in bounds:
            p = np.exp(constant.log_prob(np.full(2000, bound)))[0]
            assert p == pytest.approx(np.mean(target == bound), abs=0.04)
        assert constant.mean[0] == pytest.approx(np.mean(target), rel=0.05)


@pytest.mark.parametrize("kind", ["positive", "share"])
def test_the_constant_of_a_kind_has_the_law_of_the_targets(kind):
    x, y = of_kind(kind)
    constant = Baselines.fit(x, y, kind=kind).predict(x)["constant"]
    assert stats.kstest(constant.cdf(y), "uniform").statistic < 0.06
    low, high = constant.interval(0.999).T
    assert low.min() > 0.0
    assert high.max() < (1.0 if kind == "share" else np.inf)


def test_a_line_of_counts_finds_what_drives_them():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(600, 3))
    y = rng.poisson(np.exp(0.3 + 0.9 * x[:, 0])).astype(float)
    of = Baselines.fit(x[:400], y[:400], kind="count").predict(x[400:])
    gain = of["linear"].log_prob(y[400:]) - of["constant"].log_prob(y[400:])
    assert gain.mean() > 3.0 * gain.std(ddof=1) / np.sqrt(200.0) > 0.0


@pytest.mark.parametrize("kind", ["numbers", "positive"])
def test_a_line_is_averaged_over_gaps(kind):
    """Beside the mixture over drawn columns; the error bar of a gap holds what it hides."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((800, 2))
    y = 10.0 + 2.0 * x[:, 0] + 0.1 * rng.standard_normal(800)
    inputs = KnownInputs.of_rows(x[:400], lambda rows: y[:400][rows, None], None)
    baselines = Baselines.fit(x[:400], y[:400], kind=kind)
    gaps = x[400:].copy()
    gaps[::2, 0] = np.nan
    filled, averaged = (baselines.predict(gaps, None, one)["linear"] for one in (None, inputs))
    assert metrics.coverage(filled[::2], y[400::2], 0.9) < 0.2
    assert 0.8 < metrics.coverage(averaged[::2], y[400::2], 0.9) < 0.97
    np.testing.assert_allclose(averaged[1::2].quantile(0.9), filled[1::2].quantile(0.9))
    spread = np.sqrt(4.0 * x[:400, 0].var() + 0.01)
    np.testing.assert_allclose(averaged[::2].std, spread, rtol=0.15)


def test_a_gaussian_process_sees_a_kind_through_its_map():
    """Its counts have probabilities, and its prices are those of a process on their map."""
    x, y = of_kind("count", 200)
    process = Baselines.fit(x, y, kind="count", names=EVERY).predict(x)["GaussianProcess"]
    total = sum(np.exp(process.log_prob(np.full(200, float(n)))) for n in range(400))
    np.testing.assert_allclose(total, 1.0, atol=1e-6)
    x, y = of_kind("positive", 200)
    baselines = Baselines.fit(x, y, kind="positive", names=EVERY)
    found, target = baselines.predict(x), baselines.target.map
    own = GaussianProcess().fit(x, target.forward(y)).predict_dist(x)
    np.testing.assert_allclose(
        found["GaussianProcess"].quantile(0.1), target.inverse(own.quantile(0.1)), rtol=1e-6
    )
    assert not baselines.models["HistGradientBoosting"].is_mapped


def test_counts_grow_with_their_exposure():
    rng = np.random.default_rng(7)
    exposure = rng.uniform(8.0, 50.0, 800)
    x, y = np.column_stack([rng.normal(size=800), exposure]), rng.poisson(0.5 * exposure) * 1.0
    constant = Baselines.fit(x, y, kind="count", exposure=1).predict(x)["constant"]
    np.testing.assert_allclose(constant.mean / exposure, 0.5, rtol=0.15)

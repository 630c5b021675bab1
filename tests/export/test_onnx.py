"""Graphs of ONNX, run by onnxruntime, against the predictions of Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy import optimize, special, stats

import bayesprop
from bayesprop import catalogue
from bayesprop.cli import main
from bayesprop.distributions.gaussian_copula import GaussianCopula
from bayesprop.export.onnx_file import _ABLE, _mixed, check
from bayesprop.model.method import WritesGraph
from bayesprop.networks import draws
from bayesprop.networks.gradient_method import Parameters
from bayesprop.networks.likelihoods import KnownNoise
from bayesprop.networks.mlp import plain_apply
from bayesprop.numerics import graphs, softmax_expectations
from bayesprop.table.errors import InputError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::bayesprop.table.errors.TableWarning")

START_HOURS = 24 * 19_000


def mixed(n: int = 120, n_classes: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    x, flag = rng.normal(size=n), rng.random(n) < 0.4
    colour = rng.choice(["red", "green", "blue"], n)
    y = 30.0 + 5.0 * x + 3.0 * (colour == "red") + flag + rng.normal(size=n)
    names = np.array(["low", "high", "higher"])
    target = names[np.digitize(y, [31.0, 34.0][: n_classes - 1])] if n_classes else y - 30.0
    gaps = pl.Series(x).set(pl.Series(rng.random(n) < 0.15), None)
    hours = START_HOURS + rng.integers(0, 24 * 700, n)
    day = pl.Series(3_600_000 * hours).cast(pl.Datetime("ms"))
    rating = rng.choice([3, 5, 8], n)
    columns = {"x": gaps, "wide": 1e4 * rng.normal(size=n), "flag": flag, "colour": colour}
    columns |= {"day": day, "rating": rating}
    return pl.DataFrame(columns | {"target": target})


def rows() -> pl.DataFrame:
    """Rows as any, far out, with gaps, and with a level that the fit did not have."""
    return pl.DataFrame({
        "x": [0.3, -40.0, 1e6, None, 0.2, 0.1],
        "wide": [10.0, -1e6, 3e9, 1.0, 2.0, None],
        "flag": [True, False, True, True, False, True],
        "colour": ["red", "blue", "green", "red", "violet", "blue"],
        "day": [datetime(2024, 2, 29, 7, 30), datetime(1969, 12, 31), datetime(2100, 1, 1, 23)] * 2,
        "rating": [3, 8, 5, 3, 3, 5],
    })  # fmt: skip


def feed(table: pl.DataFrame) -> dict[str, np.ndarray]:
    texts = {name: table[name].fill_null("").to_numpy() for name in ("colour",)}
    numbers = {
        name: table[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        for name in ("x", "wide", "flag")
    }
    numbers["day"] = table["day"].cast(pl.Datetime("ms")).dt.epoch("ms").to_numpy() / 1e3
    numbers["rating"] = table["rating"].cast(pl.Float64).to_numpy()
    return {name: one[:, None] for name, one in (numbers | texts).items()}


def run(path: Path, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = runtime.InferenceSession(str(path))
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


SETTINGS: dict[str, dict[str, Any]] = {
    "linear": {},
    "pbp": {"n_epochs": 5},
    "closed-form-vi": {"n_epochs": 20},
    "laplace": {"n_epochs": 2, "n_rounds": 1},
    "deep-ensemble": {"n_epochs": 2, "n_members": 3},
    "bayes-by-backprop": {"n_epochs": 2, "n_draws": 20, "noise": "input"},
    "mcmc": {"n_warmup": 30, "n_draws": 10, "n_chains": 2},
    "network": {"n_epochs": 2},
}
OF_CLASSES: dict[tuple[str, int], dict[str, Any]] = {
    ("logistic", 2): {},
    ("logistic", 3): {},
    ("pbp", 2): {"n_epochs": 5},
    ("pbp", 3): {"n_epochs": 5},
    ("ebp", 2): {"n_epochs": 2},
    ("ebp", 3): {"n_epochs": 2, "hidden_layer_sizes": (7,)},
    ("closed-form-vi", 3): {"n_epochs": 5},
    ("laplace", 2): {"n_epochs": 2, "n_rounds": 1, "structure": "diagonal"},
    ("laplace", 3): {"n_epochs": 2, "n_rounds": 1},
    ("mc-dropout", 3): {"n_epochs": 2, "n_draws": 20},
}
IN_FLOAT32 = ("closed-form-vi", "mc-dropout")
SLOW = ("bayes-by-backprop", "mcmc", "mc-dropout", "network")


def slow(cases: Iterable) -> list:
    """Leave the methods that take long to compile to the whole suite."""
    names = [case if isinstance(case, str) else case[0] for case in cases]
    marks = [pytest.mark.exhaustive]
    return [
        pytest.param(*([case] if isinstance(case, str) else case), marks=marks * (name in SLOW))
        for case, name in zip(cases, names, strict=True)
    ]


@cache
def fitted(method: str, n_classes: int = 0) -> Any:
    kind: dict[str, Any] = {} if n_classes else {"target_kind": "numbers"}
    own = OF_CLASSES[method, n_classes] if n_classes else SETTINGS[method]
    about = {"target": "target", "method": method, "test_fraction": 0.2} | kind | own
    return bayesprop.fit(mixed(n_classes=n_classes), **about)


@pytest.mark.parametrize("method", slow(SETTINGS))
def test_numbers_are_those_of_python(method: str, tmp_path: Path):
    model = fitted(method)
    model.to_onnx(tmp_path / "m.onnx", quantiles=[0.1037, 0.9713])  # no whole number of draws
    many = pl.concat([rows(), mixed()[:40, :6]], how="vertical_relaxed")
    answers, expected = run(tmp_path / "m.onnx", feed(many)), model.predict_dist(many)
    own = {
        "mean": expected.mean,
        "epistemic_var": expected.epistemic_var,
        "noise_var": expected.noise_var,
        "q_0.1037": expected.quantile(0.1037),
        "q_0.9713": expected.quantile(0.9713),
    }
    assert answers.keys() == own.keys()
    for name, values in own.items():
        # Near zero a mean is as exact as its std.
        slack = 1e-5 * expected.std if name in ("mean", "q_0.1037", "q_0.9713") else 0.0
        error = np.abs(answers[name][:, 0] - values)
        assert (error <= 1e-5 * np.abs(values) + slack).all(), name
    far = feed(rows()) | {"wide": np.full((6, 1), 1e200)}
    assert all(np.isnan(one).all() for one in run(tmp_path / "m.onnx", far).values())


@pytest.mark.parametrize(("method", "n_classes"), slow(OF_CLASSES))
def test_classes_are_those_of_python(method: str, n_classes: int, tmp_path: Path):
    model = fitted(method, n_classes)
    model.to_onnx(tmp_path / "m.onnx")
    many = pl.concat([rows(), mixed()[:60, :6]], how="vertical_relaxed")
    answers, expected = run(tmp_path / "m.onnx", feed(many)), model.predict_dist(many)
    rtol, atol = (1e-5, 1e-5) if method in IN_FLOAT32 else (1e-9, 1e-10)
    np.testing.assert_allclose(answers["proba"], expected.proba, rtol=rtol, atol=atol)
    own, written = expected.mutual_information, answers["mutual_information"][:, 0]
    np.testing.assert_allclose(written, own, rtol=rtol, atol=atol)


def test_durations_times_of_day_and_marks_of_gaps_are_those_of_python(tmp_path: Path):
    rng, n = np.random.default_rng(5), 150
    x, wait, minute = rng.normal(size=n), rng.integers(60, 7200, n), rng.integers(0, 1440, n)
    team, gone, lost = rng.choice(["red", "blue"], n), rng.random(n) < 0.3, rng.random(n) < 0.3
    turns = np.sin(minute / 1440 * 2.0 * np.pi)
    table = pl.DataFrame({
        "x": pl.Series(x).set(pl.Series(gone), None),
        "wait": pl.Series(1000 * wait).cast(pl.Duration("ms")),
        "lasted": [f"{one // 60}:{one % 60:02d}:00" for one in wait],
        "at": pl.Series(60_000_000_000 * minute).cast(pl.Time),
        "team": [None if is_lost else one for is_lost, one in zip(lost, team, strict=True)],
        "y": x + wait / 2000 + turns + 3.0 * gone + 2.0 * lost + 0.1 * rng.normal(size=n),
    })  # fmt: skip
    model = bayesprop.fit(
        table, target="y", method="linear", target_kind="numbers", test_fraction=0.2
    )
    assert [one.name for one in model.encoding.columns if one.marked] == ["x", "team"]
    model.to_onnx(tmp_path / "m.onnx")
    given = {
        "x": np.where(gone, np.nan, x),
        "wait": wait.astype(float),
        "lasted": 60.0 * wait,
        "at": 60.0 * minute,
        "team": np.where(lost, "", team).astype(object),
    }
    answers = run(tmp_path / "m.onnx", {name: one[:, None] for name, one in given.items()})
    expected = model.predict_dist(table.drop("y"))
    np.testing.assert_allclose(answers["mean"][:, 0], expected.mean, rtol=1e-9, atol=1e-9)
    own = expected.epistemic_var
    np.testing.assert_allclose(answers["epistemic_var"][:, 0], own, rtol=1e-7)
    lower = expected.quantile(0.05)
    np.testing.assert_allclose(answers["q_0.05"][:, 0], lower, rtol=1e-7, atol=1e-7)


def test_the_file_says_what_it_is(tmp_path: Path):
    fitted("linear").to_onnx(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    own = {one.key: one.value for one in model.metadata_props}
    assert own["method"] == "linear"
    assert own["bayesprop"] == bayesprop.__version__
    assert {one["name"] for one in json.loads(own["inputs"])} == {*rows().columns}
    opsets = {one.domain: one.version for one in model.opset_import}
    assert opsets.keys() <= {"", "ai.onnx.ml"}
    assert opsets[""] <= 17
    assert len(own["target_sha256"]) == 64


def test_refusals_name_a_remedy(tmp_path: Path):
    with pytest.raises(ValueError, match="--method pbp"):
        check(cast(Any, SimpleNamespace(method=object())))
    with pytest.raises(InputError, match=r"quantiles must be .* got \[1.5\]"):
        fitted("linear").to_onnx(tmp_path / "m.onnx", quantiles=[1.5])
    weights = (np.broadcast_to(0.0, (2**10, 2**8, 2**8)), np.broadcast_to(0.0, (2**10, 257, 1)))
    with pytest.raises(ValueError, match="got 67372032: fit with fewer draws"):
        draws.graph(plain_apply, KnownNoise(1), Parameters(weights, ()), cast(Any, None))
    positive = mixed().with_columns(pl.col("target").exp())
    kind = {"target_kind": "positive", "test_fraction": 0.2}
    model = bayesprop.fit(positive, target="target", method="linear", **kind)
    with pytest.raises(InputError, match="--target-kind numbers"):
        model.to_onnx(tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_the_refusal_names_the_methods_that_have_no_graph():
    unable = {
        name
        for name, method in catalogue.METHODS.items()
        for task in method.homes
        if not issubclass(catalogue.plain_class(name, task).method_class, WritesGraph)
    }
    assert unable == {"default", "batch-ep"}
    assert all(f"'{name}'" in _ABLE for name in unable)


def evaluated(function: Callable[[graphs.Node], graphs.Node], at: np.ndarray) -> np.ndarray:
    from spox import Tensor, argument, build

    a = argument(Tensor(np.float64, at.shape))
    model = build({"a": a}, {"b": function(graphs.Node(a)).var})
    return runtime.InferenceSession(model.SerializeToString()).run(None, {"a": at})[0]


def test_the_normal_distribution_is_that_of_scipy():
    at = np.linspace(-36.0, 36.0, 1001)
    lower = evaluated(lambda a: graphs.bell(a).lower, at)
    np.testing.assert_allclose(lower, special.ndtr(at), rtol=1e-12)
    upper = evaluated(lambda a: graphs.bell(a).upper, at)
    np.testing.assert_allclose(upper, special.ndtr(-at), rtol=1e-12)
    at = np.concatenate([at, [-1e3, 1e5]])
    odds = special.log_ndtr(at) - special.log_ndtr(-at)
    np.testing.assert_allclose(evaluated(graphs.log_odds, at), odds, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("dof", "atol"), [(np.inf, 1e-12), (30.0, 1e-10), (6.0, 2e-7)])
def test_the_student_distribution_is_that_of_scipy(dof: float, atol: float):
    at = np.linspace(-30.0, 30.0, 1001)
    expected: Any = stats.t(dof) if np.isfinite(dof) else stats.norm()
    lower = evaluated(lambda a: graphs.student(a, dof).lower, at)
    np.testing.assert_allclose(lower, expected.cdf(at), rtol=0.0, atol=atol)
    density = evaluated(lambda a: graphs.student(a, dof).density, at)
    np.testing.assert_allclose(density, expected.pdf(at), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("dof", [np.inf, 25.0])
def test_quantiles_of_mixtures_are_those_of_scipy(dof: float):
    rng, levels = np.random.default_rng(1), np.array([1e-4, 0.47, 0.9])
    expected: Any = stats.t(dof) if np.isfinite(dof) else stats.norm()
    shrink = np.sqrt(1.0 - 2.0 / dof)
    # Means apart by far more than their standard deviations, by less, and equal.
    m = rng.normal(size=(60, 16)) * np.repeat([100.0, 1.0, 0.0], 20)[:, None] + 7.0
    std = np.exp(rng.normal(-1.0, 1.0, size=(60, 16)))
    std[40:] = 0.5
    of_each = m[..., None] + (std * shrink)[..., None] * expected.ppf(levels)
    variances = np.stack([0.25 * std**2, 0.75 * std**2], axis=2)
    given = np.concatenate([m[..., None], variances, of_each], axis=2).reshape(-1, 6)
    own = evaluated(lambda each: _mixed(each, dof, levels, 16), given)
    np.testing.assert_allclose(own[:, 1] + own[:, 2], (std**2).mean(axis=1) + m.var(axis=1))
    for row, own_m, own_std in zip(own, m, std * shrink, strict=True):
        for q, level in zip(row[3:], levels, strict=True):

            def excess(at: float, level: float = level, m=own_m, std=own_std) -> float:
                return expected.cdf((at - m) / std).mean() - level

            root = optimize.brentq(excess, -1e4, 1e4, xtol=1e-13)
            assert q == pytest.approx(root, rel=1e-7, abs=1e-7)


def test_the_softmax_of_gaussians_is_that_of_python():
    rng = np.random.default_rng(0)
    m, v = 3.0 * rng.normal(size=(200, 4)), rng.choice([0.0, 0.01, 1.0, 30.0, 400.0], (200, 4))

    def graph(both: graphs.Node) -> graphs.Node:
        m, v = (graphs.taken(both, k) for k in (0, 1))
        return graphs.side_by_side([*softmax_expectations.graph(m, v, 4)])

    with jax.enable_x64(True):
        m_x, v_x = jnp.asarray(m), jnp.asarray(v)
        of_rows = jax.vmap(softmax_expectations.moments)(m_x, v_x)
        entropy = jax.vmap(softmax_expectations.expected_entropy)(m_x, v_x, of_rows)
    expected = np.column_stack([of_rows.proba, entropy])
    np.testing.assert_allclose(evaluated(graph, np.stack([m, v])), expected, rtol=1e-9, atol=1e-12)


def test_completions_are_those_of_python():
    rng = np.random.default_rng(0)
    a, b = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.7], [0.7, 1.0]], 300).T
    level = np.digitize(a + 0.5 * rng.normal(size=300), [-0.7, 0.4])
    X = np.column_stack([a, np.eye(3)[level], np.round(2.0 * b), rng.exponential(size=300), b > 0])
    copula = GaussianCopula.fit(X)
    gaps = X[:100]
    gaps[rng.random(gaps.shape) < 0.3] = np.nan
    gaps[:50, 1:4] = np.nan  # a category that is not known at all
    gaps[0] = np.nan
    own = evaluated(copula.graph, gaps).reshape(100, 16, -1)
    np.testing.assert_allclose(own, copula.completions(gaps), rtol=1e-12, atol=1e-12)


def test_the_symmetric_root_squares_to_the_matrix():
    rng = np.random.default_rng(0)
    turns, _ = np.linalg.qr(rng.normal(size=(20, 4, 4)))
    values = 10.0 ** rng.uniform(-8.0, 8.0, (20, 1, 1)) * np.array([1e-7, 1e-4, 0.3, 1.0])
    a = (turns * values) @ turns.transpose(0, 2, 1)
    expected = (turns * np.sqrt(values)) @ turns.transpose(0, 2, 1)
    root = evaluated(lambda a: graphs.symmetric_root(a, 4), a)
    assert (np.abs(root - expected) <= 1e-10 * np.sqrt(values.max(2, keepdims=True))).all()


def test_the_command_writes_the_same_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    fitted("linear").save(tmp_path / "m.bayesprop")
    fitted("linear").to_onnx(tmp_path / "own.onnx", quantiles=[0.25])
    words = ["export", str(tmp_path / "m.bayesprop"), str(tmp_path / "m.onnx"), "--quantiles"]
    assert main([*words, "0.25"]) == 0
    assert capfd.readouterr().out == ""
    given = feed(rows())
    own, written = (run(tmp_path / name, given) for name in ("own.onnx", "m.onnx"))
    assert own.keys() == written.keys()
    assert all(np.array_equal(own[name], written[name], equal_nan=True) for name in own)
    assert main([*words, "2"]) == 2
    assert "quantiles must be" in capfd.readouterr().err

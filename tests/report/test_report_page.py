from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from page_reader import HOSTILE, Page, plain
from report_fakes import METADATA, fit_report, regressor, rows

from bayesprop.model.predictive import MixturePredictive
from bayesprop.model.task import Standardiser
from bayesprop.report.rows import Rows
from bayesprop.report.write import write_report
from bayesprop.table.encoding import TableEncoding


def written(path, **changes) -> str:
    settings = {
        "estimator": regressor(),
        "encoding": None,
        "train": rows(300, seed=1),
        "test": rows(120, seed=2),
        "metadata": METADATA,
    }
    write_report(path / "r.html", **(settings | changes))
    return (path / "r.html").read_text(encoding="utf-8")


def table(n: int = 60) -> tuple[pl.DataFrame, TableEncoding]:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            **{name: rng.standard_normal(n) for name in HOSTILE[1:]},
            HOSTILE[0]: rng.choice(HOSTILE, n),
            "target " + HOSTILE[0]: rng.standard_normal(n),
        }
    )
    return frame, TableEncoding.fit(frame, frame.columns[-1])


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    return written(tmp_path_factory.mktemp("page"))


def test_everything_that_was_promised_is_there(page):
    said = plain(Page(page).said)
    for part in (
        "Predicting strength",
        "On 120 held-out rows, predictions of strength are off by about",
        "The 90 % intervals held",
        "Mean log-likelihood",
        "Coverage of 95 % intervals",
        "Width of 50 % intervals",
        "Bayesian linear",
        "Training mean",
        "Predicted against actual",
        "PIT histogram",
        "Nominal against actual coverage",
        "Error against predicted std",
        "What moves the prediction",
        "The rows it is least sure of",
        "Log Z",
        "Noise std",
        "Epistemic share",
        "Noise updates skipped: 3",
        "Prior refreshes skipped: 12 (3.0 % of 400)",
        "What was done to the data",
        METADATA["command"],
        "hidden_layer_sizes=(50,)",
        "numpy 2.4.6",
        "MPa",
    ):
        assert part in said, part


def test_hostile_text_stays_text(tmp_path):
    frame, encoding = table()
    x, ids = encoding.transform(frame), [HOSTILE[i % len(HOSTILE)] for i in range(len(frame))]
    held = Rows(x, encoding.target(frame), ids)
    estimator = regressor(
        d=x.shape[1],
        x_scaler_=Standardiser.fit(x),
        fit_report_=fit_report(
            warnings=list(HOSTILE),
            guards={HOSTILE[0]: 1},
            trace={HOSTILE[1]: [1.0, 2.0], "a b\\1": [1.0]},
            log_evidence={HOSTILE[2]: 1.0},
        ),
    )
    metadata = dict.fromkeys(("title", "source", "command", "created"), HOSTILE[0])
    metadata |= {"versions": {HOSTILE[0]: HOSTILE[1]}, "unit": HOSTILE[0], "seed": 1}
    text = written(
        tmp_path, estimator=estimator, encoding=encoding, train=held, test=held, metadata=metadata
    )
    parsed = Page(text)
    assert not {"script", "img", "raw"} & set(parsed.tags)
    assert not [key for key in parsed.attributes if key.startswith("on")]
    assert parsed.tags["style"] == parsed.tags["title"] - parsed.tags["svg"] == 1
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert not set("\x00\x07\u202e") & set(text)
    said = plain(parsed.said)
    for name in HOSTILE[:6]:
        assert name in said, name
    in_pictures = plain(Page("".join(re.findall(r"<svg.*?</svg>", text, re.S))).said)
    assert "<script>alert(1)<…" in in_pictures
    assert "Predicted target <script>" in in_pictures
    assert "$\\frac{a}{b}^_" in in_pictures


def test_one_feature(tmp_path):
    text = written(
        tmp_path, estimator=regressor(1), train=rows(50, d=1), test=rows(40, d=1, seed=4)
    )
    assert "effect-0" in text
    assert "effect-1" not in text


def test_two_hundred_features(tmp_path):
    text = written(
        tmp_path, estimator=regressor(200), train=rows(80, d=200), test=rows(40, d=200, seed=4)
    )
    assert "effect-11" in text
    assert "effect-12" not in text
    assert "measured on a coarser grid" in text
    assert "x200" not in text
    assert len(text) < 1_000_000


def test_constant_target_and_predictions(tmp_path):
    train = rows(50)
    train = Rows(train.X, np.full(50, 7.0), train.row_ids)
    flat = regressor(slopes=np.zeros(3), offset=7.0, noise_var=1e-12)
    flat.fit_report_ = fit_report(warnings=["the target is constant: check the column"])
    flat.x_scaler_ = Standardiser(np.ones(3), np.zeros(3), np.full(3, 1e12))
    text = written(tmp_path, estimator=flat, train=train, test=train)
    assert "the target is constant" in text
    assert "nan" not in Page(text).said.lower()


@pytest.mark.parametrize("extreme", [1e300, 1e-300])
def test_extreme_columns_can_be_drawn(tmp_path, extreme):
    train, test = rows(60), rows(40, seed=1)
    scale = np.array([extreme, 1.0, 1.0])
    train, test = (Rows(r.X * scale, r.y, r.row_ids) for r in (train, test))
    estimator = regressor(
        slopes=np.array([2.0 / extreme, 1.0, 0.5]), x_scaler_=Standardiser.fit(train.X)
    )
    text = written(tmp_path, estimator=estimator, train=train, test=test)
    assert f"× 10{'³⁰⁰' if extreme > 1 else '⁻³⁰⁰'}" in text


@pytest.mark.parametrize("scale", [1e-120, 1e9, 1e120])
def test_targets_of_any_scale(tmp_path, scale):
    parts = [Rows(r.X, r.y * scale, r.row_ids) for r in (rows(60), rows(40, seed=1))]

    class Scaled(type(regressor())):
        def predict_dist(self, x):
            found = super().predict_dist(x)
            return type(found)(
                found.mean * scale, found.epistemic_var * scale**2, found.noise_var * scale**2
            )

    estimator = Scaled(**{k: getattr(regressor(), k) for k in ("slopes", "x_scaler_")})
    said = Page(written(tmp_path, estimator=estimator, train=parts[0], test=parts[1])).said
    assert "inf" not in re.findall(r"\b\w+\b", said.lower())


def test_one_epoch_and_a_method_without_guards(tmp_path):
    estimator = regressor()
    estimator.fit_report_ = fit_report(
        n_epochs=1, guards={}, trace={"noise_std": [0.5], "elbo": [np.nan]}, log_evidence={}
    )
    said = plain(Page(written(tmp_path, estimator=estimator)).said)
    assert "in 1 epoch and" in said
    assert "counts no guarded updates" in said
    assert "Elbo" in said


def test_a_mixture_of_gaussians(tmp_path):
    """Draws that disagree, and a trace that no method of ours has."""

    class Disagreeing(type(regressor())):
        def predict_dist(self, x):
            found = super().predict_dist(x)
            means = np.stack([found.mean - 3.0, found.mean, found.mean + 4.0])
            noise_vars = np.array([0.1, 0.5, 2.0])[:, None] * found.noise_var
            return MixturePredictive.of(means, noise_vars)

    made = regressor()
    estimator = Disagreeing(made.slopes, made.x_scaler_)
    estimator.fit_report_ = fit_report(
        guards={"something_new": 2}, trace={"loss": [3.0, np.inf], "odd_name": [1.0, 2.0, 3.0]}
    )
    parsed = Page(written(tmp_path, estimator=estimator))
    said = plain(parsed.said)
    assert parsed.tags["svg"] == 4 + 3 + 2
    assert "Something new: 2" in said
    assert "Odd name" in said
    assert "nan" not in said.lower()


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    (tmp_path / "r.html").write_text("before")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        written(tmp_path)
    assert (tmp_path / "r.html").read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_drawing_leaves_matplotlib_as_it_was(page):
    import matplotlib

    assert matplotlib.rcParams["svg.fonttype"] == matplotlib.rcParamsDefault["svg.fonttype"]
    assert matplotlib.rcParams["text.parse_math"]

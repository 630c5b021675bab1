"""Pages of regressors and classifiers, read as a browser reads them."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

import matplotlib
import numpy as np
import polars as pl
import pytest

from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.evaluation.baselines import Baselines
from bayesprop.evaluation.words import number, percent
from bayesprop.metrics import rmse
from bayesprop.model.task import Standardiser
from bayesprop.report.contents import collect
from bayesprop.report.page import write_report
from bayesprop.table.encoding import TableEncoding
from page_reader import HOSTILE, Page, plain
from report_fakes import (
    FRAUD,
    METADATA,
    NUMBERS,
    TRACE,
    WINE,
    classifier,
    fit_report,
    given,
    halves,
    regressor,
    rows,
    table,
)

SCRIPT = (resources.files("bayesprop.report") / "templates/page.js").read_text("utf-8").rstrip("\n")
TASKS = {"numbers": NUMBERS, "classes": FRAUD}
N_FIGURES = {"numbers": 4 + 3 + 3, "classes": 6 + 4 + len(TRACE)}
PROMISED = {
    "numbers": (
        "On 120 held-out rows, predictions of strength are off by about | The 90 % intervals "
        "contain | Coverage of 95 % intervals | Width of 50 % intervals | Bayesian linear | "
        "Constant | Predicted against actual | PIT histogram | Nominal against actual "
        "coverage | Error against predicted std | Moves the average by | Mean log z | Noise std | "
        "Counts during the fit: weights undone 0; noise kept 3; prior kept 12; steps damped 0. | "
        "Inputs and target are standardised | MPa"
    ),
    "classes": (
        "On 450 held-out rows, | so that accuracy is not informative here | ; a logistic "
        "regression has | The positive class is fraud: with rows flagged from a probability of "
        "50.0 % on, the model finds | It expects | Which rows to act on | Precision against "
        "recall | Average precision | Balanced accuracy | Area under the ROC curve | Brier score | "
        "Calibration error | Logistic regression | Class frequencies | Reliability diagram | "
        "Confidence of right and wrong predictions | Errors when it abstains | Confusion matrix | "
        "average probability of fraud | Moves the probability of fraud by | Largest errors | "
        "Validation loss | Mean log likelihood | Counts during the fit: epochs undone 0. | Inputs "
        "are standardised"
    ),
}
ALIKE = (
    "Predicting strength | concrete.csv · 300 training rows · evaluated on | Mean log-"
    "likelihood, nats | Effects of the features | Most uncertain rows | Epistemic share | Data "
    "preparation | hidden_layer_sizes=(50,) | numpy 2.4.6"
)


def written(path, task=NUMBERS, **changes) -> str:
    write_report(path / "r.html", collect(**given(*task, **changes)))
    return (path / "r.html").read_text(encoding="utf-8")


def text_of(path, task=NUMBERS, **changes) -> str:
    return plain(Page(written(path, task, **changes)).text)


@pytest.fixture(scope="module", params=TASKS)
def task(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def page(task, tmp_path_factory) -> str:
    return written(tmp_path_factory.mktemp("page"), TASKS[task])


def test_a_page_is_well_formed_alone_and_the_same_each_time(page, tmp_path, task):
    parsed = Page(page)
    assert parsed.tags["svg"] == parsed.tags["figcaption"] == N_FIGURES[task]
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert parsed.references <= set(parsed.ids)
    assert "http://" not in page
    assert "https://" not in page
    assert not {"link", "img", "iframe", "image"} & set(parsed.tags)
    assert parsed.scripts == [SCRIPT]
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert not {"src", "xmlns", "onload"} & parsed.attributes
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert written(tmp_path, TASKS[task]) == page
    assert matplotlib.rcParams["svg.fonttype"] == matplotlib.rcParamsDefault["svg.fonttype"]
    assert matplotlib.rcParams["text.parse_math"]


def test_a_page_on_groups_says_that_its_bands_and_errors_are_theirs(page, tmp_path, task):
    train, test = TASKS[task]
    grouped = test._replace(groups=np.arange(len(test.y))[:, None] % 30)
    text = text_of(tmp_path, (train, grouped))
    assert text.count("the band is that of 30 groups.") == {"numbers": 2, "classes": 3}[task]
    assert "one standard error over 30 groups of rows." in text
    alone = plain(Page(page).text)
    assert "groups." not in alone
    assert "one standard error over the rows." in alone


def test_everything_that_was_promised_is_there(page, task):
    text = plain(Page(page).text)
    for part in [METADATA["command"], *f"{ALIKE} | {PROMISED[task]}".split(" | ")]:
        assert part in text, part
    if task == "numbers":
        assert page.count(": predicted ") == 2 * 120, "each row in two pictures, under the pointer"
        assert re.search(r"<use [^>]*><title>row \d+: predicted \S+ \(\S+ to \S+\), actual", page)
        assert re.search(r"<title>x1 = [^<]*: [^<]* ± [^<]*</title></use>", page)
    if task == "classes":
        places = [text.rindex(part) for part in ("It expects", "Scores", "Reliability d")]
        assert places == sorted(places), "the verdict comes first"
        assert "Most often confused" not in text


@pytest.mark.parametrize("n", [1, 19])
def test_few_rows_are_stated(tmp_path, task, n):
    train, test = TASKS[task]
    text = text_of(tmp_path, (train, test.of(np.arange(n))))
    assert f"On {n} held-out row{'s' if n > 1 else ''}," in text
    assert re.search(f"Too few rows to assess .*: {n} of the 20 that are needed.", text)
    assert f"This picture needs at least 20 rows; there are {n}." in text
    assert "nan" not in text


def test_which_rows_judge_is_stated(tmp_path, task):
    train, test = TASKS[task]
    alone = text_of(tmp_path, (train, None))
    assert "No rows were held out" in alone
    assert "beyond two standard errors" not in alone
    assert "measured on the table given" in text_of(tmp_path, (None, test))


def hostile(y: np.ndarray) -> dict:
    """A table, a fit and notes in which every text is hostile."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            **{name: rng.standard_normal(len(y)) for name in HOSTILE[1:]},
            HOSTILE[0]: rng.choice(HOSTILE, len(y)),
            "target " + HOSTILE[0]: rng.standard_normal(len(y)),
        }
    )
    encoding = TableEncoding.fit(frame, frame.columns[-1])
    held = table(encoding.encode(frame).X, y)
    report = fit_report(
        warnings=list(HOSTILE),
        guards={HOSTILE[0]: 1},
        trace={HOSTILE[1]: [1.0, 2.0], "a b\\1": [1.0]},
        log_evidence={HOSTILE[2]: 1.0},
    )
    metadata = METADATA | dict.fromkeys(("unit", "source", "command", "created"), HOSTILE[0])
    metadata |= {"versions": {HOSTILE[0]: HOSTILE[1]}}
    made = given(held, held, encoding=encoding, metadata=metadata)
    made["estimator"].fit_report_ = report
    return made


@pytest.mark.parametrize("kind", TASKS)
def test_hostile_text_stays_text(tmp_path, kind):
    labels = np.array([*HOSTILE[:6], "fine"])[np.arange(140) % 7]
    numbers = np.random.default_rng(1).standard_normal(140)
    write_report(tmp_path / "r.html", collect(**hostile(numbers if kind == "numbers" else labels)))
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    parsed = Page(page)
    assert not {"img", "raw"} & set(parsed.tags)
    assert parsed.scripts == [SCRIPT]
    assert not [key for key in parsed.attributes if key.startswith("on")]
    assert parsed.tags["style"] == page.count("</style>") == 1
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert not set("\x00\x07\u202e") & set(page)
    text = plain(parsed.text)
    in_pictures = plain(Page("".join(re.findall(r"<svg.*?</svg>", page, re.S))).text)
    for name in HOSTILE[:6]:
        assert name in text, name
    assert "<script>alert(1)<…" in in_pictures
    if kind == "numbers":
        assert "Predicted target <script>" in in_pictures
        assert "$\\frac{a}{b}^_" in in_pictures
    else:
        assert "Most often confused" in text


def test_several_classes(tmp_path):
    text = text_of(tmp_path, WINE[::-1])
    assert "Most often confused" in text
    assert re.search(r"Share of the actual class class_\d ?class_\d \d+ ?\d+ %", text)
    assert "the class that the feature moves most" in text
    assert "positive class" not in text


def test_a_hundred_classes_stay_readable(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 100, 3000)
    names = np.array([f"class {k:02d}" for k in range(100)])
    x = 1.5 * rng.standard_normal((100, 2))[codes] + rng.standard_normal((3000, 2))
    train, test = halves(x, names[codes])
    page = written(tmp_path, (train, test), estimator=classifier(train, n_members=1))
    parsed = Page(page)
    assert len(page) < 300_000
    assert parsed.tags["use"] + parsed.tags["path"] < 2000
    # A row each for classes, confused pairs, rows of doubt, wrong answers and rows that are listed.
    assert parsed.tags["tr"] < 100 + 20 + 10 + 10 + 300 + 30
    text = plain(parsed.text)
    assert all(name in text for name in names)
    assert "Confusion matrix" not in text
    assert "No matrix is shown for more than 30 classes" in text


def test_no_wrong_answers_and_no_positive_rows(tmp_path):
    x = np.repeat(np.array([[-3.0, 0.0], [3.0, 1.0]]), 40, axis=0)
    part = table(x, np.repeat([True, False], 40))
    text = text_of(tmp_path, (part, part))
    assert "Largest errors" not in text
    assert "The positive class is True" in text
    assert "its error rate" not in text
    train, test = FRAUD
    text = text_of(tmp_path, (train, test.of(test.y == "clean")))
    assert "none of these rows belongs to it" in text


def test_constant_target_and_predictions(tmp_path):
    train = table(rows(50).X, np.full(50, 7.0))
    flat = regressor(slopes=np.zeros(3), offset=7.0, noise_var=1e-12)
    warnings = ["the target is constant: check the column"]
    traces = {"noise_std": [0.5], "elbo": [np.nan]}
    flat.fit_report_ = fit_report(
        n_epochs=1, guards={}, trace=traces, log_evidence={}, warnings=warnings
    )
    flat.x_scaler_ = Standardiser(np.ones(3), np.zeros(3), np.full(3, 1e12))
    text = text_of(tmp_path, (train, train), estimator=flat)
    assert "Counts during the fit" not in text
    for part in (*warnings, "in 1 epoch and", "Elbo"):
        assert part in text


@pytest.mark.parametrize("sign", [1, -1])
def test_columns_and_targets_of_any_scale_can_be_drawn(tmp_path, sign):
    of_column, of_target = 10.0 ** (sign * 300), 10.0 ** (sign * 120)

    class Scaled(type(regressor())):
        def predict_dist(self, x):
            return super().predict_dist(x).rescaled(0.0, of_target)

    scale = np.array([of_column, 1.0, 1.0])
    task = tuple(table(r.X * scale, r.y * of_target) for r in (rows(60), rows(40, seed=1)))
    estimator = Scaled(np.array([2.0 / of_column, 1.0, 0.5]), Standardiser.fit(task[0].X))
    page = written(tmp_path, task, estimator=estimator)
    assert f"× 10{'³⁰⁰' if sign > 0 else '⁻³⁰⁰'}" in page
    assert "inf" not in re.findall(r"\b\w+\b", plain(Page(page).text).lower())


def test_a_mixture_of_gaussians(tmp_path):
    """Draws that disagree, and a trace that no method of ours has."""

    class Disagreeing(type(regressor())):
        def predict_dist(self, x):
            one = super().predict_dist(x)
            means = np.stack([one.mean - 3.0, one.mean, one.mean + 4.0])
            noise_vars = np.array([0.1, 0.5, 2.0])[:, None] * one.noise_var
            return MixturePredictive.of(means, noise_vars)

    made = regressor()
    estimator = Disagreeing(made.slopes, made.x_scaler_)
    estimator.fit_report_ = fit_report(
        guards={"something_new": 2}, trace={"loss": [3.0, np.inf], "odd_name": [1.0, 2.0, 3.0]}
    )
    parsed = Page(written(tmp_path, estimator=estimator))
    text = plain(parsed.text)
    assert parsed.tags["svg"] == 4 + 3 + 2
    assert "Counts during the fit: something new 2." in text
    assert "Odd name" in text
    assert "nan" not in text.lower()


@pytest.mark.parametrize("task", [(rows(60), rows(40, seed=1)), WINE], ids=["numbers", "classes"])
def test_baselines_are_compared_by_name_not_by_their_order(tmp_path, task):
    about, (train, test) = given(*task), task
    classes = getattr(about["estimator"], "classes_", None)
    line = Baselines.fit(train.X, train.y, classes).predict(test.X)
    if classes is None:
        of_mean, of_line = (number(rmse(one, test.y)) for one in line.values())
        said = (f"a Bayesian linear model by {of_line} and a constant by {of_mean}",)
    else:
        of_most, of_line = (percent(np.mean(one.label == test.y), 1) for one in line.values())
        assert of_line != of_most
        said = (
            f"a logistic regression is right in {of_line} and",
            f"of the training rows is right in {of_most}.",
        )
    models = {"model": about["estimator"].predict_dist(test.X)}
    about["models"] = models | {name: line[name] for name in reversed(line)}
    write_report(tmp_path / "r.html", collect(**about))
    text = plain((tmp_path / "r.html").read_text())
    assert all(plain(words) in text for words in said)

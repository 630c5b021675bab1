from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from page_reader import HOSTILE, Page, plain
from report_class_fakes import classifier, halves, imbalanced
from report_fakes import METADATA, fit_report
from sklearn.datasets import load_digits, load_wine

from bayesprop.report.rows import Rows
from bayesprop.report.write import write_report
from bayesprop.table.encoding import TableEncoding

TRAIN, TEST = halves(*imbalanced())


def written(path, train=TRAIN, test=TEST, **changes) -> str:
    settings = {
        "estimator": classifier(TRAIN if train is None else train),
        "encoding": None,
        "train": train,
        "test": test,
        "metadata": {**METADATA, "target": "kind"},
    }
    write_report(path / "r.html", **(settings | changes))
    return (path / "r.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    return written(tmp_path_factory.mktemp("page"))


def test_everything_that_was_promised_is_there(page):
    said = plain(Page(page).said)
    for part in (
        "Predicting kind",
        "On 450 held-out rows, the most probable class is the right kind in",
        "a logistic regression is right in",
        "The positive class is fraud, the second in sorted order: the model finds",
        "If it abstains on the least sure 10 % of the rows, its errors fall from",
        "It says",
        "Balanced accuracy",
        "Area under the ROC curve",
        "Mean log-likelihood, nats",
        "Brier score",
        "Calibration error",
        "Logistic regression",
        "Class frequencies",
        "Reliability diagram",
        "Confidence, right and wrong answers apart",
        "Errors when it abstains",
        "Confusion matrix",
        "What moves the prediction",
        "average probability of fraud",
        "The rows it is least sure of",
        "The answers that were most wrong",
        "Validation loss",
        "KL divergence",
        "Epochs undone: 0",
        "Inputs are standardised",
        "hidden_layer_sizes=(50,)",
    ):
        assert part in said, part
    assert "Most often confused" not in said
    assert "MPa" not in said


def test_the_verdict_comes_before_the_figures(page):
    said = plain(Page(page).said)
    places = [
        said.index(text) for text in ("It says", "How good the", "Reliability", "least sure of")
    ]
    assert places == sorted(places)


def test_several_classes(tmp_path):
    wine = load_wine()
    train, test = halves(wine.data, wine.target_names[wine.target], share=0.2)
    said = plain(Page(written(tmp_path, train, test)).said)
    assert "Most often confused" in said
    assert re.search(r"class_\d taken for class_\d: \d+ rows?, \d+ %", said)
    assert "the class that the feature moves most" in said
    assert "positive class" not in said


def test_pictures(tmp_path):
    train, test = halves(*load_digits(return_X_y=True), share=0.2)
    text = written(tmp_path, train, test, metadata={**METADATA, "image_shape": [8, 8]})
    parsed = Page(text)
    assert parsed.tags["img"] >= 20
    sources = re.findall(r'<img class="row" src="([^"]*)" alt="([^"]*)"', text)
    assert len(sources) == parsed.tags["img"]
    assert all(uri.startswith("data:image/png;base64,") and alt for uri, alt in sources)
    said = plain(parsed.said)
    assert "What moves the prediction" not in said
    assert "Most unusual values" not in said
    assert re.search(r"\d \(\d+ %\), \d \(\d+ %\), \d \(", said)


def test_many_classes(tmp_path):
    rng = np.random.default_rng(0)
    train, test = halves(rng.standard_normal((800, 3)), np.arange(800) % 40)
    said = plain(Page(written(tmp_path, train, test)).said)
    assert "The 30 classes whose rows are found worst; the other 10 are not shown." in said
    assert "Confusion matrix" not in said


def test_hostile_labels_and_names_stay_text(tmp_path):
    rng = np.random.default_rng(0)
    labels = [*HOSTILE[:6], "fine"]
    frame = pl.DataFrame(
        {
            **{name: rng.standard_normal(140) for name in HOSTILE[1:3]},
            HOSTILE[0]: rng.choice(HOSTILE, 140),
            "kind": rng.standard_normal(140),
        }
    )
    encoding = TableEncoding.fit(frame, "kind")
    y = np.array(labels)[np.arange(140) % len(labels)]
    rows = Rows(encoding.transform(frame), y, [HOSTILE[i % len(HOSTILE)] for i in range(140)])
    estimator = classifier(rows, n_members=2)
    estimator.fit_report_ = fit_report(
        warnings=list(HOSTILE), guards={HOSTILE[0]: 1}, trace={HOSTILE[1]: [1.0, 2.0]}
    )
    text = written(tmp_path, rows, rows, estimator=estimator, encoding=encoding)
    parsed = Page(text)
    assert not {"script", "img", "raw"} & set(parsed.tags)
    assert not [key for key in parsed.attributes if key.startswith("on")]
    assert parsed.tags["style"] == parsed.tags["title"] - parsed.tags["svg"] == 1
    assert len(set(parsed.ids)) == len(parsed.ids)
    said = plain(parsed.said)
    for name in HOSTILE[:6]:
        assert f"{name} taken for" in said or f"taken for {name}" in said, name


def test_a_model_that_is_never_wrong(tmp_path):
    x = np.repeat(np.array([[-3.0, 0.0], [3.0, 1.0]]), 40, axis=0)
    rows = Rows(x, np.repeat([True, False], 40), [str(i) for i in range(80)])
    said = plain(Page(written(tmp_path, rows, rows)).said)
    assert "most wrong" not in said
    assert "The positive class is True" in said
    assert "its errors" not in said


def test_a_positive_class_without_rows(tmp_path):
    clean = TEST.y == "clean"
    ids = [row for row, keep in zip(TEST.row_ids, clean, strict=True) if keep]
    said = plain(Page(written(tmp_path, TRAIN, Rows(TEST.X[clean], TEST.y[clean], ids))).said)
    assert "none of these rows is of it" in said

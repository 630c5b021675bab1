"""Classes through the command line with the method that `fit` takes by itself."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import bayesprop
from bayesprop import methods
from bayesprop.cli import main
from bayesprop.cli.fit import DEFAULT_METHOD


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    folder = tmp_path_factory.mktemp("iris")
    model, page = folder / "iris.bayesprop", folder / "iris.html"
    words = ["fit", "iris", "--test-fraction", "0.2", "--quiet"]
    assert main([*words, "--out", str(model), "--report", str(page)]) == 0
    return model, page


def test_defaults_are_methods_that_do_their_task():
    for task, name in DEFAULT_METHOD.items():
        assert task in methods.METHODS[name].homes


def test_held_out_flowers_are_told_apart(cli, iris):
    model, page = iris
    told = cli("inspect", model, "--json").json
    assert told["method"] == DEFAULT_METHOD["classification"]
    assert (told["target"], told["rows"]) == ("species", {"train": 120, "held_out": 30})
    scores = told["held_out"]
    assert scores["model"]["accuracy"] > 0.8
    assert scores["model"]["log_likelihood"] > 0.5 * scores["constant"]["log_likelihood"]
    assert "virginica" in page.read_text(encoding="utf-8")


def test_predict_agrees_with_python(cli, iris):
    from sklearn.datasets import load_iris

    model, _ = iris
    rows = list(csv.DictReader(io.StringIO(cli("predict", model, "iris").out)))
    estimator, x = bayesprop.load(model), load_iris().data
    names = ["setosa", "versicolor", "virginica"]
    proba = [[float(row[f"p({name})"]) for name in names] for row in rows]
    np.testing.assert_allclose(proba, estimator.predict_proba(x), rtol=1e-6)
    assert [row["species"] for row in rows] == estimator.predict(x).tolist()
    information = estimator.predict_dist(x).mutual_information
    found = [float(row["mutual_information"]) for row in rows]
    np.testing.assert_allclose(found, information, rtol=1e-6, atol=1e-9)


def test_report_of_the_whole_set(cli, iris, tmp_path):
    page = tmp_path / "all.html"
    result = cli("report", iris[0], "iris", "--out", page)
    assert result.code == 0, result.err
    assert "fitted on 120 of these 150 rows" in result.err
    assert "versicolor" in page.read_text(encoding="utf-8")

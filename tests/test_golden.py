"""Files and fits of every method as they were before the estimators were rebuilt."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import bayesprop
import golden_cases
from bayesprop.sealed import ModelFileError
from bayesprop.store import load_model

GOLDEN = Path(__file__).parent / "golden" / "methods-v1"
EXPECTED = json.loads(GOLDEN.with_suffix(".json").read_text())
IN_DOUBLE = ("linear", "logistic", "pbp", "batch-ep")
"""Begin the names of cases that compute in float64; the others do in float32."""
REPORT_PAGE = Path(__file__).parent.parent / "docs" / "use" / "read-the-report.md"
"""Explains every count and curve of a fit."""
REFUSED: dict[str, str] = {}
"""Files that a later version does not read, and the sentence that says what to do."""
CASES = pytest.mark.parametrize(("name", "task"), golden_cases.cases())


def tolerance(name, single, double):
    return double if name.startswith(IN_DOUBLE) else single


@CASES
def test_a_golden_file_predicts_what_it_predicted_or_is_refused(name, task):
    case = f"{name}-{task}"
    path = GOLDEN / f"{case}.bayesprop"
    if case in REFUSED:
        with pytest.raises(ModelFileError, match=REFUSED[case]):
            bayesprop.load(path)
        return
    x = golden_cases.rows(task).x_test[: golden_cases.N_STORED]
    expected = EXPECTED[case]["predictions"]
    predicted = golden_cases.predictions(bayesprop.load(path), x)
    assert predicted.keys() == expected.keys()
    for part, values in predicted.items():
        np.testing.assert_allclose(values, expected[part], rtol=tolerance(name, 1e-4, 1e-9))


def test_the_first_file_of_a_table_predicts_what_it_predicted():
    saved = load_model(path := GOLDEN.with_name("pbp-v1.bayesprop"))
    expected = json.loads(path.with_suffix(".json").read_text())
    assert saved.table is not None
    X = saved.table.encode(pl.DataFrame(expected["rows"])).X
    predicted = saved.estimator.predict_dist(X)
    for part in ("mean", "epistemic_var", "noise_var"):
        np.testing.assert_allclose(getattr(predicted, part), expected[part], rtol=1e-12, atol=0.0)
    assert (saved.metadata["unit"], saved.header["method"]) == ("kN", "pbp")


def test_every_golden_file_has_its_case():
    names = {path.stem for path in GOLDEN.glob("*.bayesprop")}
    assert names == {f"{name}-{task}" for name, task in golden_cases.cases()} == set(EXPECTED)


@pytest.mark.exhaustive
@CASES
@pytest.mark.filterwarnings(
    "ignore:the chains disagree", "ignore:the draws are worth", "ignore:draws that diverged"
)
def test_a_fit_scores_what_it_scored(name, task):
    model = golden_cases.fitted(name, task)
    explained = set(re.findall(r"^\| `(\w+)` \|", REPORT_PAGE.read_text("utf-8"), re.M))
    assert {*model.fit_report_.guards, *model.fit_report_.trace} <= explained
    scores = golden_cases.scores(model, task)
    for score, value in EXPECTED[f"{name}-{task}"]["scores"].items():
        assert scores[score] == pytest.approx(value, **fit_tolerance(name, score))


def fit_tolerance(name, score):
    """What rounding may change: nothing of note, but which way a chain goes, or one row's class.

    AVX-512, AVX2 and SSE4.2 differ by 3e-8 of a score at most, 1e-14 in float64; chains of five
    seeds by a quarter of the tolerance in standard deviation.
    """
    if name == "mcmc":
        return {"abs": {"log_likelihood": 0.07, "rmse": 4.0, "accuracy": 0.06}[score]}
    if score == "accuracy":
        return {"abs": 1.01 / len(golden_cases.rows("classification").y_test)}
    return {"rel": tolerance(name, 1e-5, 1e-10)}

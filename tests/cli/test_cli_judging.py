"""How a fit is judged: by groups, by time, by one's own rows, in folds; and what is said of it."""

import datetime
import re

import numpy as np
import pytest

from house_table import as_csv

FAST = ("--method", "linear")


def visits(n_patients, seed, first=0):
    """Patients with an age, a height and a level of their own, each measured ten times."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(first, first + n_patients):
        age, height, level = rng.integers(20, 80), round(rng.uniform(150.0, 195.0), 2), rng.normal()
        for _ in range(10):
            dose = rng.uniform()
            y = level + dose + 0.1 * rng.normal()
            rows.append({"patient": f"P{k}", "age": age, "height": height, "dose": dose, "y": y})
    return rows


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(as_csv(visits(40, 0)))
    return path


@pytest.mark.exhaustive
def test_groups_are_held_out_whole_and_the_default_learns_by_them(cli, table, tmp_path):
    quick = ("--set", "n_epochs=40", "--hidden", "5")
    fit = ("fit", table, "-t", "y", "-o", tmp_path / "m", *quick)
    grouped = cli(*fit, "--group", "patient", "--json").json
    assert grouped["rows"] == {"train": 360, "held_out": 40}
    assert grouped["judged_by"] == "40 held-out rows, of 4 new values of patient"
    assert grouped["judged_again"] == []
    assert grouped["features"] == 3
    assert 0.7 <= grouped["held_out"]["model"]["coverage_90"] <= 1.0
    assert set(grouped["standard_errors"]) >= {"rmse", "log_likelihood", "coverage_90"}
    assert cli("inspect", tmp_path / "m", "--json").json["config"]["group"] == "patient"


def test_rows_that_seem_to_belong_together_are_judged_again_and_named(cli, table, tmp_path):
    told = cli("fit", table, "-t", "y", "-o", tmp_path / "m", "--method", "pbp", "--json")
    (again,) = told.json["judged_again"]
    assert again["column"] == "patient"
    assert again["is_worse"]
    assert again["n_rows"] == 40
    assert again["scores"]["model"]["rmse"] > 2.0 * told.json["held_out"]["model"]["rmse"]
    assert "fit with --group patient" in told.err
    assert any("--group patient" in one for one in told.json["warnings"])


def test_a_method_that_leaves_nothing_out_says_so(cli, table, tmp_path):
    told = cli("fit", table, "-t", "y", "-o", tmp_path / "m", *FAST, "--group", "patient")
    assert told.code == 0
    assert "leaves no groups out while it learns" in told.err


def test_rows_of_ones_own_judge_and_all_others_are_learnt(cli, table, tmp_path):
    other, model = tmp_path / "other.csv", tmp_path / "m"
    other.write_text(as_csv(visits(5, 1, first=40)))
    fit = ("fit", table, "-t", "y", "-o", model, *FAST, "--drop", "patient")
    told = cli(*fit, "--test", other, "--json").json
    assert told["rows"] == {"train": 400, "held_out": 50}
    assert told["judged_by"] == f"50 rows of {other}"
    evaluated = cli("evaluate", model, other, "--json").json
    assert evaluated["metrics"]["model"] == told["held_out"]["model"]
    assert evaluated["standard_errors"] == told["standard_errors"]
    assert "are the rows that are learnt" in cli(*fit, "--test", table).refusal
    copy = tmp_path / "copy.csv"
    copy.write_text(table.read_text())
    assert "holds the rows that are learnt" in cli(*fit, "--test", copy).refusal
    for words in (("--time", "dose"), ("--test-fraction", 0.3)):
        assert "give one of them" in cli(*fit, "--test", other, *words).refusal


def test_rows_of_ones_own_have_the_groups_of_the_fit(cli, table, tmp_path):
    """Repeated five times over, rows say no more of their groups, and no more of the errors."""
    model = tmp_path / "m"
    fit = ("fit", table, "-t", "y", "-o", model, *FAST, "--group", "patient", "--json")
    errors = []
    for times in (1, 5):
        path = tmp_path / f"other{times}.csv"
        path.write_text(as_csv(visits(30, 1, first=40) * times))
        told = cli(*fit, "--test", path).json
        assert (
            cli("evaluate", model, path, "--json").json["standard_errors"]
            == (told["standard_errors"])
        )
        errors.append(told["standard_errors"]["crps"])
    assert errors[1] == pytest.approx(errors[0])


def test_inspect_shows_what_the_fit_warned_of_and_how_sure_its_scores_are(cli, table, tmp_path):
    model = tmp_path / "m"
    told = cli("fit", table, "-t", "y", "-o", model, *FAST, "--json").json
    stored = cli("inspect", model, "--json").json
    for key in ("warnings", "standard_errors", "judged_by", "held_out"):
        assert stored[key] == told[key]
    shown = cli("inspect", model).out
    assert "fit with --group patient" in " ".join(shown.split())
    assert shown.count("seem to belong together") == 1
    assert "± s.e." in shown
    assert "40 held-out rows" in shown


def test_methods_are_compared_on_rows_of_ones_own(cli, table, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(as_csv(visits(5, 1, first=40)))
    words = ("-t", "y", *FAST, "--drop", "patient", "--test", other)
    compare = ("compare", table, *words, "--plot", tmp_path / "c.svg", "--no-peers")
    told = cli(*compare, "--json").json
    assert told["rows"] == {"train": 400, "held_out": 50}
    fitted = cli("fit", table, *words, "-o", tmp_path / "m", "--json").json
    by_method = {one["method"]: one["metrics"] for one in told["methods"]}
    assert by_method["linear"] == fitted["held_out"]["model"]
    assert f"400 rows to learn from, judged by 50 of {other}" in cli(*compare).out
    assert "--splits must be 1 with --test" in cli(*compare, "--splits", 3).refusal
    assert "give one of them" in cli(*compare, "--test-fraction", 0.3).refusal
    assert "are the rows that are learnt" in cli(*compare, "--test", table).refusal


def test_compare_warns_of_rows_that_seem_to_belong_together(cli, table, tmp_path):
    words = ("compare", table, "-t", "y", *FAST, "--splits", 2, "--plot", tmp_path / "c.svg")
    told = cli(*words, "--no-peers", "--json")
    (again,) = told.json["judged_again"]
    assert (again["column"], again["option"], again["is_worse"]) == ("patient", "group", True)
    assert again["n_rows"] == told.json["rows"]["held_out"] == 80
    assert again["remark"] in told.json["warnings"]
    assert "warning: linear: rows of one 'patient' seem to belong together" in told.err
    grouped = cli(*words, "--no-peers", "--json", "--group", "patient").json
    assert grouped["judged_again"] == []


def test_the_past_is_learnt_and_the_future_judges(cli, table, tmp_path):
    words = ("-t", "y", "-o", tmp_path / "m", *FAST, "--time", "dose", "--json")
    told = cli("fit", table, *words).json
    assert told["rows"] == {"train": 360, "held_out": 40}
    assert told["judged_by"] == "40 held-out rows, the latest by dose"
    compare = ("compare", table, "-t", "y", *FAST, "--time", "dose", "--plot", tmp_path / "c.svg")
    assert "--splits must be 1 with --time" in cli(*compare, "--splits", 2).refusal
    assert cli(*compare, "--no-peers", "--json").json["splits"] == 1


def test_a_small_table_is_judged_in_folds_and_learnt_whole(cli, houses, tmp_path):
    page = tmp_path / "r.html"
    fit = ("fit", houses, "-t", "price", "-o", tmp_path / "m", *FAST)
    told = cli(*fit, "--report", page, "--json").json
    assert told["rows"] == {"train": 120, "held_out": 0}
    assert told["judged_by"] == "120 rows, each judged by a fit to other folds"
    assert told["held_out"]["model"]["rmse"] == pytest.approx(
        told["held_out"]["linear"]["rmse"], rel=0.05
    )
    assert told["standard_errors"]["coverage_90"] < 0.05
    assert told["judged_by"] in cli("inspect", tmp_path / "m").out
    assert "Judged on 120 rows, each judged by a fit to other folds." in page.read_text()
    assert "a linear model" not in page.read_text(), "a line is not compared with itself"
    assert "no rows were held out" in cli(*fit, "--test-fraction", 0).err
    assert cli("inspect", tmp_path / "m", "--json").json["held_out"] is None


def test_small_tables_of_classes_and_of_groups_are_judged_in_folds(fitted):
    rows = [{"g": k // 4, "x": k % 7, "y": "ab"[(k % 7 > 3) ^ (k % 11 == 0)]} for k in range(80)]
    _, _, result = fitted(as_csv(rows), "--method", "logistic", "--json")
    assert result.json["held_out"]["model"]["accuracy"] > 0.8
    _, _, grouped = fitted(as_csv(rows), "--method", "logistic", "--group", "g", "--json")
    assert grouped.json["judged_by"] == "80 rows, each judged by a fit to other folds, divided by g"


def test_later_rows_are_judged_where_a_column_is_a_date(fitted):
    """A level that rises at last: rows at random are between others, later ones beyond."""
    rng = np.random.default_rng(0)
    first = datetime.date(2020, 1, 1)
    days = [first + datetime.timedelta(days=k) for k in range(400)]
    rise = 0.1 * np.maximum(np.arange(400.0) - 320.0, 0.0)
    for level, is_worse in ((rise, True), (np.zeros(400), False)):
        rows = [{"day": d, "y": a + 0.3 * rng.normal()} for d, a in zip(days, level, strict=True)]
        _, _, result = fitted(as_csv(rows), *FAST, "--json")
        (again,) = result.json["judged_again"]
        assert (again["option"], again["column"], again["n_groups"]) == ("time", "day", 0)
        assert again["is_worse"] == is_worse
        assert ("fit with --time day" in result.err) == is_worse
    by_day = fitted(as_csv(rows), *FAST, "--time", "day", "--json")[2]
    assert by_day.json["judged_again"] == []


def test_what_does_as_well_is_said(fitted):
    def warnings(rows, *words):
        return fitted(as_csv(rows), *words)[2].err

    rng = np.random.default_rng(5)
    line = [{"x": x, "y": 2.0 * x + rng.normal()} for x in rng.uniform(0.0, 9.0, 400)]
    noise = [{"x": x, "y": rng.normal()} for x in rng.uniform(0.0, 9.0, 400)]
    line_warnings = warnings(line, "--method", "pbp")
    assert "a linear model predicts" in line_warnings
    assert "consider --method linear" in line_warnings
    assert "A CONSTANT PREDICTS" in warnings(noise, "--method", "pbp")
    in_groups = [row | {"site": f"s{k % 40}"} for k, row in enumerate(noise)]
    group_warnings = warnings(in_groups, "--method", "pbp", "--group", "site")
    assert re.search("AS WELL AS THE MODEL, as far as [0-9]+ groups can tell", group_warnings)
    assert "consider" not in warnings(line, *FAST)


def test_a_constant_that_wins_by_probabilities_alone_is_no_verdict_on_the_columns(fitted):
    """Weights that make few rows many spoil the probabilities, not the order of the rows."""
    rng = np.random.default_rng(0)
    rows = []
    for x in rng.standard_normal(3000):
        is_rare = x + 0.3 * rng.standard_normal() > 2.3
        rows.append({"x": x, "w": 50.0 if is_rare else 1.0, "y": "rare" if is_rare else "usual"})
    words = ("--method", "logistic", "--weights", "w", "--test-fraction", "0.3")
    _, _, result = fitted(as_csv(rows), *words)
    remark = next(line for line in result.err.splitlines() if "CONST" in line)
    assert "for they order the rows (area under the ROC curve 0.9" in remark
    assert "say nothing of the target" not in remark


def test_groups_without_which_nothing_can_be_learnt_are_said(fitted):
    rng = np.random.default_rng(6)
    rows = [
        {"patient": f"P{k // 40}", "age": 20 + k // 40, "x": rng.uniform(), "y": f"class {k // 40}"}
        for k in range(400)
    ]
    _, _, result = fitted(as_csv(rows), "--method", "logistic", "--json")
    (again,) = result.json["judged_again"]
    assert again["scores"] == {}
    assert "cannot be judged on new ones" in again["remark"]

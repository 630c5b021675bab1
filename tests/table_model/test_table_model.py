"""A table's model from Python: any frame in, the same kind out, as the command line does it."""

from __future__ import annotations

import copy
import pickle
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesprop
from bayesprop.linear.linear_model import LinearModel
from bayesprop.model.progress import begun, following
from bayesprop.sealed import ModelFileError
from bayesprop.table.columns import CategoryColumn, DateColumn, NumericColumn
from bayesprop.table.errors import TableError, TableWarning, joined
from bayesprop.table_model.listener import Listener, listening
from bayesprop.table_model.sources import from_frame

N = 120
RNG = np.random.default_rng(0)


def flats() -> pd.DataFrame:
    """A person's sheet: dates, percents, postal codes, an identifier, gaps, a named index."""
    frame = pd.DataFrame(
        {
            "number": np.arange(1000, 1000 + N),
            "zip": RNG.choice([10115, "01067", "80331"], N).astype(object),
            "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(RNG.integers(0, 9000, N), "D"),
            "share": [f"{v}%" for v in RNG.integers(0, 20, N)],
            "rooms": RNG.integers(1, 7, N).astype(float),
            "heating": pd.Categorical(RNG.choice([1, 2, 3], N)),
        },
        index=pd.Index([f"flat {i}" for i in range(N)], name="flat"),
    ).rename(columns={"number": "id"})
    rent = 300.0 + 90.0 * frame["rooms"] + 80.0 * (frame["heating"] == 3) + RNG.normal(0, 20, N)
    frame.loc[frame.index[::9], "rooms"] = np.nan
    return frame.assign(rent=rent, dear=np.where(rent > 700.0, "yes", "no"))


FLATS = flats()


@pytest.fixture(scope="module")
def model() -> bayesprop.TableModel:
    return bayesprop.fit(FLATS.drop(columns="dear"), target="rent", method="linear", unit="EUR")


def test_columns_are_what_their_owner_means(model: bayesprop.TableModel):
    kinds = {column.name: type(column) for column in model.encoding.columns}
    assert kinds == {
        "zip": CategoryColumn,
        "built": DateColumn,
        "share": NumericColumn,
        "rooms": NumericColumn,
        "heating": CategoryColumn,
    }
    assert model.encoding.columns[0].levels == ("01067", "10115", "80331")


def test_it_says_what_it_understood_in_few_lines(model: bayesprop.TableModel):
    lines = str(model).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 25
    for words in ("rent (EUR)", "120 learnt", "5 used", "'rooms'", "'id' dropped", "RMSE"):
        assert words in str(model)
    assert any("'id' dropped" in sentence for sentence in model.remarks)
    rent = FLATS["rent"].rename("<b>")
    named = bayesprop.fit(FLATS[["rooms"]], rent, method="linear", test_fraction=0)
    assert "&lt;b&gt;" in named._repr_html_()
    assert "<b>" not in named._repr_html_()


def test_predictions_keep_kind_and_index(model: bayesprop.TableModel):
    part = FLATS.iloc[::-7]
    found = model.predict(part, interval=(0.5, 0.9), quantiles=0.1)
    assert isinstance(found, pd.DataFrame)
    pd.testing.assert_index_equal(found.index, part.index)
    predictive = model.predict_dist(part)
    np.testing.assert_array_equal(found["mean"], predictive.mean)
    np.testing.assert_array_equal(found["upper_50"], predictive.interval(0.5)[:, 1])
    np.testing.assert_array_equal(found["q_0.1"], predictive.quantile(0.1))
    other = model.predict(pl.from_pandas(part.assign(zip=part["zip"].map(str))))
    assert isinstance(other, pl.DataFrame)
    np.testing.assert_array_equal(other["std"], found["std"])


def test_a_file_gives_back_what_was_saved(model: bayesprop.TableModel, tmp_path: Path):
    model.save(tmp_path / "table.bayesprop")
    model.estimator.save(tmp_path / "bare.bayesprop")
    again, bare = (bayesprop.load(tmp_path / f"{name}.bayesprop") for name in ("table", "bare"))
    assert isinstance(again, bayesprop.TableModel)
    assert isinstance(bare, bayesprop.BayesianLinearRegressor)
    assert (str(again), again.remarks) == (str(model), model.remarks)
    pd.testing.assert_frame_equal(again.predict(FLATS), model.predict(FLATS))
    with pytest.raises(ValueError, match="the rows of the fit are not stored: name a table"):
        again.report(tmp_path / "page.html")
    with pytest.raises(ModelFileError, match="there is no model file"):
        bayesprop.load(tmp_path / "nothing")


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_the_model_with_all_that_it_says(model: bayesprop.TableModel, again):
    other = again(model)
    assert other.predict(FLATS).equals(model.predict(FLATS))
    assert str(other) == str(model)
    assert other.encoding.report == model.encoding.report
    assert joined(other.encoding.report * 2) == joined(model.encoding.report * 2)


def test_it_is_judged_on_other_rows_and_reports(model: bayesprop.TableModel, tmp_path: Path):
    later = FLATS.iloc[:50].assign(rent=FLATS["rent"].iloc[:50] + 1.0)
    scores = model.evaluate(later)
    error = model.predict(later)["mean"] - later["rent"]
    assert scores["model"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert {"model", "constant", "linear"} <= set(scores)
    with pytest.warns(TableWarning, match="fitted on 120 of these 120 rows of the frame"):
        model.evaluate(FLATS)
    model.report(tmp_path / "page.html")
    assert "rent" in (tmp_path / "page.html").read_text()


def test_columns_may_be_absent_where_that_is_allowed(told, model, tmp_path: Path):
    less, page = FLATS.drop(columns="rooms"), tmp_path / "r.html"
    widths = [
        model.evaluate(frame, allow_missing_columns=True)["model"]["width_90"]
        for frame in (FLATS, less)
    ]
    assert widths[1] > widths[0]
    model.report(page, less, allow_missing_columns=True)
    assert "rows have missing values, which cause" in page.read_text()


def test_numbers_that_name_things_are_groups_to_be_judged_by():
    rng = np.random.default_rng(0)
    plot = np.repeat(np.arange(40), 10)
    crop = 5.0 * rng.standard_normal(40)[plot] + rng.standard_normal(400)
    frame = pd.DataFrame({"plot": plot, "rain": rng.standard_normal(400), "crop": crop})
    model = bayesprop.fit(frame, target="crop", method="linear")
    assert model.encoding.nominal_columns == ("plot",)
    (remark,) = (one for one in model.remarks if "belong together" in one)
    assert remark.startswith("rows of one 'plot' seem to belong together (40 values, 10 rows of")
    assert remark.endswith("if new rows are of new groups, fit with group='plot'")
    grouped = bayesprop.fit(frame, target="crop", method="linear", group="plot")
    assert grouped.encoding.nominal_columns == ()


def test_a_target_that_the_model_holds_impossible_is_named():
    frame = FLATS.drop(columns="dear")
    options = {"target": "rent", "method": "linear"}
    other = frame.assign(rent=np.where(np.arange(N) < 2, 0.0, frame["rent"]))
    words = "2 rows have a rent such as 0, which is impossible for a target of kind numbers above 0"
    model = bayesprop.fit(frame, target_kind="positive", test=other, **options)
    assert any(re.match(words, remark) for remark in model.remarks)
    assert not any("invalid value" in remark for remark in model.remarks)
    with pytest.warns(
        TableWarning, match=f"{words}: .* if the kind is wrong, fit with target_kind='numbers'"
    ):
        scores = model.evaluate(other)
    assert scores["model"]["log_likelihood"] == -np.inf
    assert bayesprop.fit(frame, test=other, **options).evaluate(other)["model"]["rmse"] > 0.0


def test_what_is_new_to_the_model_is_a_warning_of_the_caller(model: bayesprop.TableModel):
    with pytest.warns(TableWarning, match="a level that is not in the training data") as told:
        model.predict(FLATS.iloc[:3].assign(zip="99999"))
    assert told[0].filename == __file__
    with pytest.warns(TableWarning, match="1 column of the model is absent"):
        model.predict(FLATS.drop(columns="share"), allow_missing_columns=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "target is required: the column to predict; columns: id, zip"),
        ({"target": "rant"}, "no column 'rant' in the frame; did you mean 'rent'"),
        ({"target": "rent", "y": FLATS["rent"]}, "y and target both name the target"),
        ({"y": "rent"}, "to name a column, write target=.rent"),
        ({"target": "rent", "n_epoch": 3}, "^n_epoch: default has no such parameter; did you mean"),
        ({"target": "rent", "random_state": 3}, "random_state is set by seed"),
        ({"target": "rent", "seed": 0.5}, "seed must be a whole number .* got 0.5"),
        ({"target": "rent", "task": "ranking"}, "task must be 'regression' or"),
        ({"target": "rent", "test_fraction": 2.0}, "^test_fraction must be 0 to 0.9, got 2.0"),
        ({"target": "rent", "group": "rent"}, "^group='rent': this column is the target"),
        ({"target": "rent", "positive": "yes"}, "positive is for two classes"),
        ({"target": "dear", "cost": "fn=5", "rate": "recall=0.5"}, "^cost and rate each choose"),
        ({"y": FLATS["rent"]}, "X has a column 'rent'"),
        ({"y": np.zeros(3)}, "one value per row of X, got 3 and 120"),
        ({"table": FLATS.to_numpy()}, "be a data frame .* got ndarray; estimators .* take arrays"),
        ({"table": [FLATS.to_numpy()]}, "must be a data frame"),
        ({"target": "rent", "missing": "NA"}, r"a list, such as \['NA'\], got 'NA'"),
        ({"target": "rent", "kinds": ["floor"]}, "kinds must map columns to kinds, as"),
        (
            {"target": "rent", "kinds": {"rooms": "duration"}},
            "^column 'rooms' must hold durations, got .*: omit kind",
        ),
    ],
)
def test_refusals_speak_python(given: dict, words: str):
    with pytest.raises(ValueError, match=words):
        bayesprop.fit(**{"table": FLATS} | given)


def test_names_of_columns_may_be_numbers():
    frame = pd.DataFrame(RNG.normal(size=(60, 4)))
    chosen, how = {"target": 1, "drop": 2, "weights": 3}, {"method": "linear", "test_fraction": 0}
    numbered = bayesprop.fit(frame.abs(), **chosen, **how)
    words = {name: f"c{column}" for name, column in chosen.items()}
    named = bayesprop.fit(frame.abs().add_prefix("c"), **words, **how)
    np.testing.assert_array_equal(numbered.predict(frame), named.predict(frame.add_prefix("c")))
    with pytest.raises(TableError, match="no column '7' in the frame; columns: 0, 1, 2, 3"):
        bayesprop.fit(frame, target=7, method="linear")


def test_of_columns_of_one_name_the_first_keeps_it():
    twice = FLATS[["rooms", "rent", "rooms"]]
    with pytest.warns(
        TableWarning, match="called 'rooms': the name refers to the first, .* 'rooms \\(2"
    ):
        table = from_frame(twice)
    assert table.columns == ["rooms", "rent", "rooms (2)"]
    assert table["rooms"].equals(table["rooms (2)"], check_names=False)


def test_an_interrupted_fit_of_a_small_table_says_why_nothing_judges_it():
    class Interrupting(Listener):
        def stoppable(self, progress):
            progress.stop.set()
            return super().stoppable(progress)

        def offer(self, why):
            """Go on."""

    with listening(Interrupting()):
        model = bayesprop.fit(FLATS[["rooms", "rent"]], target="rent", method="linear")
    assert model.notes.held_out is None
    assert "the fit is not evaluated, because it was interrupted" in model.remarks


def test_judging_says_how_far_it_is(monkeypatch):
    class Watching(Listener):
        shown: ClassVar = {}

        @contextmanager
        def doing(self, text, *, time_share=1.0):
            reports = self.shown[text] = []
            going = replace(begun(time_share), show=lambda *report: reports.append(report))
            with following(going):
                yield going

    monkeypatch.setattr(LinearModel, "rows_at_once", 10)
    with listening(Watching()):
        how = {"target": "rent", "method": "linear", "test_fraction": 0.25}
        bayesprop.fit(FLATS[["rooms", "rent"]], **how)
    shares, places = zip(*Watching.shown["evaluating on 30 rows"], strict=True)
    assert sorted(set(places)) == ["baselines", "predictions", "scores"]
    assert list(shares) == sorted(shares)
    assert (shares[0], shares[-1] < 1.0) == (0.0, True)
    assert places.count("predictions") > 3


def test_a_frame_without_rows_is_refused(model: bayesprop.TableModel):
    for predict in (model.predict, model.predict_dist):
        with pytest.raises(ValueError, match="the frame has no rows to predict"):
            predict(FLATS[:0])


def test_questions_about_numbers_are_refused_for_classes(model: bayesprop.TableModel):
    with pytest.raises(ValueError, match=r"interval must be between 0 and 1, such as 0.9; got"):
        model.predict(FLATS, interval=90)
    how = {"target": "dear", "drop": "rent", "method": "logistic", "test_fraction": 0}
    classes = bayesprop.fit(FLATS, **how)
    for option in ("interval", "quantiles"):
        with pytest.raises(
            ValueError, match=f"{option} is for numbers .*this model predicts unordered classes"
        ):
            classes.predict(FLATS, **{option: 0.9})


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("missing", [None, [], ["NA", "?"]])
def test_what_is_missing_is_learnt_with_the_model(missing, as_file, tmp_path):
    """A "NA" among codes is a code, unless it is given; frame, file and saved model agree."""
    codes = np.resize(["NA", "EU", "AS"], 60)
    frame = pd.DataFrame({"code": codes, "n": np.resize(["?", "1", "2", "3"], 60)})
    frame["y"] = (codes == "EU") + 2.0 * (codes == "AS") + np.linspace(0, 1, 60)
    table = tmp_path / "t.csv"
    frame.to_csv(table, index=False)
    how = {"target": "y", "method": "linear", "test_fraction": 0, "missing": missing}
    bayesprop.fit(table if as_file else frame, **how).save(tmp_path / "m.bayesprop")
    model = bayesprop.load(tmp_path / "m.bayesprop")
    assert ("code=NA" in model.encoding.feature_names) == (not missing)
    assert ("n=?" in model.encoding.feature_names) == (missing == [])
    predicted = model.predict(frame)
    np.testing.assert_allclose(model.predict(table)["mean"], predicted["mean"])
    np.testing.assert_allclose(model.predict(frame[:1])["mean"], predicted["mean"][:1])


@pytest.mark.parametrize(
    ("levels", "ordered"),
    [
        ([2, 10], None),
        ([10, 2, 33], True),
        ([1.0, 2.0], None),
        ([False, True], None),
        (["2", "10"], None),
        (["2020-01-31 00:00:00", "2021-01-31 00:00:00"], None),
    ],
)
def test_categories_come_back_as_what_they_are(levels, ordered, tmp_path):
    labels = pd.Categorical([levels[k % len(levels)] for k in range(60)], levels, ordered)
    frame = pd.DataFrame({"x": np.arange(60) % len(levels), "z": np.arange(60.0)})
    how = {"method": "logistic", "test_fraction": 0}
    model = bayesprop.fit(frame, pd.Series(labels, name="q"), **how)
    model.save(tmp_path / "m.bayesprop")
    for one in (model, bayesprop.load(tmp_path / "m.bayesprop")):
        predicted = one.predict(frame)
        assert (predicted["q"].to_numpy() == np.asarray(labels)).all()
        shown = levels if ordered or levels[0] in (1.0, 2) else sorted(levels)
        columns = [name for name in predicted if name.startswith("p(")]
        assert columns == [f"p({str(v).lower().removesuffix('.0')})" for v in shown]
        with pytest.warns(TableWarning, match="the figures flatter it"):
            scores = one.evaluate(frame.assign(q=labels))
        assert scores["model"]["accuracy"] == 1.0


def test_ordered_categories_are_taken_for_ordered_classes():
    frame = FLATS.drop(columns="rent")
    names = ["small", "medium", "large"]
    size = pd.Categorical.from_codes(np.digitize(FLATS.rooms.fillna(3), [3, 5]), names)
    frame = frame.assign(size=size)
    asked: Any = {"target": "size", "n_epochs": 3, "hidden_layer_sizes": (4,)}
    asked |= {"n_members": 2, "test_fraction": 0.2}
    unordered = bayesprop.fit(frame, **asked)
    assert unordered.estimator.target_kind == "classes"
    frame["size"] = frame["size"].cat.as_ordered()
    ordered = bayesprop.fit(frame, **asked)
    assert ordered.estimator.order == tuple(names)
    assert "ordered, small < medium < large" in str(ordered)
    assert "RPS, in classes" in str(ordered)
    predicted = ordered.predict(frame, interval=0.5)
    assert list(predicted)[:4] == ["size", "median", "lower_50", "upper_50"]
    assert (
        "order=('large', 'medium', 'small')"
        in bayesprop.fit(frame, order=names[::-1], **asked).notes.command
    )
    how = {"method": "logistic", "test_fraction": 0}
    plain = bayesprop.fit(frame, target="size", target_kind="classes", **how)
    assert plain.estimator.get_params().get("order") is None
    with pytest.raises(ValueError, match="interval is for numbers and ordered"):
        plain.predict(frame, interval=0.5)
    as_input = bayesprop.fit(frame, target="heating", **how)
    assert any(name.startswith("size") for name in as_input.encoding.feature_names)


@pytest.mark.parametrize(
    ("of_seconds", "read"),
    [
        (lambda s: f"{s // 3600}:{s // 60 % 60:02}:{s % 60:02}", pd.to_timedelta),
        (lambda s: f"{s // 60}:{s % 60:02}", lambda text: pd.to_timedelta("0:" + text)),
        (lambda s: pd.Timedelta(s, unit="s"), lambda duration: duration),
    ],
)
def test_durations_are_predicted_in_the_form_that_was_given(of_seconds, read, tmp_path):
    """The oracle is the same fit to plain seconds; pandas reads the text."""
    seconds = RNG.integers(60, 3500, 60)
    table = pd.DataFrame({"x": seconds + RNG.normal(size=60), "took": seconds})
    own = table.assign(took=[of_seconds(int(s)) for s in seconds])
    asked: Any = {"target": "took", "method": "linear", "target_kind": "numbers"}
    plain, model = bayesprop.fit(table, **asked), bayesprop.fit(own, **asked)
    model.save(tmp_path / "model")
    predicted = bayesprop.load(tmp_path / "model").predict(own, quantiles=0.1)
    assert predicted.equals(model.predict(own, quantiles=0.1))
    expected = plain.predict(table, quantiles=0.1)
    for name in expected:
        np.testing.assert_allclose(
            pd.to_timedelta(predicted[name].map(read)).dt.total_seconds(), expected[name], atol=0.01
        )


def test_a_target_is_taken_row_by_row_and_another_index_is_remarked_on():
    rng = np.random.default_rng(0)
    flags = pd.arrays.SparseArray(rng.integers(0, 2, 60) * 1.0)
    x = pd.DataFrame({"a": rng.normal(size=60), "flag": flags})
    y = (x.a + np.asarray(flags) + 0.1 * rng.normal(size=60)).rename("y")
    remarks = {}
    others = (y, y.to_numpy(), y[::-1], y.set_axis(range(100, 160)))
    for name, target in zip(("same", "array", "permuted", "other"), others, strict=True):
        model = bayesprop.fit(x, target, method="linear")
        remarks[name] = [remark for remark in model.remarks if "index" in remark]
    assert remarks["same"] == remarks["array"] == []
    assert remarks["permuted"][0].endswith("y.loc[X.index] is in the order of X")
    assert remarks["other"][0].endswith("check that they belong together")

"""Tables larger than memory: the same answers as in memory, and errors that name the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop.cli import main
from bayesprop.model.task import Standardiser
from bayesprop.scale import all_rows, large_table
from bayesprop.table.errors import TableError
from bayesprop.table_model import sources

N, SAMPLE = 3000, 900
LINEAR = {"target": "y", "method": "linear", "drop": "site"}


@pytest.fixture
def small_limits(monkeypatch):
    for module in (large_table, all_rows, sources):
        monkeypatch.setattr(module, "MOST_CELLS", 100)
    for module in (all_rows, sources):
        monkeypatch.setattr(module, "SAMPLE_CELLS", 100)
    monkeypatch.setattr(large_table, "PIECE_ROWS", 256)
    monkeypatch.setattr(all_rows, "SAMPLE_ROWS", SAMPLE)
    monkeypatch.setattr(all_rows, "LEAST_ROWS", SAMPLE)


def made_table() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    x, kind = rng.standard_normal((N, 2)) * [1.0, 1e4], rng.choice(["a", "b", "c"], N)
    y = x[:, 0] + 1e-4 * x[:, 1] + (kind == "b") + 0.3 * rng.standard_normal(N)
    columns = {"left": x[:, 0], "right": x[:, 1], "kind": kind, "y": y}
    return pl.DataFrame(columns | {"site": rng.integers(0, 40, N).astype(str)})


def written(folder, frame=None) -> pl.DataFrame:
    frame = made_table() if frame is None else frame
    folder.mkdir()
    for k, first in enumerate(range(0, N, 1100)):
        frame.slice(first, 1100).write_parquet(folder / f"{k}.parquet")
    return frame


@pytest.fixture
def big(tmp_path, small_limits) -> tuple[str, pl.DataFrame]:
    """A folder of parts that is larger than the limits, and the table that they are."""
    return str(tmp_path / "big"), written(tmp_path / "big")


def test_merged_moments_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.standard_normal(500) * 1e-200, 1e9 + rng.random(500), np.full(500, 7)])
    weight = rng.integers(0, 3, 500).astype(float)
    moments = all_rows.MergedMoments(Standardiser.fit(x[:50]))
    for part in np.array_split(np.arange(500), 7):
        moments.add(x[part], weight[part])
    merged, whole = moments.standardiser(), Standardiser.fit(x, weight)
    np.testing.assert_array_equal(merged.unit, whole.unit)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(merged.std, whole.std, rtol=1e-6)


@pytest.mark.parametrize("method", ["linear", "pbp"])
def test_a_streamed_fit_is_that_of_all_rows_but_those_held_out(big, method):
    folder, frame = big
    streamed = bayesprop.fit(folder, target="y", method=method, drop="site")
    assert streamed.notes.rows == {"train": N - SAMPLE // 10, "held_out": SAMPLE // 10}
    assert streamed.fitted is not None
    assert streamed.fitted.judged.rows is not None
    held_out = set(streamed.fitted.judged.rows.y.tolist())
    learnt = frame.filter(~pl.col("y").is_in(held_out))
    whole = bayesprop.fit(learnt, target="y", method=method, drop="site", test_fraction=0.0)
    one, other = streamed.predict_dist(frame), whole.predict_dist(frame)
    if method == "linear":  # the ascent of the evidence ends a rounding away where it began nearer
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(one.std, other.std, rtol=1e-9)
    else:  # one pass rather than forty
        rmse = [np.sqrt(np.mean((p.mean - frame["y"].to_numpy()) ** 2)) for p in (one, other)]
        assert rmse[0] < 1.25 * rmse[1]


def test_whole_groups_stay_held_out(big):
    folder, frame = big
    model = bayesprop.fit(folder, target="y", method="linear", group="site")
    assert model.fitted is not None
    groups = model.fitted.judged.rows.group
    n_out = frame["site"].is_in(np.unique(groups).tolist()).sum()
    assert model.notes.rows["train"] == N - n_out


def test_lazy_frames_datasets_patterns_and_batches_are_one_table(big):
    dataset = pytest.importorskip("pyarrow.dataset")
    folder, frame = big
    expected = bayesprop.fit(folder, **LINEAR).predict(frame)["mean"]
    parts = dataset.dataset(folder)
    for table in (frame.lazy(), parts, parts.to_batches(), f"{folder}/*.parquet"):
        mean = bayesprop.fit(table, **LINEAR).predict(frame)["mean"]
        np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-6)


def test_other_methods_learn_the_sample_and_say_so(big):
    model = bayesprop.fit(big[0], target="y", method="mc-dropout", n_epochs=2, drop="site")
    assert model.notes.rows["train"] == SAMPLE - SAMPLE // 10
    assert f"learnt from a sample of {SAMPLE} of {N} rows" in str(model.remarks)


GRADIENT_METHODS = {
    "default": {"hidden_layer_sizes": (8,), "n_epochs": 5, "learn_processes": False},
    "closed-form-vi": {"n_epochs": 5, "kl_warm_up": 2.0},
}


@pytest.mark.parametrize("method", GRADIENT_METHODS)
def test_methods_of_gradient_steps_learn_all_rows_but_the_groups_held_out(big, tmp_path, method):
    (folder, frame), out = big, tmp_path / "out.csv"
    how = {"target": "y", "method": method, "group": "site", **GRADIENT_METHODS[method]}
    model = bayesprop.fit(folder, **how)
    groups = model.fitted.judged.rows.group
    n_learnt = N - frame["site"].is_in(np.unique(groups).tolist()).sum()
    assert model.notes.rows == {"train": n_learnt, "held_out": len(groups)}
    assert f"learnt {n_learnt} rows" in str(model.remarks)
    assert ("calibration" in str(model.remarks)) == (method == "default")
    model.save(tmp_path / "m.bayesprop")
    words = ["predict", str(tmp_path / "m.bayesprop"), folder, "--quiet"]
    assert main([*words, "--columns", "y", "--out", str(out)]) == 0
    predicted = pl.read_csv(out)
    assert np.corrcoef(predicted["y"], predicted["mean"])[0, 1] > 0.8


def test_the_default_learns_classes_of_all_rows_but_the_latest(big):
    frame = big[1].with_row_index("when")
    how = {"target": "kind", "time": "when", "hidden_layer_sizes": (4,), "n_epochs": 1}
    model = bayesprop.fit(frame.drop("site").lazy(), **how)
    n_before = (frame["when"] < model.fitted.judged.rows.X[:, 0].min()).sum()
    assert model.notes.rows["train"] == n_before < N


def test_predictions_in_pieces_are_those_of_the_whole(tmp_path, request):
    frame = written(tmp_path / "big")
    model, out = tmp_path / "m.bayesprop", tmp_path / "out.parquet"
    bayesprop.fit(frame, target="y", method="linear").save(model)
    whole, pieces = tmp_path / "whole.csv", tmp_path / "pieces.csv"
    words = ["predict", str(model), str(tmp_path / "big"), "--columns", "y", "--quiet", "--out"]
    assert main([*words, str(whole)]) == 0
    request.getfixturevalue("small_limits")
    assert main([*words, str(pieces)]) == 0
    assert main([*words, str(out)]) == 0
    assert pl.read_csv(whole).equals(pl.read_csv(pieces))
    assert len(pl.read_parquet(out)) == N


def test_a_damaged_or_different_file_is_named(big):
    folder, frame = big
    Path(folder, "9.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(ValueError, match=r"9\.parquet.* is not a readable"):
        bayesprop.fit(folder, target="y", method="linear")
    frame.drop("left").write_parquet(f"{folder}/9.parquet")
    with pytest.raises(ValueError, match=r"9\.parquet.* have different columns"):
        bayesprop.fit(folder, target="y", method="linear")
    once = iter([frame])
    bayesprop.fit(once, target="y", method="linear")
    with pytest.raises(TableError, match="an iterator gives them once"):
        bayesprop.fit(once, target="y", method="linear")
    with pytest.raises(TableError, match="batch 2 and batch 1 differ"):
        bayesprop.fit(iter([frame, frame.drop("left")]), target="y")


@pytest.mark.usefixtures("small_limits")
def test_a_missing_target_and_a_class_that_the_sample_lacks_are_named(tmp_path):
    frame = made_table()
    with pytest.raises(ValueError, match="z"):
        bayesprop.fit(frame.lazy(), target="z", method="linear")
    sorted_by_class = frame.sort("kind")  # pieces of one class
    fit = {"target": "kind", "method": "logistic", "drop": "site"}
    assert bayesprop.fit(sorted_by_class.lazy(), **fit).encoding.classes == ("a", "b", "c")
    is_rare = pl.Series(np.arange(N) == N - 1)
    rare = frame.with_columns(kind=pl.when(is_rare).then(pl.lit("rare")).otherwise("kind"))
    assert bayesprop.fit(rare.lazy(), **fit).encoding.classes == ("a", "b", "c", "rare")


@pytest.mark.usefixtures("small_limits")
def test_the_encoding_is_that_of_the_whole_table():
    frame, number = made_table(), np.arange(N)
    frame = frame.with_columns(
        kind=pl.when(pl.Series(number % 500 == 7)).then(pl.lit("rare")).otherwise("kind"),
        flag=pl.Series(np.isin(number, np.arange(1000, 1008)).astype(int)),
        level=pl.Series([f"L{k}" for k in number % 40]),
        gap=pl.Series(number % 10).cast(float).set(pl.Series(number == 2000), None),
    )
    whole = bayesprop.fit(frame, **LINEAR)
    assert bayesprop.fit(frame.lazy(), **LINEAR).encoding.columns == whole.encoding.columns


@pytest.mark.usefixtures("small_limits")
def test_quantiles_of_the_sample_are_those_of_the_table():
    frame = made_table()
    sample = sources.large_table(frame.lazy()).sample(SAMPLE, 3).frame
    levels = np.linspace(0.05, 0.95, 19)
    rank = np.searchsorted(np.sort(frame["left"]), np.quantile(sample["left"], levels)) / N
    error = np.sqrt(levels * (1.0 - levels) / SAMPLE)  # at 100,000 rows, at most .16 % of rank
    assert np.abs(rank - levels).max() < 4.0 * error.max()


def test_a_value_that_none_may_have_is_named_with_its_file(big):
    folder, frame = big
    endless = frame.with_columns(y=pl.when(pl.int_range(N) == 5).then(np.inf).otherwise("y"))
    endless.slice(0, 1100).write_parquet(f"{folder}/7.parquet")
    with pytest.raises(ValueError, match=r"'y'.*finite.*, got inf in data row 6 of .*7\.parquet"):
        bayesprop.fit(folder, target="y", drop="site")
    negative = frame.select("left", "right", "kind", pl.col("y").exp(), "site")
    for k in (0, 1, 2, 7):
        negative.slice(1100 * min(k, 2), 1100).write_parquet(f"{folder}/{k}.parquet")
    pl.concat([negative[:5], frame.with_columns(y=-1.0)[5:6]]).write_parquet(f"{folder}/7.parquet")
    with pytest.raises(ValueError, match=r"rows 1 of .*7\.parquet' to 6 of .*got -1"):
        bayesprop.fit(folder, target="y", target_kind="positive", method="linear", drop="site")
    content = bytearray(Path(folder, "0.parquet").read_bytes())
    content[100:5000] = bytes(4900)
    Path(folder, "7.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"7\.parquet.* is not a readable"):
        bayesprop.fit(folder, target="y", drop="site")


@pytest.mark.usefixtures("small_limits")
def test_names_of_columns_that_repeat_are_made_unique():
    frame = made_table().with_columns(pl.col("right").alias(" left"))
    model = bayesprop.fit(frame.lazy(), target="y", method="linear", drop=("right", "site"))
    assert [one.name for one in model.encoding.columns] == ["left", "kind", "left (2)"]


def test_files_may_have_their_columns_in_another_order(big):
    folder, frame = big
    expected = bayesprop.fit(folder, **LINEAR).predict(frame)["mean"]
    last = pl.read_parquet(f"{folder}/2.parquet")
    last.select(last.columns[::-1]).write_parquet(f"{folder}/2.parquet")
    mean = bayesprop.fit(folder, **LINEAR).predict(frame)["mean"]
    np.testing.assert_array_equal(mean, expected)


@pytest.mark.usefixtures("small_limits")
def test_rows_of_a_sample_are_named_as_those_of_their_file(tmp_path):
    place = int(sources.large_table(made_table().lazy()).sample(SAMPLE, 0, "y").places[-1])
    is_it = pl.int_range(N) == place
    odd = made_table().with_columns(
        y=pl.when(is_it).then(np.inf).otherwise("y"), w=pl.when(is_it).then(-1.0).otherwise(1.0)
    )
    written(folder := tmp_path / "odd", odd)
    name = rf"row {place - 2200 + 1} of '.*2\.parquet'"
    with pytest.raises(TableError, match=f"inf in data {name}"):
        bayesprop.fit(str(folder), target="y", method="linear")
    with pytest.raises(TableError, match=f"-1 in data {name}"):
        bayesprop.fit(str(folder), target="y", method="linear", weights="w", drop="left")
    with pytest.raises(TableError, match=f"inf in data row {place + 1}:"):
        bayesprop.fit(odd.drop("w").lazy(), target="y", method="linear")


@pytest.mark.usefixtures("small_limits")
def test_what_cannot_be_predicted_is_named_with_its_file(tmp_path, capsys):
    frame, folder = written(tmp_path / "big"), tmp_path / "big"
    bayesprop.fit(frame, **LINEAR).save(tmp_path / "m.bayesprop")
    frame[:3].with_columns(left=pl.lit(np.inf)).write_parquet(folder / "7.parquet")
    words = ["predict", str(tmp_path / "m.bayesprop"), str(folder), "--out"]
    assert main([*words, str(tmp_path / "out.parquet")]) == 0
    assert (
        f"holds finite numbers, but inf in data rows 1 of '{folder}/7.parquet'"
        in capsys.readouterr().err
    )
    assert main([*words, str(folder / "8.parquet")]) == 2
    assert "would be a file of the table" in capsys.readouterr().err
    assert main(["fit", *map(str, folder.iterdir()), "--out", "m.bayesprop"]) == 2
    assert "quote a pattern" in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("small_limits")
def test_a_lazy_frame_that_cannot_be_read_is_refused_in_one_line():
    lazy = made_table().lazy()
    with pytest.raises(TableError, match=r"the table cannot be read.*conversion") as refusal:
        bayesprop.fit(lazy.with_columns(pl.col("kind").cast(int)), target="y", method="linear")
    assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("small_limits")
def test_remarks_on_a_sample_say_so():
    frame = made_table()
    gone = frame.with_columns(y=pl.when(pl.int_range(N) % 3 > 0).then("y"))
    model = bayesprop.fit(gone.lazy(), **LINEAR)
    assert any("sample of" in one and "no value in the target" in one for one in model.remarks)


@pytest.mark.usefixtures("small_limits")
def test_rows_that_are_streamed_do_not_judge():
    frame = made_table()
    with pytest.raises(ValueError, match="contains the training rows"):
        bayesprop.fit(frame.lazy(), test=frame, **LINEAR)
    other = frame.with_columns(y=pl.col("y") + 1.0)
    assert bayesprop.fit(frame.lazy(), test=other, **LINEAR).notes.rows["held_out"] == N


def test_what_can_be_fitted_can_be_predicted_and_judge(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    frame = written(tmp_path / "big")
    model, pattern = bayesprop.fit(frame, **LINEAR), str(tmp_path / "big" / "*.parquet")
    expected = model.predict(frame)["mean"]
    batches = frame.to_arrow().to_batches(max_chunksize=500)
    parts = dataset.dataset(tmp_path / "big")
    for table in (frame.lazy(), pattern, parts, batches, iter([frame[:10].lazy(), frame[10:]])):
        np.testing.assert_array_equal(model.predict(table)["mean"], expected)
    rest = frame.drop("y").lazy()
    of_y = bayesprop.fit(rest, frame["y"], method="linear", drop="site")
    np.testing.assert_array_equal(of_y.predict(frame)["mean"], expected)
    for table in (frame[:900].lazy(), str(tmp_path / "big" / "[01].parquet")):
        assert bayesprop.fit(frame[1000:], test=table, **LINEAR).notes.rows["held_out"] >= 900

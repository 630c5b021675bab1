"""What goes into a model file and comes back; test_forged_files.py changes it on the way."""

import os
import pickle

import numpy as np
import polars as pl
import pytest

from bayesprop import BayesianLinearRegressor
from bayesprop.sealed import ModelFileError, read_sealed, seal, unseal, write_sealed
from bayesprop.store import load_model, save_model
from bayesprop.table.encoding import TableEncoding

SCHEMA = 1
FRAME = pl.DataFrame({'<b>\ud7ff"': [1.0, 2.0, None, 4.0], "y": [1.0, 2.0, 3.0, 1.0]})


@pytest.fixture
def model():
    return BayesianLinearRegressor().fit([[1.0], [2.0], [0.0], [4.0]], [1.0, 2.0, 3.0, 1.0])


def refused(path, message):
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert message in str(caught.value), caught.value
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5),
        np.array([[1.5, -0.0], [np.pi, 1e-310]]),
        np.zeros((0, 3)),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(8.0)[::2],
        np.arange(3, dtype=">f8"),
        np.arange(3, dtype=np.uint64),
        np.array([np.nan, np.inf]),
    ],
)
def test_every_layout_of_memory_comes_back_to_the_last_bit_and_writable(tmp_path, array):
    write_sealed(tmp_path / "m", {"step": 7, "sizes": (3, 2)}, {"a": array})
    header, arrays = read_sealed(tmp_path / "m")
    assert header == {"step": 7, "sizes": [3, 2]}
    assert arrays["a"].shape == array.shape
    assert arrays["a"].tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert arrays["a"].flags.writeable
    assert arrays["a"].flags.c_contiguous


@pytest.mark.parametrize("array", [np.zeros(2, np.float16), np.array([True]), np.array(["x"]),
                                   np.array([None]), np.zeros(2, complex)])  # fmt: skip
def test_other_kinds_of_arrays_cannot_be_saved(array):
    with pytest.raises(TypeError, match="array 'slope' must be float32, float64 or integers, got"):
        seal({}, {"slope": array})


def test_table_versions_and_metadata_travel_along(tmp_path, model):
    table = TableEncoding.fit(FRAME, "y")
    metadata = {"unit": "kN", "n": np.int64(3), "levels": np.array([0.5]), "loss": float("nan")}
    save_model(tmp_path / "m", model, table=table, metadata=metadata)
    loaded = load_model(tmp_path / "m")
    assert loaded.table == table
    assert loaded.metadata["n"] == 3
    assert loaded.metadata["levels"] == [0.5]
    assert np.isnan(loaded.metadata["loss"])
    assert (loaded.header["schema"], loaded.header["method"]) == (SCHEMA, "linear")
    assert loaded.header["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.with_columns(b=pl.lit(1.0) * FRAME["y"]), "of the table are [2], of the model [1]"),
        (FRAME.with_columns(y=pl.Series(list("abab"))), "are [1, 'a', 'b'], of the model [1]"),
    ],
)
def test_a_table_of_another_model_is_refused(tmp_path, model, frame, message):
    save_model(tmp_path / "m", model, table=TableEncoding.fit(frame, "y"))
    refused(tmp_path / "m", message)


def test_what_is_not_json_cannot_be_saved(tmp_path, model):
    with pytest.raises(TypeError, match="JSON and arrays only, got a set"):
        save_model(tmp_path / "m", model, metadata={"a": {1}})
    with pytest.raises(TypeError, match=r"only estimators of bayesprop.catalogue .*:Event"):
        save_model(tmp_path / "m", __import__("threading").Event())
    assert os.listdir(tmp_path) == []


def test_no_model_is_said_in_words(tmp_path, model):
    refused(tmp_path / "none", "there is no model file")
    refused(tmp_path, "cannot read model file")
    model.save(path := tmp_path / "a\nb\x1b[2J")
    whole = path.read_bytes()
    for content, message in (
        (b"", "is empty"),
        (b"a,b\n1,2\n3,4\n", "is not a bayesprop model"),
        (pickle.dumps({"a": 1}), "is a pickle or an archive, which is never opened"),
        (b"PK\x03\x04" + bytes(50), "is a pickle or an archive"),
        (whole[:200], "is cut short"),
        (whole[:-1] + b"\0", "its checksum is wrong"),
    ):
        path.write_bytes(content)
        refused(path, message)
    header, arrays = {"schema": SCHEMA, "method": "os:system"}, {"a": np.eye(2)}
    for change, message in (
        ({"schema": 2}, "has schema 2, and this bayesprop reads up to 1: upgrade bayesprop"),
        ({}, "is of an unknown method 'os:system'; this bayesprop has "),
    ):
        write_sealed(path, header | change, arrays)
        refused(path, message)


@pytest.mark.parametrize("share", [0.0, 0.4, 0.6, 1.0])
def test_arrays_of_one_number_mostly_take_a_bit_each_and_come_back_to_the_last_bit(share):
    rng = np.random.default_rng(0)
    array = rng.normal(size=(40, 50)).astype(np.float32)
    array[rng.random(array.shape) < share] = -0.0
    codes = np.where(rng.random(1500) < share, 7, rng.integers(0, 9, 1500))
    arrays = {"a": array, "b": codes, "few": np.zeros(8)}
    content = seal({}, arrays)
    again = unseal(content, "memory").arrays
    for name, one in arrays.items():
        assert (one.tobytes(), one.shape) == (again[name].tobytes(), again[name].shape)
    n_left = np.count_nonzero(array) + np.count_nonzero(codes != 7)
    assert len(content) < 1500 + 3500 / 8 + 8 * n_left
    for name in ("a:bitsx2x40", "a:bitsx1", "a:bitsx" + "9" * 20, "lacks:bitsx72"):
        broken = dict(again) | {"a": array[:2], name: np.full(9, 255, np.uint8)}
        with pytest.raises(ModelFileError, match="has arrays that do not fit"):
            unseal(seal({}, broken), "memory")

import dataclasses
import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from bayesprop import catalogue, load
from bayesprop.store import ModelFileError, load_model, save_model
from bayesprop.table.encoding import TableEncoding


class Line:
    """The smallest estimator that can be stored: y = a x + b."""

    def __init__(self, slope=None, step=1):
        self.slope, self.step = slope, step
        self.n_features_in_ = 1

    def to_stored(self):
        return {"step": self.step, "sizes": (3, 2)}, {
            "slope": np.asarray(self.slope),
            "count": np.arange(3, dtype=np.int32),
            "none": np.zeros((0, 2)),
        }

    @classmethod
    def from_stored(cls, header, arrays):
        if arrays["slope"].ndim > 2:
            raise ValueError("the slope must be\na matrix at most")
        return cls(arrays["slope"], header["step"])


class LineParams:
    """What of it predicts."""

    @classmethod
    def fitted_from_stored(cls, header, arrays):
        return SimpleNamespace(n_inputs=Line.from_stored(header, arrays).n_features_in_)


class Stranger(Line):
    """Not in the table of methods."""


@pytest.fixture(autouse=True)
def table_of_methods(monkeypatch):
    line = dataclasses.replace(catalogue.METHODS["pbp"], name="line", home=f"{__name__}:Line")
    monkeypatch.setitem(catalogue.METHODS, "line", line)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.bayesprop"
    save_model(path, Line(np.array([[1.5, -0.0], [np.pi, 1e-310]]), 7))
    return path


def refused(path, message):
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert message in str(caught.value), caught.value
    assert "\n" not in str(caught.value)


def forged(header, arrays=None):
    """Return a file with a right checksum, whatever it holds."""
    text = header if isinstance(header, str) else json.dumps(header)
    content = save(arrays or {"slope": np.eye(2)}, {"bayesprop": text, "sha256": ZEROS})
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(f'"sha256":"{ZEROS}"'.encode(), f'"sha256":"{digest}"'.encode())


def forge(path, header, arrays=None):
    path.write_bytes(forged(header, arrays))


ZEROS = "0" * 64
GOOD = {"schema": 1, "method": "line", "task": "regression", "versions": {},
        "model": {"step": 1}, "table": None, "metadata": {}}  # fmt: skip


def test_round_trip_is_exact_and_writable(saved):
    loaded = load_model(saved)
    assert type(loaded.estimator) is Line
    assert loaded.estimator.step == 7
    slope = loaded.estimator.slope
    np.testing.assert_array_equal(
        slope.view(np.int64), np.array([[1.5, -0.0], [np.pi, 1e-310]]).view(np.int64)
    )
    assert slope.flags.writeable
    assert slope.flags.c_contiguous
    assert loaded.table is None
    assert loaded.metadata == {}
    assert loaded.header["schema"] == 1
    assert loaded.header["method"] == "line"
    assert loaded.header["versions"]["numpy"] == np.__version__
    assert load(saved).step == 7


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5),
        np.zeros((0, 3)),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(8.0)[::2],
        np.arange(3, dtype=">f8"),
        np.arange(3, dtype=np.uint64),
        np.array([np.nan, np.inf]),
    ],
)
def test_every_layout_of_memory_comes_back(tmp_path, array):
    save_model(tmp_path / "m", Line(array))
    found = load(tmp_path / "m").slope
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("array", [np.zeros(2, np.float16), np.array([True]), np.array(["x"]),
                                   np.array([None]), np.zeros(2, complex)])  # fmt: skip
def test_other_kinds_of_arrays_cannot_be_saved(tmp_path, array):
    with pytest.raises(TypeError, match="array 'slope' must be float32, float64 or integers, got"):
        save_model(tmp_path / "m", Line(array))
    assert os.listdir(tmp_path) == []


def test_table_and_metadata_travel_along(tmp_path, monkeypatch):
    frame = pl.DataFrame({'<b>\ud7ff"': [1.0, 2.0, None], "y": [1.0, 2.0, 3.0]})
    table = TableEncoding.fit(frame, "y")
    model = Line(1.0)
    model.n_features_in_ = 1
    metadata = {"unit": "kN", "n": np.int64(3), "levels": np.array([0.5]), "loss": float("nan")}
    save_model(tmp_path / "m", model, table=table, metadata=metadata)
    monkeypatch.setattr(Line, "from_stored", lambda _header, _arrays: model)
    loaded = load_model(tmp_path / "m")
    assert loaded.table == table
    assert loaded.metadata["n"] == 3
    assert loaded.metadata["levels"] == [0.5]
    assert np.isnan(loaded.metadata["loss"])


def test_a_table_of_another_width_is_refused(tmp_path):
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0], "y": [1.0, 2.0]})
    save_model(tmp_path / "m", Line(1.0), table=TableEncoding.fit(frame, "y"))
    refused(tmp_path / "m", "the table has 2 features, the model 1")


def test_what_is_not_json_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="JSON and arrays only, got a set"):
        save_model(tmp_path / "m", Line(1.0), metadata={"a": {1}})
    with pytest.raises(TypeError, match=r"only estimators of bayesprop.catalogue .*:Stranger"):
        save_model(tmp_path / "m", Stranger(1.0))


def test_no_model_is_no_traceback(tmp_path, saved):
    refused(tmp_path / "none", "there is no model file")
    refused(tmp_path, "cannot read model file")
    for content, message in [
        (b"", "is empty"),
        (b"\0", "is not a bayesprop model"),
        (b"a,b\n1,2\n3,4\n", "is not a bayesprop model"),
        (pickle.dumps({"a": 1}), "is a pickle or an archive, which is never opened"),
        (b"PK\x03\x04" + bytes(50), "is a pickle or an archive"),
        (struct.pack("<Q", 2**63) + b'{"a":1}', "its header claims an impossible length"),
        (struct.pack("<Q", 99_000_000) + b'{"a":1}', "is cut short"),
        (struct.pack("<Q", 7) + b'{"a":1', "is cut short"),
        (struct.pack("<Q", 7) + b'{"a":1}', "it has no bayesprop header"),
        (struct.pack("<Q", 7) + b'{"a"::}', "has a damaged header"),
        (struct.pack("<Q", 0) + b'{"a":1}', "has a damaged header"),
        (save({"a": np.eye(2)}), "it has no bayesprop header"),
        (save({"a": np.eye(2)}, {"bayesprop": "{}"}), "it has no bayesprop header"),
        (save({"a": np.eye(2)}, {"bayesprop": "{}", "sha256": ""}), "its checksum is wrong"),
        (saved.read_bytes() + b"\0", "its checksum is wrong"),
    ]:
        (tmp_path / "bad").write_bytes(content)
        refused(tmp_path / "bad", message)


def test_deeply_nested_headers_are_refused(tmp_path):
    deep = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    (tmp_path / "bad").write_bytes(struct.pack("<Q", len(deep)) + deep)
    refused(tmp_path / "bad", "has a damaged header")
    forge(tmp_path / "bad", deep.decode())
    refused(tmp_path / "bad", "has a damaged header")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "has schema 2, and this bayesprop reads up to 1: upgrade bayesprop"),
        ({"schema": 10**30}, "upgrade bayesprop"),
        ({"schema": 0}, "has no known schema"),
        ({"schema": True}, "has no known schema"),
        ({"schema": "1"}, "has no known schema"),
        ({"schema": None}, "has no known schema"),
        ({"method": "ghost"}, "is of an unknown method 'ghost'; this bayesprop has "),
        ({"method": "os:system"}, "is of an unknown method 'os:system'"),
        ({"method": ["pbp"]}, "is of an unknown method"),
        ({"model": None}, "does not describe a line model"),
        ({"model": {}}, "does not describe a line model (KeyError: 'step')"),
        ({"table": {"version": 9}}, "the table encoding must have version 1, got 9"),
        ({"table": []}, "does not describe a line model"),
        ({"metadata": 5}, "does not describe a line model"),
    ],
)
def test_headers_that_do_not_fit_are_refused(tmp_path, change, message):
    forge(tmp_path / "bad", {**GOOD, **change})
    refused(tmp_path / "bad", message)


def test_a_forged_file_with_sound_contents_is_just_a_model(tmp_path):
    forge(tmp_path / "m", GOOD)
    assert load(tmp_path / "m").step == 1
    forge(tmp_path / "m", {k: v for k, v in GOOD.items() if k != "model"})
    refused(tmp_path / "m", "does not describe a line model")
    forge(tmp_path / "m", "[1]")
    refused(tmp_path / "m", "it is not an object")


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    forge(tmp_path / "bad", GOOD, {"slope": np.zeros((1, 1, 1))})
    refused(tmp_path / "bad", "the slope must be a matrix at most")
    forge(tmp_path / "bad", GOOD, {"slope": np.zeros(2, np.float16)})
    refused(tmp_path / "bad", "an array 'slope' of type float16")
    for entry in (
        {"dtype": "F64", "shape": [2**62], "data_offsets": [0, 32]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [0, 32]},
        {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 2**50]},
        {"dtype": "F64", "shape": [0, 2**62], "data_offsets": [0, 0]},
        {"dtype": "F64", "shape": "x", "data_offsets": [0, 32]},
        {"dtype": "F64"},
        {"dtype": ["F64"], "shape": [2, 2], "data_offsets": [0, 32]},
        {"shape": [2, 2], "data_offsets": [0, 32]},
        [],
    ):
        forge_layout(tmp_path / "bad", entry)
        refused(tmp_path / "bad", "")


def forge_layout(path, entry):
    layout = {"__metadata__": {"bayesprop": json.dumps(GOOD), "sha256": ZEROS}, "slope": entry}
    head = json.dumps(layout).encode()
    content = struct.pack("<Q", len(head)) + head + np.eye(2).tobytes()
    digest = hashlib.sha256(content).hexdigest()
    path.write_bytes(content.replace(ZEROS.encode(), digest.encode()))


def test_every_truncation_is_refused(saved, tmp_path):
    content = saved.read_bytes()
    for length in [*range(0, 40), *range(40, len(content), 37), len(content) - 1]:
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load(tmp_path / "cut")


FLIPPABLE = forged({**GOOD, "model": {"step": 7}})


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_flipped_bytes_are_found(data, tmp_path_factory):
    content = FLIPPABLE
    flips = data.draw(
        st.lists(
            st.tuples(st.integers(0, len(content) - 1), st.integers(1, 255)), min_size=1, max_size=3
        )
    )
    flipped = bytearray(content)
    for place, mask in flips:
        flipped[place] ^= mask
    path = tmp_path_factory.getbasetemp() / "flipped"
    path.write_bytes(flipped)
    if bytes(flipped) == content:
        assert load(path).step == 7
    else:
        with pytest.raises(ModelFileError):
            load(path)


def test_nothing_that_a_file_names_is_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    header = {**GOOD, "method": "trap:Class", "home": "trap:Class", "model": {"step": "trap"}}
    forge(tmp_path / "bad", header)
    refused(tmp_path / "bad", "unknown method 'trap:Class'")
    forge(tmp_path / "m", {**header, "method": "line"})
    assert load(tmp_path / "m").step == "trap"
    assert "trap" not in sys.modules


def test_a_killed_save_leaves_the_old_file(saved):
    old = saved.read_bytes()
    code = f"""
import os, signal
import numpy as np
from bayesprop import store
store.catalogue.method_and_task = lambda estimator: ("line", "regression")
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
class Big:
    def to_stored(self):
        return {{}}, {{"a": np.zeros(9999)}}
store.save_model({str(saved)!r}, Big())
"""
    run = subprocess.run([sys.executable, "-c", code], check=False)
    assert run.returncode == -9
    assert saved.read_bytes() == old
    assert load(saved).step == 7


def test_names_of_hostile_files_stay_on_one_line(tmp_path):
    path = tmp_path / "a\nb\x1b[2J"
    path.write_bytes(b"")
    refused(path, "is empty")

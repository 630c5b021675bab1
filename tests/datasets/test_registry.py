import dataclasses
import hashlib
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest

from bayesprop.datasets import registry
from bayesprop.table.errors import TableError

NINE = ["boston", "concrete", "energy", "kin8nm", "naval", "power_plant", "protein"]
NINE += ["wine_red", "yacht"]


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise URLError("no network in tests")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A data set of four rows, in a folder of its own."""
    x, y = np.arange(8.0).reshape(4, 2), np.array([1.0, 2.0, 3.0, 4.0])
    (tmp_path / "uci").mkdir()
    path = tmp_path / "uci" / "tiny.npz"
    np.savez(path, X=x, y=y)
    data = dataclasses.replace(
        registry.describe("yacht"),
        name="tiny", n=4, d=2, y_mean=2.5, y_std=1.1180, n_splits=3, file="uci/tiny.npz",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )  # fmt: skip
    monkeypatch.setitem(registry._TABLE, "tiny", data)
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    return path


def test_table_names_the_nine_sets_of_the_papers():
    assert set(NINE) < set(registry.names())
    assert registry.names()[0] == "diabetes"  # what comes with the dependencies comes first
    for name in registry.names():
        data = registry.describe(name)
        assert data.name == name
        assert data.licence
        assert data.citation
        assert data.target
    assert registry.describe("protein").n_splits == 5
    assert "withdrawn" in registry.describe("boston").note


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("name", NINE)
def test_folder_sets_load(name):
    data, loaded = registry.describe(name), registry.load(name)
    assert loaded.X.shape == (data.n, data.d)
    assert np.isfinite(loaded.X).all()
    assert len(loaded.feature_names) == data.d
    with np.load(loaded.source) as arrays:
        assert str(arrays["target_name"]) == data.target


def test_diabetes_comes_in_raw_units_without_a_folder(monkeypatch):
    monkeypatch.delenv("BAYESPROP_DATA", raising=False)
    loaded = registry.load("diabetes")
    assert loaded.source == "scikit-learn"
    assert loaded.feature_names[:4] == ["age", "sex", "bmi", "bp"]
    assert loaded.target_name == "progression"
    age, bmi = loaded.X[:, 0], loaded.X[:, 2]
    assert (age.min(), age.max()) == (19.0, 79.0)
    assert 15.0 < bmi.min() < bmi.max() < 50.0


def test_a_folder_set_without_names_gets_some(tiny):
    loaded = registry.load("tiny")
    assert loaded.source == str(tiny)
    assert loaded.feature_names == ["x1", "x2"]


def test_altered_file_is_refused(tiny):
    tiny.write_bytes(tiny.read_bytes() + b" ")
    with pytest.raises(TableError, match="not the published file: its SHA-256 should begin with"):
        registry.load("tiny")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x80\x04N."])
def test_file_that_is_no_archive_is_refused(tiny, monkeypatch, content):
    tiny.write_bytes(content)
    unchecked = dataclasses.replace(registry.describe("tiny"), sha256=None)
    monkeypatch.setitem(registry._TABLE, "tiny", unchecked)
    with pytest.raises(TableError, match="must be an npz file with arrays X and y"):
        registry.load("tiny")


def test_wrong_shape_and_wrong_target_are_refused(tiny, monkeypatch):
    data = registry.describe("tiny")
    monkeypatch.setitem(registry._TABLE, "tiny", dataclasses.replace(data, n=5))
    with pytest.raises(TableError, match=r"must have X \(5, 2\)"):
        registry.load("tiny")
    monkeypatch.setitem(registry._TABLE, "tiny", dataclasses.replace(data, y_mean=9.0))
    with pytest.raises(TableError, match=r"another target.* 9.0 and 1.118, got 2.5000 and 1.1180"):
        registry.load("tiny")


def test_offline_message_says_what_was_tried_and_what_to_do(monkeypatch, tmp_path, offline):
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    with pytest.raises(TableError) as caught:
        registry.load("yacht")
    message = str(caught.value)
    assert "\n" not in message
    assert f"no file {tmp_path}/uci/yacht.npz" in message
    assert "openml.org data 42370 is out of reach" in message
    assert "set BAYESPROP_DATA to a folder that holds uci/yacht.npz" in message


def test_openml_answer_is_checked(monkeypatch):
    rng = np.random.default_rng(0)
    data = registry.describe("yacht")
    y = rng.standard_normal(data.n)
    y = (y - y.mean()) / y.std() * data.y_std + data.y_mean
    answer = SimpleNamespace(
        data=rng.standard_normal((data.n, data.d)), target=y, feature_names=list("abcdef")
    )
    asked = {}

    def fetch(**kwargs):
        asked.update(kwargs)
        return answer

    monkeypatch.delenv("BAYESPROP_DATA", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    loaded = registry.load("yacht")
    assert asked["data_id"] == 42370
    assert loaded.source == "openml.org"
    assert loaded.feature_names == list("abcdef")
    answer.target = np.array(["a"] * data.n)
    with pytest.raises(TableError, match="not all numbers"):
        registry.load("yacht")


def test_year_states_its_protocol_when_it_is_absent(monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    with pytest.raises(TableError, match=r"uci/year.npz; .*first 463715 rows for training"):
        registry.load("year")


BUNDLED = {
    "iris": ["setosa"] * 50 + ["versicolor"] * 50 + ["virginica"] * 50,
    "breast_cancer": {"malignant": 212, "benign": 357},
    "wine_cultivars": {"cultivar 1": 59, "cultivar 2": 71, "cultivar 3": 48},
    "digits": dict(enumerate([178, 182, 177, 183, 181, 182, 181, 179, 174, 180])),
}


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_classes_come_as_labels_without_a_folder(name, monkeypatch):
    monkeypatch.delenv("BAYESPROP_DATA", raising=False)
    data, loaded = registry.describe(name), registry.load(name)
    assert data.task == "classification"
    assert loaded.source == "scikit-learn"
    assert loaded.X.shape == (data.n, data.d)
    assert len(set(loaded.feature_names)) == data.d
    labels, counts = np.unique(loaded.y, return_counts=True)
    if isinstance(BUNDLED[name], list):
        assert loaded.y.tolist() == BUNDLED[name]
    else:
        assert dict(zip(labels.tolist(), counts.tolist(), strict=True)) == BUNDLED[name]


@pytest.mark.usefixtures("published")
def test_mushrooms_are_all_text():
    loaded = registry.load("mushroom")
    labels, counts = np.unique(loaded.y, return_counts=True)
    assert (labels.tolist(), counts.tolist()) == (["e", "p"], [4208, 3916])
    assert "class" not in loaded.feature_names
    assert (loaded.X[:, loaded.feature_names.index("stalk-root")] == "?").sum() == 2480


def test_a_csv_without_its_target_is_refused(monkeypatch, tmp_path):
    (tmp_path / "m.csv").write_text("a,b\nx,y\n")
    data = dataclasses.replace(registry.describe("mushroom"), file="m.csv", sha256=None)
    monkeypatch.setitem(registry._TABLE, "mushroom", data)
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    with pytest.raises(TableError, match="must have a column class"):
        registry.load("mushroom")


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(TableError, match=r"no data set 'ghost'; there are diabetes, "):
        registry.load("ghost")

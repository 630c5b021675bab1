import dataclasses
import hashlib
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock
from urllib.error import URLError

import numpy as np
import pytest

from bayesprop.datasets import registry
from bayesprop.table.errors import TableError

NINE = ["boston", "concrete", "energy", "kin8nm", "naval", "power_plant", "protein"]
NINE += ["wine_red", "yacht"]


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
        assert all((data.licence, data.citation, data.target))
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


NO_ARCHIVE = "must be an npz file with arrays X and y"
UNCHECKED = {"sha256": None}


@pytest.mark.parametrize(
    ("changes", "content", "message"),
    [
        ({}, b"altered", "not the published file: its SHA-256 should begin with"),
        *((UNCHECKED, content, NO_ARCHIVE) for content in (b"", b"PK\x03\x04 none", b"\x80\x04N.")),
        ({"n": 5}, None, r"must have X \(5, 2\)"),
        ({"y_mean": 9.0}, None, "another target.* 9.0 and 1.118, got 2.5000 and 1.1180"),
        (UNCHECKED | {"file": "uci/tiny.csv"}, b"a,b\nx,y\n", "must have a column "),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tiny, monkeypatch, changes, content, message):
    data = dataclasses.replace(registry.describe("tiny"), **changes)
    monkeypatch.setitem(registry._TABLE, "tiny", data)
    if content is not None:
        (tiny.parent.parent / data.file).write_bytes(content)
    with pytest.raises(TableError, match=message):
        registry.load("tiny")


def test_offline_message_says_what_was_tried_and_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    offline = Mock(side_effect=URLError("no network in tests"))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
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
    fetch = Mock(return_value=answer)
    monkeypatch.delenv("BAYESPROP_DATA", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    loaded = registry.load("yacht")
    assert fetch.call_args.kwargs["data_id"] == 42370
    assert loaded.source == "openml.org"
    assert loaded.feature_names == list("abcdef")
    answer.target = np.array(["a"] * data.n)
    with pytest.raises(TableError, match="not all numbers"):
        registry.load("yacht")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("year", r"uci/year.npz; .*first 463715 rows for training"),
        ("ghost", r"no data set 'ghost'; there are diabetes, "),
    ],
)
def test_what_is_absent_says_what_there_is(monkeypatch, tmp_path, name, message):
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    with pytest.raises(TableError, match=message):
        registry.load(name)


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
    labels = loaded.y.tolist()
    assert (labels if name == "iris" else Counter(labels)) == BUNDLED[name]


@pytest.mark.usefixtures("published")
def test_mushrooms_are_all_text():
    loaded = registry.load("mushroom")
    assert Counter(loaded.y.tolist()) == {"e": 4208, "p": 3916}
    assert "class" not in loaded.feature_names
    assert (loaded.X[:, loaded.feature_names.index("stalk-root")] == "?").sum() == 2480

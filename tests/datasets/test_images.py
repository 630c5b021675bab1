import dataclasses
import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from bayesprop.datasets import registry
from bayesprop.datasets.images import load_images, names
from bayesprop.table.errors import TableError


def pictures_in(folder, monkeypatch, *, name="mnist", **arrays):
    """Put a picture file into a folder and let the registry expect it."""
    path = folder / f"{name}.npz"
    np.savez(path, **arrays)
    data = dataclasses.replace(
        registry.describe(name),
        n=len(arrays["train_labels"]) + len(arrays["test_labels"]),
        n_train=len(arrays["train_labels"]),
        file=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )
    monkeypatch.setitem(registry._TABLE, name, data)
    monkeypatch.setenv("BAYESPROP_DATA", str(folder))


def few_pictures(n_train=30, n_test=20):
    rng = np.random.default_rng(0)
    return {
        "train_images": rng.integers(0, 256, (n_train, 28, 28), np.uint8),
        "train_labels": np.arange(n_train, dtype=np.uint8) % 10,
        "test_images": rng.integers(0, 256, (n_test, 28, 28), np.uint8),
        "test_labels": np.arange(n_test, dtype=np.uint8)[::-1] % 10,
    }


def test_bundled_digits_need_no_folder(monkeypatch):
    from sklearn.datasets import load_digits

    monkeypatch.delenv("BAYESPROP_DATA", raising=False)
    images, bundle = load_images("digits"), load_digits()
    assert images.source == "scikit-learn"
    assert (images.train_x.shape, images.test_x.shape) == ((1437, 8, 8), (360, 8, 8))
    assert images.train_x.dtype == np.uint8
    assert (images.train_x.min(), images.train_x.max()) == (0, 255)
    ink = images.train_x / 255 * 16
    np.testing.assert_allclose(ink, bundle.images[:1437], atol=0.5 * 16 / 255)
    np.testing.assert_array_equal(images.test_y, bundle.target[1437:])
    assert images.class_names == tuple("0123456789")


@pytest.mark.parametrize(("name", "label"), [("mnist", "9"), ("fashion", "Ankle boot")])
def test_pictures_of_a_folder_keep_their_division_and_order(monkeypatch, tmp_path, name, label):
    arrays = few_pictures()
    pictures_in(tmp_path, monkeypatch, name=name, **arrays)
    images, loaded = load_images(name), registry.load(name)
    assert images.source == str(tmp_path / f"{name}.npz")
    found = images.train_x, images.train_y, images.test_x, images.test_y
    for ours, array in zip(found, arrays.values(), strict=True):
        np.testing.assert_array_equal(ours, array)
    assert images.class_names[9] == str(loaded.y[9]) == label
    assert loaded.X.dtype == np.uint8
    column = loaded.X[:, loaded.feature_names.index("pixel_3_20")]
    np.testing.assert_array_equal(column[:30], arrays["train_images"][:, 3, 20])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"train_labels": np.zeros(30, np.uint8), "test_labels": np.zeros(20, np.uint8)},
            "must have 10 classes, got 1",
        ),
        ({"train_labels": np.full(30, 77, np.uint8)}, "other classes"),
        ({"train_images": np.zeros((30, 8, 8), np.uint8)}, "npz file with arrays train_images"),
        ({"test_images": np.zeros((19, 28, 28), np.uint8)}, r"must have X \(50, 784\)"),
    ],
)
def test_files_that_hold_something_else_are_refused(monkeypatch, tmp_path, change, message):
    pictures_in(tmp_path, monkeypatch, **{**few_pictures(), **change})
    with pytest.raises(TableError, match=message) as caught:
        load_images("mnist")
    assert "\n" not in str(caught.value)


def test_openml_gives_text_and_is_read_all_the_same(monkeypatch, tmp_path):
    arrays = few_pictures()
    pictures_in(tmp_path, monkeypatch, **arrays)
    monkeypatch.delenv("BAYESPROP_DATA")

    pictures = np.concatenate([arrays["train_images"], arrays["test_images"]])
    labels = np.concatenate([arrays["train_labels"], arrays["test_labels"]])
    answer = SimpleNamespace(
        data=pictures.reshape(50, -1).astype(float),
        target=labels.astype(str),
        feature_names=[f"pixel{i + 1}" for i in range(784)],
    )
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: answer)
    images = load_images("mnist")
    assert images.source == "openml.org"
    np.testing.assert_array_equal(images.test_x, arrays["test_images"])
    np.testing.assert_array_equal(images.test_y, arrays["test_labels"])


def test_unknown_pictures_list_the_known_ones():
    assert names() == ["digits", "mnist", "fashion"]
    with pytest.raises(TableError, match="no pictures 'iris'; there are digits, mnist, fashion"):
        load_images("iris")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("published")
def test_published_pictures_have_the_published_counts():
    images = load_images("mnist")
    assert (images.train_x.shape, images.test_x.shape) == ((60000, 28, 28), (10000, 28, 28))
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(images.train_y).tolist() == counts
    assert abs(images.train_x.mean() - 33.3184) < 1e-4
    goods = load_images("fashion")
    assert np.bincount(goods.test_y).tolist() == [1000] * 10
    assert abs(goods.train_x.mean() - 72.9404) < 1e-4

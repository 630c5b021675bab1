"""Pictures to classify: the digits that come with scikit-learn, MNIST and Fashion-MNIST."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt8

from bayesprop.datasets import registry
from bayesprop.datasets.registry import DataSet
from bayesprop.table.errors import TableError, quoted

FULL_INK = 255
_DIGITS_FULL_INK, _DIGITS_TRAIN = 16, 1437


@dataclass(frozen=True)
class Images:
    """Grey pictures and their classes, in the published order and division.

    train_x, test_x
        Ink from 0 (background) to 255.
    train_y, test_y
        Codes: positions in `class_names`.
    source
        Where they came from: a path, "scikit-learn" or "openml.org".
    """

    train_x: UInt8[np.ndarray, "n h w"]
    train_y: Int[np.ndarray, " n"]
    test_x: UInt8[np.ndarray, "m h w"]
    test_y: Int[np.ndarray, " m"]
    class_names: tuple[str, ...]
    source: str


def names() -> list[str]:
    """Return the names that `load_images` knows."""
    return [name for name in registry.names() if registry.describe(name).image_shape is not None]


def load_images(name: str) -> Images:
    """Read "mnist", "fashion" (28 by 28, 60000 and 10000 pictures) or "digits" (8 by 8, bundled).

    The digits have no published division: the last fifth of the rows is for testing, and their ink,
    0 to 16, is scaled to 0 to 255. Raises TableError where no place has the pictures.
    """
    if name not in names():
        raise TableError(f"no pictures {quoted(name)}; there are {', '.join(names())}")
    data, loaded = registry.describe(name), registry.load(name)
    ink = loaded.X
    if name == "digits":
        ink = np.rint(ink * (FULL_INK / _DIGITS_FULL_INK)).astype(np.uint8)
    pictures = ink.reshape(len(ink), *(data.image_shape or ()))
    codes, n_train = _codes(data, loaded.y), data.n_train or _DIGITS_TRAIN
    return Images(
        train_x=pictures[:n_train],
        train_y=codes[:n_train],
        test_x=pictures[n_train:],
        test_y=codes[n_train:],
        class_names=tuple(map(str, data.classes)),
        source=loaded.source,
    )


def _codes(data: DataSet, labels: np.ndarray) -> Int[np.ndarray, " n"]:
    classes = np.array(data.classes)
    order = np.argsort(classes)
    return order[np.searchsorted(classes, labels, sorter=order)]

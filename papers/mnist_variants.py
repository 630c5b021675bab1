"""The variations of MNIST by Larochelle, Erhan, Courville, Bergstra & Bengio (ICML 2007), remade.

The published files are not fetched: digits, angles and backgrounds are drawn again by the published
protocol, so that results are comparable in kind, not number for number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.datasets.images import FULL_INK, load_images
from bayesprop.table.errors import TableError, quoted
from papers.digits import Digits

_SIDE = 28
_CHUNK = 2000  # pictures turned at once
_LEAST_STD = 0.1  # of the ink, 0 to 1: plainer patches of a photograph are passed over
_BASIC, _ROTATED = "mnist-basic", "mnist-rot"
_NOISE, _PHOTO, _ROTATED_PHOTO = "mnist-back-rand", "mnist-back-image", "mnist-rot-back-image"
VARIANTS = (_BASIC, _ROTATED, _NOISE, _PHOTO, _ROTATED_PHOTO)


class Sizes(NamedTuple):
    """How many pictures each part has."""

    train: int
    valid: int
    test: int


PUBLISHED = Sizes(10_000, 2_000, 50_000)


def mnist_variant(name: str, *, seed: int = 0, sizes: Sizes = PUBLISHED) -> Digits:
    """Make one of `VARIANTS` from MNIST.

    62000 of the 70000 digits are drawn without replacement. mnist-rot turns each by an angle
    uniform on [0, 2 pi), bilinearly, about the centre. mnist-back-rand puts every digit on pixels
    uniform on 0 to 255, mnist-back-image on a patch of a photograph, chosen at random among those
    with enough contrast; mnist-rot-back-image turns the digit first.

    Deviations and choices: a digit is put on its background by the larger of the two inks. The
    original photographs, 20 from the internet, are not published: the patches come from the two
    that scikit-learn brings, so that these backgrounds are less varied. The least contrast of a
    patch, a standard deviation of a tenth of full ink, is ours.

    seed
        Fixes digits, angles and backgrounds; the same digits for every variation.
    sizes
        Of the three parts, for smaller versions.

    Raises TableError where MNIST is not to be had.
    """
    if name not in VARIANTS:
        raise TableError(f"no variation {quoted(name)} of MNIST; there are {', '.join(VARIANTS)}")
    images = load_images("mnist")
    pictures = np.concatenate([images.train_x, images.test_x])
    digits = np.concatenate([images.train_y, images.test_y])
    if not 3 <= sum(sizes) <= len(digits) or min(sizes) < 1:
        raise TableError(f"sizes must be >= 1 each and {len(digits)} in all, got {tuple(sizes)}")
    draw_rng, turn_rng, ground_rng = (np.random.default_rng([seed, part]) for part in range(3))
    drawn = draw_rng.permutation(len(digits))[: sum(sizes)]
    x = pictures[drawn].astype(np.float32) / FULL_INK
    if name in (_ROTATED, _ROTATED_PHOTO):
        x = rotated(x, turn_rng.uniform(0.0, 2.0 * np.pi, len(x)))
    if name == _NOISE:
        x = np.maximum(
            x, ground_rng.integers(0, FULL_INK + 1, x.shape, np.uint8) / np.float32(FULL_INK)
        )
    elif name in (_PHOTO, _ROTATED_PHOTO):
        x = np.maximum(x, patches(photographs(), len(x), ground_rng))
    return _divided(x.reshape(len(x), -1), digits[drawn], sizes)


def rotated(
    x: Float[np.ndarray, "n h w"], angles: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n h w"]:
    """Turn each picture anticlockwise by its angle, in radians; what comes from outside is 0."""
    from scipy.ndimage import map_coordinates

    height, width = x.shape[1:]
    middle = np.array([(height - 1) / 2.0, (width - 1) / 2.0])[:, None, None]
    down, right = np.mgrid[:height, :width] - middle
    turned = np.empty_like(x)
    for first in range(0, len(x), _CHUNK):
        part = x[first : first + _CHUNK]
        cos = np.cos(angles[first : first + _CHUNK])[:, None, None]
        sin = np.sin(angles[first : first + _CHUNK])[:, None, None]
        index = np.broadcast_to(np.arange(len(part))[:, None, None], part.shape)
        places = [index, cos * down + sin * right + middle[0], cos * right - sin * down + middle[1]]
        turned[first : first + _CHUNK] = map_coordinates(part, places, order=1, prefilter=False)
    return turned


def photographs() -> list[Float[np.ndarray, "h w"]]:
    """Return scikit-learn's two photographs in grey, 0 to 1."""
    from sklearn.datasets import load_sample_images

    photos = load_sample_images().images
    return [(photo.mean(axis=2) / FULL_INK).astype(np.float32) for photo in photos]


def patches(
    photos: list[Float[np.ndarray, "h w"]], n: int, rng: np.random.Generator
) -> Float[np.ndarray, "n 28 28"]:
    """Cut n patches: any photograph, then any place in it whose patch has enough contrast."""
    chosen = rng.integers(len(photos), size=n)
    cut = np.empty((n, _SIDE, _SIDE), np.float32)
    for index, photo in enumerate(photos):
        windows = np.lib.stride_tricks.sliding_window_view(photo, (_SIDE, _SIDE))
        places = np.argwhere(_contrast(photo) >= _LEAST_STD)
        if not len(places):
            raise ValueError(f"photograph {index} has no patch with a contrast of {_LEAST_STD}")
        rows, columns = places[rng.integers(len(places), size=int(np.sum(chosen == index)))].T
        cut[chosen == index] = windows[rows, columns]
    return cut


def _contrast(photo: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "r c"]:
    """Return the standard deviation of the patch below and to the right of every place."""
    mean, square = (_window_means(photo.astype(np.float64) ** power) for power in (1, 2))
    return np.sqrt(np.maximum(square - mean**2, 0.0))


def _window_means(values: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "r c"]:
    sums = np.pad(values, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    far, near = slice(_SIDE, None), slice(None, -_SIDE)
    whole = sums[far, far] - sums[far, near] - sums[near, far] + sums[near, near]
    return whole / _SIDE**2


def _divided(x: np.ndarray, y: np.ndarray, sizes: Sizes) -> Digits:
    train, valid, test = np.split(np.arange(len(y)), np.cumsum(sizes)[:2])
    return Digits(x[train], y[train], x[valid], y[valid], x[test], y[test])

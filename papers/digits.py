"""Pictures of digits, flat, in the three parts that the experiments learn, choose and test by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.datasets.images import FULL_INK, load_images


class Digits(NamedTuple):
    """Pictures as rows of pixels, ink 0 to 1, and their digits."""

    train_x: Float[np.ndarray, "n p"]
    train_y: Int[np.ndarray, " n"]
    valid_x: Float[np.ndarray, "v p"]
    valid_y: Int[np.ndarray, " v"]
    test_x: Float[np.ndarray, "m p"]
    test_y: Int[np.ndarray, " m"]


def flat(pictures: np.ndarray, full_ink: float = FULL_INK) -> Float[np.ndarray, "n p"]:
    """Return pictures as rows, divided by full ink."""
    return pictures.reshape(len(pictures), -1).astype(np.float32) / full_ink


def divided(name: str, *, n_valid: int, seed: int, full_ink: float = FULL_INK) -> Digits:
    """Read a set; the validation pictures are a random part of the training's."""
    images = load_images(name)
    order = np.random.default_rng(seed).permutation(len(images.train_y))
    held_out, rest = order[:n_valid], order[n_valid:]
    x, test_x = (flat(part, full_ink) for part in (images.train_x, images.test_x))
    y = images.train_y
    return Digits(x[rest], y[rest], x[held_out], y[held_out], test_x, images.test_y)

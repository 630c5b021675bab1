"""Rows that are pictures, as PNG files inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from PIL import Image


@dataclass(frozen=True, eq=False)
class Pictures:
    """How a row becomes a picture.

    shape
        Height, width and channels (1 or 3).
    places
        Which value of the picture, in row-major order, each column holds; others are dark.
    low, high
        Values of the darkest and the brightest point.
    """

    shape: tuple[int, int, int]
    places: Int[np.ndarray, " d"]
    low: float
    high: float

    @classmethod
    def of(cls, metadata: Mapping[str, Any], x: Float[np.ndarray, "n d"]) -> Pictures | None:
        """Read "image_shape" and "image_pixels"; None if rows are no pictures.

        ValueError if they do not fit the columns.
        """
        stated = metadata.get("image_shape")
        if not stated:
            return None
        shape = tuple(int(size) for size in stated)
        shape = (*shape, 1) if len(shape) == 2 else shape
        if len(shape) != 3 or shape[2] not in (1, 3) or min(shape) < 1:
            raise ValueError(
                "image_shape must be [height, width] or [height, width, channels] with 1 or 3 "
                f"channels, got {list(stated)}"
            )
        size, pixels = int(np.prod(shape)), metadata.get("image_pixels")
        places = np.arange(x.shape[1]) if pixels is None else np.asarray(pixels, dtype=np.int64)
        fits = places.shape == (x.shape[1],) and np.all((places >= 0) & (places < size))
        if not fits or (pixels is None and len(places) != size):
            raise ValueError(
                f"a picture of shape {list(stated)} has {size} values and the rows have "
                f"{x.shape[1]} columns: say in image_pixels which value each column is"
            )
        return cls((shape[0], shape[1], shape[2]), places, float(np.min(x)), float(np.max(x)))

    def uri(self, row: Float[np.ndarray, " d"]) -> str:
        """Return a row as a data URI."""
        values = np.zeros(int(np.prod(self.shape)))
        values[self.places] = (row - self.low) / ((self.high - self.low) or 1.0)
        picture = np.clip(np.rint(255.0 * values), 0, 255).astype(np.uint8).reshape(self.shape)
        buffer = io.BytesIO()
        Image.fromarray(picture.squeeze(axis=2) if self.shape[2] == 1 else picture).save(
            buffer, format="png", optimize=True
        )
        return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

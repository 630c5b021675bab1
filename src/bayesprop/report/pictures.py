"""Rows that are pictures, as PNG files inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from PIL import Image


class Pictures(NamedTuple):
    """How a row becomes a picture.

    shape
        Height and width.
    places
        Which value of the picture, in row-major order, each column holds; others are dark.
    low, high
        Values of the darkest and the brightest point.
    """

    shape: tuple[int, int]
    places: Int[np.ndarray, " d"]
    low: float
    high: float

    @classmethod
    def of(cls, metadata: Mapping[str, Any], x: Float[np.ndarray, "n d"]) -> Pictures | None:
        """Read "image_shape" and "image_pixels"; None if rows are no pictures."""
        if "image_shape" not in metadata:
            return None
        height, width = metadata["image_shape"]
        places = np.asarray(metadata["image_pixels"])
        return cls((height, width), places, float(np.min(x)), float(np.max(x)))

    def uri(self, row: Float[np.ndarray, " d"]) -> str:
        """Return a row as a data URI."""
        values = np.zeros(self.shape)
        values.ravel()[self.places] = (row - self.low) / ((self.high - self.low) or 1.0)
        picture = np.clip(np.rint(255.0 * values), 0, 255).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, format="png", optimize=True)
        return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

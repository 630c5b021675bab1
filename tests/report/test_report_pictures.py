import base64
import io

import numpy as np
import pytest
from matplotlib import image

from bayesprop.report.pictures import Pictures


def read_back(found, row):
    kind, data = found.uri(row).split(",")
    assert kind == "data:image/png;base64"
    return image.imread(io.BytesIO(base64.b64decode(data)), format="png")


@pytest.mark.parametrize(
    ("shape", "pixels", "row", "expected"),
    [
        ([2, 2], [0, 1, 2, 3], [0.0, 4.0, 8.0, 2.0], [[0.0, 0.25], [0.5, 0.125]]),
        ([2, 3], [1, 3, 5], [0.0, 8.0, 16.0], [[0.0, 0.0, 0.0], [0.5, 0.0, 1.0]]),
    ],
)
def test_a_row_becomes_a_picture_between_darkest_and_brightest(shape, pixels, row, expected):
    """Pixels that no column holds are dark."""
    x = np.array([row, np.linspace(0.0, 16.0, len(row))])
    found = Pictures.of({"image_shape": shape, "image_pixels": pixels}, x)
    assert found is not None
    np.testing.assert_allclose(read_back(found, x[0]), expected, atol=1 / 255)


def test_rows_that_are_no_pictures_or_all_dark():
    assert Pictures.of({}, np.zeros((3, 4))) is None
    shapes = {"image_shape": [2, 2], "image_pixels": [0, 1, 2, 3]}
    flat = Pictures.of(shapes, np.zeros((3, 4)))
    assert flat is not None
    np.testing.assert_array_equal(read_back(flat, np.zeros(4)), np.zeros((2, 2)))

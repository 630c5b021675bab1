import base64
import io

import numpy as np
import pytest
from matplotlib import image

from bayesprop.report.pictures import Pictures


def test_a_colour_picture_is_read_back():
    x = np.random.default_rng(0).integers(0, 256, (1, 5 * 7 * 3)).astype(float)
    x[0, :2] = 0.0, 255.0
    found = Pictures.of({"image_shape": [5, 7, 3]}, x)
    assert found is not None
    data = base64.b64decode(found.uri(x[0]).split(",")[1])
    read = image.imread(io.BytesIO(data), format="png")
    np.testing.assert_allclose(read.ravel(), x[0] / 255.0, atol=1e-6)


def test_a_row_becomes_a_picture_between_darkest_and_brightest():
    x = np.array([[0.0, 4.0, 8.0, 2.0], [16.0, 0.0, 0.0, 0.0]])
    found = Pictures.of({"image_shape": [2, 2]}, x)
    assert found is not None
    kind, data = found.uri(x[0]).split(",")
    assert kind == "data:image/png;base64"
    read = image.imread(io.BytesIO(base64.b64decode(data)), format="png")
    np.testing.assert_allclose(read, [[0.0, 0.25], [0.5, 0.125]], atol=1 / 255)


def test_dropped_pixels_are_dark():
    x = np.array([[1.0, 2.0, 3.0]])
    found = Pictures.of({"image_shape": [2, 3], "image_pixels": [1, 3, 5]}, x)
    assert found is not None
    read = image.imread(io.BytesIO(base64.b64decode(found.uri(x[0]).split(",")[1])), format="png")
    np.testing.assert_allclose(read, [[0.0, 0.0, 0.0], [0.5, 0.0, 1.0]], atol=1 / 255)


@pytest.mark.parametrize(
    "metadata",
    [
        {"image_shape": [2, 3]},
        {"image_shape": [2, 2, 2]},
        {"image_shape": [4]},
        {"image_shape": [2, 2], "image_pixels": [0, 1, 2]},
        {"image_shape": [2, 2], "image_pixels": [0, 1, 2, 4]},
    ],
)
def test_shapes_that_do_not_fit_are_refused(metadata):
    with pytest.raises(ValueError, match="image_"):
        Pictures.of(metadata, np.zeros((3, 4)))


def test_rows_that_are_no_pictures():
    assert Pictures.of({}, np.zeros((3, 4))) is None
    flat = Pictures.of({"image_shape": [2, 2]}, np.zeros((3, 4)))
    assert flat is not None
    assert flat.uri(np.zeros(4)).startswith("data:image/png")

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import rotate

from bayesprop.datasets import images
from bayesprop.table.errors import TableError
from papers import mnist_variants
from papers.mnist_variants import VARIANTS, Sizes, mnist_variant, patches, photographs, rotated

SMALL = Sizes(30, 10, 60)


@pytest.fixture(autouse=True)
def numbered_pictures(monkeypatch):
    """In the place of MNIST: 200 pictures, each of which can be told by its corner of ink."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (200, 28, 28), np.uint8)
    x[:, :4] = x[:, -4:] = 0
    x[:, :, :4] = x[:, :, -4:] = 0
    x[:, 14, 14] = np.arange(200)
    y = np.arange(200) % 10
    found = images.Images(x[:150], y[:150], x[150:], y[150:], tuple("0123456789"), "a test")
    monkeypatch.setattr(mnist_variants, "load_images", lambda _name: found)
    return x


def whole(splits):
    x = np.concatenate([splits.train_x, splits.valid_x, splits.test_x])
    return x, np.concatenate([splits.train_y, splits.valid_y, splits.test_y])


def number_of(basic):
    return np.rint(basic.reshape(-1, 28, 28)[:, 14, 14] * 255).astype(int)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variation_is_seeded_scaled_and_of_the_asked_sizes(name):
    first, again = (mnist_variant(name, seed=3, sizes=SMALL) for _ in range(2))
    assert (len(first.train_x), len(first.valid_x), len(first.test_x)) == SMALL
    for x, y in zip(whole(first), whole(again), strict=True):
        np.testing.assert_array_equal(x, y)
    x, _ = whole(first)
    assert x.dtype == np.float32
    assert x.shape == (100, 784)
    assert 0.0 <= x.min() < x.max() <= 1.0
    assert np.any(whole(mnist_variant(name, seed=4, sizes=SMALL))[0] != x)


def test_digits_are_drawn_once_each_and_the_same_for_every_variation(numbered_pictures):
    basic = mnist_variant("mnist-basic", sizes=SMALL)
    x, y = whole(basic)
    numbers = number_of(x)
    assert len(set(numbers)) == 100
    np.testing.assert_array_equal(numbers % 10, y)
    np.testing.assert_allclose(x.reshape(-1, 28, 28) * 255, numbered_pictures[numbers], atol=1e-4)
    for name in VARIANTS:
        np.testing.assert_array_equal(whole(mnist_variant(name, sizes=SMALL))[1], y)


def test_noise_is_uniform_where_there_is_no_ink():
    basic, _ = whole(mnist_variant("mnist-basic", sizes=SMALL))
    noisy, _ = whole(mnist_variant("mnist-back-rand", sizes=SMALL))
    assert np.all(noisy >= basic)
    ground = noisy[basic == 0.0]
    standard_error = np.sqrt(((256**2 - 1) / 12) / len(ground)) / 255
    assert abs(ground.mean() - 0.5) < 4 * standard_error
    np.testing.assert_allclose(ground * 255, np.rint(ground * 255), atol=1e-3)
    assert {0, 255} <= set(np.rint(ground * 255).astype(int))


def test_photographs_lie_under_the_turned_or_upright_digit():
    grounds = []
    for plain, over in (("mnist-basic", "mnist-back-image"), ("mnist-rot", "mnist-rot-back-image")):
        digit, _ = whole(mnist_variant(plain, sizes=SMALL))
        seen, _ = whole(mnist_variant(over, sizes=SMALL))
        assert np.all(seen >= digit)
        covered = (seen > digit).mean()
        assert covered > 0.4
        grounds.append(np.where(digit == 0.0, seen, np.nan))
    both = ~np.isnan(grounds[0]) & ~np.isnan(grounds[1])
    np.testing.assert_array_equal(grounds[0][both], grounds[1][both])


def test_a_turn_agrees_with_scipy_picture_by_picture(monkeypatch):
    monkeypatch.setattr(mnist_variants, "_CHUNK", 3)
    x = np.random.default_rng(2).random((7, 28, 28)).astype(np.float32)
    degrees = np.linspace(0.0, 350.0, 7)
    pairs = zip(x, degrees, strict=True)
    expected = [rotate(picture, angle, reshape=False, order=1) for picture, angle in pairs]
    np.testing.assert_allclose(rotated(x, np.deg2rad(degrees)), np.stack(expected), atol=1e-5)


def test_angles_cover_the_circle(monkeypatch):
    asked = []
    monkeypatch.setattr(mnist_variants, "rotated", lambda x, angles: (asked.append(angles), x)[1])
    mnist_variant("mnist-rot", sizes=Sizes(100, 50, 50))
    (angles,) = asked
    assert np.all((angles >= 0.0) & (angles < 2 * np.pi))
    assert abs(angles.mean() - np.pi) < 4 * 2 * np.pi / np.sqrt(12 * 200)


def test_patches_are_cut_from_the_photographs_where_they_have_contrast():
    photos = photographs()
    assert [photo.shape for photo in photos] == [(427, 640)] * 2
    cut = patches(photos, 40, np.random.default_rng(0))
    assert np.all(cut.reshape(40, -1).std(axis=1) >= 0.1 - 1e-6)
    corners = [sliding_window_view(photo, (28, 28))[:, :, 0, :3].reshape(-1, 3) for photo in photos]
    known = {tuple(corner) for part in corners for corner in part}
    assert all(tuple(patch[0, :3]) in known for patch in cut)
    with pytest.raises(ValueError, match="photograph 0 has no patch"):
        patches([np.full((40, 40), 0.5, np.float32)], 3, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("mnist-turned", SMALL, "no variation 'mnist-turned' of MNIST; there are mnist-basic, "),
        ("mnist-rot", Sizes(150, 50, 1), r"200 in all, got \(150, 50, 1\)"),
        ("mnist-rot", Sizes(10, 0, 10), r">= 1 each"),
    ],
)
def test_impossible_requests(name, sizes, message):
    with pytest.raises(TableError, match=message):
        mnist_variant(name, sizes=sizes)

import numpy as np

from papers.toy import cubic, cubic_mean


def test_cubic_has_the_papers_range_and_noise_variance():
    toy = cubic(40_000, random_state=3)
    assert toy.X.shape == (40_000, 1)
    assert -4.0 <= toy.X.min() < -3.99
    assert 3.99 < toy.X.max() <= 4.0
    noise = toy.y - toy.X[:, 0] ** 3
    assert abs(noise.mean()) < 4 * 3.0 / np.sqrt(len(noise))
    assert abs(noise.var() - 9.0) < 4 * 9.0 * np.sqrt(2.0 / len(noise))


def test_cubic_is_twenty_points_and_repeatable():
    assert cubic().y.shape == (20,)
    np.testing.assert_array_equal(cubic(random_state=1).y, cubic(random_state=1).y)
    assert not np.array_equal(cubic(random_state=1).y, cubic(random_state=2).y)
    assert cubic_mean(np.array(-2.0)) == -8.0

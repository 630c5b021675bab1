"""Which rows are held out."""

import numpy as np

from bayesprop.table.division import shares


def test_shares_of_classes_by_largest_remainders():
    rng = np.random.default_rng(0)
    assert shares(np.array([1, 1, 8]), 2).tolist() == [0, 0, 2]
    assert shares(np.array([5, 5]), 1).tolist() == [1, 0]
    for _ in range(200):
        counts = rng.integers(1, 40, size=rng.integers(2, 8))
        n_test = int(rng.integers(0, counts.sum() - 1))
        taken = shares(counts, n_test)
        assert np.all((taken >= 0) & (taken < counts))
        assert taken.sum() == min(n_test, counts.sum() - len(counts))

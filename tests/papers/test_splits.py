import hashlib

import numpy as np
import pytest

from papers.splits import standard_splits


def test_recipe_gives_the_published_test_rows_in_their_order(published):
    for path in (published / "uci").glob("*.npz"):
        with np.load(path) as arrays:
            index, n = arrays["test_index"], len(arrays["y"])
        ours = np.stack([split.test for split in standard_splits(n, len(index))])
        np.testing.assert_array_equal(ours, index, err_msg=path.stem)


@pytest.mark.parametrize(
    ("n", "n_splits", "digest"),
    [
        (506, 20, "3a0f9d6fd12975eb9ec1aad334038e1dd6ecae021b4f14037f307b282942fd29"),
        (45730, 5, "0abd139c01ad348d698d0db1eef0a6bbbe716b16a545026ee6c64cf9dc823f84"),
    ],
)
def test_recipe_is_pinned_where_no_index_file_is_at_hand(n, n_splits, digest):
    found = hashlib.sha256()
    for split in standard_splits(n, n_splits):
        found.update(np.concatenate(split).astype("<i8").tobytes())
    assert found.hexdigest() == digest


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 55, 308])
def test_train_and_test_divide_the_rows(n):
    for split in standard_splits(n, 4):
        assert sorted(np.concatenate(split)) == list(range(n))
        assert len(split.train) == min(round(0.9 * n), n - 1)


@pytest.mark.parametrize(("n", "n_splits"), [(1, 5), (0, 5), (10, 0)])
def test_impossible_sizes_are_refused(n, n_splits):
    with pytest.raises(ValueError, match="must be"):
        standard_splits(n, n_splits)

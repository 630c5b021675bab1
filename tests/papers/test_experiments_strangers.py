"""Pictures that are no digits: how they are made, and one small cell."""

from __future__ import annotations

import numpy as np

from papers import mnist_strangers


def test_strangers_are_the_digits_in_one_shuffled_order():
    data = mnist_strangers.pictures(mnist_strangers.Config(known="digits"))
    assert not np.array_equal(data.strangers, data.test_x)
    np.testing.assert_array_equal(np.sort(data.strangers, axis=1), np.sort(data.test_x, axis=1))
    totals = [np.sort(x.sum(axis=0, dtype=float)) for x in (data.strangers, data.test_x)]
    np.testing.assert_allclose(*totals)


def test_a_network_doubts_strangers_more():
    config = mnist_strangers.Config(known="digits", units=32, n_epochs=15, learning_rate=1e-2)
    found = mnist_strangers.fit_cell(config, {"method": "network"})
    assert found["test_error"] < 0.1
    assert found["auroc_entropy"] > 0.8
    assert found["entropy_strange"] > found["entropy_known"]

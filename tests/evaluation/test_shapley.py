"""Shapley values by sets, against the definition over all orders."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from bayesprop.evaluation.shapley import MOST_EXACT, Sets


def _over_all_orders(value, p):
    """Average the increments over every order: the definition (Shapley 1953)."""
    orders, total = list(permutations(range(p))), np.zeros(p)
    for order in orders:
        known = frozenset()
        for j in order:
            total[j] += value[known | {j}] - value[known]
            known |= {j}
    return total / len(orders)


@pytest.mark.parametrize("p", [1, 2, 3, 5, MOST_EXACT])
def test_sets_of_few_columns_give_the_average_over_all_orders(p):
    sets, rng = Sets.of(p), np.random.default_rng(p)
    v = rng.standard_normal(len(sets.known))
    by_set = {
        frozenset(np.flatnonzero(known)): one for known, one in zip(sets.known, v, strict=True)
    }
    assert len(by_set) == 2**p
    np.testing.assert_allclose(sets.weights @ v, _over_all_orders(by_set, p), atol=1e-12)


@pytest.mark.parametrize("p", [4, MOST_EXACT, MOST_EXACT + 1, 40])
def test_values_add_up_to_all_less_nothing(p):
    sets = Sets.of(p)
    v = np.random.default_rng(0).standard_normal(len(sets.known))
    assert not sets.known[0].any()
    assert sets.known[-1].all()
    assert np.isclose((sets.weights @ v).sum(), v[-1] - v[0], atol=1e-12)


def test_random_orders_are_exact_for_sums_and_pairs():
    # A pair that matters together is divided by halves, which an order and its reverse give.
    p, rng = 12, np.random.default_rng(1)
    sets, own, pair = Sets.of(p), rng.standard_normal(p), 3.0
    v = sets.known @ own + pair * (sets.known[:, 2] & sets.known[:, 7])
    expected = own.copy()
    expected[[2, 7]] += pair / 2
    np.testing.assert_allclose(sets.weights @ v, expected, atol=1e-12)

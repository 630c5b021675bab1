"""Random numbers made when they are first asked for."""

import numpy as np
import pytest
from sklearn.utils import check_random_state

from bayesprop import PBPRegressor
from bayesprop.estimators.fitting import LazyRandomState


@pytest.mark.parametrize("seed", [0, 7, np.int64(7)])
def test_a_seed_gives_the_numbers_of_numpy(seed):
    lazy, known = LazyRandomState(seed), check_random_state(seed)
    for _ in range(2):
        np.testing.assert_array_equal(lazy.standard_normal(3), known.standard_normal(3))
        assert lazy.randint(2**31) == known.randint(2**31)


def test_a_state_is_used_as_it_is():
    state = np.random.RandomState(3)
    first = LazyRandomState(state).random_sample()
    assert first == np.random.RandomState(3).random_sample()
    assert LazyRandomState(state).random_sample() != first


def test_a_first_row_meets_a_bad_seed():
    with pytest.raises(ValueError, match="seed"):
        PBPRegressor(random_state="three").partial_fit(np.eye(3), np.arange(3.0))

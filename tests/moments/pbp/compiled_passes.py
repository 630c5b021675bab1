"""The compiled engine as functions of a state; models with known answers; states compared."""

from __future__ import annotations

import numpy as np

from bayesprop import codec
from bayesprop.moments.pbp.engine import passes
from bayesprop.moments.pbp.state import Gamma, init


def problem(sizes, n, seed=0):
    """A state before any row, and rows of noise."""
    rng = np.random.default_rng(seed)
    state = init(rng, sizes)
    return state, rng.normal(size=(n, sizes[0])), rng.normal(size=(n, sizes[-1]))


def linear_state(prior_var, d=0, *, noise_var=1.0, o=1, known=1e10):
    """A linear model with known prior and noise, as Gammas that are all but certain."""
    return init(
        np.random.default_rng(0),
        (d, o),
        weight_prior=Gamma(known, known * prior_var),
        noise_prior=Gamma(known, known * noise_var),
    )


def data_pass(state, x, y, order, weight=None, **rule):
    """Absorb rows; return the new state and the info."""
    ((after, info),) = passes(state, x, y, [[order]], weight, refreshes=False, **rule)
    return after, info


def train(state, x, y, orders, weight=None, **rule):
    """Run epochs; return the last state and the info of each."""
    epochs = ([order] for order in orders)
    states, infos = zip(*passes(state, x, y, epochs, weight, **rule), strict=True)
    return states[-1], infos


def assert_states_close(a, b, *, rtol, atol=0.0):
    """Compare two states array by array."""
    arrays = codec.write(b).arrays
    for name, array in codec.write(a).arrays.items():
        np.testing.assert_allclose(array, arrays[name], rtol=rtol, atol=atol, err_msg=name)

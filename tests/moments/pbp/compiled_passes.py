"""The compiled engine as functions of a state, and states compared array by array."""

from __future__ import annotations

import numpy as np

from bayesprop.moments.pbp.engine import Run


def data_pass(state, x, y, order, weight=None, **rule):
    """Absorb rows; return the new state and the info."""
    run = Run(state, x, y, weight, **rule)
    info = run.absorb(order)
    return run.state, info


def refresh_prior(state, **rule):
    """Refresh the prior factors; return the new state and the info."""
    run = Run(state, *(np.empty((0, state.layer_sizes[k])) for k in (0, -1)), **rule)
    info = run.refresh()
    return run.state, info


def train(state, x, y, orders, weight=None, **rule):
    """Run epochs; return the last state and the info of each."""
    run = Run(state, x, y, weight, **rule)
    infos = list(run.epochs(orders))
    return run.state, infos


def assert_states_close(a, b, *, rtol, atol=0.0):
    """Compare two states array by array."""
    arrays = b.to_arrays()
    for name, array in a.to_arrays().items():
        np.testing.assert_allclose(array, arrays[name], rtol=rtol, atol=atol, err_msg=name)

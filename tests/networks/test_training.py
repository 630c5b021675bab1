"""Epochs one after another: their trace, early stopping, and the guard against NaN."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprop.model.progress import Progress
from bayesprop.networks.gradient_method import GradientMethod, Info, Parameters
from bayesprop.networks.training import is_finite, train
from bayesprop.numerics.rows import Rows

DATA = Rows(jnp.arange(4.0)[:, None], jnp.zeros(4), jnp.ones(4))


class Count(NamedTuple):
    epochs: jax.Array
    noise: jax.Array


def counting(breaks_after=np.inf):
    """Build a method whose state counts its steps, one an epoch, and adds up random numbers."""

    def init(key, weights):
        del key, weights
        return Count(jnp.zeros(()), jnp.zeros(()))

    def update(key, state, batch):
        del batch
        epochs = state.epochs + 1.0
        broken = jnp.where(epochs > breaks_after, jnp.nan, 0.0)
        after = Count(epochs + broken, state.noise + jax.random.normal(key))
        return after, Info(epochs, -epochs, jnp.ones(()))

    def mean(state):
        return Parameters(state.epochs, state.noise)

    return GradientMethod(None, None, init, update, lambda _key, state: mean(state), mean)


def run(method, n_epochs, state=None, **options):
    state = method.init(None, None) if state is None else state
    return train(method, state, DATA, n_rows=4, seed=3, batch_size=4, n_epochs=n_epochs, **options)


def test_a_trace_holds_a_value_an_epoch():
    trained = run(counting(), 3)
    assert trained.trace == {
        "loss": [1.0, 2.0, 3.0],
        "mean_log_likelihood": [-1.0, -2.0, -3.0],
        "kl": [1.0, 1.0, 1.0],
    }
    assert trained.n_undone == 0


def test_an_epoch_has_its_own_key_whatever_came_before():
    method = counting()
    whole = run(method, 5).state
    half = run(method, 2).state
    resumed = run(method, 3, half, first_epoch=2).state
    assert float(resumed.noise) == float(whole.noise)
    assert float(run(method, 3, half).state.noise) != float(whole.noise)


@pytest.mark.parametrize("breaks_after", [0, 1, 4])
def test_the_epoch_that_leaves_the_numbers_is_undone_and_the_last(breaks_after):
    trained = run(counting(breaks_after), 10)
    assert trained.n_undone == 1
    assert float(trained.state.epochs) == breaks_after
    assert len(trained.trace["loss"]) == breaks_after


def held_out(state):
    """Best after four epochs."""
    return abs(float(state.epochs) - 4.0)


@pytest.mark.parametrize(("patience", "n_seen"), [(1, 5), (3, 7), (None, 20), (100, 20)])
def test_the_best_state_is_kept_and_patience_ends(patience, n_seen):
    trained = run(counting(), 20, validate=held_out, patience=patience)
    assert float(trained.state.epochs) == 4.0
    assert trained.trace["validation_loss"] == [abs(e - 4.0) for e in range(1, n_seen + 1)]
    assert len(trained.trace["loss"]) == n_seen


def test_no_improvement_at_all_keeps_the_first_epoch():
    trained = run(counting(), 20, validate=lambda state: float(state.epochs), patience=2)
    assert float(trained.state.epochs) == 1.0


def test_after_nan_the_best_state_is_returned():
    trained = run(counting(6), 20, validate=held_out, patience=10)
    assert trained.n_undone == 1
    assert float(trained.state.epochs) == 4.0


def test_a_line_an_epoch_on_request(capsys):
    run(counting(), 2, progress=Progress(1))
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.split()[:2] for line in told.err.splitlines()] == [["epoch", "1"], ["epoch", "2"]]


def test_finite_trees():
    assert is_finite({"a": jnp.ones(3), "b": (np.zeros(2), 1.0)})
    assert not is_finite({"a": jnp.array([1.0, jnp.inf])})
    assert not is_finite([jnp.array(jnp.nan)])

"""A process lives through more compilations than it has memory maps for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprop.estimators import fitting
from bayesprop.numerics import machine


@pytest.fixture
def few_maps(monkeypatch, tmp_path):
    """A system that grants this process ten maps."""
    (tmp_path / "most").write_text("10\n")
    monkeypatch.setattr(machine, "_MOST_MAPS", tmp_path / "most")


def test_programs_are_forgotten_when_they_crowd_the_process_and_compiled_again(few_maps):
    program = jax.jit(lambda x: jnp.tanh(x) + 2.0)
    before = np.asarray(program(jnp.ones(3)))
    assert program._cache_size() == 1
    assert machine.forget_when_crowded()
    assert program._cache_size() == 0
    np.testing.assert_array_equal(program(jnp.ones(3)), before)


def test_programs_stay_while_there_is_room_and_where_nobody_counts(monkeypatch, tmp_path):
    program = jax.jit(lambda x: jnp.tanh(x) - 2.0)
    program(jnp.ones(3))
    monkeypatch.setattr(machine, "_MOST_MAPS", tmp_path / "none")
    assert not machine.forget_when_crowded(0.0)
    (tmp_path / "none").write_text(str(2**31))
    assert not machine.forget_when_crowded()
    assert program._cache_size() == 1


def test_every_few_fits_look_after_it(few_maps, monkeypatch):
    calls = []
    monkeypatch.setattr(fitting, "forget_when_crowded", lambda: calls.append(1))
    fit = fitting.unharmed(lambda estimator: estimator)
    for _ in range(3 * fitting.FITS_A_LOOK):
        fit(fit)
    assert len(calls) == 3

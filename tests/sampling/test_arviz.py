"""What ArviZ is handed of chains."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bayesprop.estimators.inference_data import inference_data
from bayesprop.sampling import diagnostics
from bayesprop.sampling.mcmc import Chains

RNG = np.random.default_rng(0)
DRAWS = {"w": RNG.normal(size=(2, 30, 3, 1)), "log_precision": RNG.normal(size=(2, 30))}
DIVERGED = RNG.random((2, 30)) < 0.2
CHAINS = Chains(DRAWS, RNG.normal(size=(2, 30)), DIVERGED, np.array([0.8, 0.9]), np.ones(2))


def test_arviz_gets_every_draw_and_what_the_sampler_says():
    data = inference_data(diagnostics.arviz_groups(CHAINS))
    assert set(data.posterior.data_vars) == {"w", "log_precision"}
    np.testing.assert_array_equal(data.posterior["w"], DRAWS["w"])
    assert int(data.sample_stats["diverging"].sum()) == int(DIVERGED.sum()) > 0
    np.testing.assert_array_equal(data.sample_stats["lp"], CHAINS.log_density)
    np.testing.assert_array_equal(data.sample_stats["acceptance_rate"][:, 5], [0.8, 0.9])


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesprop\[arviz\]'"):
        inference_data(diagnostics.arviz_groups(CHAINS))

"""A second prediction of the same shape is no new program."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from bayesprop.catalogue import make

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = {"regression": X[:, 0] + 0.1 * RNG.normal(size=60), "classification": np.arange(60) % 2}
SETTINGS = {"mcmc": {"n_warmup": 2, "n_draws": 4, "n_chains": 2}}


@pytest.mark.parametrize("task", Y)
@pytest.mark.parametrize(
    "method",
    ["network", "deep-ensemble", "mc-dropout", "bayes-by-backprop", "graves-vi", "laplace", "mcmc"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_is_compiled_again(method, task, caplog):
    settings = SETTINGS.get(method, {"n_epochs": 1})
    model = make(method, task=task, hidden_layer_sizes=(3,), random_state=0, **settings)
    model.fit(X, Y[task]).predict(X[:20])
    with jax.log_compiles():
        model.predict(X[20:40])
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]
    jax.clear_caches()
    with jax.log_compiles():
        model.predict(X[20:40])
    assert [record for record in caplog.records if "Compiling" in record.getMessage()]

"""A forked process refuses at once what would wait for ever, and does the rest."""

import multiprocessing
import sys

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import BayesianLinearRegressor, LaplaceRegressor

X = np.random.default_rng(0).normal(size=(30, 2))
TABLE = pl.DataFrame({"a": X[:, 0], "y": X[:, 1]})
SMALL = LaplaceRegressor(hidden_layer_sizes=(2,), n_epochs=1, random_state=0)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="os.fork")


def forked(act):
    """Say what an act in a forked child came to: a number of rows, or an error."""
    here, there = multiprocessing.Pipe()

    def child():
        try:
            there.send(len(act()))
        except RuntimeError as error:
            there.send(str(error))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    answer = here.recv() if here.poll(10.0) else "hangs"
    process.kill()
    process.join()
    return answer


@pytest.mark.filterwarnings("ignore")
def test_a_forked_process_predicts_or_refuses_at_once():
    linear = BayesianLinearRegressor().fit(X, X[:, 0])
    jax = SMALL.fit(X, X[:, 0])
    table = bayesprop.fit(TABLE, target="y", method="linear")
    assert len(jax.predict(X)) == len(table.predict(TABLE)) == 30
    assert forked(lambda: linear.predict(X)) == 30
    for library, act in [
        ("JAX", lambda: jax.predict(X)),
        ("JAX", lambda: [SMALL.fit(X, X[:, 0])]),
        ("Polars", lambda: table.predict(TABLE)),
        ("Polars", lambda: [bayesprop.fit(TABLE, target="y")]),
    ]:
        refusal = forked(act)
        assert f"{library} cannot be used here" in str(refusal)
        assert "'forkserver'" in str(refusal)
    assert len(jax.predict(X)) == 30  # the parent goes on

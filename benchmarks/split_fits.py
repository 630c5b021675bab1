"""`python -m benchmarks.split_fits`: the 20 splits of a small set, one by one and together.

Boston's size, 50 hidden units, 40 epochs, 32 rows a step. Together, every split is a member of one
ensemble that has its own rows, so that one compiled loop trains them all.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesprop.cli.console import print_table
from bayesprop.estimators.mc_dropout import MCDropoutRegressor
from bayesprop.estimators.point_network import DeepEnsembleRegressor, PointNetworkRegressor
from bayesprop.networks.likelihoods import LearnedNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics import loops
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.deep_ensemble import Lessons, deep_ensemble
from bayesprop.sampling.point_network import point_network
from benchmarks.problems import BOSTON, best_seconds, problem

N_SPLITS = 20
N_EPOCHS = 40
N_ROWS = 100_000
_BATCH_SIZE = 32


def measure() -> list[tuple[str, str, str]]:
    """Time whole estimators one by one, then the loop that trains all splits at once.

    Seconds for all splits, compiled code at hand; rows a second of `predict`.
    """
    data = problem(BOSTON, n_epochs=1)
    rows = np.random.default_rng(0).standard_normal((N_ROWS, BOSTON.d))
    lines = []
    for estimator in (PointNetworkRegressor, MCDropoutRegressor, DeepEnsembleRegressor):
        model = estimator(BOSTON.hidden, N_EPOCHS, random_state=0)

        def fit_all(model=model) -> None:
            for _ in range(N_SPLITS):
                model.fit(data.x, data.y[:, 0])

        def predict(model=model) -> None:
            model.predict(rows, return_std=True)

        model.fit(data.x, data.y[:, 0])
        predict()
        seconds = best_seconds(fit_all, n_runs=2)
        speed = N_ROWS / best_seconds(predict, n_runs=3)
        lines.append((f"{estimator.__name__}, one by one", f"{seconds:.2f}", f"{speed:,.0f}"))
    together = best_seconds(_all_at_once(data.x, data.y), n_runs=3)
    return [*lines, ("point network, together", f"{together:.2f}", "")]


def _all_at_once(x: np.ndarray, y: np.ndarray):
    member = point_network(plain_apply, LearnedNoise(1), optax.adam(1e-2))
    method = deep_ensemble(member, n_members=N_SPLITS)
    every = Rows(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.ones(len(x)))
    rng = np.random.default_rng(0)
    chosen = np.stack([rng.permutation(len(x)) for _ in range(N_SPLITS)], axis=1)
    orders = Rows(jnp.asarray(chosen), (), jnp.ones(len(chosen)))
    keys = jax.random.split(jax.random.key(0), N_SPLITS)
    sizes = (BOSTON.d, *BOSTON.hidden, 1)
    start = method.init(keys[0], jax.vmap(lambda key: init_weights(key, sizes))(keys))

    def train() -> None:
        state = Lessons(start, every, jnp.float32(len(x)))
        for key in jax.random.split(jax.random.key(1), N_EPOCHS):
            state, _ = loops.epoch(method.update, state, key, orders, batch_size=_BATCH_SIZE)
        jax.block_until_ready(state)

    train()
    return train


def main() -> None:
    """Print the table."""
    title = f"{N_SPLITS} splits x {N_EPOCHS} epochs of boston's size"
    print_table(title, ("what", "seconds", "predict, rows/s"), measure(), right=(1, 2))


if __name__ == "__main__":
    main()

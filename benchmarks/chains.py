"""Seconds of NUTS on a small network, ours beside NumPyro's and bare BlackJAX's, of one model.

python -m benchmarks.chains            a minute; NumPyro from the test dependencies
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model

from bayesprop import MCMCRegressor
from bayesprop.cli.console import print_table

N_HIDDEN, N_ROWS, N_WARMUP, N_DRAWS, N_REPLICAS, N_RUNS = 10, 30, 500, 500, 40, 7
RNG = np.random.default_rng(0)
X = RNG.uniform(-4.0, 4.0, (N_ROWS, 1))
Y = X[:, 0] ** 3 + 3.0 * RNG.normal(size=N_ROWS)
X, Y = (X - X.mean()) / X.std(), (Y - Y.mean()) / Y.std()


def model(x: jax.Array, y: jax.Array) -> None:
    """State the estimator's model in NumPyro's words."""
    weight_prec = numpyro.sample("weight_prec", dist.Gamma(6.0, 6.0))
    noise_prec = numpyro.sample("noise_prec", dist.Gamma(6.0, 6.0))
    normal = dist.Normal(0.0, weight_prec**-0.5)
    w1 = numpyro.sample("w1", normal.expand([2, N_HIDDEN]).to_event(2))
    w2 = numpyro.sample("w2", normal.expand([N_HIDDEN + 1, 1]).to_event(2))
    hidden = jax.nn.relu((x @ w1[:-1] + w1[-1]) / jnp.sqrt(2.0))
    f = ((hidden @ w2[:-1] + w2[-1]) / jnp.sqrt(N_HIDDEN + 1.0))[:, 0]
    numpyro.sample("y", dist.Normal(f, noise_prec**-0.5), obs=y)


def ours(seed: int, n_chains: int = 1) -> None:
    """Fit the estimator; some of the time is for starts and diagnostics."""
    sizes = {"n_warmup": N_WARMUP, "n_draws": N_DRAWS, "n_chains": n_chains}
    MCMCRegressor((N_HIDDEN,), random_state=seed, **sizes).fit(X, Y)


def bare() -> Callable[[int], object]:
    """Return a chain of BlackJAX, one compiled program, on the density of the model."""
    start = initialize_model(jax.random.key(0), model, model_args=(jnp.array(X), jnp.array(Y)))

    def log_density(position: dict[str, jax.Array]) -> jax.Array:
        return -start.potential_fn(position)

    @jax.jit
    def chain(key: jax.Array) -> jax.Array:
        warming, drawing = jax.random.split(key)
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, settings), _ = warm_up.run(warming, start.param_info.z, N_WARMUP)
        step = blackjax.nuts(log_density, **settings).step

        def draw(state: Any, key: jax.Array) -> tuple[Any, Any]:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(draw, state, jax.random.split(drawing, N_DRAWS))[1]

    return lambda seed: jax.block_until_ready(chain(jax.random.key(seed)))


def timed(run: Callable[[int], object], n_runs: int) -> list[float]:
    """Seconds of every run but the first, which compiles."""
    run(0)
    found = []
    for seed in range(1, n_runs + 1):
        started = time.perf_counter()
        run(seed)
        found.append(time.perf_counter() - started)
    return found


def main() -> None:
    """Print best and median seconds, and how they compare."""
    warnings.simplefilter("ignore")
    theirs = MCMC(
        NUTS(model), num_warmup=N_WARMUP, num_samples=N_DRAWS, progress_bar=False,
        jit_model_args=True,
    )  # fmt: skip
    of_theirs = timed(lambda seed: theirs.run(jax.random.key(seed), jnp.array(X), Y), N_RUNS)
    of_bare = timed(bare(), N_RUNS)
    of_ours = timed(ours, N_RUNS)
    many = timed(lambda seed: ours(seed, N_REPLICAS), 3)
    of_many = f"MCMCRegressor, {N_REPLICAS} chains in threads"
    print_table(
        f"NUTS, {N_WARMUP} + {N_DRAWS} draws, 1x{N_HIDDEN} units, {N_ROWS} rows; seconds, compiled",
        ("what", "best", "median"),
        [
            (name, f"{min(seconds):.2f}", f"{median(seconds):.2f}")
            for name, seconds in (
                ("NumPyro, one chain, what it traces anew included", of_theirs),
                ("BlackJAX alone, one chain", of_bare),
                ("MCMCRegressor, one chain", of_ours),
                (of_many, many),
            )
        ],
        right=(1, 2),
    )


if __name__ == "__main__":
    main()

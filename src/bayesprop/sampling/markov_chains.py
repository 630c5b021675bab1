"""Markov chains over a network's weights, as a method: starts, draws, diagnostics, predictions.

The samplers are `mcmc.py`'s, the measures of agreement `diagnostics.py`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, PRNGKeyArray, PyTree

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Drawn, Learned
from bayesprop.model.progress import Progress
from bayesprop.networks import draws, posterior
from bayesprop.networks.gradient_method import Parameters
from bayesprop.networks.likelihoods import Categorical, NetworkLikelihood
from bayesprop.networks.mlp import mlp_apply, plain_apply
from bayesprop.networks.posterior import GammaPrior, Position, PosteriorModel
from bayesprop.networks.training import FURTHEST_INPUT, as_float64, predictive, rows_of_draws
from bayesprop.numerics.filling import blocks, device_rows, padded
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.graphs import ClassNodes, Node, NumberNodes
from bayesprop.numerics.machine import random_key
from bayesprop.numerics.rows import Rows
from bayesprop.sampling import diagnostics
from bayesprop.sampling.diagnostics import Diagnostics
from bayesprop.sampling.mcmc import Chains, LogDensity, Plan, sample_chains

_LOOKED_AT = 8
"""Training rows whose predictions are part of the diagnostics."""

_ONE_CHAIN = (
    "one chain, or less than four draws, cannot tell whether it has converged: set n_chains to 2 "
    "or more"
)


class ChainState(NamedTuple):
    """All draws (`diverged` as 0 and 1), and how well the chains agree."""

    chains: Chains
    diagnostics: Diagnostics | None


@lru_cache(maxsize=64)
def network_posterior(
    activation: str,
    likelihood: NetworkLikelihood,
    weight_precision: float | GammaPrior,
    noise_prior: GammaPrior,
) -> PosteriorModel:
    """Build the posterior of a network's weights; always the very same for equal arguments."""
    apply = partial(mlp_apply, activation_name=activation)
    return PosteriorModel(apply, likelihood, weight_precision, noise_prior)


@dataclass(frozen=True)
class MarkovChains:
    """Runs chains from different starts; a prediction averages over all their draws.

    sizes
        Inputs, hidden units of every layer, outputs.
    plan
        How a chain is run.
    """

    model: PosteriorModel
    sizes: tuple[int, ...]
    n_chains: int
    plan: Plan

    furthest_input = FURTHEST_INPUT

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time, so that all draws of them fit into memory."""
        return rows_of_draws(self.model.likelihood, self.n_chains * self.plan.n_draws)

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Run the chains."""
        started, plan = time.perf_counter(), self.plan
        chains = self._sampled(rows, random_key(int(rng.randint(2**31))), progress)
        found = self._diagnosed(chains, rows)
        n_iter = plan.n_warmup + plan.n_draws * plan.thin
        report = FitReport(
            n_rows=len(rows.x),
            n_epochs=chains.log_density.shape[1],
            seconds=time.perf_counter() - started,
            n_updates=self.n_chains * n_iter,
            guards={"diverged": int(chains.diverged.sum())},
            trace={},
            warnings=[_ONE_CHAIN] if found is None else diagnostics.advice(found),
            step="draw",
            chains=diagnostics.traced(self.identified(chains), found),
        )
        return Learned(ChainState(chains, found), report, n_iter)

    def _sampled(self, data: Rows, key: PRNGKeyArray, progress: Progress) -> Chains:
        key_start, key = jax.random.split(key)
        keys = jax.random.split(key_start, self.n_chains)
        starts = [_start(self.model, self.sizes, key) for key in keys]
        rows = device_rows(data, blocks(len(data.x)))
        density = _of_model(posterior.log_posterior, self.model)
        chains = sample_chains(density, starts, key, self.plan, data=(rows,), progress=progress)
        # Files hold numbers, not truth values.
        return chains._replace(diverged=chains.diverged.astype(np.int32))

    def _diagnosed(self, chains: Chains, rows: Rows) -> Diagnostics | None:
        """Compare the chains by what is identified: weights can swap, predictions cannot."""
        n_chains, n_draws = chains.log_density.shape
        if n_chains < 2 or n_draws < diagnostics.LEAST_DRAWS:
            return None
        x = jnp.asarray(rows.x[:_LOOKED_AT], jnp.float32)
        outputs = np.asarray(_outputs(self.model, chains.pooled().weights, x))
        predictions = outputs.reshape(*chains.log_density.shape, -1)
        return diagnostics.diagnose(
            chains, of=self.identified(chains) | {"prediction": predictions}
        )

    def identified(self, chains: Chains) -> dict[str, PyTree]:
        """Return what chains should agree on, beside predictions; leading axes (c, s)."""
        quantities: dict[str, PyTree] = {"log_density": chains.log_density}
        if isinstance(self.model.weight_precision, tuple):
            quantities["log_weight_precision"] = chains.draws.log_precision
        if jax.tree.leaves(chains.draws.likelihood):
            quantities["log_noise_var"] = chains.draws.likelihood
        return quantities

    def predict(self, state: ChainState, x: np.ndarray) -> Predictive | ClassPredictive:
        """Average over all draws."""
        return predictive(self._predicted(state.chains.pooled(), x), len(x))

    def _predicted(self, positions: Position, x: np.ndarray) -> Gaussian | draws.ClassMoments:
        """Predict by some draws, on the device."""
        rows = jnp.asarray(padded(x), jnp.float32)
        return draws.predict_networks(self.model.apply, self.model.likelihood, positions, rows)

    def graph(self, state: ChainState, x: Node) -> NumberNodes | ClassNodes:
        """Write `predict` as a graph of ONNX, in float64; ValueError for settings without one."""
        position, scaled = state.chains.pooled(), cast(partial, self.model.apply)
        weights = tuple(np.asarray(w) / np.sqrt(w.shape[1]) for w in position.weights)
        networks = Parameters(weights, position.likelihood)
        apply = partial(plain_apply, **scaled.keywords)
        return draws.graph(apply, self.model.likelihood, networks, x)

    def draw(self, state: ChainState, x: np.ndarray, rng: np.random.RandomState, n: int) -> Drawn:
        """Draw functions of the chains at random; as many as there are come each of them once."""
        key, positions = random_key(int(rng.randint(2**31))), state.chains.pooled()
        if n != state.chains.n_draws:
            chosen = np.asarray(jax.random.randint(key, (n,), 0, state.chains.n_draws))
            positions = jax.tree.map(lambda leaf: leaf[chosen], positions)
        order = rng.permutation(n)
        f, noise_var = (part[order] for part in as_float64(self._predicted(positions, x), len(x)))
        return Drawn.of(f, noise_var, rng)

    @property
    def state_kind(self) -> ChainState:
        """What a file of c chains and s draws of each must hold."""
        one = jax.eval_shape(lambda: _start(self.model, self.sizes, random_key(0)))
        draws = jax.tree.map(
            lambda leaf: Float32[np.ndarray, " ".join(["c s", *map(str, leaf.shape)])], one
        )
        a_draw, a_chain = Float32[np.ndarray, "c s"], Float32[np.ndarray, " c"]
        kinds: Any = draws, a_draw, Int32[np.ndarray, "c s"], a_chain, a_chain
        agreement: Any = Diagnostics | None
        return ChainState(Chains(*kinds), agreement)

    def check_state(self, state: ChainState) -> None:
        """Raise ValueError unless there are draws, and no more than were asked for."""
        shape, most = state.chains.log_density.shape, (self.n_chains, self.plan.n_draws)
        if not all(0 < n <= m for n, m in zip(shape, most, strict=True)):
            raise ValueError(f"draws must be those of {most} chains and draws at most, got {shape}")


@lru_cache(maxsize=64)
def _of_model(density: Callable[..., Array], model: PosteriorModel) -> LogDensity:
    """Return the density of a model, always the very same: its identity keys compilation."""
    return partial(density, model)


@partial(jax.jit, static_argnums=(0, 1))
def _start(model: PosteriorModel, sizes: tuple[int, ...], key: PRNGKeyArray) -> Position:
    """Draw weights from their prior at a precision of one."""
    keys = jax.random.split(key, len(sizes) - 1)
    weights = tuple(
        jax.random.normal(key, (n_in + 1, n_out))
        for key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )
    return posterior.start(model, weights)


@partial(jax.jit, static_argnums=0)
def _outputs(
    model: PosteriorModel, weights: PyTree, x: Float[Array, "n d"]
) -> Float[Array, "s n k"]:
    """Compute the outputs of every network at some rows; of a classifier log probabilities."""

    def one(w: PyTree) -> Float[Array, "n k"]:
        f = jax.vmap(partial(model.apply, w))(x)
        return jax.nn.log_softmax(f) if isinstance(model.likelihood, Categorical) else f

    return jax.lax.map(one, weights)

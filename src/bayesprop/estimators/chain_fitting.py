"""How the estimators of Markov chain Monte Carlo check, sample, diagnose and store."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache, partial
from numbers import Integral
from typing import Any, Literal, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.advice import warn
from bayesprop.estimators.checks import check_choice, check_int, check_positive
from bayesprop.estimators.inputs import FURTHEST_FLOAT32_INPUT, standardised_inputs
from bayesprop.estimators.network import device_rows
from bayesprop.estimators.stored_network import network_header, restore_network
from bayesprop.model import posterior
from bayesprop.model.fit_report import ChainTrace, FitReport
from bayesprop.model.layers import activation as activation_named
from bayesprop.model.network_likelihoods import Categorical, NetworkLikelihood
from bayesprop.model.networks import mlp_apply
from bayesprop.model.posterior import SIX, GammaPrior, Position, PosteriorModel
from bayesprop.numerics.filling import blocks, filled
from bayesprop.numerics.loops import Rows
from bayesprop.sampling import diagnostics
from bayesprop.sampling.diagnostics import Diagnostics
from bayesprop.sampling.mcmc import SAMPLERS, Chains, Plan, Sampler, sample_chains
from bayesprop.sampling.sgmcmc import DYNAMICS, Dynamics, StochasticPlan, sample_stochastic

_LOOKED_AT = 8
"""Training rows whose predictions are part of the diagnostics."""

"""Tables are filled up to a multiple of this with rows that weigh nothing."""

_MOST_TRACED = 500
"""Draws of a chain that the fit report keeps, evenly spaced."""

_LEFT_THE_NUMBERS = (
    "the chains left the finite numbers: lower step_size, or choose sampler='nuts', which rejects "
    "such steps"
)


class _Fitted:
    """What a fit leaves."""

    state_: Chains
    seed_: int
    n_iter_: int
    n_features_in_: int
    fit_report_: FitReport
    diagnostics_: Diagnostics | None
    random_state: Any


@dataclass(eq=False, repr=False, kw_only=True)
class ChainFitting(_Fitted):
    """What both have; mixed into a regressor or classifier."""

    hidden_layer_sizes: tuple[int, ...] = field(default=(10,), kw_only=False)
    sampler: Literal["nuts", "hmc", "random-walk", "sgld", "sghmc"] = "nuts"
    n_chains: int = 4
    n_warmup: int = 500
    n_draws: int = 250
    thin: int = 1
    target_acceptance: float = 0.8
    n_leapfrog: int = 20
    batch_size: int = 32
    step_size: float = 1e-2
    activation: str = "relu"
    weight_precision: tuple[float, float] | float = SIX

    @abstractmethod
    def _likelihood(self) -> NetworkLikelihood:
        """Return the likelihood of standardised targets."""

    def _check_hyper_parameters(self) -> None:
        for size in np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)):
            check_int("hidden_layer_sizes", size, of="hold ints")
        check_choice("sampler", self.sampler, (*SAMPLERS, *DYNAMICS))
        for name in ("n_chains", "n_draws", "thin", "n_leapfrog", "batch_size"):
            check_int(name, getattr(self, name))
        check_int("n_warmup", self.n_warmup, least=int(self.sampler in ("nuts", "hmc")))
        check_positive("step_size", self.step_size)
        check_positive("target_acceptance", self.target_acceptance)
        if self.target_acceptance >= 1.0:
            raise ValueError(f"target_acceptance must be < 1, got {self.target_acceptance!r}")
        activation_named(self.activation)
        check_precision("weight_precision", self.weight_precision)

    def _goes_on(self) -> bool:
        return False

    def _standardised(self, X: np.ndarray, first_row: int = 0) -> np.ndarray:
        return standardised_inputs(self, X, first_row, furthest=FURTHEST_FLOAT32_INPUT)

    def _n_draws(self) -> int:
        return self.state_.n_draws

    def _draws_key(self) -> Any:
        return jax.random.key(self.seed_)

    def _model(self) -> PosteriorModel:
        return PosteriorModel(
            _network(self.activation),
            self._likelihood(),
            numbers(self.weight_precision),
            self._noise_prior(),
        )

    def _noise_prior(self) -> GammaPrior:
        """Return the prior of the noise's precision, where it is learnt."""
        return SIX

    def _sizes(self) -> tuple[int, ...]:
        sizes: Any = self.hidden_layer_sizes
        hidden = (int(sizes),) if isinstance(sizes, Integral) else tuple(int(h) for h in sizes)
        return (self.n_features_in_, *hidden, self._likelihood().n_outputs)

    def _fit_rows(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Self:
        """Run the chains on standardised rows; y as the likelihood takes it."""
        started = time.perf_counter()
        self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        model, rows = self._model(), device_rows(x, y, weight)
        key_start, key_chains = jax.random.split(jax.random.key(self.seed_))
        keys = jax.random.split(key_start, self.n_chains)
        starts = [_start(model, self._sizes(), key) for key in keys]
        chains = self._sampled(model, starts, key_chains, rows)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(chains.draws)):
            raise FloatingPointError(_LEFT_THE_NUMBERS)
        # Files hold numbers, not truth values.
        self.state_ = chains._replace(diverged=chains.diverged.astype(np.int32))
        self.n_iter_ = self.n_warmup + self.n_draws * self.thin
        self.diagnostics_ = self._diagnosed(model, rows)
        self.fit_report_ = self._report(len(x), time.perf_counter() - started)
        return self

    def _sampled(
        self, model: PosteriorModel, starts: list[Position], key: Any, rows: Rows
    ) -> Chains:
        if self.sampler in DYNAMICS:
            plan = StochasticPlan(
                cast(Dynamics, self.sampler),
                n_warmup=int(self.n_warmup),
                n_draws=int(self.n_draws),
                thin=int(self.thin),
                batch_size=int(self.batch_size),
                step_size=float(self.step_size),
            )
            return sample_stochastic(_density(model).estimate, starts, key, rows, plan)
        plan = Plan(
            cast(Sampler, self.sampler),
            n_warmup=int(self.n_warmup),
            n_draws=int(self.n_draws),
            thin=int(self.thin),
            target_acceptance=float(self.target_acceptance),
            n_leapfrog=int(self.n_leapfrog),
        )
        rows = filled(*rows, blocks(len(rows.weight)))
        return sample_chains(_density(model).whole, starts, key, plan, data=(rows,))

    def _diagnosed(self, model: PosteriorModel, rows: Rows) -> Diagnostics | None:
        """Compare the chains by what is identified: weights can swap, predictions cannot."""
        if self.n_chains < 2 or self.n_draws < diagnostics.LEAST_DRAWS:
            return None
        chains = self.state_
        outputs = _outputs(model, chains.pooled().weights, rows.x[:_LOOKED_AT])
        predictions = np.asarray(outputs).reshape(*chains.log_density.shape, -1)
        return diagnostics.diagnose(chains, of=self._identified() | {"prediction": predictions})

    def _identified(self) -> dict[str, Any]:
        """Return what the chains should agree on, beside predictions; leading axes (c, s)."""
        chains = self.state_
        found: dict[str, Any] = {"log_density": chains.log_density}
        if isinstance(numbers(self.weight_precision), tuple):
            found["log_weight_precision"] = chains.draws.log_precision
        if jax.tree.leaves(chains.draws.likelihood):
            found["log_noise_var"] = chains.draws.likelihood
        return found

    def _traced(self) -> dict[str, ChainTrace]:
        """Return every so many draws of what is identified, with its diagnostics."""
        step, found = -(-self.n_draws // _MOST_TRACED), self.diagnostics_
        places = {} if found is None else {name: i for i, name in enumerate(found.names)}
        traced = {}
        for name, values in diagnostics.coordinates(self._identified()).items():
            i = places.get(name)
            numbers = (None, None) if found is None or i is None else (
                float(found.r_hat[i]), float(min(found.ess_bulk[i], found.ess_tail[i]))
            )  # fmt: skip
            finite = (None if x is None or np.isnan(x) else x for x in numbers)
            traced[name] = ChainTrace(values[:, ::step].astype(float).tolist(), *finite)
        return traced

    def _report(self, n_rows: int, seconds: float) -> FitReport:
        found = self.diagnostics_
        advice = [_ONE_CHAIN] if found is None else diagnostics.advice(found)
        warn(advice)
        return FitReport(
            n_rows=n_rows,
            n_epochs=self.n_draws,
            seconds=seconds,
            n_updates=self.n_chains * self.n_iter_,
            guards={"diverged": int(self.state_.diverged.sum())},
            trace={},
            warnings=advice,
            step="draw",
            chains=self._traced(),
        )

    def to_inference_data(self) -> Any:
        """Hand the draws, in standardised units, to ArviZ: trace plots, summaries, comparisons.

        ImportError where ArviZ is not installed.
        """
        check_is_fitted(self)
        return diagnostics.to_inference_data(self.state_)

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = network_header(self)
        found = self.diagnostics_
        stored = None if found is None else {k: _plain(v) for k, v in found._asdict().items()}
        return header | {"diagnostics": stored}, arrays

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model = restore_network(cls, header, arrays, lambda model: model._shape_of_state())
        model.state_ = jax.tree.map(np.asarray, model.state_)
        stored = header["diagnostics"]
        if stored is not None:
            stored = Diagnostics(**{k: _array(v) for k, v in stored.items()})
        model.diagnostics_ = stored
        return model

    def _shape_of_state(self) -> Chains:
        """Say what a file must hold."""
        shape = (self.n_chains, self.n_draws)
        model, key = self._model(), jax.random.key(0)
        one = jax.eval_shape(lambda: _start(model, self._sizes(), key))
        many = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(shape + leaf.shape, leaf.dtype), one)
        numbers = jax.ShapeDtypeStruct(shape, jnp.float32)
        a_chain = jax.ShapeDtypeStruct(shape[:1], jnp.float32)
        truth = jax.ShapeDtypeStruct(shape, jnp.int32)
        return Chains(many, cast(Any, numbers), cast(Any, truth), *cast(Any, (a_chain, a_chain)))


_ONE_CHAIN = (
    "one chain, or less than four draws, cannot tell whether it has converged: set n_chains to 2 "
    "or more"
)


def check_precision(name: str, value: Any, *, known: bool = True) -> None:
    """Raise ValueError unless value is a Gamma prior or, where it may be `known`, a number."""
    try:
        shape, rate = (value, value) if known and np.ndim(value) == 0 else value
        check_positive(name, shape)
        check_positive(name, rate)
    except (TypeError, ValueError):
        alone = "a number > 0 or " if known else ""
        raise ValueError(
            f"{name} must be {alone}(shape > 0, rate > 0) of a Gamma prior, got {value!r}"
        ) from None


def numbers(value: Any) -> Any:
    """Turn a checked precision into plain numbers, which key compilation."""
    return float(value) if np.ndim(value) == 0 else (float(value[0]), float(value[1]))


class _Density:
    """The log posterior of a model, whole and estimated, as functions that stay the same."""

    def __init__(self, model: PosteriorModel) -> None:
        self.whole = partial(posterior.log_posterior, model)
        self.estimate = partial(posterior.log_posterior_estimate, model)


@lru_cache(maxsize=64)
def _density(model: PosteriorModel) -> _Density:
    return _Density(model)


@lru_cache(maxsize=8)
def _network(activation: str) -> Any:
    return partial(mlp_apply, activation_name=activation)


@partial(jax.jit, static_argnums=(0, 1))
def _start(model: PosteriorModel, sizes: tuple[int, ...], key: Any) -> Position:
    """Draw weights from their prior at a precision of one."""
    keys = jax.random.split(key, len(sizes) - 1)
    weights = tuple(
        jax.random.normal(key, (n_in + 1, n_out))
        for key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )
    return posterior.start(model, weights)


@partial(jax.jit, static_argnums=0)
def _outputs(model: PosteriorModel, weights: Any, x: Any) -> Any:
    """Compute the outputs of every network at some rows; of a classifier log probabilities."""

    def one(w: Any) -> Any:
        f = jax.vmap(partial(model.apply, w))(x)
        return jax.nn.log_softmax(f) if isinstance(model.likelihood, Categorical) else f

    return jax.lax.map(one, weights)


def _plain(value: Any) -> Any:
    """Make a field of the diagnostics JSON-ready; NaN has no place in JSON."""
    if isinstance(value, np.ndarray):
        return [None if np.isnan(x) else float(x) for x in value]
    return value


def _array(value: Any) -> Any:
    if isinstance(value, list) and not all(isinstance(x, str) for x in value):
        return np.array([np.nan if x is None else float(x) for x in value])
    return value

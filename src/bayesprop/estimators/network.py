"""What the regressors and classifiers share that train a network by gradient steps.

A concrete estimator says how its method is built (`_build`); the rest is here: checks, training,
prediction from draws, and the way to a file and back.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_random_state

from bayesprop.estimators.advice import warn
from bayesprop.estimators.checks import check_int
from bayesprop.estimators.drawn import DrawsClassifier, DrawsRegressor
from bayesprop.estimators.inputs import (
    FURTHEST_FLOAT32_INPUT,
    padded,
    standardised_inputs,
)
from bayesprop.estimators.pruned import forget, goes_on
from bayesprop.estimators.stored_network import network_header, restore_network
from bayesprop.model import draws
from bayesprop.model.fit_report import FitReport
from bayesprop.model.gradient_method import Apply, GradientMethod
from bayesprop.model.method import Progress
from bayesprop.model.network_likelihoods import GaussianNoise, NetworkLikelihood
from bayesprop.model.networks import init_weights
from bayesprop.model.training import Trained, train
from bayesprop.numerics.filling import filled, slots
from bayesprop.numerics.loops import Rows

_DRAW_VALUES = 8_000_000


class Built(NamedTuple):
    """A method, and the network and likelihood that it was built for."""

    method: GradientMethod
    apply: Apply
    likelihood: NetworkLikelihood


class NetworkFitting(ABC):
    """Training and storage; mixed into a regressor or classifier.

    Hyper-parameters that every such estimator has: hidden_layer_sizes, n_epochs, batch_size,
    n_draws, warm_start, random_state, verbose.
    """

    hidden_layer_sizes: Any
    n_epochs: Any
    batch_size: Any
    n_draws: Any
    warm_start: bool
    random_state: Any
    verbose: int
    state_: Any
    n_iter_: int
    seed_: int
    n_features_in_: int
    fit_report_: FitReport

    @abstractmethod
    def _build(self) -> Built:
        """Return method, network and likelihood for the present hyper-parameters and data.

        Must return the very same functions for the same configuration (an lru_cache does it):
        their identity keys JAX's compilation.
        """

    def _check_hyper_parameters(self) -> None:
        """Check those that every network has; a subclass adds its own."""
        for size in np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)):
            check_int("hidden_layer_sizes", size, of="hold ints")
        for name in ("n_epochs", "batch_size", "n_draws"):
            check_int(name, getattr(self, name))

    def _hidden_sizes(self) -> tuple[int, ...]:
        sizes = self.hidden_layer_sizes
        return (int(sizes),) if isinstance(sizes, Integral) else tuple(int(h) for h in sizes)

    def _standardised(self, X: np.ndarray, first_row: int = 0) -> np.ndarray:
        return standardised_inputs(self, X, first_row, furthest=FURTHEST_FLOAT32_INPUT)

    def _sizes(self, likelihood: NetworkLikelihood) -> tuple[int, ...]:
        return (self.n_features_in_, *self._hidden_sizes(), likelihood.n_outputs)

    def _goes_on(self) -> bool:
        return goes_on(self)

    def _initial_state(self, built: Built) -> Any:
        return _started(built.method.init, self._sizes(built.likelihood), self.seed_)

    def _fit_rows(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Self:
        """Train on standardised rows; y as the likelihood takes it."""
        started = time.perf_counter()
        is_start = not self._goes_on()
        forget(self)
        if is_start:
            self.seed_ = int(check_random_state(self.random_state).randint(2**31))
            self.n_iter_ = 0
        built = self._build()
        state = self._initial_state(built) if is_start else self.state_
        trained = self._train(built, state, x, y, weight)
        self.state_ = trained.state
        self.n_iter_ += len(trained.trace["loss"])
        self.fit_report_ = self._report(trained, len(x), time.perf_counter() - started)
        return self

    def _train(
        self, built: Built, state: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None
    ) -> Trained:
        """Train on all rows; a subclass may hold some out for early stopping."""
        return train(
            built.method,
            state,
            device_rows(x, y, weight, slots(len(x))),
            n_rows=len(x),
            seed=self.seed_,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            first_epoch=self.n_iter_,
            progress=Progress(self.verbose),
        )

    def _report(self, trained: Trained, n_rows: int, seconds: float) -> FitReport:
        advice = self._advice(trained)
        warn(advice)
        n_epochs = len(trained.trace["loss"])
        return FitReport(
            n_rows=n_rows,
            n_epochs=n_epochs,
            seconds=seconds,
            n_updates=n_epochs * -(-n_rows // min(self.batch_size, n_rows)),
            guards={"epochs_undone": trained.n_undone},
            trace=trained.trace,
            warnings=advice,
        )

    def _advice(self, trained: Trained) -> list[str]:
        if not trained.n_undone:
            return []
        return [
            f"epoch {len(trained.trace['loss']) + 1} left the finite numbers and was undone, and "
            "training stopped: lower learning_rate"
        ]

    def _draws_key(self) -> Any:
        return jax.random.fold_in(jax.random.key(self.seed_), 2**31 - 1)

    def _n_draws(self) -> int:
        return self.n_draws

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        return network_header(self)

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted estimator from what `_to_stored` gave."""
        return restore_network(
            cls,
            header,
            arrays,
            lambda model: jax.eval_shape(lambda: model._initial_state(model._build())),
        )


class NetworkRegressor(NetworkFitting, DrawsRegressor):
    """Base of the regressors that train a network and predict by draws of its weights."""

    def _observations(self, x: np.ndarray, key: Any, n_draws: int) -> draws.Observed:
        built = self._build()
        drawn = draws.observations(
            built.apply,
            built.method.sample,
            cast(GaussianNoise, built.likelihood),
            key,
            self.state_,
            jnp.asarray(padded(x), jnp.float32),
            n_draws=n_draws,
        )
        return draws.Observed(*(part[:, : len(x)] for part in drawn))


class NetworkClassifier(NetworkFitting, DrawsClassifier):
    """Base of the classifiers that train a network and predict by draws of its weights."""

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        built = self._build()
        found = draws.class_moments(
            built.apply,
            built.method.sample,
            self._draws_key(),
            self.state_,
            jnp.asarray(padded(x), jnp.float32),
            n_draws=self._n_draws(),
        )
        rows = slice(len(x))
        return np.asarray(found.proba)[rows], np.asarray(found.expected_entropy)[rows]


@partial(jax.jit, static_argnames=("init", "sizes"))
def _started(init: Callable[[Any, Any], Any], sizes: tuple[int, ...], seed: int) -> Any:
    """Draw the start of a network and of its method's state, in one compilation."""
    key_weights, key_state = jax.random.split(jax.random.key(seed))
    return init(key_state, init_weights(key_weights, sizes))


def device_rows(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray | None, n_slots: int | None = None
) -> Rows:
    """Put rows on the device, in float32; codes of classes stay whole numbers.

    n_slots
        Room for how many rows: the rest is filled with rows of weight zero (None: no filling).
    """
    kind = np.int32 if np.issubdtype(y.dtype, np.integer) else np.float32
    weight = np.ones(len(x)) if weight is None else weight
    columns = x.astype(np.float32), y.astype(kind), weight.astype(np.float32)
    return filled(*columns, len(x) if n_slots is None else n_slots)

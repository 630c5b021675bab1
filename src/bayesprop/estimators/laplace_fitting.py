"""How the estimators of Laplace's approximation train, take the curvature, report and store."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.utils import check_random_state

from bayesprop.estimators.advice import warn
from bayesprop.estimators.checks import check_choice, check_int, check_positive
from bayesprop.estimators.inputs import CHUNK_ROWS, padded
from bayesprop.estimators.network import Built, device_rows
from bayesprop.estimators.stored_network import restore_network
from bayesprop.estimators.trained_network import SteppedFitting, built
from bayesprop.model.fit_report import FitReport
from bayesprop.model.gradient_method import Apply, Draw, GradientMethod
from bayesprop.model.method import Progress
from bayesprop.model.network_likelihoods import NetworkLikelihood
from bayesprop.model.training import Trained, train
from bayesprop.numerics.filling import blocks, filled, slots
from bayesprop.numerics.precision import in_float64
from bayesprop.sampling import laplace
from bayesprop.sampling.jacobians import EVERY_LEAF, Chosen, tangent_apply
from bayesprop.sampling.laplace import Fitted, LaplaceModel, Posterior
from bayesprop.sampling.laplace_evidence import Evidence
from bayesprop.sampling.mode_network import ModeState, mode_network
from bayesprop.sampling.structures import Diagonal, Full, Kron, Structure

STRUCTURES: dict[str, Structure] = {one.name: one for one in (Full(), Kron(), Diagonal())}
LAYERS = {"all": EVERY_LEAF, "last": Chosen((-1,))}
CURVATURES = ("ggn", "hessian")
PREDICTIONS = ("linearised", "draws")
PRIORS = {"by-layer": "by-leaf", "one": "one"}
START_PREC = 1.0
_FEW_STEPS, _STEPS = 5, 200


class LaplaceState(NamedTuple):
    """The trained network, and a root of the covariance of its weights (float64)."""

    mode: ModeState
    root: Any


class Round(NamedTuple):
    """Some epochs of training, and the posterior after them."""

    trained: Trained
    fitted: Fitted


@lru_cache(maxsize=64)
def linear_draws(model: LaplaceModel) -> tuple[Any, Any]:
    """Return the linearised network and how its weights are drawn; always the very same."""
    return tangent_apply(model.apply), _sampler(model, laplace.sample_linear)


@lru_cache(maxsize=64)
def _draws(model: LaplaceModel) -> Any:
    return _sampler(model, laplace.sample)


def _sampler(model: LaplaceModel, draw: Any) -> Any:
    def sample(key: Any, state: LaplaceState) -> Draw:
        return draw(model, key, _posterior(model, state))

    return sample


def _posterior(model: LaplaceModel, state: LaplaceState) -> Posterior:
    mode = state.mode
    places = np.array(model.chosen.numbers(len(mode.weights)))
    return Posterior(mode.weights, mode.likelihood, mode.prior_prec[places], state.root)


def _method(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    structure: Structure,
    chosen: Chosen,
    exact: bool,
    prior_prec: float,
) -> GradientMethod:
    """Train to the mode; draw from the posterior around it."""
    model = LaplaceModel(apply, likelihood, structure, chosen, exact)
    method = mode_network(apply, likelihood, optimizer, prior_prec=prior_prec)
    return method._replace(sample=_draws(model))


@dataclass(eq=False, repr=False, kw_only=True)
class LaplaceFitting(SteppedFitting):
    """What both have; mixed into a regressor or classifier."""

    structure: Literal["full", "kron", "diagonal"] = "kron"
    layers: Literal["all", "last"] = "all"
    curvature: Literal["ggn", "hessian"] = "ggn"
    prior_prec: Literal["by-layer", "one"] | float = "by-layer"
    n_rounds: int = 4
    prediction: Literal["linearised", "draws"] = "linearised"
    n_draws: int = 100
    max_gigabytes: float = 8.0

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_choice("structure", self.structure, tuple(STRUCTURES))
        check_choice("layers", self.layers, tuple(LAYERS))
        check_choice("curvature", self.curvature, CURVATURES)
        check_choice("prediction", self.prediction, PREDICTIONS)
        check_int("n_rounds", self.n_rounds)
        check_positive("max_gigabytes", self.max_gigabytes)
        if isinstance(self.prior_prec, str):
            check_choice("prior_prec", self.prior_prec, tuple(PRIORS))
        else:
            check_positive("prior_prec", self.prior_prec)
        if self.curvature == "hessian" and self.structure == "kron":
            raise ValueError(
                "curvature must be 'ggn' with structure='kron', got 'hessian': choose "
                "structure='full' or 'diagonal'"
            )

    def _build(self) -> Built:
        known = self.prior_prec
        return built(
            _method,
            self._likelihood(),
            self.activation,
            self._steps(),
            *self._shape(),
            START_PREC if isinstance(known, str) else float(known),
        )

    def _shape(self) -> tuple[Structure, Chosen, bool]:
        return STRUCTURES[self.structure], LAYERS[self.layers], self.curvature == "hessian"

    def _laplace_model(self, network: Built) -> LaplaceModel:
        return LaplaceModel(network.apply, network.likelihood, *self._shape())

    def _evidence(self, max_steps: int) -> Evidence:
        known = self.prior_prec
        prior = PRIORS[known] if isinstance(known, str) else "known"
        return Evidence(prior, max_steps=max_steps)

    def _log_unit(self) -> float:
        """Log of the units of the targets, summed; a class has none."""
        return 0.0

    def _fit_rows(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Self:
        """Train, and choose precisions and noise by the evidence, n_rounds times over."""
        started = time.perf_counter()
        goes_on = self._goes_on()
        if not goes_on:
            self.seed_ = int(check_random_state(self.random_state).randint(2**31))
            self.n_iter_ = 0
        network = self._build()
        mode = self.state_.mode if goes_on else self._initial_state(network)
        laplace.check_memory(self._laplace_model(network), mode.weights, self.max_gigabytes)
        n_rounds = min(self.n_rounds, self.n_epochs)
        edges = [self.n_epochs * turn // n_rounds for turn in range(n_rounds + 1)]
        rounds: list[Round] = []
        for n_epochs in np.diff(edges).tolist():
            # What is to be trained further needs no exact maximum.
            evidence = self._evidence(_FEW_STEPS if len(rounds) + 1 < n_rounds else _STEPS)
            rounds.append(self._round(network, mode, (x, y, weight), n_epochs, evidence))
            mode = self._at_evidence(network, *rounds[-1])
            self.n_iter_ += len(rounds[-1].trained.trace["loss"])
            if rounds[-1].trained.n_undone:
                break
        self.state_ = LaplaceState(mode, rounds[-1].fitted.posterior.root)
        mass = float(len(x) if weight is None else np.sum(weight))
        seconds = time.perf_counter() - started
        self.fit_report_ = self._account(rounds, len(x), mass * self._log_unit(), seconds)
        return self

    def _round(
        self, network: Built, mode: ModeState, data: tuple, n_epochs: int, evidence: Evidence
    ) -> Round:
        """Train some epochs, and approximate the posterior."""
        x, y, weight = data
        trained = train(
            network.method,
            mode,
            device_rows(x, y, weight, slots(len(x))),
            n_rows=len(x),
            seed=self.seed_,
            batch_size=self.batch_size,
            n_epochs=n_epochs,
            first_epoch=self.n_iter_,
            progress=Progress(self.verbose),
        )
        model = self._laplace_model(network)
        places = np.array(model.chosen.numbers(len(mode.weights)))
        fitted = _approximated(
            model,
            network.method.mean(trained.state),
            data,
            prior_prec=np.asarray(trained.state.prior_prec, np.float64)[places],
            evidence=evidence,
            max_gigabytes=float(self.max_gigabytes),
        )
        return Round(trained, fitted)

    def _at_evidence(self, network: Built, trained: Trained, fitted: Fitted) -> ModeState:
        """Put what the evidence chose in its place."""
        model = self._laplace_model(network)
        prec = np.array(trained.state.prior_prec)
        prec[list(model.chosen.numbers(len(prec)))] = fitted.evidence.prior_prec
        likelihood = jax.tree.map(
            partial(jnp.asarray, dtype=np.float32), fitted.posterior.likelihood
        )
        return trained.state._replace(likelihood=likelihood, prior_prec=jnp.asarray(prec))

    def _account(
        self, rounds: list[Round], n_rows: int, log_unit: float, seconds: float
    ) -> FitReport:
        trained, fitted = rounds[-1]
        advice = self._advice(trained) + self._advice_on(fitted)
        warn(advice)
        trace: dict[str, list[float]] = {name: [] for name in trained.trace}
        for name, values in trace.items():
            values += [value for one in rounds for value in one.trained.trace[name]]
        evidences = [value - log_unit for one in rounds for value in one.fitted.evidence.trace]
        n_epochs = len(trace["loss"])
        return FitReport(
            n_rows=n_rows,
            n_epochs=n_epochs,
            seconds=seconds,
            n_updates=n_epochs * -(-n_rows // min(self.batch_size, n_rows)),
            guards={
                "epochs_undone": trained.n_undone,
                "negative_curvature": fitted.n_repaired,
                "evidence_steps_replaced": sum(one.fitted.evidence.n_repaired for one in rounds),
                "evidence_not_converged": int(not fitted.evidence.converged),
            },
            trace=trace | {"log_evidence": evidences},
            log_evidence={"laplace": evidences[-1]},
            warnings=advice,
        )

    def _advice_on(self, fitted: Fitted) -> list[str]:
        advice = []
        if fitted.n_repaired:
            advice.append(
                f"the log-likelihood curves upwards in {fitted.n_repaired} directions, which were "
                "taken for flat: the network is not at a mode; raise n_epochs, lower "
                "learning_rate, or choose curvature='ggn'"
            )
        if not fitted.evidence.converged:
            advice.append(
                f"the evidence still rose after {len(fitted.evidence.trace) - 1} steps, so that "
                "prior precisions and noise are not at its maximum: choose prior_prec='one', or "
                "give it as a number"
            )
        return advice

    def _output_moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, k) and covariances (n, k, k) of the linearised network's outputs, float64."""
        network = self._build()
        model = self._laplace_model(network)
        parts = [
            _linearised(model, self.state_, x[first : first + CHUNK_ROWS])
            for first in range(0, max(1, len(x)), CHUNK_ROWS)
        ]
        mean, cov = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, cov

    @classmethod
    @in_float64
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model = restore_network(cls, header, arrays, lambda model: model._shape_of_state())
        model.state_ = jax.tree.map(np.asarray, model.state_)
        return model

    def _shape_of_state(self) -> LaplaceState:
        """Say what a file must hold."""
        network = self._build()
        with jax.enable_x64(False):
            mode = jax.eval_shape(lambda: self._initial_state(network))
        model = self._laplace_model(network)
        return LaplaceState(mode, model.structure.shape_of_root(model.shapes(mode.weights)))


@in_float64
def _approximated(model: LaplaceModel, mode: Draw, data: tuple, **settings: Any) -> Fitted:
    """Approximate the posterior, in float64."""
    x, y, weight = data
    weight = np.ones(len(x)) if weight is None else weight
    rows = filled(x, y, weight, blocks(len(x), 64))
    return laplace.laplace(model, _wide(mode), rows, **settings)


@in_float64
def _linearised(model: LaplaceModel, state: LaplaceState, x: np.ndarray) -> list[np.ndarray]:
    posterior = _wide(_posterior(model, state))
    found = laplace.predict_linearised(model, posterior, jnp.asarray(padded(x)))
    return [np.asarray(part)[: len(x)] for part in found]


def _wide(tree: Any) -> Any:
    return jax.tree.map(partial(jnp.asarray, dtype=np.float64), tree)

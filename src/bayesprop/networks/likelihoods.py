"""p(y | f) for the whole output vector f of a network, at one row.

`init` gives the learnable parameters (noise), `n_outputs` says how wide the last layer must be.
`log_prob` serves the methods that draw weights, `expected_log_prob` those that propagate moments,
both summed over the targets of the row; `information` those that need curvature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from bayesprop.distributions.mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
    NO_TAIL,
    MixturePredictive,
)
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from bayesprop.model.task import Classes, Task
from bayesprop.numerics import LOG_2PI, softmax_expectations
from bayesprop.numerics.gaussian import Gaussian, log_pdf

LOG_NOISE_VAR_START = -2.0
_MOST_IN_TRAINING = 20.0
"""Log noise variance, which cut off at MOST_LOG_NOISE would have no gradient to come back by."""


@dataclass(frozen=True)
class NetworkLikelihood(ABC):
    """A likelihood of one row's targets given the outputs of a network."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Units of the network's last layer."""

    def init(self) -> PyTree:
        """Return initial learnable parameters, a pytree; empty where nothing is learnt."""
        return ()

    @abstractmethod
    def log_prob(self, params: PyTree, f: Float[Array, " k"], y: PyTree) -> Float[Array, ""]:
        """Log p(y | f), nats."""

    @abstractmethod
    def expected_log_prob(
        self, params: PyTree, m: Float[Array, " k"], v: Float[Array, " k"], y: PyTree
    ) -> Float[Array, ""]:
        """E[log p(y | f)] for independent f ~ N(m, v), nats."""

    @abstractmethod
    def information(self, params: PyTree, f: Float[Array, " k"]) -> Float[Array, "k k"]:
        """Fisher information of the outputs, E[-d² log p(y | f) / df²] over y ~ p(y | f).

        Positive semi-definite; for exponential families in their natural parameters (here all but
        the log variance of `InputNoise`) it is the second derivative itself, whatever y.
        """


@dataclass(frozen=True)
class GaussianNoise(NetworkLikelihood):
    """Targets with Gaussian noise; `observe` says what a draw of the outputs predicts."""

    n_targets: int

    @property
    def n_outputs(self) -> int:
        """One unit a target."""
        return self.n_targets

    @abstractmethod
    def observe(self, params: PyTree, f: Float[Array, "... k"]) -> Gaussian:
        """Mean and noise variance of the targets given outputs; any leading axes."""

    def log_prob(self, params: PyTree, f: Float[Array, " k"], y: Float[Array, " o"]) -> Array:
        """Log N(y | mean, noise variance), summed over the targets."""
        mean, noise_var = self.observe(params, f)
        return jnp.sum(log_pdf(y, mean, noise_var))


@dataclass(frozen=True)
class KnownNoise(GaussianNoise):
    """y = f + e, e ~ N(0, noise_var), a number given by the user (standardised units)."""

    noise_var: float = 1.0

    def observe(self, params: PyTree, f: Float[Array, "... k"]) -> Gaussian:
        """Return f and the given variance."""
        del params
        return Gaussian(f, jnp.full_like(f, self.noise_var))

    def expected_log_prob(
        self, params: PyTree, m: Float[Array, " k"], v: Float[Array, " k"], y: Float[Array, " o"]
    ) -> Array:
        """Log N(y | m, noise_var) - v / (2 noise_var) (Roth & Pernkopf 2016, eq. 12)."""
        mean, noise_var = self.observe(params, m)
        return jnp.sum(log_pdf(y, mean, noise_var) - 0.5 * v / noise_var)

    def information(self, params: PyTree, f: Float[Array, " k"]) -> Float[Array, "k k"]:
        """1 / noise_var of every target."""
        return jnp.diag(1.0 / self.observe(params, f).v)


@dataclass(frozen=True)
class LearnedNoise(KnownNoise):
    """The same noise variance at every input, one a target, learnt with the weights."""

    def init(self) -> Float[Array, " o"]:
        """Start at a noise variance of exp(-2) of the target's."""
        return jnp.full(self.n_targets, LOG_NOISE_VAR_START, jnp.result_type(float))

    def observe(self, params: PyTree, f: Float[Array, "... k"]) -> Gaussian:
        """Return f and the learnt variances."""
        return Gaussian(f, jnp.broadcast_to(jnp.exp(params), f.shape))


@dataclass(frozen=True)
class InputNoise(GaussianNoise):
    """Noise that depends on the input: outputs are the means, then the log noise variances."""

    @property
    def n_outputs(self) -> int:
        """Two units a target."""
        return 2 * self.n_targets

    def observe(self, params: PyTree, f: Float[Array, "... k"]) -> Gaussian:
        """Split the outputs into means and variances, these within bounds."""
        del params
        return self._split(f, MOST_LOG_NOISE)

    def log_prob(self, params: PyTree, f: Float[Array, " k"], y: Float[Array, " o"]) -> Array:
        """Log N(y | mean, noise variance), summed over the targets, as training sees it."""
        del params
        mean, noise_var = self._split(f, _MOST_IN_TRAINING)
        return jnp.sum(log_pdf(y, mean, noise_var))

    def _split(self, f: Float[Array, "... k"], most: float) -> Gaussian:
        log_var = jnp.clip(f[..., self.n_targets :], LEAST_LOG_NOISE, most)
        return Gaussian(f[..., : self.n_targets], jnp.exp(log_var))

    def expected_log_prob(
        self, params: PyTree, m: Float[Array, " k"], v: Float[Array, " k"], y: Float[Array, " o"]
    ) -> Array:
        """-1/2 [log 2 pi + E l + E[exp(-l)] (v_f + (m_f - y)²)], E[exp(-l)] = exp(-E l + v_l / 2).

        Roth & Pernkopf (2016), eq. 12, with a log variance l that is Gaussian, too.
        """
        del params
        o = self.n_targets
        error = v[:o] + (m[:o] - y) ** 2
        return -0.5 * jnp.sum(LOG_2PI + m[o:] + jnp.exp(0.5 * v[o:] - m[o:]) * error)

    def information(self, params: PyTree, f: Float[Array, " k"]) -> Float[Array, "k k"]:
        """1 / noise_var of every mean, 1/2 of every log variance; they do not inform each other."""
        noise_var = self.observe(params, f).v
        return jnp.diag(jnp.concatenate([1.0 / noise_var, jnp.full_like(noise_var, 0.5)]))


@dataclass(frozen=True)
class Categorical(NetworkLikelihood):
    """One of n_classes labels, y its code, with softmax probabilities.

    expectation
        How E[log softmax] is taken: "taylor", the second-order expansion of Roth & Pernkopf (2016),
        or "exact", a quadrature that holds at large variances, too, at about 100 µs a row.
    """

    n_classes: int
    expectation: Literal["taylor", "exact"] = "taylor"

    @property
    def n_outputs(self) -> int:
        """One unit a class."""
        return self.n_classes

    def log_prob(self, params: PyTree, f: Float[Array, " k"], y: Int[Array, ""]) -> Array:
        """Log softmax(f)[y]."""
        del params
        return jax.nn.log_softmax(f)[y]

    def expected_log_prob(
        self, params: PyTree, m: Float[Array, " k"], v: Float[Array, " k"], y: Int[Array, ""]
    ) -> Array:
        """E[log softmax(f)[y]], by the way that `expectation` names."""
        del params
        if self.expectation == "exact":
            return softmax_expectations.exact(m, v, y)
        return softmax_expectations.taylor(m, v, y)

    def information(self, params: PyTree, f: Float[Array, " k"]) -> Float[Array, "k k"]:
        """diag(p) - p p'."""
        del params
        p = jax.nn.softmax(f)
        return jnp.diag(p) - jnp.outer(p, p)


@partial(jax.jit, static_argnames="likelihood")
def _noise_var(likelihood: GaussianNoise, params: PyTree, f: Float[Array, "n k"]) -> Array:
    return likelihood.observe(params, f).v


def constant_noise(likelihood: GaussianNoise, params: PyTree) -> Float[np.ndarray, " o"]:
    """Noise variances that are the same for every row; ValueError where they depend on the input.

    params
        Of the likelihood.
    """
    if isinstance(likelihood, InputNoise):
        raise ValueError("ONNX takes noise='learned' or a number, got 'input': set it so")
    none = np.zeros((1, likelihood.n_outputs), np.float32)
    return np.asarray(_noise_var(likelihood, params, none), np.float64)[0]


def of_output_moments(
    likelihood: GaussianNoise,
    params: PyTree,
    m: Float[np.ndarray, "n k"],
    v: Float[np.ndarray, "n k"],
) -> Predictive:
    """Predict targets: Gaussian, or with noise that depends on the input a mixture over it.

    params
        Of the likelihood.
    m, v
        Moments of the outputs. Log noise variances are bounded as those of `InputNoise` are.
    """
    if not isinstance(likelihood, InputNoise):
        noise_var = constant_noise(likelihood, params)
        return GaussianPredictive(m, v, np.broadcast_to(noise_var, m.shape))
    n_targets = likelihood.n_targets
    f, noise = slice(n_targets), slice(n_targets, None)
    return MixturePredictive.of_networks(
        f_mean=m[None, :, f],
        f_var=v[None, :, f],
        log_noise_mean=np.clip(m[None, :, noise], LEAST_LOG_NOISE, MOST_LOG_NOISE),
        log_noise_var=np.minimum(v[None, :, noise], MOST_LOG_NOISE_VAR),
        dof=np.full((1, len(m), n_targets), NO_TAIL),
    )


def likelihood_of(task: Task, params: Any) -> NetworkLikelihood:
    """Build the likelihood of standardised targets, or of codes of classes.

    params
        Whose `noise` is, for numbers, "learned" (one variance a target), "input" (it depends on
        the input), or a variance in y²; and of classes, where there is one, `expectation`.
    """
    if isinstance(task, Classes):
        return Categorical(task.n_classes, getattr(params, "expectation", "taylor"))
    noise, n_targets = params.noise, task.n_outputs
    if noise == "learned":
        return LearnedNoise(n_targets)
    if noise == "input":
        return InputNoise(n_targets)
    variances = {float(noise) / float(scale) ** 2 for scale in task.scaler.scale}
    if len(variances) > 1:
        raise ValueError(
            "noise must be 'learned' or 'input' for several outputs of different scales, got "
            f"the variance {noise!r}"
        )
    return KnownNoise(n_targets, variances.pop())

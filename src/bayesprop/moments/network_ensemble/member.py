"""One member of the ensemble: a network for the mean, a network for the noise, and their losses.

Neither network sends gradients to the other. A single loss for both lets the noise run away where
targets repeat exactly: its own explanation of a small error pulls the mean still closer.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesprop.moments.network_ensemble.gaussian_network import (
    Layers,
    Values,
    init_layers,
    propagate,
)
from bayesprop.moments.network_ensemble.weight_priors import (
    Priors,
    adaptive_kl,
    noise_kl,
    width_price,
)
from bayesprop.numerics.gaussian import LOG_2PI

LEAST_DOF = 3.0
"""Least degrees of freedom of the noise: a variance of at most three squared scales."""

DOF_START = 10.0
LOG_NOISE_VAR_START = -1.5
WIDTH_START = 0.25
TILT_LIMIT = 2.0
"""Most that is taken for v_l / 2: exp of a log variance that nobody knows yet."""

_LOG_PI = LOG_2PI - float(np.log(2.0))

stop = jax.lax.stop_gradient


class Member(NamedTuple):
    """One network each for the mean and for the log noise variance.

    log_noise
        Log noise variance around which the noise network's output varies, (o,).
    own_log_noise
        The same as the mean network sees it, fitted to its own loss, (o,).
    raw_dof
        softplus⁻¹(degrees of freedom - 3), (o,).
    log_widths
        Log width of the kink of every hidden unit of the mean network, layer by layer, (h,).
    """

    mean: Layers
    noise: Layers
    log_noise: Values
    own_log_noise: Values
    raw_dof: Values
    log_widths: tuple[Values, ...]


class NoisyOutput(NamedTuple):
    """What a member says at b rows, in standardised units; every array is (b, o), dof (o,).

    m, v
        Mean and variance of the function.
    l_m, l_v
        Mean and variance of the log noise variance (of a Student-t: its squared scale).
    dof
        Degrees of freedom of the noise.
    """

    m: Values
    v: Values
    l_m: Values
    l_v: Values
    dof: Values

    def at(self, rows: Values) -> NoisyOutput:
        """Take some rows of arrays that all members share, (k, b, ...)."""
        parts = (part[:, rows] for part in (self.m, self.v, self.l_m, self.l_v))
        return NoisyOutput(*parts, dof=self.dof)


class Schedule(NamedTuple):
    """Where training stands. Numbers or scalars.

    n_total
        Sum of the weights of all rows.
    kl_weight
        Share of the KL of the mean, 0 to 1.
    noise_weight
        Share of the noise network's output that the mean network sees, 0 to 1.
    least_dof
        Least degrees of freedom that the mean network takes the noise to have.
    """

    n_total: Values
    kl_weight: Values
    noise_weight: Values
    least_dof: Values


def init_member(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    noise_sizes: tuple[int, ...],
    *,
    is_direct: bool,
) -> Member:
    """Start nearly deterministic, with the same noise everywhere."""
    n_out = sizes[-1]
    start = np.full(n_out, LOG_NOISE_VAR_START, np.float32)
    return Member(
        mean=init_layers(rng, sizes, is_direct=is_direct),
        noise=init_layers(rng, (sizes[0], *noise_sizes, n_out), zero_output=True),
        log_noise=start,
        own_log_noise=start,
        raw_dof=_raw_dof(n_out),
        log_widths=tuple(np.full(n, np.log(WIDTH_START), np.float32) for n in sizes[1:-1]),
    )


def _raw_dof(n_out: int) -> np.ndarray:
    return np.full(n_out, np.log(np.expm1(DOF_START - LEAST_DOF)), np.float32)


def degrees_of_freedom(raw_dof: Float[Array, "..."]) -> Float[Array, "..."]:
    """3 + softplus(raw_dof)."""
    return LEAST_DOF + jax.nn.softplus(raw_dof)


def floored(l_m: Float[Array, "b o"], log_floor: Float[Array, " o"]) -> Float[Array, "b o"]:
    """Add the least noise variance to exp(l_m): a floor without a kink."""
    return jnp.logaddexp(l_m, log_floor[None, :])


def member_output(
    member: Member, x: Float[Array, "b d"], log_floor: Float[Array, " o"]
) -> NoisyOutput:
    """Moments of a member's outputs; the two networks are independent."""
    f, h = propagate(member.mean, x, member.log_widths), propagate(member.noise, x)
    l_m = floored(member.log_noise[None, :] + h.m, log_floor)
    return NoisyOutput(f.m, f.v, l_m, h.v, degrees_of_freedom(member.raw_dof))


def log_gamma_ratio(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log Gamma(a + 1/2) - log Gamma(a), a >= 1, to 3e-7: no difference of large numbers.

    The asymptotic series in 1 / (a + 3), carried down by the recurrence of the gamma function.
    """
    shift = a * (a + 1.0) * (a + 2.0) / ((a + 0.5) * (a + 1.5) * (a + 2.5))
    r = 1.0 / (a + 3.0)
    return jnp.log(shift) - 0.5 * jnp.log(r) - r / 8.0 + r**3 / 192.0 - r**5 / 640.0


def student_t_bound(
    square: Float[Array, "b o"],
    l_m: Float[Array, "b o"],
    l_v: Float[Array, "b o"],
    dof: Float[Array, " o"],
) -> Float[Array, "b o"]:
    """Lower bound of E[log t(y | f, exp(l), dof)], l ~ N(l_m, l_v), nats.

    Jensen's inequality on -log(1 + e): with e = exp(-l_m + l_v / 2) E[(y - f)²],
    log G((dof + 1) / 2) - log G(dof / 2) - [log(pi dof) + l_m + (dof + 1) log(1 + e / dof)] / 2.
    dof -> infinity gives the Gaussian expectation, which is exact.

    square
        E[(y - f)²], y².
    """
    e = jnp.exp(-l_m + jnp.minimum(0.5 * l_v, TILT_LIMIT)) * square
    constant = log_gamma_ratio(0.5 * dof) - 0.5 * (_LOG_PI + jnp.log(dof))
    tail = 0.5 * (dof + 1.0)[None, :] * jnp.log1p(e / dof[None, :])
    return constant[None, :] - 0.5 * l_m - tail


def _mean_over_rows(bound: Float[Array, "b o"], weight: Float[Array, " b"]) -> Float[Array, ""]:
    return jnp.mean(weight * jnp.sum(bound, axis=-1))


class Loss(NamedTuple):
    """`total` is what is minimised, `fit` its share from the data, both nats a row."""

    total: Float[Array, ""]
    fit: Float[Array, ""]


def member_loss(
    member: Member,
    x: Float[Array, "b d"],
    y: Float[Array, "b o"],
    weight: Float[Array, " b"],
    log_floor: Float[Array, " o"],
    schedule: Schedule,
    priors: Priors,
) -> Loss:
    """Two losses in one sum, gradients cut both ways.

    The mean network maximises the bound of its expected log-likelihood under the noise
    own_log_noise + noise_weight stop(h), with tails no heavier than those of least_dof: with heavy
    ones it would leave far rows alone that a better mean can reach. The noise network explains
    stop((m - y)²), without v: the predictive adds v again, and noise that holds it too is counted
    twice. It carries its whole KL from the first step.
    """
    f, h = propagate(member.mean, x, member.log_widths), propagate(member.noise, x)
    error = (f.m - y) ** 2
    dof = degrees_of_freedom(member.raw_dof)
    seen = floored(member.own_log_noise[None, :] + schedule.noise_weight * stop(h.m), log_floor)
    its_dof = jnp.maximum(stop(dof), schedule.least_dof)
    of_mean = student_t_bound(f.v + error, seen, schedule.noise_weight**2 * stop(h.v), its_dof)
    l_m = floored(member.log_noise[None, :] + h.m, log_floor)
    fit = -_mean_over_rows(student_t_bound(stop(error), l_m, h.v, dof), weight)
    price = schedule.kl_weight * (
        adaptive_kl(member.mean, priors.mean) + width_price(member.log_widths)
    )
    price += noise_kl(member.noise, priors)
    return Loss(fit - _mean_over_rows(of_mean, weight) + price / schedule.n_total, fit)

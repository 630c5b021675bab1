"""The objective of training and the outputs of a member in JAX, as they are written down.

What the compiled loops of `tabular_default` are compared with, slopes by autodiff.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, ndtr
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from bayesprop.numerics.activation_moments import relu
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.tabular_default.networks import (
    Layers,
    Member,
    Values,
    n_units_below,
)
from bayesprop.tabular_default.settings import (
    LEAST_DOF,
    LOG_WIDTH,
    SHAPE,
    TILT_LIMIT,
    WIDTH_PRECISION,
    Priors,
)
from bayesprop.tabular_default.stack import Components

stop = jax.lax.stop_gradient


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


def soft_relu(
    m: Float[Array, "..."], v: Float[Array, "..."], softness: Float[Array, "..."]
) -> Gaussian:
    """Moments of E[max(0, a + sqrt(softness) e)], as `float32_math.soft_relu_moments` has them."""
    r = jnp.sqrt(v + softness)
    a, d = m / r, v / (v + softness)
    density, lower = norm.pdf(a), ndtr(a)
    line, bend = lower**2, 0.5 * density**2
    whole = relu(a, jnp.ones_like(a)).v
    var = r**2 * (d * line + d**2 * bend + d**3 * (whole - line - bend))
    return Gaussian(jnp.maximum(m * lower + r * density, 0.0), jnp.maximum(var, 0.0))


def propagate(
    layers: Layers, x: Float[Array, "b d"], log_widths: tuple[Values, ...] | None = None
) -> Gaussian:
    """Mean and variance of the outputs at certain inputs (Roth & Pernkopf 2016, eq. 7-11).

    log_widths
        Log width of every hidden unit's kink, layer by layer, (h,); None: rectifiers.
    """
    m, v = x, jnp.zeros_like(x)
    for depth, layer in enumerate(layers):
        if depth > 0:
            width = None if log_widths is None else log_widths[depth - 1]
            m, v = relu(m, v) if width is None else soft_relu(m, v, jnp.exp(2.0 * width)[None, :])
        if len(layer.w_m) > m.shape[1]:
            m, v = jnp.hstack([m, x]), jnp.hstack([v, jnp.zeros_like(x)])
        w_v = jnp.exp(2.0 * layer.w_log_std)
        b_v = jnp.exp(2.0 * layer.b_log_std)
        m_a = m @ layer.w_m + layer.b_m[None, :]
        v_a = (m * m + v) @ w_v + b_v[None, :]
        if depth > 0:
            v_a = v_a + v @ (layer.w_m * layer.w_m)
        m, v = m_a, v_a
    return Gaussian(m, v)


def degrees_of_freedom(raw_dof: Float[Array, "..."]) -> Float[Array, "..."]:
    """3 + softplus(raw_dof)."""
    return LEAST_DOF + jax.nn.softplus(raw_dof)


def floored(l_m: Float[Array, "b o"], log_floor: Float[Array, " o"]) -> Float[Array, "b o"]:
    """Add the least noise variance to exp(l_m): a floor without a kink."""
    return jnp.logaddexp(l_m, log_floor[None, :])


def member_output(
    member: Member, x: Float[Array, "b d"], log_floor: Float[Array, " o"]
) -> Components:
    """Moments of a member's outputs; the two networks are independent."""
    f, h = propagate(member.mean, x, member.log_widths), propagate(member.noise, x)
    l_m = floored(member.log_noise[None, :] + h.m, log_floor)
    dof = degrees_of_freedom(member.raw_dof)
    return Components(f.m, f.v, l_m, h.v, dof, jnp.ones_like(dof), 0.0, log_floor)


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
    constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof)
    constant = constant - 0.5 * jnp.log(jnp.pi * dof)
    tail = 0.5 * (dof + 1.0)[None, :] * jnp.log1p(e / dof[None, :])
    return constant[None, :] - 0.5 * l_m - tail


def _squares(m: Array, log_std: Array) -> Array:
    return m * m + jnp.exp(2.0 * log_std)


def _grouped_kl(
    squares: Array, log_std: Array, *, axes: tuple[int, ...], mode: float
) -> Float[Array, ""]:
    """KL(q | N(0, v*)) - log InvGamma(v* | SHAPE, (SHAPE + 1) mode) + constant, over groups.

    v* = (S + 2 rate) / (n + 2 SHAPE + 2), S the sum of E[w²] over the n weights of a group, is
    where the two terms are least, so that its derivative need not be followed.
    """
    n = int(np.prod([squares.shape[axis] for axis in axes]))
    half = 0.5 * jnp.sum(squares, axis=axes) + (SHAPE + 1.0) * mode
    strength = 0.5 * n + SHAPE + 1.0
    return jnp.sum(strength * (jnp.log(half / strength) + 1.0)) - jnp.sum(log_std)


def groups(layers: Layers, depth: int) -> list[tuple[slice, tuple[int, ...]]]:
    """Rows of a layer's weights, and the axes of one group among them."""
    n_units = n_units_below(layers, depth)
    if depth == 0:
        return [(slice(None), (1,))]
    if depth < len(layers) - 1:
        return [(slice(None), (0, 1))]
    parts = slice(n_units), slice(n_units, len(layers[depth].w_m))
    return [(part, (0,)) for part in parts if part.start != part.stop]


def adaptive_kl(layers: Layers, spread: float) -> Float[Array, ""]:
    """KL of all weights to their groups' best priors, with the price of those, nats + constant.

    Groups are each input's row in the first layer (automatic relevance), the whole matrix between,
    each output's columns in the last layer, of hidden units and of inputs, and a layer's biases.
    """
    total = jnp.zeros(())
    for depth, layer in enumerate(layers):
        squares = _squares(layer.w_m, layer.w_log_std)
        for rows, axes in groups(layers, depth):
            mode = spread / len(layer.w_m[rows])
            total += _grouped_kl(squares[rows], layer.w_log_std[rows], axes=axes, mode=mode)
        bias_squares = _squares(layer.b_m, layer.b_log_std)
        total += _grouped_kl(bias_squares, layer.b_log_std, axes=(0,), mode=1.0)
    return total


def width_price(log_widths: tuple[Array, ...]) -> Float[Array, ""]:
    """-log prior of the widths of all kinks, nats + constant: their most probable values."""
    squares = [jnp.sum((each - LOG_WIDTH) ** 2) for each in log_widths]
    return 0.5 * WIDTH_PRECISION * sum(squares, start=jnp.zeros(()))


def _fixed_kl(m: Array, log_std: Array, prior_var: float) -> Float[Array, ""]:
    ratio = _squares(m, log_std) / prior_var
    return jnp.sum(0.5 * (ratio - 1.0 + np.log(prior_var)) - log_std)


def noise_kl(layers: Layers, priors: Priors) -> Float[Array, ""]:
    """KL of a noise network to its fixed prior, nats."""
    total = jnp.zeros(())
    for depth, layer in enumerate(layers):
        is_last = depth == len(layers) - 1
        spread = priors.last_noise if is_last else priors.noise
        total += _fixed_kl(layer.w_m, layer.w_log_std, spread / layer.w_m.shape[0])
        total += _fixed_kl(layer.b_m, layer.b_log_std, 1.0)
    return total


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
    dof_seen = jnp.maximum(stop(dof), schedule.least_dof)
    of_mean = student_t_bound(f.v + error, seen, schedule.noise_weight**2 * stop(h.v), dof_seen)
    l_m = floored(member.log_noise[None, :] + h.m, log_floor)
    fit = -_mean_over_rows(student_t_bound(stop(error), l_m, h.v, dof), weight)
    price = schedule.kl_weight * (
        adaptive_kl(member.mean, priors.mean) + width_price(member.log_widths)
    )
    price += noise_kl(member.noise, priors)
    return Loss(fit - _mean_over_rows(of_mean, weight) + price / schedule.n_total, fit)

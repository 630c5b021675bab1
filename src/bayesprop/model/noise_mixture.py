"""What an ensemble of networks with their own noise predicts: a mixture over everything unsure.

A member says f ~ N(f_mean, f_var), log noise variance l ~ N(log_noise_mean, log_noise_var), and
y = f + exp(l / 2) t, with t a Student-t of dof degrees of freedom. A t is a Gaussian whose
precision exp(z) has a Gamma distribution, so that y is a mixture of N(f_mean, f_var + exp(l - z)):
an exact sum over the members, quadrature over the one number l - z. Beside them may stand Gaussians
around what was measured nearby.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.predictive import (
    BY_MEMBER,
    IN_LOG_Y_SQUARED,
    IN_Y,
    IN_Y_SQUARED,
    Function,
    Moments,
    Predictive,
    expected_of_gaussians,
    members_in_turns,
)
from bayesprop.numerics import gaussian_sums
from bayesprop.numerics.gaussian_sums import Components, log_sum_exp

Members = Float[np.ndarray, "k n"] | Float[np.ndarray, "k n o"]

BROAD_SHARE = 1e-3
"""Share of a Gaussian with the moments of the training targets: 6.9 nats below it is the least."""

LEAST_LOG_NOISE, MOST_LOG_NOISE = -20.0, 7.0
"""Predicted noise that depends on the input has a log variance, standardised, between these.

Far from all rows the outputs of a rectified network grow without end, and their exponential at
once: one strange row would have a standard deviation of thousands of the target's. More than 33 of
them, or less than a twenty-thousandth, says nothing else.
"""

MOST_LOG_NOISE_VAR = 4.0
"""Variance of the log noise variance beyond which bounds of training see none, and no more is
predicted: it would keep its prior, a log-normal whose mean can be e to the hundredth."""

NO_TAIL = 1e6
"""Degrees of freedom of a Gaussian."""

_N_NODES, _N_CRPS = 16, 48
_INNER, _INNER_WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_LOWEST, _HIGHEST, _STRETCH = -2.6, 2.9, 0.8
_MOST_UNKNOWN = 1.0 - 1e-9  # of a share, whose rest has a logarithm
_LEAST_VAR = 1e-12  # of a log noise variance: no longer seen, and safe to divide by
_CHUNK_ELEMENTS = 2**21
_FURTHEST = 1e150  # whose square is a number


class _Nodes(NamedTuple):
    at: np.ndarray
    log_share: np.ndarray


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Places and widths of the nodes, in standard deviations.

    The grid widens to the left, where a log precision falls off exponentially: without nodes there
    the tails would be Gaussian and punish an outlier without bound.
    """
    u = np.linspace(_LOWEST, _HIGHEST, _N_NODES)
    beyond = np.exp(-u) - 1.0
    is_left = u < 0.0
    place = np.where(is_left, u - _STRETCH * (beyond + u), u)
    return place, np.where(is_left, 1.0 + _STRETCH * beyond, 1.0)


_PLACE, _WIDTH = _grid()
_LOG_WIDTH, _LOG_INNER_WEIGHTS = np.log(_WIDTH), np.log(_INNER_WEIGHTS)


def _scale_nodes(l_v: np.ndarray, dof: np.ndarray) -> _Nodes:
    """Nodes of z - (l - l_m): the density of the sum is a sum over the narrower of the two.

    exp(z) ~ Gamma(dof / 2, rate dof / 2); both sums by the trapezoidal rule.
    """
    shape = 0.5 * dof[..., None]
    z_m, z_v = special.digamma(shape) - np.log(shape), special.zeta(2.0, shape)  # trigamma
    l_v = np.maximum(l_v, _LEAST_VAR)[..., None]
    at = z_m + np.sqrt(z_v + l_v) * _PLACE
    log_share = np.empty_like(at)
    is_over_l = (l_v < z_v)[..., 0]
    for these, over in ((is_over_l, _over_l), (~is_over_l, _over_z)):
        of_these = (part[these] for part in (at, shape, z_m, z_v, l_v))
        log_share[these] = over(*of_these) + _LOG_WIDTH
    return _Nodes(at, log_share - log_sum_exp(log_share)[..., None])


def _over_l(at: np.ndarray, shape: np.ndarray, _: Any, __: Any, l_v: np.ndarray) -> np.ndarray:
    """Log density of the sum at nodes, (e, nodes), by places of l."""
    shifted = at[..., None] + np.sqrt(l_v)[..., None] * _INNER
    return log_sum_exp(_LOG_INNER_WEIGHTS + shape[..., None] * (shifted - np.exp(shifted)))


def _over_z(
    at: np.ndarray, shape: np.ndarray, z_m: np.ndarray, z_v: np.ndarray, l_v: np.ndarray
) -> np.ndarray:
    """Log density of the sum at nodes, (e, nodes), by places of z."""
    z = z_m + np.sqrt(z_v) * _PLACE
    log_share = shape * (z - np.exp(z)) + _LOG_WIDTH
    log_share -= log_sum_exp(log_share)[..., None]
    distance = at[..., None] - z[..., None, :]
    return log_sum_exp(log_share[..., None, :] - 0.5 * distance**2 / l_v[..., None])


@dataclass(frozen=True)
class NoiseMixturePredictive(Predictive):
    """A mixture of members and targets nearby, and BROAD_SHARE of the constant predictor.

    Built by `of`, and by `beside`.

    `mean`, `epistemic_var` and `noise_var` are those without the broad share.

    f_mean, f_var, log_noise_mean, log_noise_var, dof
        What each member says of each element, (k, n) or (k, n, o), in y, y², nats, nats² and 1.
    share
        Of each member in each element, of the same shape; sums to 1 with `near_share`.
    unknown_share
        Of each member's noise variance, what is not known of the function and counts as epistemic.
    broad_mean, broad_var
        Moments of the training targets, in y and y², of the shape of `mean`.
    near_y, near_var, near_share
        Gaussians around targets of rows nearby, (j, n) or (j, n, o), in y, y² and 1. Together they
        are one more member, whose mean is theirs; that they differ is noise.
    """

    f_mean: Members = field(metadata=BY_MEMBER | IN_Y)
    f_var: Members = field(metadata=BY_MEMBER | IN_Y_SQUARED)
    log_noise_mean: Members = field(metadata=BY_MEMBER | IN_LOG_Y_SQUARED)
    log_noise_var: Members = field(metadata=BY_MEMBER)
    dof: Members = field(metadata=BY_MEMBER)
    share: Members = field(metadata=BY_MEMBER)
    unknown_share: Members = field(metadata=BY_MEMBER)
    broad_mean: Moments = field(metadata=IN_Y)
    broad_var: Moments = field(metadata=IN_Y_SQUARED)
    near_y: Members = field(metadata=BY_MEMBER | IN_Y)
    near_var: Members = field(metadata=BY_MEMBER | IN_Y_SQUARED)
    near_share: Members = field(metadata=BY_MEMBER)

    @property
    def mean_log_noise_var(self) -> Moments:
        """Log variance of the noise, in nats, averaged over the members and what each says of it.

        Less than the log of `noise_var` by what is unsure about the noise.
        """
        of_members = self.log_noise_mean + np.log(self.dof / (self.dof - 2.0))
        of_members = of_members + np.log1p(-np.minimum(self.unknown_share, _MOST_UNKNOWN))
        near = _Nearby.of(self.near_y, self.near_var, self.near_share)
        return np.sum(self.share * of_members, axis=0) + near.share * np.log(near.noise_var)

    @classmethod
    def of(
        cls,
        *,
        f_mean: Members,
        f_var: Members,
        log_noise_mean: Members,
        log_noise_var: Members,
        dof: Members,
        share: Members | None = None,
        unknown_share: Members | None = None,
        broad_mean: Moments | float = 0.0,
        broad_var: Moments | float = 1.0,
    ) -> NoiseMixturePredictive:
        """Build it from what every member says; dof > 2, else the noise has no variance.

        share
            None: equal ones.
        unknown_share
            None: nothing.
        """
        if share is None:
            share = np.full(f_mean.shape, 1.0 / len(f_mean))
        if unknown_share is None:
            unknown_share = np.zeros(f_mean.shape)
        mean = np.sum(share * f_mean, axis=0)
        noise_var = np.exp(log_noise_mean + 0.5 * log_noise_var) * dof / (dof - 2.0)
        f_var_of_all = np.square(f_mean - mean) + f_var + unknown_share * noise_var
        return cls(
            mean,
            np.sum(share * f_var_of_all, axis=0),
            np.sum(share * (1.0 - unknown_share) * noise_var, axis=0),
            f_mean,
            f_var,
            log_noise_mean,
            log_noise_var,
            dof,
            share,
            unknown_share,
            np.broadcast_to(np.asarray(broad_mean, np.float64), mean.shape),
            np.broadcast_to(np.asarray(broad_var, np.float64), mean.shape),
            *np.zeros((3, 0, *mean.shape)),
        )

    def beside(self, y: Members, var: Members, share: Members) -> NoiseMixturePredictive:
        """Put Gaussians around targets of rows nearby beside the members, who keep the rest."""
        near = _Nearby.of(y, var, share)
        rest = 1.0 - near.share
        mean = rest * self.mean + near.share * near.mean
        epistemic_var = rest * (self.epistemic_var + np.square(self.mean - mean))
        return replace(
            self,
            mean=mean,
            epistemic_var=epistemic_var + near.share * np.square(near.mean - mean),
            noise_var=rest * self.noise_var + near.share * near.noise_var,
            share=rest * self.share,
            near_y=y,
            near_var=var,
            near_share=share,
        )

    def of_some_members(self, n: int) -> NoiseMixturePredictive:
        """Hear n members on every row, in turns."""
        heard = members_in_turns(n, self.f_mean)
        if heard is None:
            return self
        share = heard(self.share)
        kept = {name: heard(getattr(self, name)) for name in _KEPT}
        kept["share"] = share / np.sum(share, axis=0)
        heard_alone = self.of(**kept, broad_mean=self.broad_mean, broad_var=self.broad_var)
        return heard_alone.beside(self.near_y, self.near_var, self.near_share)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        shape, k = (n, *np.shape(self.mean)), len(self.share)
        passed = np.cumsum(np.concatenate([self.share, self.near_share]), axis=0)[:-1, None]
        chosen = (passed <= rng.random(shape)).sum(axis=0)
        m, v, l_m, l_v, dof = (
            np.take_along_axis(getattr(self, name), np.minimum(chosen, k - 1), axis=0)
            for name in _OF_MEMBERS[:5]
        )
        f = m + np.sqrt(v) * rng.standard_normal(shape)
        log_noise = l_m + np.sqrt(l_v) * rng.standard_normal(shape)
        y = f + np.exp(0.5 * log_noise) * rng.standard_t(dof)
        broad = self.broad_mean + np.sqrt(self.broad_var) * rng.standard_normal(shape)
        if len(self.near_y):
            at = np.maximum(chosen - k, 0)
            m, v = (np.take_along_axis(a, at, axis=0) for a in (self.near_y, self.near_var))
            y = np.where(chosen < k, y, m + np.sqrt(v) * rng.standard_normal(shape))
        return np.where(rng.random(shape) < BROAD_SHARE, broad, y)

    def expected(self, function: Function) -> Moments:
        """Return E function(y) by the rule of Gauss and Hermite, summed over all Gaussians."""

        def of_parts(parts: Components, _y: np.ndarray) -> np.ndarray:
            values = expected_of_gaussians(function, parts.m, parts.std)
            return np.sum(np.exp(parts.log_share) * values, axis=1)

        return self._elementwise(of_parts, self.mean)

    def _log_prob(self, y: Moments) -> Moments:
        log_density = self._elementwise(
            gaussian_sums.log_density, np.clip(y, -_FURTHEST, _FURTHEST)
        )
        return np.where(np.isinf(y), -np.inf, log_density)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        return np.clip(self._elementwise(gaussian_sums.distribution, y), 0.0, 1.0)

    def _quantile(self, level: float) -> Moments:
        return self._quantiles(np.array([level]))[0]

    def _quantiles(self, levels: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q ..."]:
        y = np.empty((len(levels), self.mean.size))
        for at, parts in self._pieces():
            y[:, at] = gaussian_sums.quantiles(parts, levels)
        return y.reshape(len(levels), *self.mean.shape)

    def _crps(self, y: Moments) -> Moments:
        """E|x - y| in closed form less the integral of F (1 - F), by quadrature."""
        n_nodes = _N_CRPS * (2 if len(self.near_y) else 1)  # of several heights
        return self._elementwise(partial(gaussian_sums.crps, n_nodes=n_nodes), y)

    def _elementwise(
        self, function: Callable[[Components, np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        """Apply a function of components and one number to all elements, in bounded chunks.

        values
            (..., n) or (..., n, o): all of one element are taken with its components.
        """
        if not np.size(values):
            return np.empty(np.shape(values))
        flat = np.reshape(values, (-1, self.mean.size))
        result = np.empty(flat.shape)
        for at, parts in self._pieces():
            result[:, at] = [function(parts, some[at]) for some in flat]
        return result.reshape(np.shape(values))

    def _pieces(self) -> Iterator[tuple[slice, Components]]:
        """Give the components of some elements at a time, and where these are."""
        of_members = [getattr(self, name).reshape(len(self.f_mean), -1) for name in _OF_MEMBERS]
        broad = (self.broad_mean.reshape(1, -1), self.broad_var.reshape(1, -1))
        near = [
            getattr(self, name).reshape(len(self.near_y), self.mean.size) for name in _OF_NEARBY
        ]
        room = max(1, _CHUNK_ELEMENTS // (len(self.f_mean) * _N_NODES * _N_NODES))
        for first in range(0, self.mean.size, room):
            at = slice(first, first + room)
            members = _components(*(a[:, at] for a in of_members))
            yield at, _beside(members, *(a[:, at] for a in (*near, *broad)))


_OF_MEMBERS = ("f_mean", "f_var", "log_noise_mean", "log_noise_var", "dof", "share")
_KEPT = (*_OF_MEMBERS, "unknown_share")
_OF_NEARBY = ("near_y", "near_var", "near_share")


class _Nearby(NamedTuple):
    """Targets of rows nearby as one member: its share, mean and noise, of every element."""

    share: np.ndarray
    mean: np.ndarray
    noise_var: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, var: np.ndarray, share: np.ndarray) -> _Nearby:
        total = np.sum(share, axis=0)
        each = share / np.maximum(total, _LEAST_VAR)
        mean = np.sum(each * y, axis=0)
        noise_var = np.sum(each * (var + np.square(y - mean)), axis=0)
        return cls(total, mean, np.where(total > _LEAST_VAR, noise_var, 1.0))


def _components(
    m: np.ndarray,
    v: np.ndarray,
    l_m: np.ndarray,
    l_v: np.ndarray,
    dof: np.ndarray,
    share: np.ndarray,
) -> Components:
    """Gaussians of every element: members x nodes."""
    nodes = _scale_nodes(l_v, dof)
    var = v[..., None] + np.exp(l_m[..., None] - nodes.at)
    with np.errstate(divide="ignore"):
        log_share = nodes.log_share + np.log((1.0 - BROAD_SHARE) * share)[..., None]
    parts = log_share, np.broadcast_to(m[..., None], var.shape), np.sqrt(var)
    return Components(*(a.swapaxes(0, 1).reshape(a.shape[1], -1) for a in parts))


def _beside(
    members: Components,
    near_y: np.ndarray,
    near_var: np.ndarray,
    near_share: np.ndarray,
    broad_mean: np.ndarray,
    broad_var: np.ndarray,
) -> Components:
    """Those of members, of targets nearby, and the broad one."""
    with np.errstate(divide="ignore"):
        log_near = np.log((1.0 - BROAD_SHARE) * near_share)
    others = (
        (log_near, np.full(broad_mean.shape, np.log(BROAD_SHARE))),
        (near_y, broad_mean),
        (np.sqrt(near_var), np.sqrt(broad_var)),
    )
    pairs = zip(members, others, strict=True)
    return Components(*(np.concatenate([a, *(b.T for b in more)], axis=1) for a, more in pairs))

"""What an ensemble of networks with their own noise predicts: a mixture over everything unsure.

A member says f ~ N(f_mean, f_var), log noise variance l ~ N(log_noise_mean, log_noise_var), and
y = f + exp(l / 2) t, with t a Student-t of dof degrees of freedom. A t is a Gaussian whose
precision exp(z) has a Gamma distribution, so that y is a mixture of N(f_mean, f_var + exp(l - z)):
an exact sum over the members, quadrature over the one number l - z. Beside them may stand Gaussians
around what was measured nearby.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.mixture import members_in_turns
from bayesprop.distributions.prediction import BY_MEMBER
from bayesprop.distributions.predictive import (
    IN_LOG_Y_SQUARED,
    IN_Y,
    IN_Y_SQUARED,
    Moments,
    SummedGaussians,
)
from bayesprop.simd.gaussian_sums import Components, crps

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


class Nodes(NamedTuple):
    """Values of a log precision, and the share of each; the last axis runs over them."""

    at: np.ndarray
    share: np.ndarray


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


PLACE, WIDTH = _grid()


def scale_nodes(l_v: np.ndarray, dof: np.ndarray) -> Nodes:
    """Nodes of z - (l - l_m): the density of the sum is a sum over the narrower of the two.

    exp(z) ~ Gamma(dof / 2, rate dof / 2); both sums by the trapezoidal rule.
    """
    from bayesprop.simd import mixtures

    shape, l_v = 0.5 * dof, np.maximum(l_v, _LEAST_VAR)
    z_m, z_v = special.digamma(shape) - np.log(shape), special.zeta(2.0, shape)  # trigamma
    at = z_m[..., None] + np.sqrt(z_v + l_v)[..., None] * PLACE
    of_elements = (part.ravel() for part in (l_v, shape, z_m, np.sqrt(z_v)))
    rules = PLACE, WIDTH, _INNER, _INNER_WEIGHTS
    share = np.empty((l_v.size, _N_NODES))
    mixtures.scale_shares(at.reshape(share.shape), *of_elements, *rules, share)
    share /= share.sum(axis=-1, keepdims=True)
    return Nodes(at, share.reshape(at.shape))


@dataclass(frozen=True, repr=False)
class NoiseMixturePredictive(SummedGaussians):
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

    def of_some_members(self, n: int, turns: int) -> NoiseMixturePredictive:
        """Keep n members of every row, others in the next of so many turns."""
        heard = members_in_turns(n, turns, self.f_mean)
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

    @property
    def n_components(self) -> int:
        """Members by nodes of their noise, targets nearby, and the broad one."""
        return len(self.f_mean) * _N_NODES + len(self.near_y) + 1

    def components(self, at: slice) -> Components:
        """Return the Gaussians of some elements."""
        members, near, broad = (
            [getattr(self, name).reshape(n, self.mean.size)[:, at] for name in names]
            for names, n in (
                (_OF_MEMBERS, len(self.f_mean)),
                (_OF_NEARBY, len(self.near_y)),
                (_BROAD, 1),
            )
        )
        return _beside(_components(*members), *near, *broad)

    def _crps(self, y: Moments) -> Moments:
        """E|x - y| in closed form less the integral of F (1 - F), by quadrature."""
        n_nodes = _N_CRPS * (2 if len(self.near_y) else 1)  # of several heights
        return self.elementwise(partial(crps, n_nodes=n_nodes), y)


_OF_MEMBERS = ("f_mean", "f_var", "log_noise_mean", "log_noise_var", "dof", "share")
_KEPT = (*_OF_MEMBERS, "unknown_share")
_OF_NEARBY, _BROAD = ("near_y", "near_var", "near_share"), ("broad_mean", "broad_var")


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
    nodes = scale_nodes(l_v, dof)
    var = v[..., None] + np.exp(l_m[..., None] - nodes.at)
    shares = nodes.share * ((1.0 - BROAD_SHARE) * share)[..., None]
    parts = shares, np.broadcast_to(m[..., None], var.shape), np.sqrt(var)
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
    others = (
        ((1.0 - BROAD_SHARE) * near_share, np.full(broad_mean.shape, BROAD_SHARE)),
        (near_y, broad_mean),
        (np.sqrt(near_var), np.sqrt(broad_var)),
    )
    pairs = zip(members, others, strict=True)
    return Components(*(np.concatenate([a, *(b.T for b in more)], axis=1) for a, more in pairs))

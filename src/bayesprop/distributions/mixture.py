"""Mixtures of Gaussians and Student-t distributions: draws, ensembles, noise that is uncertain.

A Gaussian member says y ~ N(mean, var). A Student-t member says f ~ N(f_mean, f_var), log noise
variance l ~ N(log_noise_mean, log_noise_var), and y = f + exp(l / 2) t, with t a Student-t of dof
degrees of freedom. A t is a Gaussian whose precision exp(z) has a Gamma distribution, so that y is
a mixture of N(f_mean, f_var + exp(l - z)): an exact sum over the members, quadrature over the one
number l - z. What takes an error function for every Gaussian is compiled (`kernel_sums.py`), and
loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from bayesprop.distributions.predictive import (
    BY_MEMBER,
    IN_LOG_Y_SQUARED,
    IN_Y,
    IN_Y_SQUARED,
    Moments,
    Predictive,
    StudentTPredictive,
    mean_distance,
)
from bayesprop.numerics import LOG_2PI

_LANES = 8
_FURTHEST_LEVEL = 1e-7
_LEVELS_OF_CRPS = np.array([_FURTHEST_LEVEL, 0.25, 0.5, 0.75, 1.0 - _FURTHEST_LEVEL])
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
_N_NEWTON = 2  # steps from quantiles of the nodes, a thousandth off, to those of Student-t
_INNER, _INNER_WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_LOWEST, _HIGHEST, _STRETCH = -2.6, 2.9, 0.8
_MOST_UNKNOWN = 1.0 - 1e-9  # of a share, whose rest has a logarithm
_LEAST_VAR = 1e-12  # of a log noise variance: no longer seen, and safe to divide by
_FURTHEST = 1e150  # whose square is a number
_MOST_COMPONENTS = 2**17
"""Gaussians of all elements that are held at a time: a megabyte an array."""


class Components(NamedTuple):
    """Gaussians of some elements, (n, c); shares sum to 1 over the last axis."""

    share: Float[np.ndarray, "n c"]
    m: Float[np.ndarray, "n c"]
    std: Float[np.ndarray, "n c"]

    def in_lanes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return shares, means and inverse standard deviations as compiled code takes them."""
        more = ((0, 0), (0, -self.m.shape[1] % _LANES))
        parts = ((self.share, 0.0), (self.m, 0.0), (1.0 / self.std, 1.0))
        share, m, precision = (
            np.pad(part, more, constant_values=filler).ravel() for part, filler in parts
        )
        return share, m, precision


def log_density(parts: Components, y: Float[np.ndarray, "q n"]) -> Float[np.ndarray, "q n"]:
    """Log density of q numbers for every element."""
    z = (y[..., None] - parts.m) / parts.std
    with np.errstate(divide="ignore"):
        log_heights = np.log(parts.share / parts.std) - 0.5 * (LOG_2PI + z * z)
    largest = log_heights.max(axis=-1)
    return largest + np.log(np.exp(log_heights - largest[..., None]).sum(axis=-1))


def distribution(parts: Components, y: Float[np.ndarray, "q n"]) -> Float[np.ndarray, "q n"]:
    """Probability of no more than each of q numbers, for every element."""
    from bayesprop.numerics import kernel_sums

    below = np.empty(y.shape)
    kernel_sums.distribution(*parts.in_lanes(), np.array(y, order="C"), below)
    return below


def quantiles(parts: Components, levels: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q n"]:
    """Return all levels of all elements."""
    from bayesprop.numerics import kernel_sums

    y = np.empty((len(levels), len(parts.m)))
    kernel_sums.quantiles(*parts.in_lanes(), np.array(levels), special.ndtri(levels), y)
    return y


def crps(
    parts: Components, y: Float[np.ndarray, "q n"], *, n_nodes: int
) -> Float[np.ndarray, "q n"]:
    """CRPS = E|x - y| - integral of F (1 - F), the first in closed form."""
    from bayesprop.numerics import kernel_sums

    z = (y[..., None] - parts.m) / parts.std
    density = np.exp(-0.5 * (LOG_2PI + z * z))
    distance = parts.std * (z * (2.0 * special.ndtr(z) - 1.0) + 2.0 * density)
    spread, z_levels = np.empty(len(parts.m)), special.ndtri(_LEVELS_OF_CRPS)
    arrays = *parts.in_lanes(), _LEVELS_OF_CRPS, z_levels
    kernel_sums.spread(*arrays, n_nodes, np.empty(len(z_levels)), spread)
    return np.sum(parts.share * distance, axis=-1) - spread


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
    from bayesprop.numerics import kernel_sums

    shape, l_v = 0.5 * dof, np.maximum(l_v, _LEAST_VAR)
    z_m, z_v = special.digamma(shape) - np.log(shape), special.zeta(2.0, shape)  # trigamma
    at = z_m[..., None] + np.sqrt(z_v + l_v)[..., None] * PLACE
    of_elements = (part.ravel() for part in (l_v, shape, z_m, np.sqrt(z_v)))
    rules = PLACE, WIDTH, _INNER, _INNER_WEIGHTS, np.empty(_N_NODES)
    share = np.empty((l_v.size, _N_NODES))
    kernel_sums.scale_shares(at.reshape(share.shape), *of_elements, *rules, share)
    share /= share.sum(axis=-1, keepdims=True)
    return Nodes(at, share.reshape(at.shape))


def members_heard(n: int, k: int, turns: int) -> Int[np.ndarray, "n t"]:
    """Return n of k members for each of so many turns, evenly spaced, the next ones in the next."""
    return (np.arange(n)[:, None] * k // n + np.arange(turns)) % k


@dataclass(frozen=True, repr=False)
class MixturePredictive(Predictive):
    """A mixture of Gaussian and Student-t members with shares of their own in every element.

    Built by `of` from draws of the weights, by `of_networks` from networks that predict their
    noise. The moments are fields because they may leave out the broad share.

    mean_log_noise_var
        Expected log variance of the noise, nats.
    gap_var
        Part of `noise_var` that knowing the missing or uncertain inputs would remove, y².
    group_var
        Part of `noise_var` that knowing the effects of the row's group would remove, y².
    share, means, noise_vars
        Of the Gaussian members, (c, n) or (c, n, o), in 1, y and y². Shares sum to 1 with those of
        the others.
    t_share, f_mean, f_var, log_noise_mean, log_noise_var, dof
        Of the Student-t members, (k, n) or (k, n, o), in 1, y, y², nats, nats² and 1.
    """

    mean_log_noise_var: Moments = field(metadata=IN_LOG_Y_SQUARED)
    gap_var: Moments = field(metadata=IN_Y_SQUARED)
    group_var: Moments = field(metadata=IN_Y_SQUARED)
    share: Members = field(metadata=BY_MEMBER)
    means: Members = field(metadata=BY_MEMBER | IN_Y)
    noise_vars: Members = field(metadata=BY_MEMBER | IN_Y_SQUARED)
    t_share: Members = field(metadata=BY_MEMBER)
    f_mean: Members = field(metadata=BY_MEMBER | IN_Y)
    f_var: Members = field(metadata=BY_MEMBER | IN_Y_SQUARED)
    log_noise_mean: Members = field(metadata=BY_MEMBER | IN_LOG_Y_SQUARED)
    log_noise_var: Members = field(metadata=BY_MEMBER)
    dof: Members = field(metadata=BY_MEMBER)

    @classmethod
    def of(cls, means: Members, noise_vars: Members) -> Self:
        """Give every draw of the weights an equal share; its noise is Gaussian.

        The variance of the means is the epistemic one.
        """
        noise_vars = np.broadcast_to(noise_vars, means.shape)
        with np.errstate(divide="ignore"):  # noise of zero
            mean_log_noise_var = np.log(noise_vars).mean(axis=0)
        mean, share = means.mean(axis=0), np.full(means.shape, 1.0 / len(means))
        moments = mean, means.var(axis=0), noise_vars.mean(axis=0), mean_log_noise_var
        students = [np.zeros((0, *mean.shape))] * len(_STUDENTS)
        zero = np.zeros_like(mean)
        return cls(*moments, zero, zero, share, means, noise_vars, *students)

    @classmethod
    def of_networks(
        cls,
        *,
        f_mean: Members,
        f_var: Members,
        log_noise_mean: Members,
        log_noise_var: Members,
        dof: Members,
        share: Members | None = None,
        unknown_share: Members | float = 0.0,
    ) -> Self:
        """Mix Student-t members of standardised targets, and BROAD_SHARE of N(0, 1).

        dof
            > 2, else the noise has no variance.
        share
            None: equal ones.
        unknown_share
            Of each member's noise variance, what is not known of the function and counts as
            epistemic.
        """
        if share is None:
            share = np.full(f_mean.shape, 1.0 / len(f_mean))
        mean, of_t = np.sum(share * f_mean, axis=0), dof / (dof - 2.0)
        noise_var = np.exp(log_noise_mean + 0.5 * log_noise_var) * of_t
        known = np.log1p(-np.minimum(unknown_share, _MOST_UNKNOWN))
        f_var_of_all = np.square(f_mean - mean) + f_var + unknown_share * noise_var
        moments = (
            mean,
            np.sum(share * f_var_of_all, axis=0),
            np.sum(share * (1.0 - unknown_share) * noise_var, axis=0),
            np.sum(share * (log_noise_mean + np.log(of_t) + known), axis=0),
            *[np.zeros_like(mean)] * 2,
        )
        gaussians = [np.full((1, *mean.shape), number) for number in (BROAD_SHARE, 0.0, 1.0)]
        share = (1.0 - BROAD_SHARE) * share
        students = [share, f_mean, f_var, log_noise_mean, log_noise_var, dof]
        return cls(*moments, *gaussians, *students)

    def with_gaussians(self, y: Members, var: Members, share: Members) -> Self:
        """Add Gaussians around targets of near rows; the other members keep the rest.

        Together they are one more member, whose mean is theirs: that they differ is noise.

        y, var, share
            (j, n) or (j, n, o), in y, y² and 1.
        """
        total = np.sum(share, axis=0)
        each, rest = share / np.maximum(total, _LEAST_VAR), 1.0 - total
        near_mean = np.sum(each * y, axis=0)
        near_var = np.sum(each * (var + np.square(y - near_mean)), axis=0)
        log_near_var = np.log(np.where(total > _LEAST_VAR, near_var, 1.0))
        mean = rest * self.mean + total * near_mean
        epistemic_var = rest * (self.epistemic_var + np.square(self.mean - mean))
        return replace(
            self,
            mean=mean,
            epistemic_var=epistemic_var + total * np.square(near_mean - mean),
            noise_var=rest * self.noise_var + total * near_var,
            mean_log_noise_var=rest * self.mean_log_noise_var + total * log_near_var,
            share=np.concatenate([(1.0 - BROAD_SHARE) * share, self.share]),
            means=np.concatenate([y, self.means]),
            noise_vars=np.concatenate([var, self.noise_vars]),
            t_share=rest * self.t_share,
        )

    def in_groups(self, shift: Moments, factor: Moments, noise_share: Moments) -> Self:
        """Move rows by the effects of their groups.

        shift
            In standard deviations of the prediction.
        factor
            By which variances are multiplied.
        noise_share
            What would be left of the noise before, as of the variance, were the effects known.
        """
        scale = np.sqrt(factor)
        moved = self.rescaled(self.mean + shift * self.std - scale * self.mean, scale)
        of_group = np.maximum(1.0 - noise_share / factor, 0.0)
        return replace(moved, group_var=of_group * (moved.noise_var - moved.gap_var))

    def over_completions(self, n_completions: int, n_members: int) -> Self:
        """Mix the predictions of all completions of a row in equal shares.

        What the missing inputs add to a variance is noise. Of more than n_members, every completion
        keeps so many, others in turn, so that all have their part.
        """
        means, epistemic_var, noise_var = (
            by_row(part, n_completions) for part in (self.mean, self.epistemic_var, self.noise_var)
        )
        gap_var = means.var(axis=1)
        noise_var = noise_var.mean(axis=1) + gap_var
        with np.errstate(divide="ignore"):  # noise of zero
            log_noise_var = np.log(noise_var)
        mean = means.mean(axis=1)
        moments = mean, epistemic_var.mean(axis=1), noise_var, log_noise_var, gap_var, 0.0 * mean
        some, members = self._some_members(n_members, n_completions), []
        for name in _GAUSSIANS + _STUDENTS:
            part = getattr(some, name)
            each = np.moveaxis(by_row(np.swapaxes(part, 0, 1), n_completions), 0, 2)
            part = each.reshape(n_completions * len(part), *mean.shape)
            members.append(part / n_completions if "share" in name else part)
        return type(self)(*moments, *members)

    def _some_members(self, n: int, turns: int) -> Self:
        """Keep n members of every row, evenly spaced, others in the next of so many turns.

        After these the same members come again, so that the completions of a row are predicted
        alike wherever the row stands. Where there are Student-t members the Gaussians all stay.
        """
        names = _STUDENTS if len(self.dof) else _GAUSSIANS
        share = getattr(self, names[0])
        k, n_rows = share.shape[:2]
        if k <= n:
            return self
        member = members_heard(n, k, turns)[:, np.arange(n_rows) % turns]
        kept = {name: getattr(self, name)[member, np.arange(n_rows)] for name in names}
        kept[names[0]] *= np.sum(share, axis=0) / np.sum(kept[names[0]], axis=0)
        return replace(self, **kept)

    @property
    def gap_share(self) -> Moments:
        """Share of the variance that knowing all inputs exactly would remove on average."""
        return self.gap_var / self.var

    @property
    def group_share(self) -> Moments:
        """Share of the variance that knowing the effects of a row's group would remove."""
        return self.group_var / self.var

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        shape, k = (n, *np.shape(self.mean)), len(self.dof)
        reached = np.cumsum(np.concatenate([self.t_share, self.share]), axis=0)[:-1, None]
        chosen = (reached <= rng.random(shape)).sum(axis=0)
        m, v = (
            np.take_along_axis(np.concatenate(pair), chosen, axis=0)
            for pair in ((self.f_mean, self.means), (self.f_var, self.noise_vars))
        )
        y = m + np.sqrt(v) * rng.standard_normal(shape)
        if not k:
            return y
        l_m, l_v, dof = (
            np.take_along_axis(part, np.minimum(chosen, k - 1), axis=0)
            for part in (self.log_noise_mean, self.log_noise_var, self.dof)
        )
        log_noise = l_m + np.sqrt(l_v) * rng.standard_normal(shape)
        return y + np.where(chosen < k, np.exp(0.5 * log_noise) * rng.standard_t(dof), 0.0)

    @property
    def _students(self) -> StudentTPredictive | None:
        """The members, where all are Student-t whose function and noise are known: exact then."""
        if len(self.share) or self.f_var.any() or self.log_noise_var.any():
            return None
        var = np.exp(self.log_noise_mean) * self.dof / (self.dof - 2.0)
        return StudentTPredictive(self.f_mean, np.zeros_like(var), var, self.dof)

    def _log_prob(self, y: Moments) -> Moments:
        if (students := self._students) is not None:
            y = np.broadcast_to(y, self.dof.shape)
            return np.asarray(special.logsumexp(students.log_prob(y), axis=0, b=self.t_share))
        inside = self._elementwise(log_density, np.clip(y, -_FURTHEST, _FURTHEST))
        return np.where(np.isinf(y), -np.inf, inside)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        if (students := self._students) is not None:
            return np.sum(self.t_share * students.cdfs(y[:, None]), axis=1)
        return np.clip(self._elementwise(distribution, y), 0.0, 1.0)

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        y = np.empty((len(levels), self.mean.size))
        for at in self._pieces():
            y[:, at] = quantiles(self._components(at), levels.ravel())
        y = y.reshape(len(levels), *self.mean.shape)
        for _ in range(_N_NEWTON if self._students is not None else 0):
            y = y - (self.cdfs(y) - levels) / np.exp(self.log_prob(y))
        return y

    def _crps(self, y: Moments) -> Moments:
        """E|x - y| - E|x - x'| / 2 (Grimit et al. 2006), of Gaussians alone in closed form.

        Of Student-t members the second is the integral of F (1 - F), by quadrature.
        """
        if len(self.dof):
            n_nodes = _N_CRPS * (2 if len(self.share) > 1 else 1)  # of several heights
            return self._elementwise(partial(crps, n_nodes=n_nodes), y)
        m, v = self.means, self.noise_vars
        distance = np.sum(self.share * mean_distance(m - y, v), axis=0)
        for share, *other in zip(self.share, m, v, strict=True):
            apart = mean_distance(m - other[0], v + other[1])
            distance -= 0.5 * share * np.sum(self.share * apart, axis=0)
        return distance

    def _elementwise(
        self, function: Callable[[Components, np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        """Apply a function of components and numbers to all elements, in bounded chunks.

        values
            (..., n) or (..., n, o): all of one element are taken with its components.
        """
        if not np.size(values):
            return np.empty(np.shape(values))
        flat = np.reshape(values, (-1, self.mean.size))
        result = np.empty(flat.shape)
        for at in self._pieces():
            result[:, at] = function(self._components(at), flat[:, at])
        return result.reshape(np.shape(values))

    def _pieces(self) -> Iterator[slice]:
        """Split the elements into blocks; the outputs of one row are adjacent."""
        room = max(1, _MOST_COMPONENTS // (len(self.dof) * _N_NODES + len(self.share)))
        for first in range(0, self.mean.size, room):
            yield slice(first, first + room)

    def _components(self, at: slice) -> Components:
        """Return the Gaussians of some elements: Student-t members by nodes, and the others."""

        def parts(names: tuple[str, ...]) -> list[np.ndarray]:
            members = (getattr(self, name) for name in names)
            return [part.reshape(len(part), self.mean.size)[:, at].T for part in members]

        share, m, var = parts(_GAUSSIANS)
        if not len(self.dof):
            return Components(share, m, np.sqrt(var))
        t_share, f_mean, f_var, l_m, l_v, dof = parts(_STUDENTS)
        nodes = scale_nodes(l_v, dof)
        t_var = f_var[..., None] + np.exp(l_m[..., None] - nodes.at)
        pairs = (
            (nodes.share * t_share[..., None], share),
            (np.broadcast_to(f_mean[..., None], t_var.shape), m),
            (np.sqrt(t_var), np.sqrt(var)),
        )
        return Components(*(np.concatenate([a.reshape(len(b), -1), b], axis=1) for a, b in pairs))


_GAUSSIANS = ("share", "means", "noise_vars")
_STUDENTS = ("t_share", "f_mean", "f_var", "log_noise_mean", "log_noise_var", "dof")


def by_row(values: np.ndarray, n_completions: int) -> np.ndarray:
    """Give the completions of a row an axis of their own; (n c, ...) to (n, c, ...)."""
    return values.reshape(len(values) // n_completions, n_completions, *values.shape[1:])


def as_mixture(one: Predictive) -> MixturePredictive:
    """Return the mixture of one Gaussian or Student-t; a mixture as it is."""
    if isinstance(one, MixturePredictive):
        return one
    share, zero = np.ones((1, *np.shape(one.mean))), np.zeros(np.shape(one.mean))
    moments = one.mean, one.epistemic_var, one.noise_var, zero, zero, zero
    if isinstance(one, StudentTPredictive):
        parts = one.mean, zero, 2.0 * np.log(one.scale), zero, one.dof
        gaussians, students = [share[:0]] * 3, [share, *(part[None] for part in parts)]
    else:
        gaussians, students = [share, one.mean[None], one.var[None]], [share[:0]] * 6
    return MixturePredictive(*moments, *gaussians, *students)

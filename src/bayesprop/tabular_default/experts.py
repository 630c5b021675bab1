"""Experts, what held-out rows choose of each, and mixtures of them, which predict and draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Float32, Float64, Int
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
    MixturePredictive,
)
from bayesprop.distributions.pooled import PooledPredictive
from bayesprop.distributions.predictive import Prediction, Predictive
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import neighbours
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.gaussian_process import GaussianProcess
from bayesprop.tabular_default.group_effects import FURTHEST, GroupEffects, some_rows
from bayesprop.tabular_default.neighbours import KernelDensity, LocalLogits
from bayesprop.tabular_default.networks import (
    Networks,
    apply,
    class_outputs,
    draw,
    moves,
    outputs,
)
from bayesprop.tabular_default.piecewise_linear import Ramps
from bayesprop.tabular_default.residual_process import Local, changed
from bayesprop.tabular_default.stack import (
    Components,
    scale_noise,
)
from bayesprop.tabular_default.twins import Twins

T = TypeVar("T", bound=Prediction)

FEW_ROWS, FEW_ROWS_AN_INPUT = 1_000, 100
"""Below which rows left out may choose the noise within groups; others learn what is common."""

_NUMBERS_AT_A_TIME = 2 * 10**6


class Processes(NamedTuple):
    """An expert: a Gaussian process on every output; None where held-out rows want none.

    is_ramped
        Whether its inputs have ramps beside them.
    """

    processes: tuple[GaussianProcess | None, ...]
    is_ramped: bool = False

    @property
    def n_outputs(self) -> int:
        """Columns of y."""
        return len(self.processes)

    def components(self, x: Float[np.ndarray, "n d"]) -> Components:
        """Predict all outputs; an output without a process has zeros, and weight zero."""
        m, v = np.zeros((2, 1, len(x), self.n_outputs))
        for o, process in enumerate(self.processes):
            if process is not None:
                m[0, :, o], v[0, :, o] = process.moments(x)
        log_noise = [0.0 if one is None else one.log_own_noise for one in self.processes]
        return Components.of(m, v, np.array(log_noise, np.float64))


class NumberState(NamedTuple):
    """What a fit leaves.

    experts, weights
        Experts, and their mixture weights for every output, (e, o).
    ramps
        Of the inputs.
    density
        Targets of the nearest rows of every output, beside all else; None where held-out rows want
        none.
    seed
        The number that fixed the start and the order of the rows.
    tail
        Mean and variance of the log factor of every output's noise, (2, o); zeros where held-out
        rows want none.
    groups
        Effects of groups on every output, None where these gain nothing; None without groups.
    """

    experts: tuple[Networks | Processes, ...]
    weights: Float64[np.ndarray, "e o"]
    ramps: Ramps
    density: tuple[KernelDensity | None, ...]
    seed: int
    tail: Float64[np.ndarray, "2 o"]
    groups: tuple[GroupEffects | None, ...] | None = None

    @property
    def networks(self) -> Networks:
        """Those that are given the inputs as they are."""
        first = self.experts[0]
        assert isinstance(first, Networks)
        return first

    def validate(self) -> None:
        """Raise ValueError unless all parts belong to one ensemble."""
        d, n_given = len(self.ramps.n_knots), len(self.ramps.n_knots) + self.ramps.n_ramps
        if not self.experts or not isinstance(self.experts[0], Networks):
            raise ValueError("the first expert must be networks")
        o = self.experts[0].n_outputs
        for one in self.experts:
            n_inputs = n_given if one.is_ramped else d
            if isinstance(one, Networks):
                fits = one.n_inputs == n_inputs and one.members[0].sizes[1][-1] == o
            else:
                fits = all(p is None or p.x.shape[1] == n_inputs for p in one.processes)
            if not fits or one.n_outputs != o:
                raise ValueError(f"every expert must lead from its inputs to {o} outputs")
        least, most = self.weights.min(), np.abs(self.weights.sum(axis=0) - 1.0).max()
        if self.weights.shape != (len(self.experts), o) or least < 0.0 or most > 1e-6:
            raise ValueError("weights must be numbers from 0 on that sum to one, of every expert")
        if len(self.density) != o or self.tail.shape != (2, o):
            raise ValueError(f"all that belongs to an output must be there {o} times")
        if self.tail[1].min() < 0.0:
            raise ValueError("the variance of a log factor of the noise must be >= 0")
        if any(one is not None and one.x.shape[1] != d for one in self.density):
            raise ValueError(f"what knows rows must know {d} inputs of each")
        _check_effects(self.groups, o, d)

    def _views(self, x: Float[np.ndarray, "n d"]) -> list[np.ndarray]:
        """Return inputs as each expert takes them: with ramps, bounded, or (processes) as they are.

        Networks are bounded because what they say grows with what is far: of rows that are far in
        two columns at once by both.
        """
        ramped = self.ramps.encode(x) if any(one.is_ramped for one in self.experts) else x
        plain = self.ramps.plain(x), x
        return [
            ramped if one.is_ramped else plain[isinstance(one, Processes)] for one in self.experts
        ]

    def components(self, x: Float[np.ndarray, "n d"]) -> Components:
        """Return the mixture of all experts; their noise is as held-out rows want it."""
        each = zip(self.experts, self._views(x), strict=True)
        parts = [one.components(given) for one, given in each]
        return Components.mixed(parts, self.weights).with_noise(*self.tail)

    def without_density(self, x: Float[np.ndarray, "n d"]) -> MixturePredictive:
        """Predict by the experts alone."""
        return self.components(x).predictive()

    def predict(self, x: Float[np.ndarray, "n d"]) -> MixturePredictive:
        """Predict standardised targets by one mixture of all that a fit leaves."""
        predicted = self.without_density(x)
        if not any(self.density):
            return predicted
        return predicted.with_gaussians(*neighbours.gaussians(self.density, x, predicted.std))

    def with_groups(
        self,
        rows: Rows,
        left_out: Float[np.ndarray, "n o"] | None,
        n_at_once: int,
        rng: np.random.Generator,
    ) -> NumberState:
        """Learn the effects of the rows' groups from what is left of their targets, (n, o).

        The rows were learnt: if they are few, their noise is too small. That of residuals by
        experts that have not seen the group, `left_out`, then takes its place if it is larger.
        """
        few = max(FEW_ROWS, FEW_ROWS_AN_INPUT * rows.x.shape[1])
        some, n_groups, at = _some(rows, rng)
        predicted = _in_parts(self.predict, some.x, n_at_once)
        left = (some.y - predicted.mean) / predicted.std
        usual = np.quantile(predicted.epistemic_var / predicted.var, 0.9, axis=0)
        effects = [
            GroupEffects.fit(some._replace(y=one), n_groups, float(share))
            for one, share in zip(left.T, usual, strict=True)
        ]
        for o, one in enumerate(effects):
            if one is not None and left_out is not None and len(rows.x) < few:
                without = left_out[at, o]
                is_out = np.isfinite(without)
                of_new = GroupEffects.fit(some._replace(y=without).at(is_out), n_groups)
                if of_new is not None:
                    noise_var = max(one.noise_var, of_new.noise_var)
                    effects[o] = one._replace(noise_var=noise_var)
        return self._replace(groups=tuple(effects))

    def in_groups(
        self,
        predicted: MixturePredictive | PooledPredictive,
        group: Int[np.ndarray, "n ..."],
        x: Float[np.ndarray, "n d"],
    ) -> Predictive:
        """Move a prediction of rows by the effects of their groups; -1: a new group."""
        shape = predicted.mean.shape
        shift, factor, noise_share = np.zeros(shape), np.ones(shape), np.ones(shape)
        for o, effects in enumerate(self.groups or ()):
            if effects is not None:
                shift[:, o], own = effects.at(group, np.nan_to_num(x))
                share = predicted.epistemic_var[:, o] / predicted.var[:, o]
                beyond = np.maximum(share - effects.usual_share, 0.0)
                factor[:, o] = own + beyond * (1.0 - own)
                noise_share[:, o] = effects.noise_var * factor[:, o] / own
        return predicted.in_groups(shift, factor, noise_share)

    def draw(
        self,
        rng: np.random.Generator,
        x: Float[np.ndarray, "n d"],
        n: int,
        *,
        include_noise: bool = False,
    ) -> Float[np.ndarray, "s n o"]:
        """Draw networks or processes, and return their means at all rows, or new observations.

        Of networks linear in the covariance factors of the weights, as variances of predictions
        are; where there are none, with independent weights.
        """
        x = np.asarray(x, np.float64)
        draws = np.empty((n, len(x), self.weights.shape[1]))
        # One number a draw, so that outputs share networks where their weights are alike.
        passed = np.cumsum(self.weights, axis=0)[:-1, None] <= rng.random((n, 1))
        which, noise = passed.sum(axis=0), self.tail if include_noise else None
        for e, (expert, given) in enumerate(zip(self.experts, self._views(x), strict=True)):
            of_expert = np.flatnonzero((which == e).any(axis=1))
            if len(of_expert):
                if isinstance(expert, Processes):
                    values = _of_processes(rng, expert, given, len(of_expert), noise)
                else:
                    values = _of_networks(rng, expert, given, len(of_expert), noise)
                is_own = (which[of_expert] == e)[:, None]
                draws[of_expert] = np.where(is_own, values, draws[of_expert])
        if not any(self.density):
            return draws
        beside = neighbours.gaussians(self.density, x, self.without_density(x).std)
        return _or_nearby(rng, draws, beside, include_noise=include_noise)


def _some(
    rows: Rows, rng: np.random.Generator
) -> tuple[Rows, Int[np.ndarray, " f"], Int[np.ndarray, " m"]]:
    """Return rows that effects are learnt from, the numbers of groups, and the rows' places."""
    n_groups = np.atleast_1d(rows.group.max(axis=0) + 1)
    at = some_rows(rows.group.reshape(len(rows.x), -1)[:, np.argmax(n_groups)], rng)
    return rows.at(at), n_groups, at


def _in_parts(predict: Callable[[np.ndarray], T], x: Float[np.ndarray, "n d"], n_at_once: int) -> T:
    parts = [predict(x[first : first + n_at_once]) for first in range(0, len(x), n_at_once)]
    return type(parts[0]).joined(parts)


def _check_effects(groups: tuple[GroupEffects | None, ...] | None, n: int, d: int) -> None:
    """Raise ValueError unless they are of n outputs and d inputs."""
    if groups is not None and len(groups) != n:
        raise ValueError(f"effects must be of each of {n} outputs")
    effects = [one for one in groups or () if one is not None]
    if any(len(one.line) not in (0, d) or max(one.columns, default=0) >= d for one in effects):
        raise ValueError(f"effects must be of {d} inputs")


class ClassState(NamedTuple):
    """The posterior of all networks, and how they are mixed.

    experts
        Networks without and with ramps, of every likelihood weight.
    weights
        Mixture weights of the experts, (f,).
    ramps
        Of the inputs.
    constant
        Probabilities of the classes in the training rows, (c,).
    points
        Standard normal draws of all logits, whose negatives belong to them, (p, c).
    seed
        The number that fixed the starts, the folds and the order of the rows.
    neighbours
        What moves the mixture; None where held-out rows want nothing.
    power
        Inverse temperature that the mixture is raised to, before twins.
    groups
        Effects of groups on the log-odds of every class, of two classes of the second alone; None
        where these gain nothing; None without groups.
    surprise
        Weight of the constant beside all that: n rows without a surprise leave one in n + 2 (the
        rule of succession, Laplace 1774).
    twins
        Rows whose inputs stand in the table; None where held-out rows want nothing.
    """

    experts: tuple[Networks, ...]
    weights: Float64[np.ndarray, " f"]
    ramps: Ramps
    constant: Float64[np.ndarray, " c"]
    points: Float32[np.ndarray, "p c"]
    seed: int
    neighbours: LocalLogits | None = None
    surprise: float = 0.0
    twins: Twins | None = None
    power: float = 1.0
    groups: tuple[GroupEffects | None, ...] | None = None

    def validate(self) -> None:
        """Raise ValueError unless all parts belong to one ensemble."""
        n_inputs, n_classes = len(self.ramps.n_knots), len(self.constant)
        for name, size in (("constant", n_classes), ("weights", len(self.experts))):
            share = getattr(self, name)
            if share.shape != (size,) or (share < 0.0).any() or abs(share.sum() - 1.0) > 1e-6:
                raise ValueError(f"{name} must be {size} numbers from 0 on that sum to one")
        if not 0.0 <= self.surprise < 1.0:
            raise ValueError("surprise must be from 0 to 1")
        if not 0.1 < self.power < 10.0:
            raise ValueError("power must be between 0.1 and 10")
        _check_effects(self.groups, n_classes if n_classes > 2 else 1, 1)
        if not len(self.points) or self.points.shape[1] != n_classes:
            raise ValueError(f"points must have rows, and {n_classes} columns")
        near = self.neighbours
        if near is not None and (near.x.shape[1], near.proba.shape[1]) != (n_inputs, n_classes):
            raise ValueError(f"neighbours must be of {n_inputs} inputs and {n_classes} classes")
        same = self.twins
        if same is not None and (same.x.shape[1], same.counts.shape[1]) != (n_inputs, n_classes):
            raise ValueError(f"twins must be of {n_inputs} inputs and {n_classes} classes")
        for one in self.experts:
            n_given, first = n_inputs + one.is_ramped * self.ramps.n_ramps, one.members[0]
            n_thresholds = len(first.thresholds)
            wanted = (n_given, 1 if n_thresholds else n_classes)
            if (first.sizes[0][0], first.sizes[0][-1]) != wanted or n_thresholds not in (
                0,
                n_classes - 1,
            ):
                raise ValueError(f"networks must lead from {n_given} inputs to {n_classes} classes")
            if not first.is_direct or first.noise:
                raise ValueError("networks of classes must take the inputs last, and have no noise")

    def predict(self, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Predict the classes of standardised rows.

        The expected entropy is that of the mixture times what neighbours and twins do to the whole
        entropy: the share of the doubt that data would remove is that before they move the mixture.
        """
        views = self.ramps.plain(x), self.ramps.encode(x)
        proba, entropy = np.zeros((len(x), len(self.constant))), np.zeros(len(x))
        for expert, weight in zip(self.experts, self.weights, strict=True):
            share = weight / expert.n_members
            for each in class_outputs(expert.members, views[expert.is_ramped], self.points):
                proba += share * each[0]
                entropy += share * each[1]
        moved = proba if self.neighbours is None else self.neighbours.moved(views[0], proba)
        moved = stacking.normalised(moved, self.power)
        moved = moved if self.twins is None else self.twins.moved(x, moved)
        before, after = (special.entr(p).sum(axis=1) for p in (proba, moved))
        entropy *= after / np.maximum(before, stacking.LEAST_PROBA)
        own, share = special.entr(self.constant).sum(), self.surprise
        return ClassPredictive.of_codes(
            (1.0 - share) * moved + share * self.constant,
            (1.0 - share) * entropy + share * own,
        )

    def with_groups(
        self,
        rows: Rows,
        left_out: Float[np.ndarray, "n c"] | None,
        n_at_once: int,
        rng: np.random.Generator,
    ) -> ClassState:
        """Learn the effects of the rows' groups beside what networks predict.

        left_out
            Probabilities by networks that have not learnt the group; NaN of rows without.
        """
        some, n_groups, at = _some(rows, rng)
        if left_out is None:
            return self
        out = np.flatnonzero(np.isfinite(left_out[at]).all(axis=1))
        some, at = some.at(out), at[out]
        networks = self._replace(neighbours=None, twins=None)  # a row is its own neighbour
        learnt = _log_odds(_in_parts(networks.predict, some.x, n_at_once).proba)
        without = _log_odds(stacking.normalised(left_out[at], self.power))
        first = len(self.constant) - learnt.shape[1]
        effects = (
            GroupEffects.of_class(some._replace(y=1.0 * (some.y == first + k)), *odds, n_groups)
            for k, odds in enumerate(zip(without.T, learnt.T, strict=True))
        )
        return self._replace(groups=tuple(effects))

    def in_groups(
        self, predicted: ClassPredictive, group: Int[np.ndarray, "n ..."]
    ) -> ClassPredictive:
        """Move the log-odds of rows by the effects of their groups; -1: a new group.

        Averaged over what is not known of the effects (MacKay 1992), which counts as doubt that
        data would remove; what is left scales with the entropy that known effects would leave. No
        class falls below a surprise.
        """
        logits = _log_odds(predicted.proba)
        var = np.zeros_like(logits)
        for k, effects in enumerate(self.groups or ()):
            if effects is not None:
                of_line = np.clip(logits[:, k, None], -FURTHEST, FURTHEST)
                shift, factor = effects.at(group, of_line)
                logits[:, k] += shift
                var[:, k] = factor - effects.noise_var
        known, moved = (
            _of_log_odds(one) for one in (logits, logits / np.sqrt(1.0 + np.pi / 8.0 * var))
        )
        moved = np.maximum(moved, self.surprise * self.constant)
        moved /= moved.sum(axis=1, keepdims=True)
        before, left = (special.entr(p).sum(axis=1) for p in (predicted.proba, known))
        share = left / np.maximum(before, stacking.LEAST_PROBA)
        entropy = np.minimum(predicted.expected_entropy * share, special.entr(moved).sum(axis=1))
        return replace(predicted, proba=moved, expected_entropy=entropy)


def _log_odds(proba: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n k"]:
    """Return those of every class, of two classes of the second."""
    proba = np.clip(proba, stacking.LEAST_PROBA, 1.0 - 1e-12)
    return special.logit(proba[:, 1:] if proba.shape[1] == 2 else proba)


def _of_log_odds(logits: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n c"]:
    """Return probabilities, scaled to sum to one."""
    proba = special.expit(logits)
    if proba.shape[1] == 1:
        return np.concatenate([1.0 - proba, proba], axis=1)
    return proba / proba.sum(axis=1, keepdims=True)


def _or_nearby(
    rng: np.random.Generator,
    draws: Float[np.ndarray, "s n o"],
    beside: Float[np.ndarray, "3 k n o"],
    *,
    include_noise: bool,
) -> Float[np.ndarray, "s n o"]:
    """Replace one draw in so many, the same at all rows, by the mean of the nearest targets."""
    y, var, share = beside
    total = share.sum(axis=0)
    each = np.divide(share, total, out=np.zeros_like(share), where=total > 0.0)
    values = np.broadcast_to(np.sum(each * y, axis=0), draws.shape)
    if include_noise:
        passed = np.cumsum(each, axis=0)[:-1, None] <= rng.random(draws.shape)
        at = passed.sum(axis=0)
        std = np.sqrt(np.take_along_axis(var, at, axis=0))
        values = np.take_along_axis(y, at, axis=0) + std * rng.standard_normal(at.shape)
    is_nearby = rng.random((len(draws), 1, draws.shape[2])) < total
    return np.where(is_nearby, values, draws)


def _of_processes(
    rng: np.random.Generator,
    expert: Processes,
    x: Float[np.ndarray, "n d"],
    n: int,
    tail: Float[np.ndarray, "2 o"] | None,
) -> Float[np.ndarray, "s n o"]:
    """Draw functions of processes, or (with tails) observations; 0 of outputs without one."""
    draws = np.zeros((n, len(x), expert.n_outputs))
    for o, process in enumerate(expert.processes):
        if process is not None:
            draws[..., o] = process.draw(rng, x, n)
    if tail is not None:
        components = expert.components(x).with_noise(*tail)
        away = np.sqrt(components.l_v) * rng.standard_normal(draws.shape)
        draws += np.exp(0.5 * (components.l_m + away)) * rng.standard_normal(draws.shape)
    return draws


def _of_networks(
    rng: np.random.Generator,
    expert: Networks,
    x: Float[np.ndarray, "n d"],
    n: int,
    tail: Float[np.ndarray, "2 o"] | None,
) -> Float[np.ndarray, "s n o"]:
    """Draw mean networks moved by residuals, or (with tails) observations with noise networks."""
    draws = np.empty((n, len(x), expert.n_outputs))
    noisy, drawn = outputs(expert, x), rng.integers(expert.n_members, size=n)
    for k in np.unique(drawn):
        numbers = np.flatnonzero(drawn == k)
        draws[numbers] = _means(rng, expert, x, noisy.m[k], k, len(numbers))
    log_factor, own_std = np.zeros(draws.shape[1:]), np.ones(draws.shape[1:])
    for o, process in enumerate(expert.residuals):
        if process is not None:
            local, members = Local.of(process, x), noisy.column(o)
            certain = changed(members, local)._replace(unknown=np.zeros_like(members.m))
            noise_var = certain.predictive(float(expert.log_noise_factor[o])).noise_var
            away = process.draw(rng, x, n) - local.m
            away *= np.sqrt(noise_var / (local.v + local.noise))
            predicted = members.predictive()
            draws[:, :, o] = local.moved(predicted, draws[:, :, o]) + away
            log_factor[:, o] = local.log_ratio(predicted)
            own_std[:, o] = np.sqrt(1.0 - local.unknown)
    if tail is not None:
        log_factor += expert.log_noise_factor + tail[0]
        for s, k in enumerate(drawn):
            draws[s] += own_std * _noise(rng, expert, x, noisy, k, log_factor, tail[1])
    return draws


def _noise(
    rng: np.random.Generator,
    networks: Networks,
    x: Float[np.ndarray, "n d"],
    noisy: Components,
    k: int,
    log_factor: Float[np.ndarray, "n o"],
    log_var: Float[np.ndarray, " o"],
) -> Float[np.ndarray, "n o"]:
    """Draw a noise network of member k, and noise as it says, by a factor that is log-normal."""
    member, l_m, l_v = networks.members[k], noisy.l_m[k], noisy.l_v[k]
    raw = member.log_noise + apply(draw(rng, member.noise), x)
    shrinkage = np.sqrt(MOST_LOG_NOISE_VAR / np.maximum(l_v + log_var, MOST_LOG_NOISE_VAR))
    beside = np.sqrt(log_var) * rng.standard_normal(raw.shape)
    away = shrinkage * (np.logaddexp(raw, networks.log_floor) - l_m + beside)
    l_m = scale_noise(l_m, log_factor, networks.log_floor)
    log_var = np.clip(l_m + away, LEAST_LOG_NOISE, MOST_LOG_NOISE)
    return np.exp(0.5 * log_var) * rng.standard_t(noisy.dof[k], size=raw.shape)


def _means(
    rng: np.random.Generator,
    networks: Networks,
    x: Float[np.ndarray, "n d"],
    m: Float[np.ndarray, "n o"],
    k: int,
    n: int,
) -> Float[np.ndarray, "s n o"]:
    """Draw n mean networks of member k, whose expected outputs are m."""
    if not networks.factors.size:
        member = networks.members[k]
        return np.stack([apply(draw(rng, member.mean), x, member.log_widths) for _ in range(n)])
    n_factors = networks.factors.shape[1]
    steps, once = rng.standard_normal((n, n_factors)), n <= n_factors
    if once:  # fewer ways to go than there are factors
        together = np.float32(steps @ networks.factors[k])
        networks = networks._replace(factors=np.broadcast_to(together, (k + 1, *together.shape)))
    draws = np.empty((n, *m.shape))
    a_piece = max(1, _NUMBERS_AT_A_TIME // (networks.factors.shape[1] * networks.n_outputs))
    for first in range(0, len(x), a_piece):
        part = slice(first, first + a_piece)
        far = moves(networks, x[part], k)
        draws[:, part] = m[part]
        draws[:, part] += np.moveaxis(far, 1, 0) if once else np.tensordot(steps, far, axes=(1, 1))
    return draws

"""A mixture of components, and what held-out rows choose of it: weights, a factor of the noise.

Weights of a mixture are those under which held-out rows are most likely (stacking: Yao et al.
2018). The noise moves no further than to within one standard error of where held-out rows want it
(the rule of Breiman et al. 1984 for trees); its variance above the floor changes by one factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
    NO_TAIL,
    MixturePredictive,
)
from bayesprop.numerics.rows import Rows

Values = Any
"""An array of NumPy, or a number."""


class Components(NamedTuple):
    """A mixture of k components at n rows, standardised; arrays are (k, n, o), or (k, n).

    m, v
        Mean and variance of the function.
    l_m, l_v
        Mean and variance of the log noise variance (of a Student-t: its squared scale).
    dof
        Degrees of freedom of the noise.
    share
        Mixture weight of each component; sums to 1 over the components.
    unknown
        Share of the noise variance that is uncertainty of the function.
    floor
        Log noise variance below which no factor moves the noise.
    """

    m: Values
    v: Values
    l_m: Values
    l_v: Values
    dof: Values
    share: Values
    unknown: Values
    floor: Values

    @classmethod
    def of(
        cls,
        m: Values,
        v: Values,
        l_m: Values,
        l_v: Values = 0.0,
        dof: Values = NO_TAIL,
        share: Values = 1.0,
        floor: Values = -np.inf,
    ) -> Components:
        """Build components with no unknown share; arrays from l_m on broadcast."""
        others = (np.broadcast_to(a, m.shape) for a in (l_m, l_v, dof, share, 0.0, floor))
        return cls(m, v, *others)

    @classmethod
    def mixed(cls, parts: Sequence[Components], weights: Values) -> Components:
        """Mix mixtures by their weights, (o,) or numbers, which sum to 1."""
        if len(parts) == 1:
            return parts[0]
        scaled = [p._replace(share=w * p.share) for p, w in zip(parts, weights, strict=True)]
        return cls(*(np.concatenate(each) for each in zip(*scaled, strict=True)))

    def at(self, rows: Values) -> Components:
        """Take some rows."""
        return Components(*(part[:, rows] for part in self))

    def column(self, o: int) -> Components:
        """Take one output, (k, n)."""
        return Components(*(part[..., o] for part in self))

    def by(self, component: Int[np.ndarray, " n"]) -> Components:
        """Return one component of every row, with weight one."""
        alone = Components(*(part[component, np.arange(len(component))][None] for part in self))
        return alone._replace(share=np.ones_like(alone.share))

    def with_noise(self, log_factor: Values, log_var: Values = 0.0) -> Components:
        """Multiply the noise variance above its floor by a factor that is log-normal.

        log_var
            Of the logarithm of the factor, whose mean is `log_factor`.
        """
        l_m = scale_noise(self.l_m, log_factor, self.floor)
        return self._replace(l_m=l_m, l_v=self.l_v + log_var)

    def predictive(self, log_factor: Float[np.ndarray, "..."] | float = 0.0) -> MixturePredictive:
        """Return the predictive distribution, the noise variance above its floor multiplied."""
        return MixturePredictive.of_networks(
            f_mean=self.m,
            f_var=self.v,
            log_noise_mean=np.clip(
                scale_noise(self.l_m, log_factor, self.floor), LEAST_LOG_NOISE, MOST_LOG_NOISE
            ),
            log_noise_var=np.minimum(self.l_v, MOST_LOG_NOISE_VAR),
            dof=self.dof,
            share=self.share,
            unknown_share=self.unknown,
        )


def scale_noise(
    log_noise: Float[np.ndarray, "*a"],
    log_factor: Float[np.ndarray, "..."] | float,
    log_floor: Float[np.ndarray, "..."] | float,
) -> Float[np.ndarray, "*a"]:
    """Multiply what lies above the floor: log(exp(floor) + factor (exp(log noise) - exp(floor))).

    Noise below the floor stays as it is.
    """
    log_floor = np.minimum(log_floor, log_noise)
    above = -np.expm1(log_floor - log_noise)
    with np.errstate(divide="ignore"):
        return np.logaddexp(log_floor, log_factor + log_noise + np.log(above))


PSEUDO_ROWS = 1.0
"""Rows that every prediction is taken to have explained alone: a pull to equal weights."""
LEAST_PROBA = 1e-12

LOG_STEP, MOST_STEPS, MOST_OF_A_POWER = 0.25, 16, 4
"""Of the logarithm of the factor of the noise variance, and of the power of probabilities."""

LOG_VARS = 1.0, 2.0, 4.0
"""Of the logarithm of a factor of the noise variance, which give its distribution tails."""

MOST_MEASUREMENTS = 8192
"""Held-out measurements that are scored, at most."""

LEAST_GAIN = 1e-3
"""In nats a row, below which a gain is none, however sure."""

_N_ROUNDS = 300


def mixture_weights(
    likelihood: Float[np.ndarray, "f n"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " f"]:
    """Maximise the likelihood of a mixture of f predictions in their weights, which sum to one.

    By expectation maximisation (Dempster, Laird & Rubin 1977), with a Dirichlet prior of
    PSEUDO_ROWS a prediction.

    likelihood
        What each gave to every row, positive.
    """
    share = np.full(len(likelihood), 1.0 / len(likelihood))
    for _ in range(_N_ROUNDS):
        joint = share[:, None] * likelihood
        counts = (joint / joint.sum(axis=0)) @ weight + PSEUDO_ROWS
        share = counts / counts.sum()
    return share


def weights_of(
    log_p: Float[np.ndarray, "f n"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " f"]:
    """Return `mixture_weights` from log densities."""
    return mixture_weights(np.exp(log_p - log_p.max(axis=0)), weight)


def normalised(proba: Float[np.ndarray, "n c"], power: float = 1.0) -> Float[np.ndarray, "n c"]:
    """Return powers of probabilities, LEAST_PROBA or more, that sum to one."""
    p = np.maximum(proba, LEAST_PROBA) ** power
    return p / p.sum(axis=1, keepdims=True)


def log_loss(
    proba: Float[np.ndarray, "n c"], codes: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return -log p of the class of every row, nats, normalised."""
    return -np.log(normalised(proba)[np.arange(len(codes)), codes])


def scores(measured: Rows, log_p: Float[np.ndarray, " r"]) -> Float[np.ndarray, " g"]:
    """Log-likelihood of every group of measurements; the mean is that of measurements by weight."""
    assert measured.group is not None
    unit = np.unique(measured.group, return_inverse=True)[1]
    each = np.bincount(unit, measured.weight * log_p / measured.weight.sum())
    return each * len(each)


def noise_factor(
    components: Components, measured: Rows, n_errors: float = 1.0
) -> tuple[float, Float[np.ndarray, " g"]]:
    """Log of the factor of the noise that held-out measurements want, and their scores with it.

    components
        Of one output, at every measurement.
    """

    def scores_with(log_factor: float) -> Float[np.ndarray, " g"]:
        return scores(measured, components.predictive(log_factor).log_prob(measured.y))

    return least_change(scores_with, n_errors)


def tail(components: Components, measured: Rows) -> tuple[float, float]:
    """Mean and variance of the log factor of the noise that held-out measurements want.

    0 and 0 if the best gains less than a standard error: the factor that gives noise its tails. Of
    variances that are within a standard error of the best the least.
    """
    before = scores(measured, components.predictive().log_prob(measured.y))
    tried = [(0.0, 0.0, before)]
    for log_var in LOG_VARS:
        wider = components.with_noise(0.0, log_var)
        log_factor, after = noise_factor(wider, measured, 0.0)
        tried.append((log_factor, log_var, after))
    best = max(tried, key=lambda one: one[2].mean())[2]
    return next(one[:2] for one in tried if is_no_more(best - one[2]))


def power(known: Rows, proba: Float[np.ndarray, "n c"]) -> float:
    """Power of the probabilities of classes that held-out rows want: an inverse temperature."""
    known = known if known.group is not None else known._replace(group=np.arange(len(known.y)))

    def scores_with(log_power: float) -> Float[np.ndarray, " g"]:
        return scores(known, -log_loss(normalised(proba, np.exp(log_power)), known.y))

    return float(np.exp(least_change(scores_with, most_steps=MOST_OF_A_POWER)[0]))


def least_change(
    scores_with: Callable[[float], Float[np.ndarray, " g"]],
    n_errors: float = 1.0,
    most_steps: int = MOST_STEPS,
) -> tuple[float, Float[np.ndarray, " g"]]:
    """Return the logarithm of the factor that scores want, as near to 0 as they allow, and them.

    Climb from 0, then come back as far as is within some standard errors of the top.

    n_errors
        Standard errors of the best score within which the factor stays next to 1.
    """
    tried: dict[int, Float[np.ndarray, " g"]] = {}

    def at(step: int) -> Float[np.ndarray, " g"]:
        if step not in tried:
            tried[step] = scores_with(step * LOG_STEP)
        return tried[step]

    best = 0
    for way in (-1, 1):
        while abs(best) < most_steps and at(best + way).mean() > at(best).mean():
            best += way
    steps = sorted(range(min(best, 0), max(best, 0) + 1), key=abs)
    nearest = next((step for step in steps if is_no_more(at(best) - at(step), n_errors)), best)
    return nearest * LOG_STEP, at(nearest)


def is_no_more(values: Float[np.ndarray, " n"], n_errors: float = 1.0) -> bool:
    """Return whether the mean of scores is at most some standard errors above 0."""
    return bool(values.mean() <= n_errors * values.std() / np.sqrt(len(values)))


def folds(
    groups: Int[np.ndarray, " n"],
    codes: Int[np.ndarray, " n"],
    n_folds: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Give every row the fold that leaves it out, -1 for none; stratified by class.

    Rows of a group share a fold. A class that is one group alone is never left out: nothing would
    be left to learn it from. Nor is anything by a single fold.
    """
    first = np.unique(groups, return_index=True)[1]
    of_group, began = np.full(len(first), -1), 0
    if n_folds == 1:
        return of_group[groups]
    for code in np.unique(codes[first]):
        members = rng.permutation(np.flatnonzero(codes[first] == code))
        if len(members) > 1:
            of_group[members] = (began + np.arange(len(members))) % n_folds
            began += len(members)
    return of_group[groups]


def dealt(
    x: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    n_folds: int,
) -> tuple[Rows, Int[np.ndarray, " n"]]:
    """Deal the rows of every input and class out to the folds, in turn; return these, -1: none.

    Those of one input, class and fold become one. A row that weighs twice the mean is dealt as two.
    Of a class of less than two nothing is left out.
    """
    cells, cell = np.unique(np.column_stack([codes, x]), axis=0, return_inverse=True)
    end = np.cumsum(np.bincount(cell.ravel(), weight / weight.mean()))
    number = np.arange(n_folds)[:, None]
    rounds, rest = np.divmod(np.append(0.0, end), n_folds)
    amount = np.diff(rounds + np.clip(rest - number, 0.0, 1.0), axis=1)
    fold, at = np.nonzero(amount)
    x, codes, dealt = cells[at, 1:], cells[at, 0].astype(codes.dtype), amount[fold, at]
    fold = np.where(np.bincount(codes, dealt)[codes] < 2.0, -1, fold)
    return Rows(x, codes, weight.mean() * dealt), fold

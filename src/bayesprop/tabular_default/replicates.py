"""Inputs that a table holds more than once: the next measurement may be like the last.

Some tables hold the same inputs more than once: a recipe tried again, a row copied twice. Their
targets can lie closer together than the networks' noise says, because part of it belongs to the
inputs and comes back with them. With B what does not, of the noise variance s (1 - B / s is the
intraclass correlation; Fisher 1925, "Statistical methods for research workers", chapter 7), m and v
what everything else says of the function, and ybar the mean of measurements that count W, the next
is

    y ~ noise around N(m*, v*),    A = v + s - B,
    m* = m + W A / (W A + B) (ybar - m),    v* = A B / (W A + B),

the noise as the networks say, but of variance B, or a little more: its floor stays. Inputs that
were never measured gain nothing from it, and lose nothing. B is judged as the noise itself is: by
the log-likelihood of every measurement given the others of its inputs, and what the members say of
all these left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.components import Components
from bayesprop.tabular_default.duplicate_inputs import Distinct, bits
from bayesprop.tabular_default.stack import (
    LEAST_GAIN,
    MOST_MEASUREMENTS,
    MOST_STEPS,
    is_no_more,
    nearest_to_best,
    scores,
)

CONVINCING = 2.0
"""Standard errors by which rows must gain that have chosen what they judge."""

LEAST_REPEATED = 10
"""Inputs that stand for more than one row, below which nothing is learnt of what comes back."""

LOG_STEP = 0.5
LEAST_LOG_OWN = -LOG_STEP * MOST_STEPS
"""Log of the least share that does not come back: a three thousandth."""


class Replicates(NamedTuple):
    """Inputs that have been measured, n of d columns, and what they are known to give; float32.

    rows
        Standardised, all different, sorted by their bits, (n, d); none where nothing comes back.
    m, v
        m* and v* of every output, (n, o).
    log_own
        log(B / s), (o,); 0: the noise of that output never comes back.
    """

    rows: Float32[np.ndarray, "n d"]
    m: Float32[np.ndarray, "n o"]
    v: Float32[np.ndarray, "n o"]
    log_own: Float32[np.ndarray, " o"]

    @classmethod
    def none(cls, n_inputs: int, n_outputs: int) -> Replicates:
        """Remember nothing."""
        shapes = (0, n_inputs), (0, n_outputs), (0, n_outputs), (n_outputs,)
        return cls(*(np.zeros(shape, np.float32) for shape in shapes))

    @classmethod
    def of(
        cls,
        rows: Float[np.ndarray, "n d"],
        m: Float[np.ndarray, "n o"],
        v: Float[np.ndarray, "n o"],
        log_own: Float[np.ndarray, " o"],
    ) -> Replicates:
        """Sort different rows, and what is known of them."""
        order = np.argsort(bits(rows))
        parts = rows[order], m[order], v[order], log_own
        return cls(*(np.asarray(part, np.float32) for part in parts))

    def validate(self) -> None:
        """Raise ValueError unless the rows are sorted, and all that is known of them possible."""
        if (self.v < 0.0).any() or (self.log_own > 0.0).any():
            raise ValueError("the replicates' v must be at least 0, their log_own at most 0")
        if (np.argsort(bits(self.rows), kind="stable") != np.arange(len(self.rows))).any():
            raise ValueError("the replicates must be sorted by their bits")

    @property
    def are_copies(self) -> bool:
        """Whether targets agree as closely as is looked for, as those of copies do."""
        return bool(self.log_own.min() <= LEAST_LOG_OWN)

    def find(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, " f"]]:
        """Places in x of inputs that are known to the last bit, and their numbers."""
        if not len(self.rows):
            return np.zeros(0, int), np.zeros(0, int)
        known, asked = bits(self.rows), bits(x)
        numbers = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        places = np.flatnonzero(known[numbers] == asked)
        return places, numbers[places]

    def overwritten(
        self,
        rng: np.random.Generator,
        x: Float[np.ndarray, "m d"],
        draws: Float[np.ndarray, "s m o"],
    ) -> Float[np.ndarray, "s m o"]:
        """Put draws of what is known into functions at x, the same for inputs that are the same."""
        places, numbers = self.find(x)
        if len(places):
            comes_back = self.log_own < 0.0
            number, which = np.unique(numbers, return_inverse=True)
            m, v = (part[np.ix_(number, comes_back)] for part in (self.m, self.v))
            known = m + np.sqrt(v) * rng.standard_normal((len(draws), *m.shape))
            draws[:, *np.ix_(places, comes_back)] = known[:, which]
        return draws


def learn(
    seed: int, distinct: Distinct, some: Int[np.ndarray, " r"], held_out: Components
) -> Replicates:
    """Remember the inputs of the table, if their noise comes back.

    some
        Numbers of the rows that have been left out.
    held_out
        What is said of every input of `distinct.once`, of those left out.
    """
    once, n_outputs = distinct.once, distinct.table.y.shape[1]
    rng, (measured, at, _) = np.random.default_rng([seed % 2**32, 5]), distinct.measured(some)
    log_own = np.zeros(n_outputs, np.float32)
    for o in range(n_outputs):
        one = held_out.at(some[at]).column(o)
        log_own[o] = own_share(rng, one, measured._replace(y=measured.y[:, o]))
    if not log_own.any():
        return Replicates.none(once.x.shape[1], n_outputs)
    m, v = np.zeros_like(once.y), np.zeros_like(once.y)
    for o in map(int, np.flatnonzero(log_own)):
        moments, count = _moments(held_out.column(o)), distinct.unit * once.weight
        m[:, o], v[:, o] = recalled(*moments, float(log_own[o]), count, once.y[:, o])
    x, m, v = (part[once.weight > 0.0] for part in (once.x, m, v))
    return Replicates.of(x, m, v, log_own)


def own_share(rng: np.random.Generator, members: Components, measured: Rows) -> float:
    """Log of the share of the noise that does not come back with the inputs.

    members
        At every measurement, whose group is its inputs.
    """
    assert measured.group is not None
    count, mean = _others(measured)
    repeated = np.flatnonzero(count > 0.0)
    repeated = np.sort(rng.permutation(repeated)[:MOST_MEASUREMENTS])
    few, count, mean = measured.at(repeated), count[repeated], mean[repeated]
    if len(np.unique(measured.group[repeated])) < LEAST_REPEATED:
        return 0.0
    there = members.at(repeated)
    moments = _moments(there)

    def scored(step: int) -> Float[np.ndarray, " n"]:
        log_own = step * LOG_STEP
        agreed = recalled(*moments, log_own, count, mean)
        m, v = (np.broadcast_to(part, there.m.shape) for part in agreed)
        return scores(few, there._replace(m=m, v=v).predictive(log_own).log_prob(few.y))

    step, best_scores = nearest_to_best(scored, (-1,))
    return 0.0 if is_no_more(best_scores - scored(0) - LEAST_GAIN, CONVINCING) else step * LOG_STEP


def _others(measured: Rows) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """How often the other targets of the same inputs count, and their mean; 0 of none."""
    assert measured.group is not None
    at, y, weight = np.unique(measured.group, return_inverse=True)[1], measured.y, measured.weight
    is_alone = np.bincount(at)[at] == 1
    count = np.bincount(at, weight)[at] - weight
    count[is_alone] = 0.0
    total = np.bincount(at, weight * y)[at] - weight * y
    return count, np.divide(total, count, out=np.zeros_like(total), where=count > 0.0)


def _moments(members: Components) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and variance of the function, and the variance of the noise."""
    predicted = members.predictive()
    return predicted.mean, predicted.epistemic_var, predicted.noise_var


def recalled(
    m: Float[np.ndarray, " n"],
    v: Float[np.ndarray, " n"],
    s: Float[np.ndarray, " n"],
    log_own: float,
    count: Float[np.ndarray, " n"],
    mean: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return m* and v*; log_own is log(B / s), count and mean are W and ybar."""
    own, shared = np.exp(log_own) * s, v - np.expm1(log_own) * s
    total = count * shared + own
    return m + count * shared / total * (mean - m), shared * own / total


def recall(
    replicates: Replicates, x: Float[np.ndarray, "n d"], noisy: Components
) -> tuple[Components, Float[np.ndarray, "n o"]]:
    """Say what is known of inputs that were measured, and the log factor of every row's noise."""
    log_ratio = np.zeros((len(x), len(replicates.log_own)))
    places, numbers = replicates.find(x)
    if len(places):
        comes_back = replicates.log_own < 0.0
        where, which = np.ix_(places, comes_back), np.ix_(numbers, comes_back)
        m, v = noisy.m.copy(), noisy.v.copy()
        m[:, *where], v[:, *where] = replicates.m[which], replicates.v[which]
        noisy = noisy._replace(m=m, v=v)
        log_ratio[places] += replicates.log_own
    return noisy, log_ratio

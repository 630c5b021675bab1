"""What the members say at some rows, as one predictive; and how far its noise may be moved.

The noise moves no further than to within one standard error of where rows left out want it (the
rule of Breiman et al. 1984 for trees); its variance above the floor changes by one factor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
    NO_TAIL,
    MixturePredictive,
)
from bayesprop.tabular_default.distinct_rows import Targets
from bayesprop.tabular_default.gaussian_network import Values

LOG_STEP, MOST_STEPS = 0.25, 16
"""Of the logarithm of the factor of the noise variance."""

MOST_TARGETS = 8192
"""Measurements that judge, at most."""

CONVINCING = 2.0
"""Standard errors by which rows must gain that have chosen what they judge."""

LEAST_GAIN = 1e-3
"""In nats a row, below which a gain is none, however sure."""


class NoisyOutput(NamedTuple):
    """What k members say at n rows, standardised; arrays are (k, n, o).

    m, v
        Mean and variance of the function.
    l_m, l_v
        Mean and variance of the log noise variance (of a Student-t: its squared scale).
    dof
        Degrees of freedom of the noise.
    share
        Of each member in the mixture; sums to 1 over the members.
    unknown
        Share of the noise that is not known of the function.
    """

    m: Values
    v: Values
    l_m: Values
    l_v: Values
    dof: Values
    share: Values
    unknown: Values

    @classmethod
    def of(
        cls, m: Values, v: Values, l_m: Values, l_v: Values, dof: Values, share: Values
    ) -> NoisyOutput:
        """Take members whose noise is all noise; dof and share of any shape that fits."""
        return cls(m, v, l_m, l_v, *(np.broadcast_to(part, m.shape) for part in (dof, share, 0.0)))

    def at(self, rows: Values) -> NoisyOutput:
        """Take some rows."""
        return NoisyOutput(*(part[:, rows] for part in self))

    def by(self, member: Int[np.ndarray, " n"]) -> NoisyOutput:
        """Let one member speak for each row, as if there were no other."""
        rows = np.arange(len(member))
        alone = NoisyOutput(*(part[member, rows][None] for part in self))
        return alone._replace(share=np.ones_like(alone.share))

    def together(self, other: NoisyOutput, share: Float[np.ndarray, " o"] | float) -> NoisyOutput:
        """Give members of another ensemble a share beside these, who keep theirs of the rest."""
        one = self._replace(share=(1.0 - share) * self.share)
        two = other._replace(share=share * other.share)
        return NoisyOutput(*(np.concatenate(pair) for pair in zip(one, two, strict=True)))

    def beside(
        self,
        m: Float[np.ndarray, "n o"],
        v: Float[np.ndarray, "n o"],
        log_noise: Float[np.ndarray, " o"],
        share: Float[np.ndarray, " o"],
    ) -> NoisyOutput:
        """Give a Gaussian its share beside the members, who keep theirs of the rest."""
        m, v, l_m = m[None], v[None], np.broadcast_to(log_noise, m[None].shape)
        return self.together(NoisyOutput.of(m, v, l_m, np.zeros_like(m), NO_TAIL, 1.0), share)


def scaled(
    log_noise: Float[np.ndarray, "*a"],
    log_ratio: Float[np.ndarray, "..."] | float,
    log_floor: Float[np.ndarray, "..."] | float,
) -> Float[np.ndarray, "*a"]:
    """Multiply what lies above the floor: log(exp(floor) + ratio (exp(log noise) - exp(floor))).

    Noise below the floor stays as it is.
    """
    log_floor = np.minimum(log_floor, log_noise)
    above = -np.expm1(log_floor - log_noise)
    with np.errstate(divide="ignore"):
        return np.logaddexp(log_floor, log_ratio + log_noise + np.log(above))


def predictive(
    noisy: NoisyOutput,
    log_ratio: Float[np.ndarray, " o"] | float,
    log_floor: Float[np.ndarray, " o"] | float,
) -> MixturePredictive:
    """One mixture over the members; arrays (k, n) or (k, n, o)."""
    l_m = scaled(noisy.l_m, log_ratio, log_floor)
    return MixturePredictive.of_networks(
        f_mean=noisy.m,
        f_var=noisy.v,
        log_noise_mean=np.clip(l_m, LEAST_LOG_NOISE, MOST_LOG_NOISE),
        log_noise_var=np.minimum(noisy.l_v, MOST_LOG_NOISE_VAR),
        dof=noisy.dof,
        share=noisy.share,
        unknown_share=noisy.unknown,
    )


class Output(NamedTuple):
    """What the members say of one output at some rows, (k, n), and the floor of its noise."""

    noisy: NoisyOutput
    log_floor: float

    @classmethod
    def of(cls, noisy: NoisyOutput, log_floor: Float[np.ndarray, " o"], o: int) -> Output:
        """Take one of all."""
        return cls(NoisyOutput(*(part[..., o] for part in noisy)), float(log_floor[o]))

    def predictive(self, log_ratio: float) -> MixturePredictive:
        """Mix the members, the noise multiplied."""
        return predictive(self.noisy, log_ratio, self.log_floor)

    def at(self, rows: Int[np.ndarray, " r"]) -> Output:
        """Take some rows."""
        return self._replace(noisy=self.noisy.at(rows))

    def best(
        self, targets: Targets, n_errors: float = 1.0
    ) -> tuple[float, Float[np.ndarray, " n"]]:
        """Log of the factor of the noise, and the log-likelihoods with it.

        Where rows have groups it goes the whole way: that noise was learnt from rows of the same
        groups speaks against it.

        n_errors
            Standard errors of the best within which it stays behind.
        """
        there, n_errors = self.at(targets.at), n_errors if targets.group is None else 0.0

        def scores(step: int) -> Float[np.ndarray, " n"]:
            return targets.scores(there.predictive(step * LOG_STEP).log_prob(targets.y))

        step, best_scores = nearest_to_best(scores, (-1, 1), n_errors)
        return step * LOG_STEP, best_scores


def nearest_to_best(
    scores: Callable[[int], Float[np.ndarray, " n"]], ways: tuple[int, ...], n_errors: float = 1.0
) -> tuple[int, Float[np.ndarray, " n"]]:
    """Climb from 0, then come back as far as is within some standard errors of the top."""
    tried: dict[int, Float[np.ndarray, " n"]] = {}

    def at(step: int) -> Float[np.ndarray, " n"]:
        if step not in tried:
            tried[step] = scores(step)
        return tried[step]

    best = 0
    for way in ways:
        while abs(best) < MOST_STEPS and at(best + way).mean() > at(best).mean():
            best += way
    steps = sorted(range(min(best, 0), max(best, 0) + 1), key=abs)
    nearest = next((step for step in steps if is_no_more(at(best) - at(step), n_errors)), best)
    return nearest, at(nearest)


def is_no_more(values: Float[np.ndarray, " n"], n_errors: float = 1.0) -> bool:
    """Say whether their mean is no more than some standard errors above 0."""
    return bool(values.mean() <= n_errors * values.std() / np.sqrt(len(values)))

"""What experts predict of numbers: a mixture of Student-t components of uncertain scale."""

from __future__ import annotations

from collections.abc import Sequence
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

    def with_noise_factor(self, log_factor: Values) -> Components:
        """Multiply the noise variance above its floor."""
        return self._replace(l_m=scale_noise(self.l_m, log_factor, self.floor))

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

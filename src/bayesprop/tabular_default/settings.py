"""What a fit is given besides the data, chosen by their size, and numbers of all priors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayesprop.tabular_default.piecewise_linear import MANY_INPUTS, N_QUANTILES, has_ramps

SHAPE = 4.48
"""Shape of the inverse-gamma prior of a weight variance."""

LOG_WIDTH, WIDTH_PRECISION = math.log(0.5), 0.3
"""Mean and precision of the Gaussian prior of the log width of a kink."""

TILT_LIMIT = 2.0
"""Most that is taken for l_v / 2 in training: exp of a log variance that nobody knows yet."""

LEAST_DOF = 3.0
"""Least degrees of freedom of the noise: a variance of at most three squared scales."""

LEAST_GAP = 1e-4
"""Between the thresholds of ordered classes."""

MANY_ROWS = 5_000
VERY_MANY_ROWS = 30_000
WIDE_STEPS, WIDE_STEPS_OF_CLASSES = 4_000, 200
"""Steps where the table has more columns than rows."""
STEPS_OF_PICTURES = 8_000
"""Steps to classes where it has many of both."""
MOST_TIMES_STEPS = 4
"""As many steps to classes, at most, where rows are many."""
ROWS_OF_ALL_STEPS, LEAST_SHARE_OF_STEPS = 2_000, 0.25
"""Fewer rows with ramps get their share of the steps to classes, and so much at least."""


class Priors(NamedTuple):
    """How far weights may lie from 0: variances times the fan-in of a layer. Those of biases are 1.

    mean
        Mode of the prior of a variance in a mean network.
    noise, last_noise
        Variance in a noise network, below its last layer and in it.
    """

    mean: float = 4.0
    noise: float = 4.0
    last_noise: float = 9.0


PRIORS = Priors()
FEW_ROWS, FEW_ROWS_PRIORS = 150, Priors(mean=0.25, noise=1.0, last_noise=0.1)


@dataclass(frozen=True)
class EnsembleSettings:
    """Everything that a fit is given besides the data; `settings_for` chooses by their size.

    hidden_layer_sizes, noise_layer_sizes
        Units of the hidden layers of the mean networks, and of the separate noise networks.
    n_members
        Networks in the ensemble, alike but for their random start.
    n_steps, batch_size, step_size
        Adam's steps, rows in each, and the first step size, which falls by a cosine to 1 %.
    kl_warm_up, noise_warm_up
        Shares of the steps over which the weight of the KL rises from 0 to 1, and the share of the
        noise network that the mean network sees goes from 1/2 to its last value.
    noise_shares
        These last values, which the members take in turn, from 0 (the mean network weighs all rows
        alike: better means) to 1 (by their noise: better densities).
    mean_least_dofs
        Least degrees of freedom that the mean networks take the noise to have, which the members
        take in turn: 3, as the noise networks say; many, a Gaussian, which leaves no row alone.
    is_direct
        Whether the last layers of the mean networks take the inputs too.
    learns_processes
        Whether Gaussian processes learn what the networks leave, and the targets, and the nearest
        rows are asked.
    priors
        See `Priors`.
    """

    hidden_layer_sizes: tuple[int, ...] = (50,)
    noise_layer_sizes: tuple[int, ...] = (20,)
    n_members: int = 6
    n_steps: int = 20_000
    batch_size: int = 64
    step_size: float = 0.01
    kl_warm_up: float = 0.8
    noise_warm_up: float = 0.3
    noise_shares: tuple[float, ...] = (0.5, 1.0)
    mean_least_dofs: tuple[float, ...] = (30.0, 3.0, 30.0, 3.0, 3.0, 3.0)
    is_direct: bool = False
    learns_processes: bool = True
    priors: Priors = PRIORS

    def noise_share(self, member: int) -> float:
        """Return the share that this member takes."""
        return self.noise_shares[member % len(self.noise_shares)]

    def mean_least_dof(self, member: int) -> float:
        """Return the degrees of freedom that this member takes."""
        return self.mean_least_dofs[member % len(self.mean_least_dofs)]


def settings_for(n_rows: int, n_inputs: int = 1, **overrides: Any) -> EnsembleSettings:
    """Sizes that fit the table, any of which can be overridden by name.

    Up to 5000 rows one hidden layer of 50, six members and batches of 64; then two layers, two
    members and batches of 128; beyond 30 000 rows two layers of 100. Below 150 rows a linear model
    beside the network, and narrower priors: wide ones are narrowed by rows alone. A table of more
    columns than rows gets a fifth of the steps: so many weights of which the rows say nothing
    outweigh the rows if training goes on.
    """
    chosen: dict[str, Any] = {"n_steps": WIDE_STEPS} if n_inputs > n_rows else {}
    if n_rows < FEW_ROWS:
        chosen |= {"is_direct": True, "priors": FEW_ROWS_PRIORS}
    if n_rows >= MANY_ROWS:
        chosen |= {"hidden_layer_sizes": (50, 50), "batch_size": 128, "n_members": 2}
    if n_rows >= VERY_MANY_ROWS:
        chosen["hidden_layer_sizes"] = (100, 100)
    return EnsembleSettings(**(chosen | overrides))


def settings_for_classes(n_rows: int, n_inputs: int) -> EnsembleSettings:
    """Sizes that fit a table of classes; `n_members` counts those of one family.

    Where inputs with ramps are many or may outnumber the rows, fewer steps are as good.
    Of a table without ramps the families are two starts of two. Steps grow in proportion to the
    rows from 500 to 2000 of them, and beyond 5000, where networks have two layers.
    """
    n_steps = 4_000 if N_QUANTILES * n_inputs <= min(n_rows, MANY_INPUTS) else 2_000
    n_steps *= min(max(n_rows / ROWS_OF_ALL_STEPS, LEAST_SHARE_OF_STEPS), 1.0)
    if not has_ramps(n_rows, n_inputs):
        n_steps = STEPS_OF_PICTURES if n_inputs <= n_rows else WIDE_STEPS_OF_CLASSES
    return EnsembleSettings(
        hidden_layer_sizes=(64, 64) if n_rows > MANY_ROWS else (64,),
        n_members=8 if n_rows < 1_000 else 5,
        n_steps=round(n_steps * min(max(n_rows / MANY_ROWS, 1.0), MOST_TIMES_STEPS)),
        batch_size=64 if n_rows < 1_000 else 128,
    )

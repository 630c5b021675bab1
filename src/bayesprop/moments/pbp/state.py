"""What probabilistic backpropagation carries: the factorised posterior and its prior factors.

Hernández-Lobato & Adams (2015), eq. 8, and supplement section 6. Plain NumPy, so that the compiled
engine never has to load JAX.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.numerics.machine import aligned_zeros, round_up

if TYPE_CHECKING:
    from jaxtyping import PyTree  # which loads JAX

Inference = Literal["adf", "sep"]
Targets = Literal["numbers", "classes"]
"""What a row of y is. "numbers": one an output, seen with Gaussian noise. "classes": a sign (1 or
-1) an output, or one column, the number of the largest of several outputs, the outputs seen through
unit noise (probit)."""

LARGEST_CAVITY_VAR = 1e6
"""Largest variance from which a prior factor is refreshed; the authors' code."""

LEAST_INFORMATION: dict[Targets, float] = {"numbers": 0.1, "classes": 1.0}
"""Least precision that the data must give a weight, as a share of the prior's, for its prior factor
to be refreshed where the start is in the prior: with less, what is left of the weight without its
prior is next to nothing. A label says less than a number; with the lower bound, separable classes
drive the prior's variance up at every refresh."""
MOST_FROM_ONE_WEIGHT = 2.0
"""Largest factor by which one weight may raise E[1 / lambda] unless it could do so by the exact
update. Eq. 9-10 approximate a Student-t by Gaussians: at a weight many prior deviations large the
rate grows exponentially in the square of the weight where exactly it grows by half of it, and what
hundreds of weights have said is lost."""


def start_in_prior(inference: Inference, targets: Targets) -> bool:
    """Whether the random means belong to the prior's factors, whose first refresh removes them.

    Else, as in the authors' code, they count as pseudo-data for ever: many passes of assumed
    density filtering over numbers drown them. Stochastic EP does not and diverges; labels do not
    outweigh them.
    """
    return inference == "sep" or targets == "classes"


class Gamma(NamedTuple):
    """Gamma distributions over precisions, of mean shape / rate: numbers, or arrays of either kind.

    The paper's prior is Gam(6, 6).
    """

    shape: PyTree = 6.0
    rate: PyTree = 6.0


class PBPState(NamedTuple):
    """The posterior q of eq. 8 in standardised units, with one prior factor per weight.

    The arrays of a layer are (n_in + 1, n_out): the bias is the last row. NumPy arrays between
    calls, JAX arrays within one.

    m, v
        Mean and variance of every weight.
    site_prec, site_prec_mean
        The Gaussian part of every weight's prior factor, 1/v~ and m~/v~ (supplement eq. 32).
    site_shape, site_rate
        The Gamma part of every weight's prior factor: alpha~ - 1 and beta~.
    lik_prec, lik_prec_mean, lik_noise_shape, lik_noise_rate
        The average likelihood factor of stochastic EP, all zero under assumed density filtering.
    noise_shape, noise_rate
        q(gamma) = Gam(shape, rate), one per output; classes leave it as it was.
    prior_shape, prior_rate
        q(lambda) = Gam(shape, rate), scalars.
    """

    m: PyTree
    v: PyTree
    site_prec: PyTree
    site_prec_mean: PyTree
    site_shape: PyTree
    site_rate: PyTree
    lik_prec: PyTree
    lik_prec_mean: PyTree
    lik_noise_shape: PyTree
    lik_noise_rate: PyTree
    noise_shape: PyTree
    noise_rate: PyTree
    prior_shape: PyTree
    prior_rate: PyTree

    @property
    def noise(self) -> Gamma:
        """q(gamma), the precision of every output's noise."""
        return Gamma(self.noise_shape, self.noise_rate)

    @property
    def noise_var(self) -> Float[np.ndarray, " o"]:
        """E[1 / gamma], the expected noise variance of every output, in standardised y²."""
        return self.noise_rate / (self.noise_shape - 1.0)

    def validate(self) -> None:
        """Raise ValueError unless compiled code may run on these arrays."""
        for m, v in zip(self.m, self.v, strict=True):
            if not ((v > 0.0) | (m == 0.0) & (v == 0.0)).all():
                raise ValueError("variances of weights must be positive, unless they are removed")
        if not ((self.noise_shape > 1.0) & (self.noise_rate > 0.0)).all():
            raise ValueError("the noise must have a shape above 1 and a rate above 0")

    def without_average_factor(self) -> PBPState:
        """Forget which data were seen: no row of a new stream is in the average factor."""
        flat, none = tuple(np.zeros_like(m) for m in self.m), np.zeros_like(self.noise_shape)
        return self._replace(
            lik_prec=flat, lik_prec_mean=flat, lik_noise_shape=none, lik_noise_rate=none
        )

    def prior_factors(self, noise_prior: Gamma) -> PBPState:
        """Keep of every weight its prior's factor alone, of the noise its prior."""
        return self.without_average_factor()._replace(
            m=tuple(h / p for h, p in zip(self.site_prec_mean, self.site_prec, strict=True)),
            v=tuple(1.0 / p for p in self.site_prec),
            noise_shape=np.full_like(self.noise_shape, noise_prior.shape),
            noise_rate=np.full_like(self.noise_rate, noise_prior.rate),
        )

    def packed(self, *, with_average: bool = False) -> Packed:
        """Copy what compiled loops change; without an average factor under density filtering."""
        layers = layout(self.layer_sizes)
        weights = flat(layers, *(getattr(self, name) for name in _IN_WEIGHTS))
        noise = np.array([self.noise_shape, self.noise_rate], dtype=np.float64)
        prior = np.array([self.prior_shape, self.prior_rate], dtype=np.float64)
        average = None
        if with_average:
            of_noise = np.array([self.lik_noise_shape, self.lik_noise_rate])
            of_weights = flat(layers, self.lik_prec_mean, self.lik_prec, filling=0.0)
            average = np.hstack([of_weights, of_noise])
        return Packed(layers, weights, noise, prior, average)

    def unpacked(self, packed: Packed) -> PBPState:
        """Return the state with copies of what was packed, as it is now."""
        layers, weights, noise, prior, average = packed
        new: dict[str, Any] = dict(zip(_IN_WEIGHTS, _layered(layers, weights), strict=True))
        new["noise_shape"], new["noise_rate"] = noise.copy()
        new["prior_shape"], new["prior_rate"] = map(np.asarray, prior.copy())
        if average is not None:
            n = weights.shape[1]
            new["lik_prec_mean"], new["lik_prec"] = _layered(layers, average[:, :n])
            new["lik_noise_shape"], new["lik_noise_rate"] = average[:, n:].copy()
        return self._replace(**new)

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Inputs, hidden units of every layer, outputs."""
        return (self.m[0].shape[0] - 1, *(m.shape[1] for m in self.m))


_IN_WEIGHTS = ("m", "v", "site_shape", "site_rate", "site_prec", "site_prec_mean")


class Packed(NamedTuple):
    """A state as compiled loops have it, which change it in place.

    layers
        See `layout`.
    weights
        Moments and what the prior factors say, of all weights in one row each: of a hidden layer
        input by input, of the last output by output.
    noise, prior
        Shape and rate.
    average
        The average factor, m/v and 1/v of the weights, then shape and rate of the noise.
    """

    layers: Int[np.ndarray, "l 5"]
    weights: Float[np.ndarray, "6 w"]
    noise: Float[np.ndarray, "2 o"]
    prior: Float[np.ndarray, " 2"]
    average: Float[np.ndarray, "2 a"] | None


N_IN, N_OUT, WIDTH, WEIGHTS, UNITS = range(5)
"""Columns of `layout`: inputs, units or outputs; of a hidden layer the units filled up to whole
registers, of the last its inputs with the bias; where the weights begin, and the inputs."""
BLOCK, N_QUANTITIES, _REGISTER = 64, 9, 8
"""Hidden units computed at a time, and numbers that are kept of each."""


@lru_cache(maxsize=64)
def layout(sizes: tuple[int, ...]) -> Int[np.ndarray, "l 5"]:
    """Return how the layers lie in memory, one row each."""
    layers, start, units = [], 0, 0
    for depth, (n_in, n_out) in enumerate(pairwise(sizes), start=2):
        is_last = depth == len(sizes)
        width = n_in + 1 if is_last else round_up(n_out, _REGISTER)
        layers.append((n_in, n_out, width, start, units))
        start += width * (n_out if is_last else round_up(n_in + 1, 2))
        units += units_room(n_in)
    return np.array(layers)


def units_room(n_in: int) -> int:
    """Return how many numbers are kept of the inputs of a layer, the bias and one more."""
    return round_up(n_in + 2, BLOCK) * N_QUANTITIES


def _parts(
    layers: Int[np.ndarray, "l 5"], rows: Float[np.ndarray, "q w"]
) -> Iterator[Float[np.ndarray, "q i o"]]:
    """Yield views of the layers within rows of `Packed.weights`."""
    *hidden, (n_in, n_out, width, start, _) = layers.tolist()
    for inputs, units, filled, at, _ in hidden:
        end = at + (inputs + 1) * filled
        yield rows[:, at:end].reshape(len(rows), inputs + 1, filled)[:, :, :units]
    end = start + n_out * width
    yield rows[:, start:end].reshape(len(rows), n_out, n_in + 1).transpose(0, 2, 1)


def flat(
    layers: Int[np.ndarray, "l 5"], *quantities: Sequence[np.ndarray], filling: float = 1.0
) -> Float[np.ndarray, "q w"]:
    """Copy the layers of each quantity into a row; `filling` is what the second has in gaps."""
    _, n_out, width, start, _ = layers[-1].tolist()
    n_weights = round_up(start + n_out * width, _REGISTER)
    rows = aligned_zeros(len(quantities) * n_weights).reshape(len(quantities), n_weights)
    rows[1] = filling
    for depth, part in enumerate(_parts(layers, rows)):
        for one, quantity in zip(part, quantities, strict=True):
            one[...] = quantity[depth]
    return rows


def _layered(
    layers: Int[np.ndarray, "l 5"], rows: Float[np.ndarray, "q w"]
) -> Iterator[tuple[np.ndarray, ...]]:
    """Undo `flat`: the layers of a copy, of one quantity after another."""
    return zip(*_parts(layers, rows.copy()), strict=True)


class PBPInfo(NamedTuple):
    """What one pass met on its way; the counts, from the third field on, should be near zero.

    log_z
        Sum over the pass of log Z (eq. 12), nats, each datum predicted before it was absorbed.
    epistemic_share
        Sum over the pass of each datum's share of the predictive variance that is epistemic: the
        share of the outputs' variance that the datum removes, which is the same for numbers.
    weights_undone
        Weight updates that would have made a variance negative or non-finite (section 3.5).
    noise_kept
        Updates of q(gamma) that would have left its shape at or below 1.
    prior_kept
        Prior factors left as they were, for want of a valid cavity, and those of weights so large
        that each would have doubled E[1 / lambda]: it heard what variational Bayes says of them.
    steps_damped
        Mini-batch steps that were shortened to keep a Gamma proper.
    prior_uninformed
        Prior factors of weights of which the data say next to nothing: q(lambda) heard what
        variational Bayes says of them, or, where the start is in the prior, they stayed as they
        were.
    """

    log_z: PyTree = 0.0
    epistemic_share: PyTree = 0.0
    weights_undone: PyTree = 0
    noise_kept: PyTree = 0
    prior_kept: PyTree = 0
    steps_damped: PyTree = 0
    prior_uninformed: PyTree = 0

    @property
    def guards(self) -> dict[str, int]:
        """The counts, by name."""
        return {name: int(count) for name, count in list(self._asdict().items())[2:]}

    def __add__(self, other: PBPInfo) -> PBPInfo:  # type: ignore[override]
        """Add up two passes."""
        return PBPInfo(*(a + b for a, b in zip(self, other, strict=True)))


def init(
    rng: np.random.Generator | np.random.RandomState,
    layer_sizes: tuple[int, ...],
    *,
    weight_prior: Gamma = Gamma(),  # noqa: B008  (an immutable tuple)
    noise_prior: Gamma = Gamma(),  # noqa: B008
    start_in_prior: bool = False,
) -> PBPState:
    """Absorb the prior factors once (supplement eq. 33-34) and break the symmetry of the units.

    Means are drawn from N(0, 1 / (fan_in + 1)), as the authors' code does; section 3.5 prints
    fan-out. They are drawn unit by unit, inputs innermost, which is the order of that code. A
    network without hidden units has no symmetry to break: its means start at 0, the exact prior.

    start_in_prior
        Whether the random means belong to the prior's factors; see the function of this name.
    """
    perturbation = 0.0 if len(layer_sizes) == 2 else 1.0
    prior_var = weight_prior.rate / (weight_prior.shape - 1.0)
    n_out = layer_sizes[-1]
    shapes = [(a + 1, b) for a, b in pairwise(layer_sizes)]
    zeros = tuple(np.zeros(s) for s in shapes)
    m = tuple(
        np.ascontiguousarray(perturbation * rng.standard_normal((b, a)).T) / np.sqrt(a)
        for a, b in shapes
    )
    return PBPState(
        m=m,
        v=tuple(np.full(s, prior_var) for s in shapes),
        site_prec=tuple(np.full(s, 1.0 / prior_var) for s in shapes),
        site_prec_mean=tuple(w / prior_var for w in m) if start_in_prior else zeros,
        site_shape=zeros,
        site_rate=zeros,
        lik_prec=zeros,
        lik_prec_mean=zeros,
        lik_noise_shape=np.zeros(n_out),
        lik_noise_rate=np.zeros(n_out),
        noise_shape=np.full(n_out, float(noise_prior.shape)),
        noise_rate=np.full(n_out, float(noise_prior.rate)),
        prior_shape=np.asarray(float(weight_prior.shape)),
        prior_rate=np.asarray(float(weight_prior.rate)),
    )


def example(layer_sizes: tuple[int, ...]) -> PBPState:
    """Return a state of the shapes of a network that takes no memory, to read a file by."""
    zero = np.zeros(())
    layers = tuple(np.broadcast_to(zero, (a + 1, b)) for a, b in pairwise(layer_sizes))
    outputs = np.broadcast_to(zero, layer_sizes[-1:])
    return PBPState(*[layers] * 8, *[outputs] * 4, prior_shape=zero, prior_rate=zero)


def product(states: Sequence[PBPState], powers: Sequence[float]) -> tuple[PBPState, PBPInfo]:
    """Multiply posteriors to powers that add up to 1: natural parameters add.

    A posterior is the prior's factors times what its rows say. What rows say multiplies; the
    prior's factors are there once, those of the first posterior. So one machine's part of the rows
    is a site of expectation propagation (Hasenclever et al. 2017, "Distributed Bayesian learning
    with stochastic natural gradient expectation propagation and the posterior server"; Vehtari et
    al. 2020, "Expectation propagation as a way of life", section 3), and q(gamma) of the noise
    likewise: (shape - 1, rate) are its natural parameters up to sign.

    Where a variance would be negative, or a Gamma improper, those of the first part stand.
    """

    def total(arrays: Iterable[np.ndarray]) -> np.ndarray:
        return np.sum([power * array for array, power in zip(arrays, powers, strict=True)], axis=0)

    first, m, v, n_undone = states[0], [], [], 0
    for layer, (old_m, old_v) in enumerate(zip(first.m, first.v, strict=True)):
        prec = first.site_prec[layer] + total(
            1.0 / one.v[layer] - one.site_prec[layer] for one in states
        )
        slope = first.site_prec_mean[layer] + total(
            one.m[layer] / one.v[layer] - one.site_prec_mean[layer] for one in states
        )
        is_proper = (prec > 0.0) & np.isfinite(prec) & np.isfinite(slope)
        v.append(np.where(is_proper, 1.0 / np.where(is_proper, prec, 1.0), old_v))
        m.append(np.where(is_proper, v[-1] * slope, old_m))
        n_undone += int(np.sum(~is_proper))
    shape = total(state.noise_shape for state in states)
    rate = total(state.noise_rate for state in states)
    is_gamma = (shape > 1.0) & (rate > 0.0) & np.isfinite(shape) & np.isfinite(rate)
    state = first.without_average_factor()._replace(
        m=tuple(m),
        v=tuple(v),
        noise_shape=np.where(is_gamma, shape, first.noise_shape),
        noise_rate=np.where(is_gamma, rate, first.noise_rate),
    )
    return state, PBPInfo(weights_undone=n_undone, noise_kept=int(np.sum(~is_gamma)))

"""Networks of the default: Gaussian weights and rectifiers, for means and for noise.

Priors are adaptive in the mean networks, fixed in the noise networks: the variance of a group of
weights has an inverse-gamma prior and takes its best value in closed form. Maximising over it costs
no parameter and no step size. Neither of the two networks of a member sends gradients to the other.
A single loss for both lets the noise run away where targets repeat exactly: its own explanation of
a small error pulls the mean still closer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise, product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32
from scipy import special

from bayesprop.numerics.machine import n_cores
from bayesprop.tabular_default.kernel_classes import evaluate_classes
from bayesprop.tabular_default.kernel_layout import Aside, evaluate, layout
from bayesprop.tabular_default.kernel_network import ROWS
from bayesprop.tabular_default.residual_process import Local, ResidualProcess, changed
from bayesprop.tabular_default.settings import (
    LEAST_DOF,
    LEAST_GAP,
    SHAPE,
    EnsembleSettings,
    Priors,
)
from bayesprop.tabular_default.stack import Components

_FIRST_STD, _BIAS_STD = 0.01, 0.5  # of weights, as a share of their spread; of hidden biases

DEAD_BELOW = 0.1
"""Nats a weight, on average over those that leave a hidden unit, below which it is called dead."""

Values = np.ndarray
"""An array of NumPy."""


class GaussianLayer(NamedTuple):
    """Independent Gaussian weights of one layer, float32.

    w_m, w_log_std
        Mean and log standard deviation of the weights, (i, o).
    b_m, b_log_std
        The same of the biases, (o,).
    """

    w_m: Float32[np.ndarray, "i o"]
    w_log_std: Float32[np.ndarray, "i o"]
    b_m: Float32[np.ndarray, " o"]
    b_log_std: Float32[np.ndarray, " o"]


Layers = tuple[GaussianLayer, ...]


def init_layers(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    *,
    zero_output: bool = False,
    is_direct: bool = False,
) -> Layers:
    """Draw initial means and almost no variance.

    Means are N(0, 2 / fan_in) below a rectifier and N(0, 1 / fan_in) in the last layer.

    zero_output
        Whether the means of the last layer start at zero.
    is_direct
        Whether the last layer takes the inputs too, in rows behind those of the hidden units, so
        that a network with every unit asleep is a linear model. These means start at zero.
    """
    layers = []
    for depth, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        is_last = depth == len(sizes) - 2
        spread = np.sqrt((1.0 if is_last else 2.0) / fan_in)
        w_m = spread * rng.standard_normal((fan_in, fan_out))
        b_m = _BIAS_STD * rng.standard_normal(fan_out)
        log_std = np.log(_FIRST_STD * spread)
        values = (
            0.0 * w_m if is_last and zero_output else w_m,
            np.full_like(w_m, log_std),
            0.0 * b_m if is_last else b_m,
            np.full_like(b_m, log_std),
        )
        layers.append(GaussianLayer(*(np.asarray(v, np.float32) for v in values)))
    if is_direct:
        w_m, w_log_std, *biases = layers[-1]
        shape = (sizes[0], sizes[-1])
        log_std = np.full(shape, np.log(_FIRST_STD / np.sqrt(sizes[0])), np.float32)
        weights = np.vstack([w_m, np.zeros(shape, np.float32)]), np.vstack([w_log_std, log_std])
        layers[-1] = GaussianLayer(*weights, *biases)
    return tuple(layers)


def n_units_below(layers: Layers, depth: int) -> int:
    """Count a layer's inputs from the layer below; inputs of the network follow them."""
    return layers[depth].w_m.shape[-2] if depth == 0 else layers[depth - 1].b_m.shape[-1]


def draw(rng: np.random.Generator, layers: Layers) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw one network: weights and biases of every layer."""
    drawn = []
    for layer in layers:
        w_m, w_log_std, b_m, b_log_std = (np.asarray(part, np.float64) for part in layer)
        drawn.append(
            (
                w_m + np.exp(w_log_std) * rng.standard_normal(w_m.shape),
                b_m + np.exp(b_log_std) * rng.standard_normal(b_m.shape),
            )
        )
    return drawn


def apply(
    drawn: list[tuple[np.ndarray, np.ndarray]],
    x: Float[np.ndarray, "n d"],
    log_widths: tuple[Values, ...] | None = None,
) -> np.ndarray:
    """Compute the outputs of a drawn network; log_widths as of a `Member`, None: rectifiers."""
    z = x
    for depth, (w, b) in enumerate(drawn):
        if depth > 0:
            width = None if log_widths is None else np.exp(np.float64(log_widths[depth - 1]))
            if width is None:
                z = np.maximum(z, 0.0)
            else:  # E[max(0, z + width e)], e ~ N(0, 1)
                a = z / width
                z = z * special.ndtr(a) + width * np.exp(-0.5 * a * a - 0.5 * np.log(2.0 * np.pi))
        z = (np.hstack([z, x]) if len(w) > z.shape[1] else z) @ w + b
    return z


def group_variance(squares: np.ndarray, *, axes: tuple[int, ...], mode: float) -> np.ndarray:
    """Prior variance v* of every group; the axes of a group are kept with length 1.

    v* = (S + 2 rate) / (n + 2 SHAPE + 2), S the sum of E[w²] over the n weights of a group, is
    where the KL, and the price InvGamma(v* | SHAPE, rate = (SHAPE + 1) mode), are least together.
    """
    n = int(np.prod([squares.shape[axis] for axis in axes]))
    half = 0.5 * squares.sum(axis=axes, keepdims=True) + (SHAPE + 1.0) * mode
    return half / (0.5 * n + SHAPE + 1.0)


def weight_groups(layers: Layers, depth: int) -> list[tuple[slice, tuple[int, ...]]]:
    """Rows of a layer's weights, and the axes of one group among them.

    Each input's row in the first layer (automatic relevance), the whole matrix between, and on top
    each output's columns, of the hidden units and of the inputs that the last layer takes.
    """
    rows = slice(len(layers[depth].w_m))
    if depth < len(layers) - 1:
        return [(rows, (1,) if depth == 0 else (0, 1))]
    n_units = n_units_below(layers, depth)
    parts = slice(n_units), slice(n_units, rows.stop)
    return [(part, (0,)) for part in parts if part.start != part.stop]


def prior_variances(layers: Layers, spread: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Best prior variance of every weight, (i, o), and bias, (o,); `spread` as in Priors."""
    variances = []
    for depth, layer in enumerate(layers):
        squares = _expected_squares(layer.w_m, layer.w_log_std)
        parts = []
        for rows, axes in weight_groups(layers, depth):
            part = squares[rows]
            of_group = group_variance(part, axes=axes, mode=spread / len(part))
            parts.append(np.broadcast_to(of_group, part.shape))
        biases = _expected_squares(layer.b_m, layer.b_log_std)
        of_biases = group_variance(biases, axes=(0,), mode=1.0)
        variances.append((np.vstack(parts), np.broadcast_to(of_biases, biases.shape)))
    return variances


def _expected_squares(m: np.ndarray, log_std: np.ndarray) -> np.ndarray:
    return np.square(m, dtype=np.float64) + np.exp(2.0 * np.asarray(log_std, np.float64))


def weight_information(layers: Layers, spread: float) -> list[np.ndarray]:
    """KL of every weight to its group's best prior, nats, layer by layer; `spread` as in Priors."""
    information = []
    for layer, (prior_var, _) in zip(layers, prior_variances(layers, spread), strict=True):
        ratio = _expected_squares(layer.w_m, layer.w_log_std) / prior_var
        information.append(0.5 * (ratio - 1.0 + np.log(prior_var)) - layer.w_log_std)
    return information


def dead_units(layers: Layers, spread: float) -> list[bool]:
    """Return whether each hidden unit is dead: the weights that leave it kept their prior."""
    return [
        bool(unit)
        for depth, information in enumerate(weight_information(layers, spread))
        if depth > 0
        for unit in np.asarray(information)[: n_units_below(layers, depth)].mean(axis=-1)
        < DEAD_BELOW
    ]


FEW_VALUES = 20
LEAST_NOISE_STD = 1e-3
"""Least standard deviation of the noise, as a share of the target's."""

DOF_START = 10.0
LOG_NOISE_VAR_START = -1.5
WIDTH_START = 0.25

NOTHING = np.zeros(0, np.float32)


class Member(NamedTuple):
    """One network each for the mean and for the log noise variance; float32.

    Classes have no noise: their mean is that of the logits, and all that is of noise is empty.
    Ordered classes have one latent output, and thresholds.

    log_noise
        Log noise variance around which the noise network's output varies, (o,).
    own_log_noise
        The same as the mean network sees it, fitted to its own loss, (o,).
    raw_dof
        softplus⁻¹(degrees of freedom - 3), (o,).
    thresholds
        Between ordered classes, as `kernel_classes` has them, (c - 1,); else empty.
    log_widths
        Log width of the kink of every hidden unit of the mean network, layer by layer, (h,).
    """

    mean: Layers
    noise: Layers
    log_noise: Float32[np.ndarray, " o"]
    own_log_noise: Float32[np.ndarray, " o"]
    raw_dof: Float32[np.ndarray, " o"]
    thresholds: Float32[np.ndarray, " t"]
    log_widths: tuple[Float32[np.ndarray, " h"], ...]

    def validate(self) -> None:
        """Raise ValueError unless all layers are those of one network."""
        (n_inputs, *hidden, n_outputs), noise = self.sizes
        if not hidden or len(self.noise) == 1 or 0 in (n_inputs, *hidden, n_outputs, *noise):
            raise ValueError("every network must have inputs, a hidden layer of units and outputs")
        beyond_mean, beyond_noise = (
            [len(layer.w_m) - n for layer, n in zip(network, sizes, strict=False)]
            for network, sizes in zip((self.mean, self.noise), self.sizes, strict=True)
        )
        if beyond_mean[-1] == n_inputs:  # the last layer takes the inputs, too
            beyond_mean[-1] = 0
        n_noises = noise[-1] if self.noise else 0
        widths = [len(one) for one in self.log_widths]
        is_chain = not any(beyond_mean + beyond_noise)
        if not is_chain or widths != hidden or len(self.log_noise) != n_noises:
            raise ValueError("the arrays of the networks do not fit together")

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Inputs, hidden units and outputs of the mean network and of the noise network."""
        n_inputs = len(self.mean[0].w_m)
        mean, noise = ([layer.b_m.shape[0] for layer in net] for net in (self.mean, self.noise))
        return (n_inputs, *mean), (n_inputs, *noise)

    @property
    def is_direct(self) -> bool:
        """Whether the last layer of the mean network takes the inputs too."""
        *_, below, last = self.mean
        return last.w_m.shape[0] > below.b_m.shape[0]


class Networks(NamedTuple):
    """An expert: networks that are alike but for their start; float32 arrays, standardised units.

    members
        Networks of every member.
    log_floor
        Log of the least noise variance of every output, (o,); of classes 0.
    factors
        Vectors of all weights of every mean network, (k, s, p), whose outer products add up to the
        covariance; none while weights are independent. See held_out.py.
    residuals
        Processes on what the members leave of every output; None where held-out rows want none.
        Of classes none.
    log_noise_factor
        Log of what the variance of the noise, above its floor, is multiplied by, (o,).
    is_ramped
        Whether the networks are given ramps beside the inputs.
    likelihood_weight
        Copies that a row counts for.
    """

    members: tuple[Member, ...]
    log_floor: Float32[np.ndarray, " o"]
    factors: Float32[np.ndarray, "k s p"]
    residuals: tuple[ResidualProcess | None, ...]
    log_noise_factor: Float32[np.ndarray, " o"]
    is_ramped: bool = False
    likelihood_weight: float = 1.0

    @classmethod
    def of(
        cls,
        members: Sequence[Member],
        log_floor: Float[np.ndarray, " o"],
        is_ramped: bool = False,
        likelihood_weight: float = 1.0,
    ) -> Networks:
        """Build networks of independent weights, without what is learnt after training."""
        n_weights = sum(layer.w_m.size + layer.b_m.size for layer in members[0].mean)
        return cls(
            tuple(members),
            log_floor,
            factors=np.zeros((len(members), 0, n_weights), np.float32),
            residuals=(None,) * len(log_floor),
            log_noise_factor=np.zeros(len(log_floor), np.float32),
            is_ramped=is_ramped,
            likelihood_weight=likelihood_weight,
        )

    @property
    def n_inputs(self) -> int:
        """Columns of x."""
        return self.members[0].sizes[0][0]

    @property
    def n_outputs(self) -> int:
        """Columns of y."""
        return len(self.log_floor)

    @property
    def n_members(self) -> int:
        """Networks in the ensemble."""
        return len(self.members)

    @property
    def n_mean_weights(self) -> int:
        """Weights and biases of one mean network."""
        return self.factors.shape[2]

    @property
    def is_ordered(self) -> bool:
        """Whether the likelihood is that of ordered classes."""
        return len(self.members[0].thresholds) > 0

    def components(self, x: Float[np.ndarray, "n d"]) -> Components:
        """Predict all outputs by the members, moved by residuals."""
        near = [one and Local.of(one, x) for one in self.residuals]
        return self.corrected(outputs(self, x), near)

    def corrected(self, members: Components, near: Sequence[Local | None]) -> Components:
        """Move what members predict by residuals, and multiply their noise."""
        if any(near):
            columns = map(members.column, range(self.n_outputs))
            pairs = zip(columns, near, strict=True)
            after = [one if local is None else changed(one, local) for one, local in pairs]
            members = Components(*(np.stack(parts, axis=-1) for parts in zip(*after, strict=True)))
        return members.with_noise(self.log_noise_factor)

    def validate(self) -> None:
        """Raise ValueError unless all parts belong to one ensemble."""
        if not self.members:
            raise ValueError("an expert must have networks")
        o, first = self.n_outputs, self.members[0]
        if {(m.sizes, len(m.thresholds), m.is_direct) for m in self.members} != {
            (first.sizes, len(first.thresholds), first.is_direct)
        }:
            raise ValueError("the networks must be of the same sizes")
        n_weights = sum(layer.w_m.size + layer.b_m.size for layer in first.mean)
        if self.factors.shape[::2] != (self.n_members, n_weights):
            raise ValueError(f"factors must be of {self.n_members} networks of {n_weights} weights")
        if {len(self.residuals), len(self.log_noise_factor)} != {o}:
            raise ValueError(f"all that belongs to an output must be there {o} times")
        if any(one is not None and one.x.shape[1] > self.n_inputs for one in self.residuals):
            raise ValueError(f"what knows rows must know {self.n_inputs} inputs of each at most")


def init_member(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    noise_sizes: tuple[int, ...] = (),
    *,
    is_direct: bool = True,
) -> Member:
    """Start nearly deterministic, with the same noise everywhere; without noise sizes with none.

    sizes
        Inputs, hidden units and outputs of the mean network.
    noise_sizes
        Hidden units of the noise network; of classes none.
    """
    n_noises = sizes[-1] if noise_sizes else 0
    log_noise = np.full(n_noises, LOG_NOISE_VAR_START, np.float32)
    mean, noise = init_layers(rng, sizes, is_direct=is_direct), ()
    if noise_sizes:
        noise = init_layers(rng, (sizes[0], *noise_sizes, sizes[-1]), zero_output=True)
    return Member(
        mean,
        noise,
        log_noise=log_noise,
        own_log_noise=log_noise,
        raw_dof=np.full(n_noises, np.log(np.expm1(DOF_START - LEAST_DOF)), np.float32),
        thresholds=NOTHING,
        log_widths=tuple(np.full(n, np.log(WIDTH_START), np.float32) for n in sizes[1:-1]),
    )


def init_thresholds(proba: Float[np.ndarray, " c"]) -> Float32[np.ndarray, " t"]:
    """Return thresholds between ordered classes that give the classes their probabilities."""
    below = np.cumsum(proba / proba.sum())[:-1]
    ends = np.log(below) - np.log1p(-below)
    gaps = np.log(np.maximum(np.diff(ends) - LEAST_GAP, LEAST_GAP))
    return np.concatenate([ends[:1], gaps]).astype(np.float32)


def log_noise_floor(
    y: Float[np.ndarray, "n o"], least_std: float = LEAST_NOISE_STD
) -> Float[np.ndarray, " o"]:
    """Log of the least noise variance of standardised targets.

    The standard deviation is a tenth of the smallest gap between the values where there are at
    most 20 of them (a grid can be hit exactly, and the noise would fall without end), else the
    least.
    """
    least = []
    for column in np.asarray(y, np.float64).T:
        values = np.unique(column)
        is_grid = 1 < len(values) <= FEW_VALUES
        least.append(np.diff(values).min() / 10.0 if is_grid else least_std)
    return (2.0 * np.log(np.maximum(least, least_std))).astype(np.float32)


def init_networks(
    seed: int,
    n_inputs: int,
    y: Float[np.ndarray, "n o"],
    settings: EnsembleSettings,
    *,
    is_ramped: bool = False,
) -> Networks:
    """Draw the initial networks of numbers; y, standardised, gives the floor of the noise."""
    rng = np.random.default_rng(seed)
    sizes = (n_inputs, *settings.hidden_layer_sizes, y.shape[1])
    members = [
        init_member(rng, sizes, settings.noise_layer_sizes, is_direct=settings.is_direct)
        for _ in range(settings.n_members)
    ]
    return Networks.of(members, log_noise_floor(y), is_ramped)


def flat(member: Member) -> Float32[np.ndarray, " p"]:
    """Put all parameters in one vector, in the order of the fields."""
    mean, noise, *vectors, log_widths = member
    return np.concatenate([*chain(*mean, *noise), *vectors, *log_widths], axis=None)


def unflat(values: Float32[np.ndarray, " p"], like: Member) -> Member:
    """Undo `flat` for a member of the same sizes."""
    mean, noise, *vectors, log_widths = like
    every = [*chain(*mean, *noise), *vectors, *log_widths]
    parts = iter(np.split(values, np.cumsum([one.size for one in every])[:-1]))

    def taken(some: Iterable[np.ndarray]) -> list[np.ndarray]:
        return [next(parts).reshape(one.shape) for one in some]

    networks = [tuple(GaussianLayer(*taken(layer)) for layer in net) for net in (mean, noise)]
    return Member._make([*networks, *taken(vectors), tuple(taken(log_widths))])


_ROWS_A_TASK = 16_384
_NO_TARGETS, _NO_WEIGHT = np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
_NOT_ASKED, _NO_MOVES = np.empty((0, 0), np.float32), np.empty((0, 0, 0), np.float32)


def outputs(networks: Networks, x: Float[np.ndarray, "n d"]) -> Components:
    """Moments of every member at every row; float64."""
    x = np.ascontiguousarray(x, np.float32)
    moments = np.empty((4, networks.n_members, len(x), networks.n_outputs))

    def some(member: int, first: int, bench: _Bench | None = None) -> None:
        rows = slice(first, first + _ROWS_A_TASK)
        (bench or _Bench(networks)).evaluate(member, x[rows], moments[:, member, rows])

    tasks = list(product(range(networks.n_members), range(0, len(x), _ROWS_A_TASK)))
    n_threads = min(len(tasks), n_cores())
    if n_threads <= 1 or len(x) < ROWS:  # to start another takes longer
        bench = _Bench(networks)
        for task in tasks:
            some(*task, bench)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(some, *zip(*tasks, strict=True)))
    raw_dof = np.array([[member.raw_dof] for member in networks.members], np.float64)
    dof = LEAST_DOF + np.logaddexp(0.0, raw_dof)
    share = 1.0 / networks.n_members
    return Components.of(*moments, dof=dof, share=share, floor=networks.log_floor)


def activations(
    networks: Networks, x: Float[np.ndarray, "n d"], member: int
) -> tuple[Float32[np.ndarray, "n h"], Float32[np.ndarray, "n h"]]:
    """Return the expected activations of a mean network's hidden units, and their slopes.

    Slopes of the expected activations in the means of what comes in; layers side by side.
    """
    n_units = sum(networks.members[member].sizes[0][1:-1])
    z, gains = (np.empty((len(x), n_units), np.float32) for _ in range(2))
    _Bench(networks).evaluate(member, x, z=z, gains=gains)
    return z, gains


def moves(
    networks: Networks, x: Float[np.ndarray, "n d"], member: int
) -> Float32[np.ndarray, "n s o"]:
    """How far each of a member's factors moves the means of its outputs."""
    far = np.empty((len(x), networks.factors.shape[1], networks.n_outputs), np.float32)
    _Bench(networks).evaluate(member, x, far=far)
    return far


def rehearse() -> None:
    """Predict by a small ensemble, so that the code is compiled: see `numerics.machine`."""
    y = np.array([[-1.0], [1.0]])
    networks = init_networks(0, 1, y, EnsembleSettings())
    predicted = outputs(networks, y).predictive()
    predicted.interval()
    predicted.pit(y)
    predicted.crps(y)


def class_outputs(
    members: Sequence[Member], x: Float[np.ndarray, "n e"], points: Float32[np.ndarray, "p c"]
) -> Iterator[tuple[Float[np.ndarray, "n c"], Float[np.ndarray, " n"]]]:
    """Give probabilities and expected entropy by each of some networks of the same sizes."""
    n_pairs, n_classes = points.shape
    plan = layout(members[0], Priors())  # of which outputs do not depend
    work = plan.work(flat(members[0]), np.zeros(n_classes, np.float32), points.ravel())
    rows = _rows(x)
    for member in members:
        work.theta[plan.leaves] = flat(member)
        proba, entropy = np.empty((len(x), n_classes)), np.empty((len(x), 1))
        evaluate_classes(work, *rows, n_pairs, proba, entropy)
        yield proba, entropy[:, 0]


def rehearse_classes() -> None:
    """Evaluate a throw-away network, so that the code is compiled: see `numerics.machine`."""
    network = init_member(np.random.default_rng(0), (1, 4, 2))
    list(class_outputs([network], np.zeros((1, 1)), np.zeros((1, 2), np.float32)))


def _rows(x: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, ...]:
    """Return rows to be evaluated one after another, as compiled loops of training take them."""
    order = np.arange(len(x), dtype=np.int32)
    return np.ascontiguousarray(x, np.float32), _NO_TARGETS, _NO_WEIGHT, order


class _Bench:
    """Arrays in which the members of an ensemble are evaluated one after another."""

    def __init__(self, networks: Networks) -> None:
        one = networks.members[0]
        self.networks, self.plan = networks, layout(one, Priors())  # of which outputs do not depend
        self.work = self.plan.work(flat(one), networks.log_floor)

    def evaluate(
        self,
        member: int,
        x: Float[np.ndarray, "n d"],
        moments: Float[np.ndarray, "4 n o"] | None = None,
        *,
        far: np.ndarray = _NO_MOVES,
        z: np.ndarray = _NOT_ASKED,
        gains: np.ndarray = _NOT_ASKED,
    ) -> None:
        """Write what is asked for of one member."""
        self.work.theta[self.plan.leaves] = flat(self.networks.members[member])
        aside = Aside(np.array(self.networks.factors[member], np.float32).ravel(), far, z, gains)
        if moments is None:
            moments = np.empty((4, len(x), self.networks.n_outputs))
        evaluate(self.work, aside, *_rows(x), *moments)

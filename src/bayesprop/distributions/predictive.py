"""Predictions: of numbers, as every method returns them, in the units of the target.

Epistemic variance is what more data would remove, noise variance what it would not. What is
predicted of rows, numbers or classes, is selected, joined, drawn from and shown alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy import special

from bayesprop.numerics import LOG_2PI

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Moments = Float[np.ndarray, "n"] | Float[np.ndarray, "n o"]
Values = Float[np.ndarray, "..."]
IN_Y, IN_Y_SQUARED, IN_LOG_Y_SQUARED = ({"unit": unit} for unit in ("y", "y²", "log y²"))
"""Metadata of fields of a predictive: their unit."""
BY_MEMBER, OF_ALL_ROWS = {"axis": 1}, {"axis": None}
"""Metadata of fields of a prediction: whether their first axis runs over members and the second
over rows, or they are the same for all rows."""


@dataclass(frozen=True, repr=False)
class Prediction(ABC):
    """A prediction that draws observations, and shows itself in a notebook.

    Every field is an array whose first axis runs over rows, unless its metadata say otherwise, or
    a prediction or a map of so many rows.
    """

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, rows: slice | np.ndarray) -> Self:
        """Select rows (a slice, mask or index array)."""
        return self._map(lambda part, how: part[:, rows] if how.get("axis") else part[rows])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put the rows of several predictions of one kind one after another."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            *(_joined([getattr(part, one.name) for part in parts], one) for one in fields(cls))
        )

    def _map(self, act: Callable) -> Self:
        """Return what `act` makes of every field and its metadata."""
        parts = ((getattr(self, name), how) for name, how in _fields(type(self)))
        return type(self)(*(part if how is OF_ALL_ROWS else act(part, how) for part, how in parts))

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n new observations for every row, independently over rows; (n, rows[, o])."""

    def rvs(
        self,
        size: int | tuple[int, ...] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw new observations, independently over rows: (*size, n[, o]); None: one, (n[, o]).

        random_state
            A number, a `numpy.random.Generator`, or None for other draws at every call.

        ValueError where the size is none of draws.
        """
        shape = _shape_of(size)
        draws = self.sample(np.random.default_rng(random_state), math.prod(shape))
        return draws.reshape(*shape, *draws.shape[1:])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw a few rows by their densities, many by their intervals, classes by bars; the Axes.

        ax
            Of matplotlib, to draw in. None: new ones.
        """
        from bayesprop.distributions import plots as predictive_plots

        return predictive_plots.plot(self, ax)

    def __repr__(self) -> str:
        from bayesprop.distributions import plots as predictive_plots

        return predictive_plots.line(self)

    def _repr_html_(self) -> str:
        from bayesprop.distributions import plots as predictive_plots

        return predictive_plots.table(self)


@cache
def _fields(kind: type[Prediction]) -> tuple[tuple[str, Mapping], ...]:
    """Return the names of the fields of a prediction and their metadata."""
    metadata = {one.name: dict(one.metadata) for one in fields(kind)}
    return tuple((n, OF_ALL_ROWS if how == OF_ALL_ROWS else how) for n, how in metadata.items())


def check_coverage(coverage: float) -> None:
    """Raise ValueError unless coverage is between 0 and 1."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")


def _shape_of(size: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the axes of draws."""
    axes = () if size is None else size if isinstance(size, tuple | list) else (size,)
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in axes):
        raise ValueError(f"size must be a whole number of draws, or a tuple of them, got {size!r}")
    return tuple(map(int, axes))


def _joined(parts: Sequence, of: Field) -> Any:
    """Concatenate a field of several predictions."""
    if of.metadata == OF_ALL_ROWS:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=of.metadata.get("axis", 0))
    return type(parts[0]).joined(parts)


@dataclass(frozen=True, repr=False)
class Predictive(Prediction):
    """Mean and variance of every row, the variance in two parts; the base of all predictives.

    It answers what scipy's distributions do, under their names, too, but that `mean` and `std` are
    arrays and not methods. Values `y` have the shape of `mean`, with any axes in front of it, or
    are one number.

    mean
        In y; (n,) or (n, o) for several outputs, and so are the others.
    epistemic_var, noise_var
        In y². Their sum is the variance of a new observation.
    """

    mean: Moments = field(metadata=IN_Y)
    epistemic_var: Moments = field(metadata=IN_Y_SQUARED)
    noise_var: Moments = field(metadata=IN_Y_SQUARED)

    step: ClassVar[float] = 0.0
    """Distance of neighbouring values: 1 for counts, 0 where values lie densely."""

    @property
    def var(self) -> Moments:
        """Variance of a new observation, y²."""
        return self.epistemic_var + self.noise_var

    @property
    def std(self) -> Moments:
        """Standard deviation of a new observation, y."""
        return np.sqrt(self.var)

    @property
    def epistemic_share(self) -> float:
        """Share of the predictive variance that is epistemic, averaged over rows; 0 to 1."""
        return float(np.mean(self.epistemic_var / self.var))

    @property
    def gap_share(self) -> Moments:
        """Share of the variance that knowing all inputs exactly would remove on average."""
        return np.zeros(np.shape(self.mean))

    @property
    def group_share(self) -> Moments:
        """Share of the variance that knowing the effects of a row's group would remove."""
        return np.zeros(np.shape(self.mean))

    @property
    def is_finite(self) -> Bool[np.ndarray, " n"]:
        """Whether a row has a finite mean and variances of at least zero."""
        parts = np.stack([self.epistemic_var, self.noise_var])
        good = np.all(np.isfinite(parts) & (parts >= 0.0), axis=0) & np.isfinite(self.mean)
        return good.all(axis=tuple(range(1, good.ndim)))

    def target(self, k: int) -> Self:
        """Select one of several targets."""
        return self._map(
            lambda part, _: part.target(k) if isinstance(part, Predictive) else part[..., k]
        )

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> Self:
        """Predict shift + scale y instead of y; (o,) each, or numbers; scale > 0."""
        square = np.square(scale)
        log_square = np.log(square)

        def one(part: Any, how: Mapping) -> Any:
            if isinstance(part, Predictive):
                return part.rescaled(shift, scale)
            match how.get("unit"):
                case "y":
                    return part * scale + shift
                case "y²":
                    return part * square
                case "log y²":
                    return part + log_square
            return part

        return self._map(one)

    def log_prob(self, y: ArrayLike) -> Values:
        """Log density of each observation, nats, in the original units of y."""
        return self._at(y, lambda values: np.stack([self._log_prob(one) for one in values]))

    def cdf(self, y: ArrayLike) -> Values:
        """Probability of a value at or below each observation, 0 to 1."""
        return self._at(y, self.cdfs)

    def pit(self, y: Moments) -> Moments:
        """Probability integral transform of each observation; uniform on 0..1 if calibrated.

        Where a value has a probability, as every count, randomised: uniform between P(< y) and
        P(<= y) (Czado, Gneiting & Held 2009). The random numbers are the same at every call.
        """
        at, below = self._cdf(y := self.checked(y)), self._below(y)
        return below + np.random.default_rng(0).random(np.shape(y)) * (at - below)

    def crps(self, y: Moments) -> Moments:
        """Continuous ranked probability score of each observation, y; smaller is better."""
        return self._crps(self.checked(y))

    def quantile(self, level: ArrayLike) -> Values:
        """Value that a new observation stays below with probability `level`.

        level
            One, or an array of them, whose axes come last in what is returned.
        """
        levels = np.asarray(level, np.float64)
        if not np.all((levels > 0.0) & (levels < 1.0)):
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        each = np.moveaxis(self._quantiles(levels.reshape(-1, *[1] * np.ndim(self.mean))), 0, -1)
        return each.reshape(*np.shape(self.mean), *levels.shape)

    def interval(self, coverage: float = 0.9) -> Float[np.ndarray, "n ... 2"]:
        """Central interval that holds a new observation with probability `coverage`."""
        check_coverage(coverage)
        tail = (1.0 - coverage) / 2.0
        return self.quantile([tail, 1.0 - tail])

    def logpdf(self, y: ArrayLike) -> Values:
        """Log density, nats; TypeError for counts, which have `logpmf`."""
        if self.step:
            raise TypeError("a count has probabilities and no density: ask for logpmf or pmf")
        return self.log_prob(y)

    def pdf(self, y: ArrayLike) -> Values:
        """Density, 1/y; TypeError for counts, which have `pmf`."""
        return np.exp(self.logpdf(y))

    def logpmf(self, k: ArrayLike) -> Values:
        """Log probability of counts, nats; TypeError where values lie densely."""
        if not self.step:
            raise TypeError("such a value has a density and no probability: ask for logpdf or pdf")
        return self.log_prob(k)

    def pmf(self, k: ArrayLike) -> Values:
        """Probability of counts; TypeError where values lie densely."""
        return np.exp(self.logpmf(k))

    def ppf(self, q: ArrayLike) -> Values:
        """Return quantiles, the axes of the levels first, where `cdf` takes those of its values."""
        quantiles, n_levels = self.quantile(q), np.ndim(q)
        last = tuple(range(quantiles.ndim - n_levels, quantiles.ndim))
        return np.moveaxis(quantiles, last, tuple(range(n_levels)))

    def cdfs(self, y: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        """Return `cdf` at q values of every row."""
        return self._cdfs(y)

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals to where the target can lie; here anywhere."""
        return interval

    def _at(self, y: ArrayLike, ask: Callable[[np.ndarray], np.ndarray]) -> Values:
        """Ask about values of every row: one axis in front; or any, or one value for all rows."""
        y, shape = np.asarray(y, np.float64), np.shape(self.mean)
        y = np.broadcast_to(y, shape) if y.ndim == 0 else y
        ahead = y.shape[: max(y.ndim - len(shape), 0)]
        self.checked(y[(0,) * len(ahead)])
        return ask(y.reshape(int(np.prod(ahead)), *shape)).reshape(y.shape)

    def checked(self, y: Moments) -> Moments:
        """Return observations as float64; ValueError unless they have the shape of `mean`."""
        y = np.asarray(y, np.float64)
        if y.shape != np.shape(self.mean):
            raise ValueError(
                f"y must have the shape of the prediction, {np.shape(self.mean)}, got {y.shape}"
            )
        return y

    @abstractmethod
    def _log_prob(self, y: Moments) -> Moments: ...

    @abstractmethod
    def _cdfs(self, y: np.ndarray) -> np.ndarray: ...

    def _cdf(self, y: Moments) -> Moments:
        return self._cdfs(y[None])[0]

    def _below(self, y: Moments) -> Moments:
        """Return P(< y): P(<= y), unless a value has a probability of its own."""
        return self._cdf(y)

    @abstractmethod
    def _crps(self, y: Moments) -> Moments: ...

    @abstractmethod
    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        """Return a quantile of every row for each level, whose further axes have length 1."""


def mean_distance(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E|x| of x ~ N(m, v)."""
    std = np.sqrt(v)
    z = m / std
    density = np.exp(-0.5 * (LOG_2PI + z * z))
    return std * (z * (2.0 * special.ndtr(z) - 1.0) + 2.0 * density)


@dataclass(frozen=True, repr=False)
class GaussianPredictive(Predictive):
    """N(mean, epistemic_var + noise_var), the moment-matched predictive of eq. 12 (PBP 2015)."""

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return self.mean + self.std * rng.standard_normal((n, *np.shape(self.mean)))

    def _log_prob(self, y: Moments) -> Moments:
        z = (y - self.mean) / self.std
        return -0.5 * (LOG_2PI + z * z) - np.log(self.std)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        return special.ndtr((y - self.mean) / self.std)

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        return self.mean + self.std * special.ndtri(levels)

    def _crps(self, y: Moments) -> Moments:
        """E|x - y| - E|x - x'| / 2 in closed form (Gneiting et al. 2005)."""
        return mean_distance(y - self.mean, self.var) - self.std / np.sqrt(np.pi)


@dataclass(frozen=True, repr=False)
class StudentTPredictive(Predictive):
    """Student-t of the given mean and variance: what conjugate linear regression predicts.

    dof
        Degrees of freedom, > 2, of the shape of `mean`. The scale is std sqrt((dof - 2) / dof).
    """

    dof: Moments

    @property
    def scale(self) -> Moments:
        """Scale of the distribution, y; smaller than the standard deviation."""
        return self.std * np.sqrt((self.dof - 2.0) / self.dof)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return self.mean + self.scale * rng.standard_t(self.dof, (n, *np.shape(self.mean)))

    def _log_prob(self, y: Moments) -> Moments:
        return self._log_density((y - self.mean) / self.scale) - np.log(self.scale)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        return special.stdtr(self.dof, (y - self.mean) / self.scale)

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        return self.mean + self.scale * special.stdtrit(self.dof, levels)

    def _crps(self, y: Moments) -> Moments:
        """In closed form (Jordan, Krüger & Lerch 2019, appendix A)."""
        z, dof = (y - self.mean) / self.scale, self.dof
        density = np.exp(self._log_density(z))
        log_ratio = special.betaln(0.5, dof - 0.5) - 2.0 * special.betaln(0.5, 0.5 * dof)
        spread = 2.0 * density * (dof + z * z) - 2.0 * np.sqrt(dof) * np.exp(log_ratio)
        return self.scale * (z * (2.0 * special.stdtr(dof, z) - 1.0) + spread / (dof - 1.0))

    def _log_density(self, z: Moments | float) -> Moments:
        """Log density of the standard Student-t: -log(sqrt(dof) B(1/2, dof/2)) - ..."""
        constant = special.betaln(0.5, 0.5 * self.dof) + 0.5 * np.log(self.dof)
        return -constant - 0.5 * (self.dof + 1.0) * np.log1p(z * z / self.dof)

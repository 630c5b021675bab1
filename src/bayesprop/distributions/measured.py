"""True inputs given measured ones: errors in variables, with a normal population of true inputs.

    measured = true + error,   true ~ N(mean, cov),   error ~ N(0, diag(error_var))

Mean and covariance are moments of the measured rows, for equal errors those of maximum likelihood.
Given its measured value a true input is normal, too, and the mean of y is linear in its mean: the
slopes of a regression on that are not attenuated (Fuller 1987, "Measurement error models", section
1.2; Carroll et al. 2006, section 4.2, "regression calibration").
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

_LEAST_VAR = 1e-9  # of standardised columns, which may be linear in each other
_UNKNOWN_VAR = 1e9  # of the error of a missing value
_MOST_NUMBERS = 2**27  # 1 GiB


class TrueInputs(NamedTuple):
    """Posterior of the true inputs: mean of every row, covariance of every kind of errors.

    columns
        Of which some rows have errors.
    kind
        Which covariance a row has.
    """

    mean: Float[np.ndarray, "n d"]
    columns: Int[np.ndarray, " k"]
    cov: Float[np.ndarray, "m k k"]
    kind: Int[np.ndarray, " n"]

    @property
    def root(self) -> Float[np.ndarray, "n d k"]:
        """Root of every row's covariance, symmetric in the columns with errors."""
        values, vectors = np.linalg.eigh(self.cov)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None]) @ vectors.mT
        roots = np.zeros((*self.mean.shape, len(self.columns)))
        roots[:, self.columns] = np.where(self.cov != 0.0, root, 0.0)[self.kind]
        return roots


@dataclass(frozen=True, eq=False)
class Population:
    """Normal distribution of the true inputs, standardised."""

    mean: Float[np.ndarray, " d"]
    cov: Float[np.ndarray, "d d"]

    @classmethod
    def of_rows(
        cls,
        measured: Float[np.ndarray, "n d"],
        error_var: Float[np.ndarray, "n d"],
        weight: Float[np.ndarray, " n"],
    ) -> Population:
        """Estimate it from complete rows, whose errors vary less than each column."""
        share = weight / weight.sum()
        mean = share @ measured
        deviation = measured - mean
        cov = deviation.T @ (share[:, None] * deviation) - np.diag(share @ error_var)
        values, vectors = np.linalg.eigh(cov)
        return cls(mean, (vectors * np.maximum(values, _LEAST_VAR)) @ vectors.T)

    def validate(self) -> None:
        """Raise ValueError unless the covariance is one, of as many columns as the mean."""
        n = len(self.mean)
        if self.cov.shape != (n, n) or not (np.linalg.eigvalsh(self.cov) > 0.0).all():
            raise ValueError(f"the population of inputs must have a covariance of {n} columns")

    def given(
        self, measured: Float[np.ndarray, "n d"], error_var: Float[np.ndarray, "n d"]
    ) -> TrueInputs:
        """Infer the true inputs of rows, exact ones as they are, missing ones (NaN) not at all.

        ValueError where errors are of too many kinds for the memory.
        """
        gap = np.isnan(measured)
        error_var = np.where(gap, _UNKNOWN_VAR, error_var)
        has_errors = (error_var > 0.0).any(axis=0)
        columns, exact = np.flatnonzero(has_errors), np.flatnonzero(~has_errors)
        kinds, kind = np.unique(error_var[:, columns], axis=0, return_inverse=True)
        k, kind = len(columns), kind.reshape(-1)
        if len(kinds) * k * k > _MOST_NUMBERS:
            raise ValueError(
                f"X_std must have fewer different rows, got {len(kinds)} for {k} columns: round it"
            )
        slopes = np.linalg.solve(self.cov[np.ix_(exact, exact)], self.cov[np.ix_(exact, columns)])
        expected = self.mean[columns] + (measured - self.mean)[:, exact] @ slopes
        cov = self.cov[np.ix_(columns, columns)] - self.cov[np.ix_(columns, exact)] @ slopes
        errors = kinds[:, :, None] * np.eye(k)
        gain = np.linalg.solve(cov + errors, errors)
        deviation = np.where(gap[:, columns], 0.0, measured[:, columns] - expected)
        mean = measured.copy()
        mean[:, columns] -= np.einsum("nd,nde->ne", deviation, gain[kind])
        is_uncertain = (kinds > 0.0) & (kinds < _UNKNOWN_VAR)
        both = is_uncertain[:, :, None] & is_uncertain[:, None]
        return TrueInputs(mean, columns, np.where(both, errors - errors @ gain, 0.0), kind)


def checked_std(
    X: Float[np.ndarray, "n d"],
    X_std: ArrayLike,
    most: Float[np.ndarray, " d"],
    names: Sequence[Hashable] | np.ndarray,
) -> Float[np.ndarray, "n d"]:
    """Return the std of every value, 0 where one is missing.

    X_std
        In the units of X: a number, one a column (d,), or one a value (n, d). ValueError where a
        value has none of at least 0, or one above the `most` of its column.
    names
        What the message calls the columns.
    """
    columns = getattr(X_std, "columns", None)
    if columns is not None and [*columns] != [*names]:
        raise ValueError(f"X_std must have the columns of X in their order, got {[*columns]}")
    try:
        std = np.asarray(X_std, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"X_std must hold numbers, got {type(X_std).__name__}") from None
    if std.shape not in ((), X.shape[1:], X.shape):
        raise ValueError(
            f"X_std must be a number, one of each column {X.shape[1:]} or of each value {X.shape}, "
            f"got the shape {std.shape}"
        )
    std = np.where(np.isnan(X), 0.0, std)
    is_good = np.isfinite(std) & (std >= 0.0) & (std <= most)
    if not is_good.all():
        row, column = (int(place) for place in np.argwhere(~is_good)[0])
        limit = f" and at most {most[column]:g}" if std[row, column] > most[column] else ""
        raise ValueError(
            "X_std must be a standard deviation in the units of X, 0 where a value is exact"
            f"{limit}, got {std[row, column]:g} in row {row}, column {names[column]}"
        )
    return std

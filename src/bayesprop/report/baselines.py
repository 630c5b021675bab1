"""What any model should beat: the training mean, and a Bayesian straight line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.model.predictive import GaussianPredictive
from bayesprop.model.standardiser import Standardiser

MAX_FEATURES = 1000
MAX_STORED_FEATURES = 64
_HYPER = 1e-6
_TOLERANCE = 1e-6
_MAX_STEPS = 300
_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True)
class ConstantBaseline:
    """N(mean, var) of the training targets for every row, whatever its features. In y and y²."""

    mean: float
    var: float

    @classmethod
    def fit(cls, y: Float[np.ndarray, " n"]) -> ConstantBaseline:
        """Take mean and variance (ddof 0) of the targets.

        Of equal targets the std is 1e-6 of their size: a variance of zero has no density.
        """
        is_constant = float(np.ptp(y)) == 0.0
        least = (1e-6 * (float(np.max(np.abs(y))) or 1.0)) ** 2
        return cls(float(np.mean(y)), least if is_constant else float(np.var(y)))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict every row alike."""
        ones = np.ones(len(x))
        return GaussianPredictive(self.mean * ones, 0.0 * ones, self.var * ones)


@dataclass(frozen=True)
class LinearBaseline:
    """Bayesian linear regression, its two precisions set by the evidence (MacKay 1992).

    Everything is held in standardised units.

    weight_mean, weight_cov
        The Gaussian posterior of the slopes; the intercept is the mean of y.
    noise_var
        Variance of the residual noise, standardised y².
    """

    x_scaler: Standardiser
    y_scaler: Standardiser
    weight_mean: Float[np.ndarray, " d"]
    weight_cov: Float[np.ndarray, "d d"]
    noise_var: float

    @classmethod
    def fit(cls, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> LinearBaseline:
        """Maximise the evidence by MacKay's fixed point, with nearly flat Gamma(1e-6, 1e-6) priors.

        gamma = sum_i noise_prec e_i / (weight_prec + noise_prec e_i), weight_prec = gamma / |w|²,
        noise_prec = (n - gamma) / |y - X w|², with e_i the eigenvalues of X'X (MacKay 1992, eq.
        31-32), which is also what scikit-learn's BayesianRidge iterates.
        """
        x_scaler, y_scaler = Standardiser.fit(x), Standardiser.fit(y[:, None])
        z, t = x_scaler.transform(x), y_scaler.transform(y[:, None])[:, 0]
        eigenvalues, axes = np.linalg.eigh(z.T @ z)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        weight_prec, noise_prec = _evidence_maximum(eigenvalues, axes.T @ (z.T @ t), t)
        var = 1.0 / (weight_prec + noise_prec * eigenvalues)
        weight_cov = (axes * var) @ axes.T
        return cls(
            x_scaler, y_scaler, noise_prec * weight_cov @ (z.T @ t), weight_cov, 1.0 / noise_prec
        )

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict mean and variance, in y and y², some rows at a time."""
        step = max(1, _CHUNK_VALUES // max(x.shape[1], 1))
        parts = [self._moments(x[i : i + step]) for i in range(0, len(x), step)]
        m = np.concatenate([m for m, _ in parts])
        v = np.concatenate([v for _, v in parts])
        noise = np.full_like(v, self.noise_var)
        scaler = self.y_scaler
        return GaussianPredictive(
            scaler.inverse_mean(m[:, None])[:, 0],
            scaler.inverse_var(v[:, None])[:, 0],
            scaler.inverse_var(noise[:, None])[:, 0],
        )

    def _moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = self.x_scaler.transform(x)
        return z @ self.weight_mean, np.einsum("ij,ij->i", z @ self.weight_cov, z)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return {
            "x_scaler": self.x_scaler.to_dict(),
            "y_scaler": self.y_scaler.to_dict(),
            "weight_mean": self.weight_mean.tolist(),
            "weight_cov": self.weight_cov.tolist(),
            "noise_var": self.noise_var,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> LinearBaseline:
        """Rebuild from `to_dict`; ValueError if it is not one."""
        found = cls(
            Standardiser.from_dict(stored["x_scaler"]),
            Standardiser.from_dict(stored["y_scaler"]),
            np.asarray(stored["weight_mean"], dtype=np.float64),
            np.asarray(stored["weight_cov"], dtype=np.float64),
            float(stored["noise_var"]),
        )
        d = len(found.weight_mean) if found.weight_mean.ndim == 1 else -1
        shapes = (found.weight_cov.shape, found.x_scaler.std.shape, found.y_scaler.std.shape)
        if shapes != ((d, d), (d,), (1,)) or not found.noise_var > 0.0:
            raise ValueError("the stored linear baseline is damaged: fit the model again")
        return found


@dataclass(frozen=True)
class Baselines:
    """The baselines of one training table; `linear` is None where `note` says why."""

    constant: ConstantBaseline | None
    linear: LinearBaseline | None
    note: str = ""

    @classmethod
    def fit(cls, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Baselines:
        """Fit both on the training rows."""
        constant = ConstantBaseline.fit(y)
        if len(y) < 2:
            return cls(constant, None, "A linear baseline needs at least two training rows.")
        if x.shape[1] > MAX_FEATURES:
            note = (
                f"The linear baseline is left out beyond {MAX_FEATURES:,} encoded features "
                f"(this table has {x.shape[1]:,})."
            )
            return cls(constant, None, note)
        return cls(constant, LinearBaseline.fit(x, y))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values; the linear one only while its covariance stays small."""
        linear, note = self.linear, self.note
        if linear is not None and len(linear.weight_mean) > MAX_STORED_FEATURES:
            linear, note = (
                None,
                "The linear baseline was not stored with the model, which has more than "
                f"{MAX_STORED_FEATURES} encoded features.",
            )
        constant = self.constant
        return {
            "constant": None if constant is None else [constant.mean, constant.var],
            "linear": None if linear is None else linear.to_dict(),
            "note": note,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Baselines:
        """Rebuild from `to_dict`."""
        constant, linear = stored.get("constant"), stored.get("linear")
        return cls(
            None if constant is None else ConstantBaseline(*map(float, constant)),
            None if linear is None else LinearBaseline.from_dict(linear),
            str(stored.get("note", "")),
        )


def _evidence_maximum(
    eigenvalues: np.ndarray, projected: np.ndarray, t: np.ndarray
) -> tuple[float, float]:
    """Iterate weight and noise precision; `projected` is X'y in the eigenbasis of X'X."""
    n, total = len(t), float(t @ t)
    weight_prec, noise_prec = 1.0, 1.0 / (float(np.var(t)) + np.finfo(np.float64).eps)
    for _ in range(_MAX_STEPS):
        before = weight_prec
        w = noise_prec * projected / (weight_prec + noise_prec * eigenvalues)
        gamma = float(np.sum(noise_prec * eigenvalues / (weight_prec + noise_prec * eigenvalues)))
        error = max(total - 2.0 * float(w @ projected) + float(w @ (eigenvalues * w)), 0.0)
        weight_prec = (gamma + 2.0 * _HYPER) / (float(w @ w) + 2.0 * _HYPER)
        noise_prec = (n - gamma + 2.0 * _HYPER) / (error + 2.0 * _HYPER)
        if abs(weight_prec - before) <= _TOLERANCE * before:
            break
    return weight_prec, noise_prec

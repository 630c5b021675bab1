"""What rows left out say of several predictions: their shares in a mixture, and a power of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

PSEUDO_ROWS = 1.0
"""Rows that every prediction is taken to have explained alone: a pull to equal shares."""
POWERS = np.exp(np.arange(-8, 9) / 8.0)
LOG_POWER_STD = 0.5
LEAST_PROBA = 1e-12

_N_ROUNDS = 300


def shares(
    likelihood: Float[np.ndarray, "f n"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " f"]:
    """Maximise the likelihood of a mixture of f predictions in their shares, which sum to one.

    By expectation maximisation (Dempster, Laird & Rubin 1977), with a Dirichlet prior of
    PSEUDO_ROWS a prediction.

    likelihood
        What each gave to every row, positive.
    """
    share = np.full(len(likelihood), 1.0 / len(likelihood))
    for _ in range(_N_ROUNDS):
        joint = share[:, None] * likelihood
        counts = (joint / joint.sum(axis=0)) @ weight + PSEUDO_ROWS
        share = counts / counts.sum()
    return share


def power(
    proba: Float[np.ndarray, "n c"], codes: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> float:
    """Return the power of probabilities under which the rows are most likely, out of POWERS.

    Log powers have a Gaussian prior around 0 of LOG_POWER_STD.
    """
    scores = [
        weight @ np.log(raised(proba, t)[np.arange(len(codes)), codes])
        - 0.5 * (np.log(t) / LOG_POWER_STD) ** 2
        for t in POWERS
    ]
    return float(POWERS[int(np.argmax(scores))])


def raised(proba: Float[np.ndarray, "n c"], t: float) -> Float[np.ndarray, "n c"]:
    """Return p^t, normalised; probabilities below LEAST_PROBA are taken for that."""
    p = np.maximum(proba, LEAST_PROBA) ** t
    return p / p.sum(axis=1, keepdims=True)


def folds(
    groups: Int[np.ndarray, " n"],
    codes: Int[np.ndarray, " n"],
    n_folds: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Give every row the fold that leaves it out, -1 for none; stratified by class.

    Rows of a group share a fold. A class that is one group alone is never left out: nothing would
    be left to learn it from. Nor is anything by a single fold.
    """
    first = np.unique(groups, return_index=True)[1]
    of_group, began = np.full(len(first), -1), 0
    if n_folds == 1:
        return of_group[groups]
    for code in np.unique(codes[first]):
        members = rng.permutation(np.flatnonzero(codes[first] == code))
        if len(members) > 1:
            of_group[members] = (began + np.arange(len(members))) % n_folds
            began += len(members)
    return of_group[groups]


class Folded(NamedTuple):
    """Rows with the codes of their classes, their weights, and the fold without each; -1: none.

    group
        Numbers of what is left out together; None where some rows of the same inputs are.
    """

    x: Float[np.ndarray, "n d"]
    codes: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    fold: Int[np.ndarray, " n"]
    group: Int[np.ndarray, " n"] | None = None


def dealt(
    x: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    n_folds: int,
) -> Folded:
    """Deal the rows of every input and class out to the folds, in turn.

    Those of one input, class and fold become one. A row that weighs twice the mean is dealt as two.
    Of a class of less than two nothing is left out.
    """
    cells, cell = np.unique(np.column_stack([codes, x]), axis=0, return_inverse=True)
    end = np.cumsum(np.bincount(cell.ravel(), weight / weight.mean()))
    number = np.arange(n_folds)[:, None]
    rounds, rest = np.divmod(np.append(0.0, end), n_folds)
    amount = np.diff(rounds + np.clip(rest - number, 0.0, 1.0), axis=1)
    fold, at = np.nonzero(amount)
    x, codes, dealt = cells[at, 1:], cells[at, 0].astype(codes.dtype), amount[fold, at]
    fold = np.where(np.bincount(codes, dealt)[codes] < 2.0, -1, fold)
    return Folded(x, codes, weight.mean() * dealt, fold)

"""Shapley values (Shapley 1953): a fair division of a value among the columns that make it.

Column j gets its increment v(S + j) - v(S) of the value of a set S of known columns, averaged over
all orders in which columns may become known. With few columns every set is asked. With many, some
orders are drawn, each with its reverse, which lowers the variance (Mitchell et al. 2022, "Sampling
permutations for Shapley value estimation"); the values still add up, order by order, to v(all) -
v(none).
"""

from __future__ import annotations

from itertools import product
from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.task import Fitted
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.target import class_text

Quantities = dict[str, np.ndarray]
"""By name; of all rows, (n,), or of all rows and columns, (n, p)."""
MOST_EXACT = 8
"""Columns up to which every set is asked."""
MOST_NAMED, LEAST_SHARE = 3, 0.1
"""Columns that are named, and the least share of an uncertainty that one of them must add."""
_ORDER_PAIRS, _ROWS_AT_ONCE = 16, 2**14
N_COMPLETIONS = 32
"""With these the average of a number is off by a few hundredths of its standard deviation."""


class Sets(NamedTuple):
    """Sets of known columns, and what each contributes to every Shapley value.

    known
        Which columns each set holds, (s, p); the first is empty, the last holds all.
    weights
        Shapley values are `weights @ v`, with v the values of the sets, (p, s).
    """

    known: Bool[np.ndarray, "s p"]
    weights: Float[np.ndarray, "p s"]

    @classmethod
    def of(cls, n_columns: int, seed: int = 0) -> Sets:
        """Choose all sets of up to `MOST_EXACT` columns, or those along random orders of more."""
        if n_columns <= MOST_EXACT:
            return cls._all(n_columns)
        return cls._along_orders(n_columns, np.random.default_rng(seed))

    @classmethod
    def _all(cls, p: int) -> Sets:
        known = np.array(sorted(product((False, True), repeat=p), key=sum))
        size = known.sum(axis=1)
        # |S|! (p - |S| - 1)! / p!, as a member of S sees the others of it, and as one outside.
        share = np.array([1.0 / (p * comb(p - 1, k)) for k in range(p)])
        inside, outside = share[np.maximum(size - 1, 0)], share[np.minimum(size, p - 1)]
        return cls(known, np.where(known, inside[:, None], -outside[:, None]).T)

    @classmethod
    def _along_orders(cls, p: int, rng: np.random.Generator) -> Sets:
        drawn = rng.permuted(np.tile(np.arange(p), (_ORDER_PAIRS, 1)), axis=1)
        orders = np.concatenate([drawn, drawn[:, ::-1]])
        place = np.argsort(orders, axis=1)  # of every column in each order
        known = place[:, None, :] < np.arange(p + 1)[:, None]
        unique, which = np.unique(known.reshape(-1, p), axis=0, return_inverse=True)
        which = which.reshape(len(orders), p + 1)
        by_size = np.argsort(unique.sum(axis=1), kind="stable")
        weights = np.zeros((p, len(unique)))
        for order, sets in zip(orders, np.argsort(by_size)[which], strict=True):
            np.add.at(weights, (order, sets[1:]), 1.0 / len(orders))
            np.add.at(weights, (order, sets[:-1]), -1.0 / len(orders))
        return cls(unique[by_size], weights)


class Explainer:
    """What each column of a table contributes to a model's prediction of a row.

    The value of a set S of known columns is what the model predicts on average where only these
    are known: E[q(x) | x_S], with the other columns drawn given the known ones from the Gaussian
    copula of the training rows (conditional Shapley values: Aas et al. 2021, "Explaining individual
    predictions when features are dependent").

    place
        Of every encoded column that of the table's, (d,).
    n_completions
        Drawn of a row for every set of columns; half as many where not every set is asked.
    """

    def __init__(
        self, fitted: Fitted, encoding: TableEncoding, n_completions: int = N_COMPLETIONS
    ) -> None:
        self.predict, self.n_completions = fitted.predict, n_completions
        self.columns = tuple(column.name for column in encoding.columns)
        widths = [len(column.feature_names) for column in encoding.columns]
        self.place: Int[np.ndarray, " d"] = np.repeat(np.arange(len(widths)), widths)
        self.sets = Sets.of(len(widths))
        if len(widths) > MOST_EXACT:  # whose orders average many sets of each size
            self.n_completions = (n_completions + 1) // 2
        self.inputs = fitted.known_inputs.of_columns(len(self.place))

    @property
    def n_predictions(self) -> int:
        """How many rows are predicted, at most, to explain one."""
        return len(self.sets.known) * self.n_completions

    def of_row(self, x: Float[np.ndarray, " d"]) -> tuple[Quantities, Quantities]:
        """Return the contributions to every quantity, (p,), and its average, ()."""
        masked = np.where(self.sets.known[:, self.place], x, np.nan)
        of_sets = self._averaged(masked)
        # What is not known in any set contributes nothing, not what rounding leaves.
        is_known = np.bincount(self.place, ~np.isnan(x)) > 0
        contributions = {name: is_known * (self.sets.weights @ v) for name, v in of_sets.items()}
        return contributions, {name: v[0] for name, v in of_sets.items()}

    def removed(self, x: Float[np.ndarray, " d"]) -> dict[int, float]:
        """Return which share of the uncertainty measuring each missing column would remove.

        On average over what it may be: of the variance of a number, or the entropy of a class.
        """
        gaps, shares = np.isnan(x), dict[int, float]()
        measured = self.inputs.completions(x[None], self.n_completions)[0]
        for j in np.unique(self.place[gaps]).tolist():
            each = self.predict(np.where(gaps & (self.place == j), measured, x))
            if isinstance(each, ClassPredictive):
                mean = ClassPredictive.of_codes(each.proba.mean(axis=0, keepdims=True), [0.0])
                before, after = float(mean.entropy[0]), float(each.entropy.mean())
            else:
                after = float(each.var.mean())
                before = after + float(each.mean.var())
            shares[j] = 1.0 - after / before if before > 0.0 else 0.0
        return shares

    def _averaged(self, masked: Float[np.ndarray, "s d"]) -> Quantities:
        """Return the mean over completions of every quantity, (s,)."""
        n, (_, d) = self.n_completions, masked.shape
        parts, step = list[Quantities](), _ROWS_AT_ONCE // n
        for start in range(0, len(masked), step):
            filled = self.inputs.completions(masked[start : start + step], n).reshape(-1, d)
            as_bytes = filled.view(np.dtype((np.void, filled.strides[0])))[:, 0]
            _, first, which = np.unique(as_bytes, return_index=True, return_inverse=True)
            each = quantities(self.predict(filled[first]))
            parts.append({name: v[which].reshape(-1, n).mean(axis=1) for name, v in each.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def quantities(predictive: Predictive | ClassPredictive) -> Quantities:
    """Return what is explained of every row, (n,): its prediction and the parts of its uncertainty.

    Of numbers the mean and two parts of the variance; of classes the probabilities and two parts of
    the entropy, nats.
    """
    if isinstance(predictive, ClassPredictive):
        names = [f"p({class_text(one)})" for one in predictive.classes.tolist()]
        return dict(zip(names, np.asarray(predictive.proba, np.float64).T, strict=True)) | {
            "mutual_information": predictive.mutual_information,
            "expected_entropy": predictive.expected_entropy,
        }
    return {
        "mean": predictive.mean,
        "epistemic_var": predictive.epistemic_var,
        "noise_var": predictive.noise_var,
    }


def raising(of: Float[np.ndarray, " p"], whole: float) -> list[int]:
    """Return the columns whose contributions raise a positive quantity most, the largest first."""
    largest = np.argsort(-of, kind="stable")[:MOST_NAMED]
    return [int(j) for j in largest if of[j] > LEAST_SHARE * whole > 0.0]


def epistemic(parts: Quantities) -> np.ndarray:
    """Return the epistemic part of the uncertainty among quantities."""
    return parts["epistemic_var"] if "epistemic_var" in parts else parts["mutual_information"]

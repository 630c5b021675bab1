"""Class probabilities of every row, and how much of the doubt more data would remove."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bayesprop.distributions.predictive import OF_ALL_ROWS, Prediction, Predictive, check_coverage
from bayesprop.numerics.rows import codes_of

_ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class ClassPredictive(Prediction):
    """A categorical distribution a row, averaged over the posterior; or one a label of each row.

    proba
        Predictive probabilities, (n, c), which sum to one; (n, o, c) for o labels of a row: what is
        (n,) below is then (n, o).
    expected_entropy
        Entropy of the classes averaged over the posterior, nats: the doubt that no amount of data
        would remove. (n,)
    classes
        Labels of the columns, in sorted order. (c,)
    gap_entropy
        What the missing or uncertain inputs of a row would tell of its class on average, nats,
        (n,); a part of `expected_entropy`. 0: all inputs are known.
    order
        Columns from the lowest class to the highest, (c,); None: the classes have no order.
    positive
        Column of the positive one of two classes, that rankings and decisions are about.
    """

    proba: Float[np.ndarray, "n ... c"]
    expected_entropy: Float[np.ndarray, "n ..."]
    classes: np.ndarray = field(metadata=OF_ALL_ROWS)
    gap_entropy: Float[np.ndarray, "n ..."] | float = 0.0
    order: tuple[int, ...] | None = field(default=None, metadata=OF_ALL_ROWS)
    positive: int = field(default=1, metadata=OF_ALL_ROWS)

    def __post_init__(self) -> None:
        of_rows = np.broadcast_to(self.gap_entropy, self.proba.shape[:-1])
        object.__setattr__(self, "gap_entropy", of_rows)

    @classmethod
    def of_codes(cls, proba: ArrayLike, expected_entropy: ArrayLike) -> ClassPredictive:
        """Predict codes: the classes are 0, 1, ..., as methods see them."""
        proba, entropy = np.asarray(proba), np.asarray(expected_entropy)
        return cls(proba, entropy, np.arange(proba.shape[-1]))

    @classmethod
    def of_sure_weights(
        cls, proba: Float[np.ndarray, "n c"], classes: np.ndarray
    ) -> ClassPredictive:
        """Wrap probabilities of a model that is sure of its weights, scaled to sum to one."""
        proba = proba / np.sum(proba, axis=1, keepdims=True)
        plain = cls(proba, np.zeros(len(proba)), classes)
        return replace(plain, expected_entropy=plain.entropy)

    def target(self, k: int) -> ClassPredictive:
        """Select one of several labels of a row."""
        return self._map(lambda part, _: part[:, k])

    @property
    def entropy(self) -> Float[np.ndarray, "n ..."]:
        """Entropy of the predictive probabilities, nats; 0 to log c."""
        p = self.proba
        return -np.sum(np.where(p > 0.0, p * np.log(np.where(p > 0.0, p, 1.0)), 0.0), axis=-1)

    @property
    def mutual_information(self) -> Float[np.ndarray, "n ..."]:
        """Mutual information of label and weights, nats: the epistemic part of the entropy.

        Entropy of the mean less the mean of the entropies (Houlsby et al. 2011, eq. 2), at least
        zero.
        """
        return np.maximum(self.entropy - self.expected_entropy, 0.0)

    @property
    def epistemic_share(self) -> float:
        """Share of the summed entropy that is epistemic; 0 to 1, 0 where there is no doubt."""
        total = float(np.sum(self.entropy))
        return float(np.sum(self.mutual_information)) / total if total > 0.0 else 0.0

    @property
    def gap_share(self) -> Float[np.ndarray, "n ..."]:
        """Share of the entropy that knowing all inputs exactly would remove on average."""
        whole = self.entropy
        return np.divide(self.gap_entropy, whole, out=np.zeros_like(whole), where=whole > 0.0)

    @property
    def confidence(self) -> Float[np.ndarray, "n ..."]:
        """Probability of the most probable class."""
        return self.proba.max(axis=-1)

    @property
    def label(self) -> np.ndarray:
        """Most probable class of every row."""
        return self.classes[self.proba.argmax(axis=-1)]

    @property
    def median(self) -> np.ndarray:
        """Lowest class that is not exceeded with probability 1/2 or more; ordered classes only."""
        return self.quantile(0.5)

    def quantile(self, level: ArrayLike) -> np.ndarray:
        """Lowest class that is not exceeded with a probability; levels, 0 to 1, last."""
        order, reached = self._in_order, self._reached
        levels = np.asarray(level, np.float64)
        beyond = reached[(..., *(None,) * levels.ndim)] < levels - _ROUNDING
        return self.classes[order][np.minimum(beyond.sum(axis=1), len(order) - 1)]

    def interval(self, coverage: float) -> np.ndarray:
        """Lowest and highest of the classes that hold a label with probability `coverage`; (n, 2).

        Between equal tails; whole classes hold more.
        """
        check_coverage(coverage)
        return self.quantile([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])

    def rps(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """Ranked probability score, in classes: sum over k of (P(y <= k) - [y <= k])².

        (Epstein 1969, without his division by the number of classes less one.) It is the CRPS of
        the class's number; ordered classes only, lower is better.
        """
        rank = np.argsort(self._in_order)[self.codes(y)]
        came = rank[:, None] <= np.arange(len(self.classes))
        return np.sum((self._reached - came) ** 2, axis=1)

    @property
    def shown(self) -> Int[np.ndarray, " c"]:
        """Columns from the lowest class to the highest, or as they are: tables show them so."""
        return np.arange(len(self.classes)) if self.order is None else np.asarray(self.order)

    @property
    def _in_order(self) -> Int[np.ndarray, " c"]:
        if self.order is None:
            raise ValueError(
                "median, quantile, interval and rps are of ordered classes, and these have no "
                "order: fit with target_kind='ordered'"
            )
        return self.shown

    @property
    def _reached(self) -> Float[np.ndarray, "n c"]:
        """P(y <= k), classes from the lowest; the last is 1."""
        reached = np.cumsum(self.proba[:, self._in_order], axis=1)
        reached[:, -1] = 1.0
        return reached

    @property
    def is_finite(self) -> Bool[np.ndarray, " n"]:
        """Whether a row has finite probabilities."""
        return np.all(np.isfinite(self.proba), axis=tuple(range(1, self.proba.ndim)))

    def codes(self, y: ArrayLike) -> Int[np.ndarray, "n ..."]:
        """Columns of labels, one a row or one for all rows; ValueError names one that is no class.

        Numbers are classes of text, too: a table writes 0.0 as "0", and 0.5 as "0.5".
        """
        y, shape = np.asarray(y), self.proba.shape[:-1]
        y = np.broadcast_to(y, shape) if y.ndim == 0 else y
        if y.shape != shape:
            n_labels = " and column" * (len(shape) - 1)
            raise ValueError(f"y must hold one label a row{n_labels}, shape {shape}, got {y.shape}")
        if isinstance(self.classes[0], str) and y.dtype.kind != "U":
            y = np.array([one if isinstance(one, str) else _as_text(one) for one in y], object)
        return codes_of(self.classes, y)

    def log_prob(self, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Log probability of each observed label, nats; -inf where the model excluded it."""
        with np.errstate(divide="ignore"):
            own = np.take_along_axis(self.proba, self.codes(y)[..., None], axis=-1)
            return np.log(own[..., 0])

    def logpmf(self, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Log probability of each label, under scipy's name."""
        return self.log_prob(y)

    def pmf(self, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Probability of each label."""
        return np.exp(self.log_prob(y))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n labels for every row, independently; (n, rows[, o])."""
        edges = np.cumsum(self.proba, axis=-1)
        u = rng.random((n, *edges.shape[:-1], 1)) * edges[..., -1:]
        return self.classes[np.minimum((u > edges).sum(axis=-1), len(self.classes) - 1)]


def _as_text(label: object) -> str:
    """Spell a number as a table's class: a whole one without its fraction."""
    return str(label).removesuffix(".0")


Distribution = Predictive | ClassPredictive
"""What a method predicts of rows: numbers or classes."""

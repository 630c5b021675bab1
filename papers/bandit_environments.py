"""What a bandit is tried on: streams of interactions, what every arm would have paid included.

Blundell et al. (2015), section 5.3 (mushrooms; after Guez 2015); Riquelme, Tucker & Snoek (2018),
"Deep Bayesian bandits showdown" (the wheel).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.datasets import registry
from bayesprop.model.task import Standardiser
from bayesprop.table.encoding import TableEncoding


class Interactions(NamedTuple):
    """A stream of n interactions with k arms, one after another.

    context
        What is known before an arm is chosen, d numbers.
    expected
        Mean reward of every arm in this context.
    realised
        What every arm would pay this time, one drawn outcome.
    """

    context: Float[np.ndarray, "n d"]
    expected: Float[np.ndarray, "n k"]
    realised: Float[np.ndarray, "n k"]


class Environment(ABC):
    """A source of interactions, any number of them.

    name
        For tables and messages.
    arms
        Names of the arms, in the order of the columns of `Interactions`.
    n_features
        Numbers in a context.
    """

    name: str
    arms: tuple[str, ...]
    n_features: int

    def draw(self, n: int, *, seed: int) -> Interactions:
        """Draw n interactions; a longer stream of the same seed begins with the shorter one."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n must be an int >= 1, got {n!r}")
        contexts, outcomes = np.random.default_rng(seed).spawn(2)
        return self._draw(int(n), contexts, outcomes)

    @abstractmethod
    def _draw(
        self, n: int, contexts: np.random.Generator, outcomes: np.random.Generator
    ) -> Interactions:
        """Draw contexts with one generator and what arms pay with the other, row after row."""


def expected_regret(
    interactions: Interactions, chosen: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Mean reward of the best arm less that of the chosen one, each interaction; never negative."""
    return interactions.expected.max(axis=1) - _paid(interactions.expected, chosen)


def realised_regret(
    interactions: Interactions, chosen: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Mean reward of the best arm less what the chosen one paid, each interaction.

    The oracle knows means, not outcomes, and gets 5 or 0 for a mushroom whatever is drawn
    (Blundell et al. 2015, section 5.3): a lucky poisonous one has the regret -5. It has the mean of
    `expected_regret` and more noise.
    """
    return interactions.expected.max(axis=1) - _paid(interactions.realised, chosen)


def _paid(rewards: Float[np.ndarray, "n k"], chosen: Any) -> Float[np.ndarray, " n"]:
    n, k = rewards.shape
    chosen = np.asarray(chosen)
    if chosen.shape != (n,) or not np.issubdtype(chosen.dtype, np.integer):
        raise ValueError(
            f"chosen must hold the number of an arm for each interaction, ints of shape ({n},), "
            f"got {chosen.dtype} of shape {chosen.shape}"
        )
    strange = (chosen < 0) | (chosen >= k)
    if strange.any():
        row = int(np.argmax(strange))
        raise ValueError(f"chosen must be from 0 to {k - 1}, got {chosen[row]} in row {row}")
    return np.take_along_axis(rewards, chosen[:, None], axis=1)[:, 0]


class Mushroom(Environment):
    """Eat mushrooms or leave them (Blundell et al. 2015, section 5.3).

    An edible one pays 5, a poisonous one -35 or 5 with probability 1/2 each, leaving either 0. They
    are drawn with replacement; a context has a 0/1 column for every letter of the 22 attributes,
    117 in all, not standardised.

    Parameters
    ----------
    attributes : array of text, (m, a), or None
        Letters of m kinds of mushroom. None: the 8124 of UCI, from the folder of BAYESPROP_DATA.
    edible : array of bool, (m,), or None
        Which of them are; None with `attributes`.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.bandit_environments import Mushroom, expected_regret
    >>> kinds = Mushroom([["red", "large"], ["brown", "small"]], [False, True])
    >>> stream = kinds.draw(1000, seed=0)
    >>> kinds.arms, stream.context.shape
    (('eat', 'leave'), (1000, 4))
    >>> eat_all = np.zeros(1000, int)
    >>> round(float(expected_regret(stream, eat_all).mean()), 1)  # 15 for every second one
    7.4
    """

    name = "mushroom"
    arms = ("eat", "leave")
    MEAL, POISONED = 5.0, -35.0

    def __init__(
        self,
        attributes: Shaped[Any, "m a"] | None = None,
        edible: Bool[Any, " m"] | None = None,
    ) -> None:
        if (attributes is None) != (edible is None):
            raise ValueError("attributes and edible must be given together, or neither")
        if attributes is None:
            table = registry.load("mushroom")
            attributes, edible = table.X, table.y == "e"
        attributes, self._edible = np.asarray(attributes), np.asarray(edible)
        if attributes.ndim != 2 or len(attributes) == 0:
            raise ValueError(f"attributes must have the shape (m, a), got {attributes.shape}")
        if self._edible.shape != (len(attributes),) or self._edible.dtype != np.bool_:
            raise ValueError(
                f"edible must say True or False of each of {len(attributes)} mushrooms, got "
                f"{self._edible.dtype} of shape {self._edible.shape}"
            )
        self._contexts = np.concatenate(
            [column[:, None] == np.unique(column) for column in attributes.T], axis=1
        ).astype(np.float64)
        self.n_features = self._contexts.shape[1]

    def _draw(
        self, n: int, contexts: np.random.Generator, outcomes: np.random.Generator
    ) -> Interactions:
        rows = contexts.integers(len(self._contexts), size=n)
        edible = self._edible[rows]
        harmless = edible | (outcomes.random(n) < 0.5)
        left = np.zeros(n)
        mean_poisonous = 0.5 * (self.MEAL + self.POISONED)
        return Interactions(
            self._contexts[rows],
            np.stack([np.where(edible, self.MEAL, mean_poisonous), left], axis=1),
            np.stack([np.where(harmless, self.MEAL, self.POISONED), left], axis=1),
        )


class Wheel(Environment):
    """A large reward that is rarely to be had, and a safe arm (Riquelme, Tucker & Snoek 2018).

    Contexts are uniform in the unit disc. The safe arm pays 1.2 on average everywhere. The other
    four pay 1.0, but beyond the radius `delta` one of them, by the quadrant, pays 50. The rewards
    are Gaussian with standard deviation 0.01. This is the paper's text; the public code gives one
    quadrant to the safe arm, so that its fifth arm is never best.

    Parameters
    ----------
    delta : float
        From 0 to 1; the share 1 - delta² of the contexts has a large reward.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.bandit_environments import Wheel
    >>> wheel = Wheel(0.5)
    >>> stream = wheel.draw(4, seed=0)
    >>> stream.expected[np.hypot(*stream.context.T) < 0.5]
    array([[1.2, 1. , 1. , 1. , 1. ]])
    """

    arms = ("safe", "right upper", "right lower", "left upper", "left lower")
    n_features = 2
    SAFE, OTHER, LARGE, STD = 1.2, 1.0, 50.0, 0.01

    def __init__(self, delta: float) -> None:
        if not 0.0 <= delta <= 1.0:
            raise ValueError(f"delta must be a radius from 0 to 1, such as 0.95; got {delta!r}")
        self.delta = float(delta)
        self.name = f"wheel {self.delta:g}"

    def _draw(
        self, n: int, contexts: np.random.Generator, outcomes: np.random.Generator
    ) -> Interactions:
        square = contexts.random((n, 2))
        radius, angle = np.sqrt(square[:, 0]), 2.0 * np.pi * square[:, 1]
        x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        expected = np.full((n, 5), self.OTHER)
        expected[:, 0] = self.SAFE
        rim = np.flatnonzero(radius > self.delta)
        quadrant = 1 + 2 * (x[rim, 0] <= 0.0) + (x[rim, 1] <= 0.0)
        expected[rim, quadrant] = self.LARGE
        realised = expected + self.STD * outcomes.standard_normal((n, 5))
        return Interactions(x, expected, realised)


class ClassesAsArms(Environment):
    """Any table of classes: an arm for each class, and a reward for naming that of the row.

    Rows are drawn with replacement. Of a frame, text becomes 0/1 columns and gaps are filled as in
    the command line (`table.encoding.TableEncoding`).

    Parameters
    ----------
    X : array of numbers, (m, d), or frame
        One row for each context.
    y : array, (m,)
        Their classes.
    right, wrong : float
        What the class of the row pays, and what any other.
    label_noise : float
        Probability that another class, drawn evenly, pays instead; from 0 to below 1.
    standardise : bool
        Whether columns get mean 0 and variance 1 over the table.
    name : str
        For tables and messages.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from papers.bandit_environments import ClassesAsArms
    >>> flowers = ClassesAsArms(*load_iris(return_X_y=True), label_noise=0.1, name="iris")
    >>> stream = flowers.draw(3, seed=0)
    >>> flowers.arms, stream.context.shape
    (('0', '1', '2'), (3, 4))
    >>> stream.expected[0]
    array([0.05, 0.05, 0.9 ])
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        right: float = 1.0,
        wrong: float = 0.0,
        label_noise: float = 0.0,
        standardise: bool = True,
        name: str = "classes",
    ) -> None:
        if not (np.isfinite([right, wrong]).all() and right > wrong):
            raise ValueError(
                f"right must be a finite reward above wrong, got {right!r} and {wrong!r}"
            )
        if not 0.0 <= label_noise < 1.0:
            raise ValueError(f"label_noise must be at least 0 and below 1, got {label_noise!r}")
        labels = _checked_labels(y, len(X))
        classes, self._code = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold two classes at least, got {classes.tolist()}")
        contexts = _numbers(X, labels)
        scale = Standardiser.fit if standardise else lambda x: Standardiser.none(x.shape[1])
        self._contexts = scale(contexts).transform(contexts)
        self.name, self.arms = name, tuple(str(label) for label in classes)
        self.n_features = self._contexts.shape[1]
        self.right, self.wrong, self.label_noise = float(right), float(wrong), float(label_noise)

    def _draw(
        self, n: int, contexts: np.random.Generator, outcomes: np.random.Generator
    ) -> Interactions:
        k = len(self.arms)
        rows = contexts.integers(len(self._contexts), size=n)
        chance = outcomes.random((n, 2))
        step = 1 + np.floor((k - 1) * chance[:, 1]).astype(int)
        paying = (self._code[rows] + step * (chance[:, 0] < self.label_noise)) % k
        pays = np.full((n, k), self.label_noise / (k - 1))
        pays[np.arange(n), self._code[rows]] = 1.0 - self.label_noise
        gain = self.right - self.wrong
        return Interactions(
            self._contexts[rows],
            self.wrong + gain * pays,
            self.wrong + gain * (paying[:, None] == np.arange(k)),
        )


def _checked_labels(y: Any, n: int) -> Shaped[np.ndarray, " m"]:
    y = np.asarray(y)
    if y.shape != (n,) or n == 0:
        raise ValueError(f"y must hold one class a row of X, shape ({n},), got {y.shape}")
    missing = np.array([label is None or label != label for label in y.tolist()])
    if missing.any():
        raise ValueError(f"y must be known in every row, it is missing in row {np.argmax(missing)}")
    return y.astype(str) if y.dtype == object else y


def _numbers(X: Any, labels: Shaped[np.ndarray, " m"]) -> Float[np.ndarray, "m d"]:
    if hasattr(X, "columns"):
        return _encoded(X, labels)
    try:
        x = np.asarray(X, np.float64)
    except ValueError as error:
        raise ValueError(f"X must be numbers, or a frame if it has text: {error}") from error
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"X must have the shape (m, d), got {x.shape}")
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"X must be finite, row {row} is not: leave it out, or give a frame")
    return x


def _encoded(frame: Any, labels: Shaped[np.ndarray, " m"]) -> Float[np.ndarray, "m d"]:
    import narwhals as nw
    import polars as pl

    table = nw.from_native(frame, eager_only=True).to_polars()
    target = "class"
    while target in table.columns:
        target += "_"
    table = table.with_columns(pl.Series(target, labels))
    encoding = TableEncoding.fit(table, target, task="classification")
    return encoding.transform(table)

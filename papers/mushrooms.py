"""What a bandit is tried on: streams of mushrooms, what every arm would have paid included.

Blundell et al. (2015), section 5.3; after Guez (2015).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.datasets import registry


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


class Mushroom:
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
    >>> from papers.mushrooms import Mushroom, expected_regret
    >>> kinds = Mushroom([["red", "large"], ["brown", "small"]], [False, True])
    >>> stream = kinds.draw(1000, seed=0)
    >>> kinds.arms, stream.context.shape
    (('eat', 'leave'), (1000, 4))
    >>> eat_all = np.zeros(1000, int)
    >>> round(float(expected_regret(stream, eat_all).mean()), 1)  # 15 for every second one
    7.4
    """

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

    def draw(self, n: int, *, seed: int) -> Interactions:
        """Draw n interactions; a longer stream of the same seed begins with the shorter one."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n must be an int >= 1, got {n!r}")
        contexts, outcomes = np.random.default_rng(seed).spawn(2)
        rows = contexts.integers(len(self._contexts), size=n)
        edible = self._edible[rows]
        harmless = edible | (outcomes.random(n) < 0.5)
        nothing = np.zeros(n)
        mean_poisonous = 0.5 * (self.MEAL + self.POISONED)
        return Interactions(
            self._contexts[rows],
            np.stack([np.where(edible, self.MEAL, mean_poisonous), nothing], axis=1),
            np.stack([np.where(harmless, self.MEAL, self.POISONED), nothing], axis=1),
        )

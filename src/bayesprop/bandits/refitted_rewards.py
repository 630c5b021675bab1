"""Rewards by any regressor that says how sure it is, fitted anew as rows gather.

For those that cannot learn from one row: Laplace, closed-form variational inference, ensembles,
Markov chains, expectation propagation over a table, and scikit-learn's own. The rows between two
fits grow with the memory, so that n rewards cost about log n fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from jaxtyping import Float, Float64, Int

from bayesprop import codec
from bayesprop.bandits.arms import Arms, Belief, Choices, Draws, Rewards
from bayesprop.codec import Stored
from bayesprop.estimators.any_estimator import (
    Estimator,
    check_estimator,
    is_classifier,
    predictive_of,
    unwrapped,
)
from bayesprop.estimators.params import Count, Positive
from bayesprop.store import estimator_from_stored

if TYPE_CHECKING:
    from bayesprop.estimators.shell import RegressorBase

_SEEDS = 2**32


class RefittedContents(NamedTuple):
    """Stored state in addition to the last fit: the memory, counts, and guards that fired.

    n_seen, n_fitted, n_fits
        Rows that came so far, and until the last fit; how many fits there were.
    """

    x: Float64[np.ndarray, "n d"]
    y: Float64[np.ndarray, " n"]
    n_seen: int
    n_fitted: int
    n_fits: int
    guards: dict[str, int]

    def validate(self) -> None:
        """Raise ValueError for counts that do not belong together."""
        if not 0 <= self.n_fitted <= self.n_seen or self.n_fits < 0:
            raise ValueError("there are fewer rows than were fitted")


@dataclass(eq=False, kw_only=True)
class RefittedRewards(Rewards):
    """A regressor of this library or of scikit-learn, fitted anew now and then.

    Its input is a context and the columns of an arm, its output the reward; it learns their scale
    itself. Before the first fit all arms are believed to be the same, and chosen evenly. Draws are
    joint where the estimator has `sample_y`; else arms are drawn independently, by its std, noise
    included.

    Parameters
    ----------
    estimator : estimator
        Unfitted, a pipeline too; of this library if the bandit is to be saved. Every fit has its
        own seed.
    buffer_size : int
        Rows remembered.
    keep : {"sample", "last"}
        Which rows, when there are more: an even sample of all that came (Vitter 1985, algorithm
        R), which still holds what an agent that has learnt no longer does; or the last ones, for
        rewards that drift.
    first : int
        Rows of the first fit.
    growth : float
        Share by which the rows that came have grown at the next fit, > 0.
    """

    estimator: Estimator = field(kw_only=False)
    buffer_size: Count = 4096
    keep: Literal["sample", "last"] = "sample"
    first: Count = 20
    growth: Positive = 0.2

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Know nothing."""
        self.check()
        self._x, self._y = np.zeros((0, n_features + arms.width)), np.zeros(0)
        self._n_seen = self._n_fitted = self._n_fits = 0
        self._seed = seed
        self.model_: Estimator | None = None
        self.guards_: dict[str, int] = {}

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Remember rows, and fit if there are enough new ones; a fit that fails learns nothing."""
        x, n_seen = choices.inputs, self._n_seen + len(rewards)
        rows, places = self._places(len(rewards))
        self._make_room(n_seen)
        if n_seen >= self.n_at_next_fit:
            table, paid = self._x.copy(), self._y.copy()
            table[places], paid[places] = x[rows], rewards[rows]
            self._fit(table[:n_seen], paid[:n_seen])
            self._n_fitted, self._n_fits = n_seen, self._n_fits + 1
        self._x[places], self._y[places] = x[rows], rewards[rows]
        self._n_seen = n_seen

    def _make_room(self, n_rows: int) -> None:
        """Let the memory grow, by doubling, to so many rows or to all that are remembered."""
        if (n_there := len(self._y)) < min(n_rows, self.buffer_size):
            n_more = min(self.buffer_size, max(n_rows, 2 * n_there)) - n_there
            self._x = np.pad(self._x, ((0, n_more), (0, 0)))
            self._y = np.pad(self._y, (0, n_more))

    def _places(self, n_new: int) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
        """Return which new rows are remembered, and where; of those in one place the last stays."""
        number = np.arange(self._n_seen, self._n_seen + n_new)
        if self.keep == "last":
            place = number % self.buffer_size
        else:
            drawn = [
                np.random.default_rng((self._seed % _SEEDS, n)).integers(n + 1)
                for n in number[number >= self.buffer_size]
            ]
            place = np.concatenate([number[number < self.buffer_size], np.array(drawn, int)])
        rows = np.flatnonzero(place < self.buffer_size)
        return rows, place[rows]

    @property
    def n_at_next_fit(self) -> int:
        """Rows that will have come at the next fit."""
        if self._n_fitted == 0:
            return self.first
        return max(self._n_fitted + 1, int(np.ceil(self._n_fitted * (1.0 + self.growth))))

    def _fit(self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> None:
        from sklearn.base import clone

        model = cast("RegressorBase", clone(cast("RegressorBase", self.estimator)))
        seeds = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        model.set_params(**dict.fromkeys(seeds, (self._seed + self._n_fits) % _SEEDS))
        self.model_ = model.fit(x, y)
        if hasattr(model, "fit_report_"):
            for name, count in model.fit_report_.guards.items():
                self.guards_[name] = self.guards_.get(name, 0) + int(count)

    def believe(self, choices: Choices) -> Belief:
        """Mean and epistemic variance that the estimator predicts; 0 and 1 before the first fit."""
        if self.model_ is None:
            return Belief(np.zeros(len(choices.numbers)), np.ones(len(choices.numbers)))
        predicted: Any = predictive_of(self.model_, choices.inputs)
        return Belief(np.asarray(predicted.mean), np.asarray(predicted.epistemic_var))

    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Draw functions by `sample_y`; normals where the estimator has none, or is not fitted."""
        if self.model_ is not None:
            model, inputs = unwrapped(self.model_, choices.inputs)
            if hasattr(model, "sample_y"):
                seed = int(rng.integers(_SEEDS))
                regressor = cast("RegressorBase", model)
                return np.asarray(regressor.sample_y(inputs, n_draws, random_state=seed)).T
        belief = self.believe(choices)
        normals = rng.standard_normal((n_draws, len(belief.mean)))
        return belief.mean + np.sqrt(belief.var) * normals

    def to_stored(self) -> Stored:
        """Return the last fit and the memory; TypeError if the estimator is not of this library."""
        n, model = min(self._n_seen, self.buffer_size), Stored(None, {})
        if self.model_ is not None:
            model = cast("RegressorBase", self.model_).to_stored()
        rows = self._x[:n].copy(), self._y[:n].copy()
        counts = self._n_seen, self._n_fitted, self._n_fits, self.guards_
        about = codec.write(RefittedContents(*rows, *counts), RefittedContents)
        return codec.joined(model=model, about=about)

    def restore(self, stored: Stored, n_features: int, arms: Arms, seed: int) -> None:
        """Stand where `to_stored` was called."""
        self.begin(n_features, arms, seed)
        width, model = n_features + arms.width, codec.part_of(stored, "model")
        contents = codec.read(RefittedContents, codec.part_of(stored, "about"))
        if contents.x.shape != (min(contents.n_seen, self.buffer_size), width):
            raise ValueError(f"there must be {contents.n_seen} rows of {width} numbers")
        self._x, self._y, self._n_seen, self._n_fitted, self._n_fits, self.guards_ = contents
        if model.header is not None:
            self.model_ = estimator_from_stored(*model)
            if self.model_.n_features_in_ != width:
                raise ValueError("the stored model has another number of inputs")

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        check_estimator(self.estimator)
        if is_classifier(self.estimator):
            raise ValueError(
                "estimator must be a regressor, for rewards are numbers; got "
                f"{type(self.estimator).__name__}"
            )
        super().check()
        if self.first > self.buffer_size:
            raise ValueError(
                f"first must be <= buffer_size, {self.buffer_size}, got {self.first}: raise the "
                "buffer or lower first"
            )

"""Classifiers that absorb rows one after the other: passes over a table, or a stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from bayesprop.estimators.classification import BayesianClassifier
from bayesprop.estimators.pruned import check_streams, forget, goes_on
from bayesprop.estimators.unharmed import unharmed
from bayesprop.model.standardiser import Standardiser


class OnlineClassifier(BayesianClassifier):
    """Base of PBP's and EBP's. A subclass says what a first state is, and absorbs rows in order."""

    n_epochs: int
    warm_start: bool
    random_state: Any
    state_: Any
    n_iter_: int

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch in `n_epochs` shuffled passes.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) labels of any type, two classes at least.
        sample_weight
            (n,), not negative: each row's likelihood is raised to this power; 0 leaves it out.
        """
        self._check_hyper_parameters()
        is_start = not goes_on(self)
        X, codes, weight = self._check_rows(X, y, sample_weight, reset=is_start)
        rng = check_random_state(self.random_state)
        forget(self)
        if is_start:
            self._start(rng, X, weight)
        rows = np.arange(len(X)) if weight is None else np.flatnonzero(weight)
        orders = (rng.permutation(rows) for _ in range(self.n_epochs))
        return self._run(X, codes, weight, orders, n_visits=len(rows) * self.n_epochs)

    @unharmed
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Absorb rows once, in their order: the posterior becomes the prior.

        The first call on an unfitted model learns the scaling from its rows.

        classes
            All labels there will be, in the first call; None: those of its y.
        """
        self._check_hyper_parameters()
        check_streams(self)
        is_first = not hasattr(self, "state_")
        X, codes, weight = self._check_stream(X, y, classes, sample_weight, is_first=is_first)
        if is_first:
            self._start(check_random_state(self.random_state), X, weight)
        self._begin_stream()
        return self._run(X, codes, weight, [np.arange(len(X))], n_visits=len(X))

    def _start(self, rng: np.random.RandomState, X: np.ndarray, weight: Any) -> None:
        """Learn the scaling; nothing is known yet."""
        self.x_scaler_ = Standardiser.fit(X, weight)
        self.state_ = self._initial_state(rng)
        self.n_iter_ = 0

    @abstractmethod
    def _check_hyper_parameters(self) -> None:
        """Raise ValueError where one is out of its range."""

    @abstractmethod
    def _initial_state(self, rng: np.random.RandomState) -> Any:
        """Return the state before any row."""

    def _begin_stream(self) -> None:
        """Make ready for rows that no pass has seen."""

    @abstractmethod
    def _run(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weight: Any,
        orders: Iterable[np.ndarray],
        *,
        n_visits: int,
    ) -> Self:
        """Absorb the rows in every one of the orders, and report.

        n_visits
            Rows of all orders together.
        """

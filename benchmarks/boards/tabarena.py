"""The default as TabArena asks for it: a model of AutoGluon, in a file of its own for its pickles.

`ConfigGenerator(BayespropModel, [{}], {})` of `tabarena.utils.config_utils` makes its experiments.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from autogluon.core.models import AbstractModel  # pyright: ignore[reportMissingImports]

import bayesprop
from bayesprop import TableClassifier, TableRegressor


class BayespropModel(AbstractModel):
    """`TableRegressor` or `TableClassifier` at their defaults; columns as they come."""

    ag_key, ag_name = "BAYESPROP", "bayesprop"

    def _fit(self, X: Any, y: Any, time_limit: float | None = None, **_: Any) -> None:
        of_numbers = self.problem_type == "regression"
        kind = TableRegressor if of_numbers else TableClassifier
        settings = {"random_state": 0} | self._get_model_params()
        with nullcontext() if time_limit is None else bayesprop.time_limit(time_limit):
            self.model = kind(**settings).fit(self.preprocess(X, is_train=True), y)

"""Hyper-parameters apart from scikit-learn: fields with their rules, and the method they make.

All that a saved model needs of them to predict. An estimator is these and a shell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import check_fields, one_of
from bayesprop.model.fitted import Fitted
from bayesprop.model.method import Method
from bayesprop.model.target_kinds import KINDS
from bayesprop.model.target_maps import NUMBERS
from bayesprop.model.task import CLASSES, KINDS_OF_CLASSES


class HyperParameters(ABC):
    """Fields of a dataclass, and `method_class` and `build_method`."""

    method_class: ClassVar[type]
    random_state: Any

    @abstractmethod
    def build_method(self, task: Any, n_inputs: int) -> Method:
        """Return the method that the hyper-parameters describe."""

    def check_params(self) -> None:
        """Raise ValueError for a hyper-parameter out of its range; a subclass adds what relates."""
        check_fields(self)

    @property
    def standardises_inputs(self) -> bool:
        """Whether inputs are brought to mean 0 and variance 1."""
        return bool(getattr(self, "standardise", True))

    @classmethod
    def fitted_from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Fitted:
        """Rebuild what predicts from what an estimator's `to_stored` gave, without building one.

        Any error where it is not that.
        """
        from bayesprop.estimators.stored import restored

        return restored(cls, header, arrays).fitted


@hyper_parameters
class OfNumbers(HyperParameters):
    """Those of every regressor."""

    target_kind: str = field(default=NUMBERS, metadata=one_of(*KINDS))
    exposure: str | int | None = None


@hyper_parameters
class OfClasses(HyperParameters):
    """Those of every classifier.

    Parameters
    ----------
    target_kind : {"classes", "ordered"}
        Whether the classes have an order: predictions then have a median class, intervals and a
        ranked probability score, and `BayesianMLPClassifier` learns by it.
    """

    learns_order: ClassVar[bool] = False
    """Whether the method learns from the order of classes; others are scored by it alone."""
    target_kind: str = field(default=CLASSES, metadata=one_of(*KINDS_OF_CLASSES))
    order: Sequence[Any] | None = None

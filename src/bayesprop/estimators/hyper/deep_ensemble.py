"""Hyper-parameters of deep ensembles."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Literal

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.network_params import check_stopping, members_of
from bayesprop.estimators.params import (
    ACTIVATION,
    COUNT,
    NOISE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SIZES,
    HyperParameters,
    OfClasses,
    OfNumbers,
    check_fields,
    one_of,
)
from bayesprop.model.task import Task
from bayesprop.sampling.deep_ensemble import MemberNetworks


@hyper_parameters
class _Params(HyperParameters):
    """What both have.

    Parameters
    ----------
    n_members : int
        Networks, trained together from different starts; the paper's is 5.
    adversarial_step : float
        Half the loss is that of rows moved by this much, in standard deviations of every input,
        to where they fit worst. The paper takes 1 % of an input's range, about 0.05. 0: none.
    random_state : int, RandomState or None
        Seeds starts, orders and held-out rows.

    Attributes
    ----------
    state_ : NetworkState
        Parameters and optimiser of the members, with a leading member axis; seed.
    """

    method_class: ClassVar[type] = MemberNetworks
    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False, metadata=SIZES)
    n_epochs: int = field(default=100, kw_only=False, metadata=COUNT)
    batch_size: int = field(default=32, metadata=COUNT)
    activation: str = field(default="relu", metadata=ACTIVATION)
    learning_rate: float = field(default=1e-2, metadata=POSITIVE)
    optimizer: Literal["adam", "sgd"] = field(default="adam", metadata=one_of("adam", "sgd"))
    momentum: float = field(default=0.9, metadata=SHARE)
    weight_decay: float = field(default=10.0, metadata=NOT_NEGATIVE)
    n_members: int = field(default=5, metadata=COUNT)
    early_stopping: bool = False
    validation_fraction: float = field(default=0.1, metadata=SHARE)
    patience: int = field(default=20, metadata=COUNT)
    adversarial_step: float = field(default=0.0, metadata=NOT_NEGATIVE)
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def check_params(self) -> None:
        """Raise ValueError for hyper-parameters out of their range, alone or together."""
        check_fields(self)
        check_stopping(self)

    def build_method(self, task: Task, n_inputs: int) -> MemberNetworks:
        """Return the method that the hyper-parameters describe."""
        return members_of(self, task, n_inputs, adversarial_step=float(self.adversarial_step))


@hyper_parameters
class DeepEnsembleRegressorParams(_Params, OfNumbers):
    """Those of `DeepEnsembleRegressor`."""

    noise: Literal["learned", "input"] | float = field(default="input", metadata=NOISE)


@hyper_parameters
class DeepEnsembleClassifierParams(_Params, OfClasses):
    """Those of `DeepEnsembleClassifier`."""

    standardise: bool = True

"""Deep ensembles: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Literal

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.network_params import NetworkParams, check_stopping, members_of
from bayesprop.estimators.params import COUNT, NOISE, NOT_NEGATIVE, SHARE
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import (
    PixelClassifier,
    RegressorBase,
)
from bayesprop.model.task import Task
from bayesprop.sampling.deep_ensemble import MemberNetworks


@hyper_parameters
class _Params(NetworkParams):
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

    method_name = "deep-ensemble"
    method_class: ClassVar[type] = MemberNetworks
    weight_decay: float = field(default=10.0, metadata=NOT_NEGATIVE)
    n_members: int = field(default=5, metadata=COUNT)
    early_stopping: bool = False
    validation_fraction: float = field(default=0.1, metadata=SHARE)
    patience: int = field(default=20, metadata=COUNT)
    adversarial_step: float = field(default=0.0, metadata=NOT_NEGATIVE)

    def check_params(self) -> None:
        super().check_params()
        check_stopping(self)

    def build_method(self, task: Task, n_inputs: int) -> MemberNetworks:
        return members_of(self, task, n_inputs, adversarial_step=float(self.adversarial_step))


@hyper_parameters
class DeepEnsembleRegressor(_Params, RegressorBase):
    """Several networks from different starts, for regression (Lakshminarayanan et al. 2017).

    Every member predicts a mean and, by default, a noise variance that depends on the input; the
    prediction is their equal mixture, and their disagreement its epistemic part.
    """

    noise: Literal["learned", "input"] | float = field(default="input", metadata=NOISE)


@hyper_parameters
class DeepEnsembleClassifier(_Params, PixelClassifier):
    """Several networks from different starts, for classification (Lakshminarayanan et al. 2017).

    The prediction is the average of the members' probabilities, and their disagreement its
    epistemic part.
    """


__getattr__ = lazily(globals())

"""A point network: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Literal

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.network_params import NetworkParams, check_stopping, members_of
from bayesprop.estimators.params import COUNT, NOT_NEGATIVE, SHARE
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import (
    NoisyRegressor,
    PixelClassifier,
)
from bayesprop.model.task import Task
from bayesprop.sampling.deep_ensemble import MemberNetworks
from bayesprop.sampling.mc_dropout import Rates


@hyper_parameters
class _Params(NetworkParams):
    """What both have.

    Parameters
    ----------
    n_members : int
        Networks that are trained from different starts and averaged; 1 is a single network.
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing in training, anew for every row and
        unit (Hinton et al. 2012).
    dropconnect : float
        Probability that a weight is missing in training (Wan et al. 2013).
    dropconnect_masks : {"batch", "row"}
        Whether weights are missing anew for every batch; or for every row, as in the paper: slower,
        for a random number a weight and row.
    random_state : int, RandomState or None
        Seeds starts, orders, what is missing and held-out rows.

    Attributes
    ----------
    state_ : NetworkState
        Parameters and optimiser of the members, with a leading member axis; seed.
    """

    method_name = "network"
    method_class: ClassVar[type] = MemberNetworks
    weight_decay: float = field(default=10.0, metadata=NOT_NEGATIVE)
    n_members: int = field(default=1, metadata=COUNT)
    early_stopping: bool = False
    validation_fraction: float = field(default=0.1, metadata=SHARE)
    patience: int = field(default=20, metadata=COUNT)
    dropout: float = field(default=0.0, metadata=SHARE)
    input_dropout: float = field(default=0.0, metadata=SHARE)
    dropconnect: float = field(default=0.0, metadata=SHARE)
    dropconnect_masks: Literal["batch", "row"] = "batch"

    def check_params(self) -> None:
        super().check_params()
        check_stopping(self)
        if self.dropconnect_masks == "row" and self.dropconnect == 0.0:
            raise ValueError("dropconnect must be > 0 for dropconnect_masks='row', got 0")

    def build_method(self, task: Task, n_inputs: int) -> MemberNetworks:
        shares = (float(s) for s in (self.input_dropout, self.dropout, self.dropconnect))
        rates = Rates(*shares, connection_by_row=self.dropconnect_masks == "row")
        return members_of(self, task, n_inputs, rates=rates)


@hyper_parameters
class PointNetworkRegressor(_Params, NoisyRegressor):
    """A network with one value a weight, for regression.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    noise, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.
    """


@hyper_parameters
class PointNetworkClassifier(_Params, PixelClassifier):
    """A network with one value a weight, for classification.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    class, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.
    """


__getattr__ = lazily(globals())

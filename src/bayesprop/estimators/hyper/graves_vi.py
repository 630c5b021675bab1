"""Hyper-parameters of Graves' variational inference."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Literal

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.network_params import NetworkParams, network_of, optimizer_of
from bayesprop.estimators.params import COUNT, NOISE, POSITIVE, OfClasses, OfNumbers
from bayesprop.model.task import Task
from bayesprop.sampling.graves_vi import graves_vi
from bayesprop.sampling.mean_field import PrunableNetwork


@hyper_parameters
class _Params(NetworkParams):
    """What both have.

    Parameters
    ----------
    batch_size : int
        Rows of a step; all of them if there are fewer. Memory is a gradient a row.

    Attributes
    ----------
    state_ : NetworkState
        Posterior, noise and optimiser; seed.
    """

    method_class: ClassVar[type] = PrunableNetwork
    n_epochs: int = field(default=200, kw_only=False, metadata=COUNT)
    init_std: float = field(default=0.05, metadata=POSITIVE)
    n_draws: int = field(default=100, metadata=COUNT)

    def build_method(self, task: Task, n_inputs: int) -> PrunableNetwork:
        how = {"init_std": float(self.init_std)}
        return network_of(self, task, n_inputs, self.n_draws, graves_vi, optimizer_of(self), **how)


@hyper_parameters
class GravesVIRegressorParams(_Params, OfNumbers):
    """Those of `GravesVIRegressor`."""

    noise: Literal["learned", "input"] | float = field(default="learned", metadata=NOISE)


@hyper_parameters
class GravesVIClassifierParams(_Params, OfClasses):
    """Those of `GravesVIClassifier`."""

    standardise: bool = True

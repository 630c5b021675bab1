"""Hyper-parameters of the default."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import (
    BELOW_ONE,
    COUNT,
    FLAG,
    SIZES,
    HyperParameters,
    OfClasses,
    OfNumbers,
    as_sizes,
    optional,
)
from bayesprop.model.task import Classes, Numbers
from bayesprop.tabular_default.method import ClassEnsemble, NetworkEnsemble


@hyper_parameters
class _Params(HyperParameters):
    """What both have.

    Parameters
    ----------
    learning_rate : float
        First step size of Adam, which falls by a cosine to a hundredth.
    learn_processes : bool
        Whether rows of the table are kept, and asked beside the networks, as far as rows left out
        speak for it: those nearest to a new row, and of numbers by Gaussian processes, too.
    verbose : int
        1 writes ten lines a network to stderr while it trains.

    Attributes
    ----------
    n_iter_ : int
        Steps of training.
    """

    hidden_layer_sizes: tuple[int, ...] | None = field(
        default=None, kw_only=False, metadata=optional(SIZES)
    )
    n_epochs: int | None = field(default=None, kw_only=False, metadata=optional(COUNT))
    n_members: int | None = field(default=None, metadata=optional(COUNT))
    batch_size: int | None = field(default=None, metadata=optional(COUNT))
    learning_rate: float = field(default=1e-2, metadata=BELOW_ONE)
    learn_processes: bool = field(default=True, metadata=FLAG)
    random_state: Any = None
    verbose: int = 0

    def check_params(self) -> None:
        super().check_params()
        if self.hidden_layer_sizes is not None and not np.size(self.hidden_layer_sizes):
            raise ValueError(
                "hidden_layer_sizes must hold at least one int >= 1, got (): for a linear model "
                "take BayesianLinearRegressor or BayesianLogisticClassifier"
            )

    def settings(self) -> dict[str, Any]:
        """Return what was set of any ensemble, as its method calls it."""
        sizes = self.hidden_layer_sizes
        return {
            "hidden_layer_sizes": None if sizes is None else as_sizes(sizes),
            "n_epochs": self.n_epochs,
            "n_members": self.n_members,
            "batch_size": self.batch_size,
            "step_size": float(self.learning_rate),
            "learns_processes": bool(self.learn_processes),
        }


@hyper_parameters
class BayesianRegressorParams(_Params, OfNumbers):
    """Those of `BayesianRegressor`.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer. None: (50,), from 5000 rows on (50, 50), from 30 000 on
        (100, 100).
    n_epochs : int or None
        Passes over the rows. None: 20 000 steps, 4000 if there are more columns than rows.
        Networks with ramps take a quarter of them.
    n_members : int or None
        Networks of the ensemble, and as many with ramps. None: 6, from 5000 rows on 2.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 5000 rows on 128.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.
    """

    method_class = NetworkEnsemble

    def build_method(self, task: Numbers, n_inputs: int) -> NetworkEnsemble:
        """Return the method that the hyper-parameters describe."""
        return NetworkEnsemble(
            n_inputs,
            n_outputs=task.n_outputs,
            **self.settings(),
        )


@hyper_parameters
class BayesianClassifierParams(_Params, OfClasses):
    """Those of `BayesianClassifier`.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer. None: (64,).
    n_epochs : int or None
        Passes over the rows. None: 4000 steps, 2000 from more than a ninth as many columns as rows
        on, of which fewer than 2000 rows get their share, a quarter at least; 200 if there are more
        columns than rows.
    n_members : int or None
        Networks of each of the four families, each of which leaves out its part of the rows; 1
        leaves none out, and families have equal shares. None: 8, from 1000 rows on 5.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 1000 rows on 128.
    random_state : int, RandomState or None
        Seeds the initial means, the parts that are left out and the order of rows.
    """

    method_class = ClassEnsemble
    learns_order = True

    def build_method(self, task: Classes, n_inputs: int) -> ClassEnsemble:
        """Return the method that the hyper-parameters describe."""
        return ClassEnsemble(
            n_inputs, n_classes=task.n_classes, order=task.order, **self.settings()
        )

"""Expectation backpropagation: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from bayesprop.estimators.params import Count, hyper_parameters, layer_sizes
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import ClassifierBase, PassParams
from bayesprop.model.task import Classes
from bayesprop.moments.ebp import EBPNetwork


@hyper_parameters
class EBPClassifier(PassParams, ClassifierBase):
    """Network of sign units, with binary or real weights, fitted by expectation backpropagation.

    Soudry, Hubara & Meir (2014). Every weight has a distribution, which one row after the other
    multiplies; there is no learning rate. `moments/ebp.py` has the equations. Two classes have one
    output unit, more have one each.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is one layer of sign units.
    n_epochs : int
        Passes of `fit` over the rows; each counts them as new data.
    weights : {"binary", "real"}
        1 or -1 each; or Gaussian of variance 1.
    prediction : {"posterior", "map"}
        Average over the weights' distribution; or the one network of the most probable weights,
        which knows no doubt: its probabilities are 0 and 1. Binary weights make it a network of
        signs only.
    random_state : int, RandomState or None
        Seeds initial weights and the order of rows.

    Attributes
    ----------
    state_ : EBPState
        The posterior, for standardised inputs.
    """

    method_name = "ebp"
    method_class = EBPNetwork
    n_epochs: Count = field(default=20, kw_only=False)
    weights: Literal["binary", "real"] = "real"
    prediction: Literal["posterior", "map"] = "posterior"

    def build_method(self, task: Classes, n_inputs: int) -> EBPNetwork:
        """Return the method that the hyper-parameters describe."""
        n_outputs = 1 if task.n_classes == 2 else task.n_classes
        sizes = layer_sizes(n_inputs, self.hidden_layer_sizes, n_outputs)
        return EBPNetwork(sizes, self.n_epochs, self.weights, is_map=self.prediction == "map")


__getattr__ = lazily(globals())

"""Expectation backpropagation as a scikit-learn classifier."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.ebp import EBPClassifierParams
from bayesprop.estimators.shell import ClassifierBase


@hyper_parameters
class EBPClassifier(EBPClassifierParams, ClassifierBase):
    """Network of sign units, with binary or real weights, fitted by expectation backpropagation.

    Soudry, Hubara & Meir (2014). Every weight has a distribution, which one row after the other
    multiplies; there is no learning rate. `moments/ebp.py` has the equations. Two classes have one
    output unit, more have one each.

    Attributes
    ----------
    state_ : EBPState
        The posterior, for standardised inputs.
    """

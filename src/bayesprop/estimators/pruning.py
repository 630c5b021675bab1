"""Smaller fitted estimators: weights of low signal-to-noise become exactly zero.

Works on every estimator whose method `Prunes`: its posterior is an independent Gaussian a weight.
"""

from __future__ import annotations

from typing import TypeVar, cast

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.shell import EstimatorBase
from bayesprop.estimators.stored import Pruned
from bayesprop.model.method import Prunes
from bayesprop.networks import pruning

E = TypeVar("E", bound=EstimatorBase)


def prune(estimator: E, share: float, *, by_layer: bool = False) -> E:
    """Return a fitted copy whose weights of lowest signal-to-noise are exactly zero.

    estimator
        Fitted, with an independent Gaussian a weight: Bayes by Backprop, Graves, closed-form VI or
        PBP.
    share
        Of all weights, from 0 to 1. Blundell et al. (2015, Table 2) remove .5 to .98.
    by_layer
        Whether every layer loses that share of its own weights.

    The copy predicts as its class does, in mean and draws; its `pruned_` says what was removed. It
    cannot be trained further: `fit` starts afresh, `partial_fit` and warm starts are refused.
    Raises ValueError for another share, TypeError
    for another estimator.
    """
    check_is_fitted(estimator)
    if not issubclass(getattr(estimator, "method_class", object), Prunes):
        raise TypeError(
            "estimator must have an independent Gaussian a weight (bayes-by-backprop, graves-vi, "
            f"closed-form-vi, pbp), got {type(estimator).__name__}"
        )
    method, learned = cast(Prunes, estimator.fitted_.method), estimator.learned_
    m, std = method.gaussians(learned.state)
    masks = pruning.keep(m, std, share, per_layer=by_layer)
    sizes = [(mask.size, np.count_nonzero(mask)) for mask in jax.tree.leaves(masks)]
    n_weights, n_left = (int(sum(column)) for column in zip(*sizes, strict=True))
    cut = pruning.threshold(m, std, share)
    pruned = Pruned(float(share), bool(by_layer), n_weights, n_weights - n_left, cut)
    return estimator.relearned(learned._replace(state=method.masked(learned.state, masks)), pruned)

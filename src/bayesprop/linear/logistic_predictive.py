"""Class probabilities under Gaussian weights: by draws, or by the Gaussian logits of every row."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.linear.logistic import GaussianWeights, class_probabilities, logits
from bayesprop.linear.logistic_vi import logit_moments
from bayesprop.numerics.gaussian_logits import PREDICTIONS, ClassMoments, with_both
from bayesprop.numerics.machine import chunks


def monte_carlo(
    weights: Float[np.ndarray, "s p"], phi: Float[np.ndarray, "n k"], n_logits: int
) -> ClassMoments:
    """Average over draws of the weights, (1/S) sum_s p(y | x, w_s); memory is a block of rows'.

    Any draws will do, from a Gaussian or from a Markov chain. (The lecture leaves out 1/S.)
    """
    n_classes = max(n_logits, 2)
    proba, entropy = np.zeros((len(phi), n_classes)), np.zeros(len(phi))
    for part in chunks(len(phi), n_classes):
        for w in weights:
            p = with_both(class_probabilities(logits(w, phi[part])))
            proba[part] += p / len(weights)
            entropy[part] += special.entr(p).sum(axis=1) / len(weights)
    return ClassMoments(proba, entropy)


def predict(
    q: GaussianWeights, phi: Float[np.ndarray, "n k"], n_logits: int, how: str
) -> ClassMoments:
    """Class probabilities by one of `gaussian_logits.PREDICTIONS`."""
    return PREDICTIONS[how](logit_moments(q, phi, n_logits))

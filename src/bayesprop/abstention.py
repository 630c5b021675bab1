"""When not to answer: how unsure a prediction is, and what leaving the unsure ones out would gain.

Sources: Geifman & El-Yaniv (2017), "Selective classification for deep neural networks" (risk and
coverage); Geifman, Uziel & El-Yaniv (2019), "Bias-reduced uncertainty estimation for deep neural
classifiers" (area under the curve, and its excess over the best order); Hendrycks & Gimpel (2017),
"A baseline for detecting misclassified and out-of-distribution examples" (AUROC).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.estimators.any_estimator import Estimator, Inputs, predictives_of, tells_parts
from bayesprop.estimators.params import finite
from bayesprop.metrics import surest_first

Values = Float[np.ndarray, " n"]
_OF_PARTS = ("epistemic", "mutual-information")  # need a model that tells doubt from noise


def scores_for(*, classes: bool) -> dict[str, Callable[..., Values]]:
    """Return measures of uncertainty by name; the first is the default."""
    if classes:
        return {
            "entropy": lambda p: p.entropy,
            "mutual-information": lambda p: p.mutual_information,
            "error-probability": lambda p: 1.0 - p.confidence,
        }
    return {"std": lambda p: p.std, "epistemic": lambda p: np.sqrt(p.epistemic_var)}


def uncertainty_of(predicted: Predictive | ClassPredictive, by: str | None = None) -> Values:
    """Uncertainty of each prediction.

    by
        Of numbers `std`, of a new observation, or `epistemic`, the part of it that more data would
        remove, in y. Of classes `entropy` or `mutual-information`, the part of that which more data
        would remove, nats, or `error-probability`, one less the probability of the likeliest class.
        None: the first.
    """
    classes = isinstance(predicted, ClassPredictive)
    known = scores_for(classes=classes)
    name = next(iter(known)) if by is None else by
    if name not in known:
        kind = "classes" if classes else "numbers"
        raise ValueError(f"by must be one of {', '.join(known)} for {kind}, got {by!r}")
    values = known[name](predicted)
    if values.ndim != 1:
        raise ValueError(
            f"a model of several targets has no single {name}: fit one model for each target"
        )
    return values


def uncertainty(estimator: Estimator, X: Inputs, by: str | None = None) -> Values:
    """Uncertainty of a fitted estimator for every row of X, in blocks of rows.

    estimator
        One of this library, or of scikit-learn with `predict_proba` or
        `predict(X, return_std=True)`, which does not tell epistemic doubt from noise.
    by
        As of `uncertainty_of`.
    """
    if by in _OF_PARTS and not tells_parts(estimator):
        raise ValueError(
            f"by = {by!r} needs an estimator that tells epistemic doubt from noise, one of this "
            f"library; got {type(estimator).__name__}"
        )
    return np.concatenate([uncertainty_of(part, by) for part in predictives_of(estimator, X)])


class RiskCoverage(NamedTuple):
    """Loss on the answered rows as a function of their number, most certain first; n rows.

    coverage
        Share of the rows that is answered: 1/n, 2/n, ... 1, the surest first.
    risk
        Mean loss of those, in the unit of the loss.
    threshold
        Uncertainty of the least sure of those: `--abstain-above` this answers them.
    oracle_risk
        The same for the best order that there is, by the losses themselves.
    """

    coverage: Values
    risk: Values
    threshold: Values
    oracle_risk: Values

    @property
    def area(self) -> float:
        """Mean of the risk over coverages, in the unit of the loss; lower is better (AURC)."""
        return float(np.mean(self.risk))

    @property
    def oracle_area(self) -> float:
        """The least area that any order of the rows has."""
        return float(np.mean(self.oracle_risk))

    @property
    def random_area(self) -> float:
        """The area of an order by chance, on average: the mean loss."""
        return float(self.risk[-1])

    @property
    def gain(self) -> float:
        """Share of what the best order gains over chance: 1 best, 0 chance; 0 with equal losses."""
        best = self.random_area - self.oracle_area
        return (self.random_area - self.area) / best if best > 0.0 else 0.0


def risk_coverage(uncertainty: ArrayLike, loss: ArrayLike) -> RiskCoverage:
    """Measure what abstaining on the least sure rows gains.

    Rows of equal uncertainty count with their mean loss, so that their order does not matter.

    uncertainty
        How unsure the model was of each row, in any unit.
    loss
        What its answer cost: 0 and 1 for right and wrong, an absolute or squared error.
    """
    uncertainty = finite("uncertainty", uncertainty, (None,))
    loss = finite("loss", loss, uncertainty.shape)
    answered = np.arange(1, len(loss) + 1)
    threshold, in_order = surest_first(uncertainty, loss)
    return RiskCoverage(
        coverage=answered / len(loss),
        risk=np.cumsum(in_order) / answered,
        threshold=threshold,
        oracle_risk=np.cumsum(np.sort(loss)) / answered,
    )


def ood_auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """Probability that a stranger has the larger score than a row of the kind; ties are half.

    The area under the ROC curve, which is the statistic of Mann & Whitney (1947) over its largest
    value; 0.5 is chance.

    inside, outside
        Uncertainties of rows like those of the fit, and of rows of another kind.
    """
    from sklearn.metrics import roc_auc_score

    inside, outside = finite("inside", inside, (None,)), finite("outside", outside, (None,))
    is_outside = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(is_outside, np.concatenate([inside, outside])))

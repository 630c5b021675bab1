"""Fitted estimators as a JSON-ready header and named arrays, and back; nothing is trusted.

What predicts comes back without scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, NamedTuple, cast

import numpy as np

from bayesprop import codec
from bayesprop.catalogue import estimator_class, method_and_task
from bayesprop.codec import Stored, prefixed, unprefixed
from bayesprop.distributions.gaussian_copula import GaussianCopula, KnownInputs
from bayesprop.estimators.params import HyperParameters, OfClasses
from bayesprop.model.fit_report import FitReport
from bayesprop.model.fitted import Fitted
from bayesprop.model.method import Learned
from bayesprop.model.task import Classes, Encoding, Task


@dataclass(frozen=True)
class Pruned:
    """What was removed from an estimator.

    share, by_layer
        As asked for.
    n_weights, n_removed
        Counts over the whole network.
    threshold
        Signal-to-noise, |mean| / std, below which the share of all weights lay.
    """

    share: float
    by_layer: bool
    n_weights: int
    n_removed: int
    threshold: float


def stored_params(estimator: Any) -> dict[str, Any]:
    """Return all hyper-parameters; of a random generator, only that there was no seed."""
    params = estimator.get_params()
    seed = params["random_state"]
    params |= {"random_state": int(seed) if isinstance(seed, Integral) else None}
    if params.get("order") is not None:
        params["order"] = np.asarray(params["order"]).tolist()
    return params


def with_params(cls: type, stored: dict[str, Any]) -> Any:
    """Build hyper-parameters, or an estimator, with what `stored_params` gave."""
    params = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    model = cls(**params)
    if {one.name for one in fields(cast(Any, cls))} != set(params):
        raise ValueError(f"params must name every hyper-parameter, got {sorted(params)}")
    return model


def unfitted_to_stored(estimator: Any) -> dict[str, Any]:
    """Return method, task and hyper-parameters for JSON; TypeError if it is not of this library."""
    method, task = method_and_task(estimator)
    return {"method": method, "task": task, "params": stored_params(estimator)}


def unfitted_from_stored(header: dict[str, Any]) -> Any:
    """Rebuild what `unfitted_to_stored` gave; any error where it is not that."""
    kind: Any = estimator_class(header["method"], header["task"])
    return with_params(kind, header["params"])


class FitContents(NamedTuple):
    """What a file holds of a fit, but for hyper-parameters and the method's own state."""

    task: Task
    encoding: Encoding
    report: FitReport
    n_iter: int
    inputs: GaussianCopula | None
    pruned: Pruned | None

    def validate(self) -> None:
        """Raise ValueError unless targets and inputs are those of the same columns."""
        n = len(self.encoding.scaler.mean)
        if self.encoding.exposure != getattr(self.task, "exposure", None):
            raise ValueError("inputs and targets must have the same exposure")
        tendency = getattr(getattr(self.task, "map", None), "tendency", None)
        if tendency is not None and len(tendency.slopes) != n:
            raise ValueError("the tendency of a target must have a slope an input")
        if self.inputs is not None and len(self.inputs.block) < n:
            raise ValueError("how inputs go together must be known of all of them")


def to_stored(estimator: Any) -> Stored:
    """Return a fitted estimator as a header and named arrays; NotFittedError before `fit`."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    fitted, learned = estimator.fitted_, estimator.fitted_.learned
    joint, pruned = fitted.inputs, getattr(estimator, "pruned_", None)
    contents = FitContents(
        fitted.task,
        fitted.encoding,
        learned.report,
        learned.n_iter,
        None if joint is None else joint.model,
        pruned,
    )
    fit, state = codec.write(contents, FitContents), fitted.method.to_stored(learned.state)
    header = {"params": stored_params(estimator), "fit": fit.header, "state": state.header}
    return Stored(header, prefixed("fit.", fit.arrays) | prefixed("state.", state.arrays))


class Restored(NamedTuple):
    """What a file holds: hyper-parameters, and all that a prediction needs."""

    params: Any
    fitted: Fitted
    pruned: Pruned | None


def restored(
    kind: type[HyperParameters], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Restored:
    """Read what `to_stored` gave; any error where it is not that.

    kind
        Of the hyper-parameters, or an estimator.
    """
    params = with_params(kind, header["params"])
    params.check_params()
    if not all(name.startswith(("fit.", "state.")) for name in arrays):
        raise ValueError("every array must be of the fit or of the method's state")
    fit = codec.read(FitContents, Stored(header["fit"], unprefixed("fit.", arrays)))
    task = fit.task
    if isinstance(task, Classes) != issubclass(kind, OfClasses):
        raise ValueError(f"a {kind.__name__} does not predict what the file says")
    if task.kind != params.target_kind:
        raise ValueError(f"map, or order, must be that of target_kind={params.target_kind!r}")
    method = params.build_method(task, len(fit.encoding.scaler.mean))
    state = method.from_stored(Stored(header["state"], unprefixed("state.", arrays)))
    learned = Learned(state, fit.report, fit.n_iter)
    joint = None if fit.inputs is None else KnownInputs(None, fit.inputs)
    return Restored(params, Fitted(method, task, fit.encoding, learned, joint), fit.pruned)


def from_stored(kind: type, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild an estimator from what `to_stored` gave; any error where it is not that."""
    estimator, fitted, pruned = restored(kind, header, arrays)
    if fitted.encoding.names is not None:
        estimator.feature_names_in_ = fitted.encoding.names
    estimator.n_features_in_ = fitted.n_inputs
    estimator.x_scaler_, estimator.task_ = fitted.encoding.scaler, fitted.task
    estimator.inputs_, estimator.learned_ = fitted.inputs, fitted.learned
    if pruned is not None:
        estimator.pruned_ = pruned
    return estimator

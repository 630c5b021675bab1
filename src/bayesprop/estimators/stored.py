"""Fitted estimators as a JSON-ready header and named arrays, and back; nothing is trusted.

What predicts comes back without scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesprop import codec
from bayesprop.codec import JsonObject, Stored
from bayesprop.distributions.gaussian_copula import GaussianCopula, KnownInputs
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import ChecksStates, Learned, Method
from bayesprop.model.task import Encoding, Fitted, Task
from bayesprop.targets.bijectors import COUNT

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from bayesprop.estimators.shell import EstimatorBase


@dataclass(frozen=True)
class Pruned:
    """Result of pruning an estimator.

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


def method_and_task(estimator: object) -> tuple[str, str]:
    """Return names of method and task of an estimator; TypeError if it is not of this library."""
    plain = vars(type(estimator)).get("plain")
    if plain is None:
        at = f"{type(estimator).__module__}:{type(estimator).__qualname__}"
        raise TypeError(f"only estimators of bayesprop.catalogue can be saved, got {at}")
    return plain.method_name, plain.task_name


def unfitted_to_stored(estimator: EstimatorBase) -> JsonObject:
    """Return method, task and hyper-parameters for JSON; TypeError if it is not of this library.

    Of a random generator, only that there was no seed.
    """
    method, task = method_and_task(estimator)
    params = estimator.get_params()
    seed = params["random_state"]
    params["random_state"] = int(seed) if isinstance(seed, Integral) else None
    if params.get("order") is not None:
        params["order"] = np.asarray(params["order"]).tolist()
    return {"method": method, "task": task, "params": params}


def with_params(kind: type[EstimatorBase], stored: JsonObject) -> EstimatorBase:
    """Build an unfitted estimator with the "params" that `unfitted_to_stored` gave.

    A parameter newer than the file has its default, which computes what was computed before it.
    """
    params = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    return kind(**params)


class FitContents(NamedTuple):
    """Stored parts of a fit other than hyper-parameters and the state of the method."""

    task: Task
    encoding: Encoding
    report: FitReport
    n_iter: int
    inputs: GaussianCopula | None
    pruned: Pruned | None

    def validate(self) -> None:
        """Raise ValueError unless targets and inputs are those of the same columns."""
        n = len(self.encoding.scaler.mean)
        if self.encoding.exposure is not None and self.task.kind != COUNT:
            raise ValueError("an exposure is that of counts")
        tendency = getattr(getattr(self.task, "map", None), "tendency", None)
        if tendency is not None and len(tendency.slopes) != n:
            raise ValueError("the tendency of a target must have a slope an input")
        if self.inputs is not None and len(self.inputs.block) < n:
            raise ValueError("how inputs go together must be known of all of them")


def write_state(method: Method, state: PyTree) -> Stored:
    """Return a state as a header and named arrays; TypeError for what a file does not hold."""
    if isinstance(method, ChecksStates):
        method.check_state(state)
    return codec.write(state, method.state_kind)


def read_state(method: Method, stored: Stored) -> PyTree:
    """Rebuild what `write_state` was given; ValueError where it does not fit the method."""
    state = codec.read(method.state_kind, stored)
    if isinstance(method, ChecksStates):
        method.check_state(state)
    return state


def to_stored(estimator: EstimatorBase) -> Stored:
    """Return a fitted estimator as a header and named arrays; NotFittedError before `fit`.

    TypeError if it is not of this library.
    """
    from sklearn.utils.validation import check_is_fitted

    header = unfitted_to_stored(estimator)
    check_is_fitted(estimator)
    fitted, learned = estimator.fitted_, estimator.learned_
    joint, pruned = fitted.inputs, getattr(estimator, "pruned_", None)
    contents = FitContents(
        fitted.task,
        fitted.encoding,
        learned.report,
        learned.n_iter,
        None if joint is None else joint.model,
        pruned,
    )
    state = write_state(fitted.method, learned.state)
    model, arrays = codec.joined(fit=codec.write(contents, FitContents), state=state)
    params = header.pop("params")
    return Stored(header | {"model": {"params": params, **model}}, arrays)


def restored(
    kind: type[EstimatorBase], header: JsonObject, arrays: dict[str, np.ndarray]
) -> EstimatorBase:
    """Read the "model" of what `to_stored` gave; any error where it is not that.

    kind
        Class of the estimator without scikit-learn, of which one is returned, fitted.
    """
    estimator = with_params(kind, header["params"])
    estimator.check_params()
    if not all(name.startswith(("fit.", "state.")) for name in arrays):
        raise ValueError("every array must be of the fit or of the method's state")
    stored = Stored(header, arrays)
    fit = codec.read(FitContents, codec.part_of(stored, "fit"))
    task = fit.task
    if task.name != kind.task_name:
        raise ValueError(f"a {kind.__name__} does not predict what the file says")
    if task.kind != estimator.target_kind:
        raise ValueError(f"map, or order, must be that of target_kind={estimator.target_kind!r}")
    method = estimator.build_method(task, len(fit.encoding.scaler.mean))
    state = read_state(method, codec.part_of(stored, "state"))
    named = dict(enumerate(map(len, fit.encoding.groups or ())))
    known = (one for one in getattr(state, "groups", None) or () if one)
    pairs = (pair for one in known for pair in zip(one.factors, one.sizes, strict=True))
    if any(named.get(factor) != size for factor, size in pairs):
        raise ValueError("every group whose effects are known must have a label")
    learned = Learned(state, fit.report, fit.n_iter)
    joint = None if fit.inputs is None else KnownInputs(None, fit.inputs)
    return estimator.keep(Fitted(method, task, fit.encoding, learned, joint), fit.pruned)

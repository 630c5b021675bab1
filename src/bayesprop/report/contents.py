"""Everything that a report says, computed: no drawing and no markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from bayesprop.catalogue import METHODS
from bayesprop.evaluation.baselines import SIMPLE
from bayesprop.evaluation.scores import Rival, Score, rivals, scores
from bayesprop.evaluation.verdict import Verdict, verdict
from bayesprop.evaluation.words import alike, percent
from bayesprop.model.fit_report import FitReport
from bayesprop.model.task import Standardiser
from bayesprop.report import of_classes, of_numbers
from bayesprop.report.effects import Effects, effects, features_of, moments, probabilities
from bayesprop.report.of_classes import ClassDetails
from bayesprop.report.of_numbers import NumberDetails
from bayesprop.report.unsure import UnsureRow, describe, sample, with_reasons
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import for_terminal
from bayesprop.targets.bijectors import CENSORED, COUNT, NONNEGATIVE, POSITIVE, SHARE

if TYPE_CHECKING:
    from bayesprop.codec import JsonObject
    from bayesprop.distributions.categorical import Distribution

MAX_LINES = 20
KIND_NOTES = {
    POSITIVE: "The target is positive: all intervals lie above 0.",
    NONNEGATIVE: "The target is nonnegative, and 0 has a probability: no interval extends below 0, "
    "the log-likelihood uses this probability at 0 and a density above 0, and the PIT value of a 0 "
    "is drawn between 0 and this probability.",
    CENSORED: "The target is censored at a limit: the limit stands for all values beyond it and "
    "has their probability, no interval extends beyond the limit, and the PIT value of a censored "
    "row is drawn within this probability.",
    SHARE: "The target is a share: every interval lies between 0 and 1, or 0 and 100 %.",
    COUNT: "The target is a count: the bounds of intervals are whole numbers from 0 on, "
    "log-likelihoods are those of probabilities, and PIT values are randomised within their step.",
}
_LITTLE = 0.01  # share of the predictive uncertainty
_LINES = [name for name in SIMPLE if name in METHODS]
"""Estimators to which the line beside them is the same model, learnt in another way."""
Details = TypeVar("Details", NumberDetails, ClassDetails)


class WeightLine(NamedTuple):
    """One weight, in the target's unit (or in logits) per unit of its column.

    of
        The class whose logit it belongs to; "" for a regressor.
    low, high
        Bounds of the central 90 % of its posterior.
    """

    of: str
    column: str
    mean: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def texts(self) -> list[str]:
        """Mean, low and high with as many decimals as the interval deserves."""
        return alike([self.mean, self.low, self.high], (self.high - self.low) / 3.0)


class Weights(NamedTuple):
    """The lines of the table, and how many less sure ones it leaves out."""

    lines: tuple[WeightLine, ...]
    n_more: int

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes that have weights of their own, in the order of the lines."""
        return tuple(dict.fromkeys(line.of for line in self.lines if line.of))


def weights_of(estimator: Any, names: Sequence[str]) -> Weights | None:
    """Return the weights but for intercepts; None where the estimator has no table of them.

    names
        What the page calls the columns of X.
    """
    if not hasattr(estimator, "weights"):
        return None
    table = estimator.weights(coverage=0.9)
    classes = table["class"] if "class" in table else np.full(len(table["mean"]), "")
    # By place, not by name: a column may be called "intercept", too. A basis has its own columns.
    n_columns = len(classes) // len(set(classes.tolist()))
    columns = [str(name) for name in table["feature"][1:n_columns]]
    columns = list(names) if len(columns) == len(names) else columns
    with np.errstate(divide="ignore", invalid="ignore"):
        sureness = np.nan_to_num(np.abs(table["mean"]) / table["std"])
    order = [i for i in np.argsort(-sureness, kind="stable") if i % n_columns]
    lines = tuple(
        WeightLine(
            str(classes[i]),
            columns[i % n_columns - 1],
            *(float(table[part][i]) for part in ("mean", "lower", "upper")),
        )
        for i in order[:MAX_LINES]
    )
    return Weights(lines, len(order) - len(lines)) if lines else None


@dataclass(frozen=True, kw_only=True)
class Contents(Generic[Details]):
    """Contents of a page, for numbers and classes.

    target, unit, source, created
        In the user's own words; empty where nothing is known.
    base_rate
        What the weights of the fit did to the shares of the classes; empty if nothing.
    kind
        Which rows were judged: "held-out", "training", or "table" (one given later).
    n_groups
        Of these rows; 0 where they belong to none.
    models
        The fitted model, its baselines and reference models, as the values of `scores`.
    line
        The linear or logistic baseline; None where there is none, or nothing was held out.
    epistemic_share
        Share of the predictive variance, or of the predictive entropy, that is epistemic.
    conformal
        What the judged rows would make of the error bars, in a sentence; empty where they cannot.
    unsure, wrong, listed
        Rows of most doubt, wrong answers of least doubt, and a sample of all.
    """

    target: str
    unit: str
    source: str
    created: str
    reproduction: tuple[tuple[str, str], ...]
    data_notes: tuple[str, ...]
    base_rate: str
    kind: str
    remarks: tuple[str, ...]
    n_rows: int
    n_groups: int
    models: tuple[str, ...]
    scores: tuple[Score, ...]
    line: Rival | None
    rivals: tuple[Rival, ...]
    baseline_note: str
    epistemic_share: float
    verdict: Verdict
    conformal: str
    effects: Effects
    unsure: tuple[UnsureRow, ...]
    wrong: tuple[UnsureRow, ...]
    listed: tuple[UnsureRow, ...]
    fit: FitReport
    is_standardised: bool
    weights: Weights | None
    details: Details

    def score(self, name: str) -> Score:
        """Find a metric."""
        return next(score for score in self.scores if score.metric.name == name)

    def beside(self, name: str) -> list[tuple[str, float]]:
        """Name every baseline, with its value of a metric."""
        pairs = zip(self.models, self.score(name).values, strict=True)
        return [(model, value) for model, value in pairs if model in SIMPLE]

    @property
    def reference_models(self) -> tuple[Rival, ...]:
        """The rivals that are more than what any model should beat."""
        return tuple(rival for rival in self.rivals if rival.is_reference)


EveryContents = Contents[NumberDetails] | Contents[ClassDetails]


def collect(
    *,
    estimator: Any,
    encoding: TableEncoding,
    train: EncodedRows | None,
    test: EncodedRows | None,
    models: Mapping[str, Distribution],
    metadata: JsonObject,
) -> EveryContents:
    """Collect the contents of the report of a regressor of one output, or of a classifier.

    estimator
        Fitted: `predict_dist`, `fit_report_`, `x_scaler_` and `get_params` are used, and
        `classes_`, which makes it a classifier.
    train
        The rows it was fitted to, which the effects are averaged over. None for a model whose
        training rows are gone; then the effects are those over `test`.
    test
        The rows to judge it on. None if there are no others: then it is judged on `train`, and
        the page says how little that means.
    models
        Predictions of the rows to judge on: "model", its baselines and reference models.
    metadata
        Text: "unit", "source" (name of the table), "command", "created", "baseline_note" (on the
        baselines and reference models). "seed", which also draws the rows of the figures;
        "versions", a dict of library versions. "rule", the `Rule` by which two classes are decided
        (default: none); "base_rate", what the weights of the fit did to the shares of the classes
        (default: nothing). "remarks", where there are any, are sentences on how it was judged.
    """
    classes = getattr(estimator, "classes_", None)
    task: Any = of_numbers if classes is None else of_classes
    judged: Any = train if test is None else test
    reference = judged if train is None else train
    y, seed = judged.y, max(metadata["seed"], 0)
    predicted: Any = models["model"]
    scaler = estimator.x_scaler_
    is_standardised = bool(np.any(scaler.scale != 1.0) or np.any(scaler.mean != 0.0))
    standardise = (scaler if is_standardised else Standardiser.fit(reference.filled)).transform
    background = reference.X
    if np.isnan(background).any():
        background = estimator.fitted_.filled(background)
    features = features_of(encoding, background)
    drawn = sample(len(y), seed)
    least_sure = task.least_sure(predicted)
    unsure, wrong, listed = (
        describe(
            task.answers(predicted[at], y[at]),
            judged,
            at,
            described,
            standardise,
            predicted.gap_share[at],
        )
        for at, described in (
            (least_sure, features),
            (task.most_wrong(predicted, y), features),
            (drawn, ()),
        )
    )
    encoding_of_rows = getattr(estimator, "encoding_", None)
    is_known = None if encoding_of_rows is None else encoding_of_rows.knows(judged.groups)
    if is_known is not None and test is not None and train is not None:
        is_known &= not np.array_equal(test.y, train.y)  # rows in folds were of new groups
    rule = {"is_known": is_known} if classes is None else {"rule": metadata.get("rule")}
    details = task.details(predicted, y, drawn, judged.group, **rule)
    learnt = getattr(getattr(estimator, "task_", None), "map", None)
    support = (-np.inf, np.inf) if learnt is None else learnt.support
    view = moments(support) if classes is None else probabilities(predicted)
    # On training rows the more flexible model wins, whatever it is worth.
    others = () if test is None else rivals(models, y, judged.group)
    return Contents(
        target=encoding.target_name,
        unit=metadata["unit"],
        source=metadata["source"],
        created=metadata["created"],
        reproduction=_reproduction(estimator, metadata),
        data_notes=(*map(for_terminal, encoding.report), *_kind_notes(estimator)),
        base_rate=metadata.get("base_rate", ""),
        kind="training" if test is None else "table" if train is None else "held-out",
        remarks=(
            *metadata.get("remarks", ()),
            *_on_gaps(judged, predicted),
            *estimator.fit_report_.warnings,
        ),
        n_rows=len(y),
        n_groups=0 if judged.group is None else len(np.unique(judged.group)),
        models=tuple(models),
        scores=scores(models, y, judged.group),
        line=next((one for one in others if one.name in SIMPLE[1:]), None)
        if getattr(estimator, "method_name", None) not in _LINES
        else None,
        rivals=others,
        baseline_note=metadata["baseline_note"],
        epistemic_share=predicted.epistemic_share,
        verdict=verdict(predicted, y, judged.group),
        conformal="" if test is None else task.conformal(predicted, y),
        effects=effects(estimator.predict_dist, background, features, view, seed=seed),
        unsure=with_reasons(
            unsure, judged.X[least_sure], getattr(estimator, "fitted_", None), encoding
        ),
        wrong=wrong,
        listed=listed,
        fit=estimator.fit_report_,
        is_standardised=is_standardised,
        weights=weights_of(estimator, encoding.feature_names),
        details=details,
    )


def _kind_notes(estimator: Any) -> tuple[str, ...]:
    """Word the kind of the target, or the order of its classes, if there is one."""
    task: Any = getattr(estimator, "task_", None)
    if getattr(task, "order", None) is not None:
        order = " < ".join(str(task.labels[place]) for place in task.order)
        return (f"The classes have an order, {order}.",)
    kind = getattr(task, "kind", None)
    return (KIND_NOTES[kind],) if kind in KIND_NOTES else ()


def _on_gaps(rows: EncodedRows, predicted: Distribution) -> tuple[str, ...]:
    gap = np.asarray(np.isnan(rows.X).any(axis=1))
    if not gap.any():
        return ()
    cost = float(np.mean(predicted.gap_share[gap]))
    if cost < _LITTLE:
        return ()
    n = int(gap.sum())
    have = "rows has" if n == 1 else "rows have"
    return (
        f"{n} of {len(gap)} {have} missing values, which cause {percent(cost)} of the predictive "
        "uncertainty on average: measuring them would remove this part.",
    )


def _reproduction(estimator: Any, metadata: JsonObject) -> tuple[tuple[str, str], ...]:
    parameters = ", ".join(f"{k}={v!r}" for k, v in sorted(estimator.get_params().items()))
    pairs = {
        "Command": metadata["command"],
        "Table": metadata["source"],
        "Seed": metadata["seed"],
        "Model": f"{type(estimator).__name__}({parameters})",
        "Versions": ", ".join(f"{k} {v}" for k, v in metadata["versions"].items()),
        "Created": metadata["created"],
    }
    return tuple((name, str(text)) for name, text in pairs.items() if text != "")

"""Everything that a report says, computed: no drawing and no markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from bayesprop.model.fit_report import FitReport
from bayesprop.report.about import (
    About,
    about,
    feature_names,
    predictor,
    seed_of,
    standardiser_of,
    standardises,
)
from bayesprop.report.baselines import Baselines, ConstantBaseline
from bayesprop.report.details import ClassDetails, NumberDetails
from bayesprop.report.effects import Effects, effects
from bayesprop.report.features import features_of
from bayesprop.report.linear_weights import Weights, weights_of
from bayesprop.report.pictures import Pictures
from bayesprop.report.rows import Rows, judged_rows, of_known_classes
from bayesprop.report.scoring import Comparison, Score, compare
from bayesprop.report.unsure import UnsureRow, describe
from bayesprop.report.verdict import Verdict
from bayesprop.report.words import label

if TYPE_CHECKING:
    from bayesprop.report.tasks import Task
    from bayesprop.table.encoding import TableEncoding

_MISSING = "The model file does not hold the baselines, which need the training rows."
Details = TypeVar("Details", NumberDetails, ClassDetails)


@dataclass(frozen=True, kw_only=True)
class Contents(Generic[Details]):
    """What a page says, whether numbers or classes are predicted.

    kind
        Which rows were judged: "held-out", "training", or "table" (one given later).
    models
        The fitted model and its baselines, in the order of the values of `scores`.
    epistemic_share
        Share of the predictive variance, or of the predictive entropy, that is epistemic.
    conformal
        What the judged rows would make of the error bars, in a sentence; empty where they cannot.
    unsure, wrong
        Rows of most doubt, and wrong answers of least doubt.
    pictures
        By place among the judged rows, those that are shown, where rows are pictures.
    is_standardised
        Whether the model standardises its inputs.
    weights
        Of a linear model.
    details
        What only this task has.
    """

    about: About
    kind: str
    n_rows: int
    models: tuple[str, ...]
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...]
    baseline_note: str
    epistemic_share: float
    verdict: Verdict
    conformal: str
    effects: Effects
    unsure: tuple[UnsureRow, ...]
    wrong: tuple[UnsureRow, ...]
    pictures: Mapping[int, str]
    fit: FitReport
    is_standardised: bool
    weights: Weights | None
    details: Details


def collect(
    task: Task,
    *,
    estimator: Any,
    encoding: TableEncoding | None,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
) -> Contents[Any]:
    """Compute the contents; arguments as in `write_report`."""
    classes = getattr(estimator, "classes_", None)
    given, kind = judged_rows(train, test)
    judged, remarks = of_known_classes(given, classes)
    y, seed = judged.y, seed_of(metadata)
    predicted = predictor(estimator)(judged.X)
    _check(task.is_usable(predicted, y), judged)
    baselines = _baselines(train, metadata, classes)
    models = {"model": predicted, **baselines.predict(judged.X, classes)}
    compared = [compare(predicted, models[name], name, y) for name in list(models)[1:]]
    reference = judged if train is None else train
    pictures = Pictures.of(metadata, judged.X)
    names = feature_names(estimator, encoding, reference)
    # What sets a picture apart is not a pixel.
    features = features_of(encoding, names, reference.X) if pictures is None else ()
    standardise = standardiser_of(estimator, reference).transform
    unsure, wrong = (
        describe(task.answers(predicted[at], y[at]), judged, at, features, standardise)
        for at in (task.least_sure(predicted), task.most_wrong(predicted, y))
    )
    details: Any = task.details(predicted, y, seed)
    shown = {row.row for row in (*unsure, *wrong)} | set(details.examples)
    smooth = predictor(getattr(estimator, "without_replicates", lambda: estimator)())
    return Contents(
        about=about(estimator, encoding, metadata, remarks),
        kind=kind,
        n_rows=len(y),
        models=tuple(models),
        scores=task.scores(models, y),
        comparisons=tuple(c for c in compared if c is not None),
        baseline_note=baselines.note,
        epistemic_share=predicted.epistemic_share,
        verdict=task.verdict(predicted, y),
        conformal=task.conformal(predicted, y) if kind != "training" else "",
        effects=effects(smooth, reference.X, features, task.view(predicted), seed=seed),
        unsure=unsure,
        wrong=wrong,
        pictures={row: pictures.uri(judged.X[row]) for row in sorted(shown)} if pictures else {},
        fit=estimator.fit_report_,
        is_standardised=standardises(estimator),
        weights=weights_of(estimator, names) if pictures is None else None,
        details=details,
    )


def _check(is_usable: np.ndarray, rows: Rows) -> None:
    if not np.all(is_usable):
        row = label(rows.row_ids[int(np.argmin(is_usable))])
        raise ValueError(f"the prediction of row {row} is not finite")


def _baselines(
    train: Rows | None, metadata: Mapping[str, Any], classes: np.ndarray | None
) -> Baselines:
    """Return those stored with the model, or fit them; what is left of them where neither goes."""
    stored, summary = metadata.get("baselines"), metadata.get("train_summary")
    kept = None if stored is None else Baselines.from_dict(stored)
    if train is not None and (kept is None or kept.line is None):
        return Baselines.fit(train.X, train.y, classes)
    if kept is not None or summary is None or classes is not None:
        return kept or Baselines(None, note=_MISSING)
    constant = ConstantBaseline(float(summary["y_mean"]), float(summary["y_var"]))
    note = _MISSING.replace("baselines, which need", "linear baseline, which needs")
    return Baselines(constant, note=note)

"""Everything that the report of a classifier says, computed: no drawing and no markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.report.class_baselines import ClassBaselines
from bayesprop.report.class_calibration import (
    Abstaining,
    Diagram,
    Histogram,
    abstaining,
    diagram,
    histogram,
)
from bayesprop.report.class_confusion import (
    ClassScore,
    Confused,
    Matrix,
    class_scores,
    matrix,
    most_confused,
)
from bayesprop.report.class_effects import probabilities
from bayesprop.report.class_scoring import scores
from bayesprop.report.class_unsure import AnsweredRow, describe, least_sure, most_wrong
from bayesprop.report.class_verdict import judge
from bayesprop.report.conformal import Sets, sets
from bayesprop.report.effects import effects
from bayesprop.report.linear_weights import weights_of
from bayesprop.report.page_contents import (
    MISSING_BASELINES,
    PageContents,
    about,
    feature_names,
    judged_rows,
    predictor,
    seed_of,
    standardiser_of,
    standardises,
)
from bayesprop.report.pictures import Pictures
from bayesprop.report.scoring import compare
from bayesprop.report.unsure import Rows, features_of
from bayesprop.report.verdict import Verdict
from bayesprop.report.words import join, label, plural

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding


@dataclass(frozen=True, kw_only=True)
class ClassContents(PageContents):
    """What the report of a classifier says besides.

    classes
        Names of the classes, in sorted order.
    mean_confidence
        Mean probability of the most probable class.
    diagram
        Of the second of two classes; of the answers, where there are more.
    class_scores, matrix, confused
        Of every class or the worst, of every pair of classes or none, and of the worst pairs.
    unsure, wrong
        Rows of least confidence, and wrong answers of least doubt.
    pictures
        By place among the judged rows, those that are shown, where rows are pictures.
    conformal
        What the judged rows would make of sets of classes.
    """

    classes: tuple[str, ...]
    verdict: Verdict
    mean_confidence: float
    diagram: Diagram | None
    histogram: Histogram
    abstaining: Abstaining | None
    class_scores: tuple[ClassScore, ...]
    matrix: Matrix | None
    confused: tuple[Confused, ...]
    unsure: tuple[AnsweredRow, ...]
    wrong: tuple[AnsweredRow, ...]
    pictures: Mapping[int, str]
    conformal: Sets | None

    @property
    def positive(self) -> str:
        """The second of two classes; empty where there are more."""
        return self.classes[1] if len(self.classes) == 2 else ""


def collect(
    *,
    estimator: Any,
    encoding: TableEncoding | None,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
) -> ClassContents:
    """Compute the contents; arguments as in `write_report`."""
    given, kind = judged_rows(train, test)
    judged, left_out = _of_known_classes(given, estimator.classes_)
    y = judged.y
    predict, seed = predictor(estimator), seed_of(metadata)
    predicted = _checked(predict(judged.X), judged)
    baselines = _baselines(train, metadata, estimator.classes_)
    models = {"model": predicted, **_baseline_predictions(baselines, predicted, judged.X)}
    compared = [compare(predicted, models[name], name, y) for name in list(models)[1:]]
    reference = judged if train is None else train
    pictures = Pictures.of(metadata, judged.X)
    names = feature_names(estimator, encoding, reference)
    features = features_of(encoding, names, reference.X)
    # What sets a picture apart is not a pixel.
    told = features if pictures is None else ()
    standardise = standardiser_of(estimator, reference).transform
    unsure = describe(predicted, judged, least_sure(predicted), told, standardise)
    wrong = describe(predicted, judged, most_wrong(predicted, y), told, standardise)
    subject = about(estimator, encoding, metadata)
    confused, right = most_confused(predicted, y), predicted.label == y
    return ClassContents(
        about=replace(subject, remarks=(*left_out, *subject.remarks)),
        kind=kind,
        n_rows=len(y),
        models=tuple(models),
        scores=scores(models, y),
        comparisons=tuple(c for c in compared if c is not None),
        baseline_note=baselines.note if baselines is not None else MISSING_BASELINES,
        epistemic_share=predicted.epistemic_share,
        effects=effects(predict, reference.X, told, probabilities(predicted.classes), seed=seed),
        fit=estimator.fit_report_,
        is_standardised=standardises(estimator),
        weights=weights_of(estimator, names) if pictures is None else None,
        classes=tuple(map(str, predicted.classes)),
        verdict=judge(predicted, y),
        mean_confidence=float(np.mean(predicted.confidence)),
        diagram=_diagram(predicted, y),
        histogram=histogram(predicted.confidence, right, len(predicted.classes)),
        abstaining=abstaining(predicted.confidence, right),
        class_scores=class_scores(predicted, y),
        matrix=matrix(predicted, y),
        confused=confused,
        conformal=sets(predicted, y, kind=kind),
        unsure=unsure,
        wrong=wrong,
        pictures=_shown(pictures, judged, unsure, wrong, confused),
    )


def _of_known_classes(rows: Rows, classes: np.ndarray) -> tuple[Rows, list[str]]:
    """Leave out rows of classes that training did not have, and say so."""
    y = np.asarray(rows.y)
    known = np.isin(y, classes)
    if not np.any(known):
        names = join([label(name, 30) for name in classes[:10]])
        raise ValueError(
            f"no row is of a class that the model knows ({names}); the first is {label(y[0], 30)}"
        )
    kept = np.flatnonzero(known)
    judged = Rows(rows.X[kept], y[kept], [rows.row_ids[row] for row in kept])
    if len(kept) == len(y):
        return judged, []
    unknown = join([label(name, 30) for name in np.unique(y[~known])[:10]])
    return judged, [
        f"{plural(len(y) - len(kept), 'row')} left out of every figure: training had no row of "
        f"their class ({unknown}), so the model cannot be right on them."
    ]


def _checked(predicted: ClassPredictive, rows: Rows) -> ClassPredictive:
    good = np.all(np.isfinite(predicted.proba), axis=1) & np.isfinite(predicted.expected_entropy)
    if not np.all(good):
        row = label(rows.row_ids[int(np.argmin(good))])
        raise ValueError(f"the prediction of row {row} is not finite")
    return predicted


def _baselines(
    train: Rows | None, metadata: Mapping[str, Any], classes: np.ndarray
) -> ClassBaselines | None:
    if metadata.get("baselines") is not None:
        return ClassBaselines.from_dict(metadata["baselines"])
    return None if train is None else ClassBaselines.fit(train.X, train.y, classes)


def _baseline_predictions(
    baselines: ClassBaselines | None, predicted: ClassPredictive, x: np.ndarray
) -> dict[str, ClassPredictive]:
    if baselines is None:
        return {}
    logistic, constant = baselines.logistic, baselines.constant
    fits = logistic is None or len(logistic.weight) == x.shape[1]
    if not fits or not np.array_equal(constant.classes, predicted.classes):
        raise ValueError(
            "the stored baselines have other features or classes than the model: they do not "
            "belong together"
        )
    found = {} if logistic is None else {"logistic": logistic.predict_dist(x)}
    return {**found, "constant": constant.predict_dist(x)}


def _diagram(predicted: ClassPredictive, y: np.ndarray) -> Diagram | None:
    if len(predicted.classes) == 2:
        return diagram(predicted.proba[:, 1], y == predicted.classes[1])
    return diagram(predicted.confidence, predicted.label == y)


def _shown(
    pictures: Pictures | None,
    rows: Rows,
    unsure: tuple[AnsweredRow, ...],
    wrong: tuple[AnsweredRow, ...],
    confused: tuple[Confused, ...],
) -> dict[int, str]:
    if pictures is None:
        return {}
    places = {one.row for one in (*unsure, *wrong)}
    places |= {row for pair in confused for row in pair.examples}
    return {row: pictures.uri(rows.X[row]) for row in sorted(places)}

"""Everything that a report says, computed: no drawing and no markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.model.predictive import Predictive
from bayesprop.report.baselines import Baselines, ConstantBaseline
from bayesprop.report.calibration import (
    CoverageCurve,
    PitHistogram,
    coverage_curve,
    pit_histogram,
)
from bayesprop.report.conformal import Stretched, stretched
from bayesprop.report.effects import MOMENTS, effects
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
from bayesprop.report.scoring import Score, compare, scores
from bayesprop.report.unsure import Rows, UnsureRow, features_of, least_sure
from bayesprop.report.verdict import Verdict, judge
from bayesprop.report.words import label

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

MAX_POINTS = 300
_GROUPED_ROWS = 100
_GROUPS = 5


@dataclass(frozen=True)
class Cloud:
    """Rows to draw, at most `MAX_POINTS`; all in y. `low` and `high` bound the 90 % interval."""

    actual: Float[np.ndarray, " p"]
    mean: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]
    std: Float[np.ndarray, " p"]


@dataclass(frozen=True)
class ErrorGroup:
    """Rows of similar predicted std: its range, and the size that 90 % of their errors keep to."""

    low: float
    high: float
    size: float


@dataclass(frozen=True)
class Calibration:
    """Whether the intervals keep their promise; `error` is the mean |nominal - actual| coverage."""

    verdict: Verdict
    error: float
    pit: PitHistogram | None
    coverage: CoverageCurve | None


@dataclass(frozen=True, kw_only=True)
class ReportContents(PageContents):
    """What the report of a regressor says besides.

    median_error
        Median absolute error, y.
    is_even
        Whether the model predicts the same std, within 5 %, for nearly all rows.
    conformal
        What the judged rows would make of the intervals.
    """

    median_error: float
    calibration: Calibration
    cloud: Cloud
    groups: tuple[ErrorGroup, ...]
    is_even: bool
    unsure: tuple[UnsureRow, ...]
    conformal: Stretched | None


def collect(
    *,
    estimator: Any,
    encoding: TableEncoding | None,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
) -> ReportContents:
    """Compute the contents; arguments as in `write_report`."""
    judged, kind = judged_rows(train, test)
    predict, seed = predictor(estimator), seed_of(metadata)
    smooth = predictor(getattr(estimator, "without_replicates", lambda: estimator)())
    predicted = _checked(predict(judged.X), judged)
    baselines = _baselines(train, metadata)
    models = {"model": predicted, **_baseline_predictions(baselines, judged.X)}
    found = scores(models, judged.y)
    compared = [compare(predicted, models[name], name, judged.y) for name in list(models)[1:]]
    reference = judged if train is None else train
    names = feature_names(estimator, encoding, reference)
    features = features_of(encoding, names, reference.X)
    return ReportContents(
        about=about(estimator, encoding, metadata),
        kind=kind,
        n_rows=len(judged.y),
        models=tuple(models),
        scores=found,
        comparisons=tuple(c for c in compared if c is not None),
        baseline_note=baselines.note,
        median_error=float(np.median(np.abs(judged.y - predicted.mean))),
        epistemic_share=predicted.epistemic_share,
        calibration=_calibration(predicted, judged.y, found),
        cloud=_cloud(predicted, judged.y, seed),
        groups=_groups(predicted, judged.y),
        is_even=_is_even(predicted),
        effects=effects(smooth, reference.X, features, MOMENTS, seed=seed),
        unsure=least_sure(
            predicted, judged, features, standardiser_of(estimator, reference).transform
        ),
        conformal=stretched(predicted, judged.y, kind=kind),
        fit=estimator.fit_report_,
        is_standardised=standardises(estimator),
        weights=weights_of(estimator, names),
    )


def _checked(predicted: Predictive, rows: Rows) -> Predictive:
    if np.shape(predicted.mean) != rows.y.shape:
        raise ValueError(
            f"the estimator must predict one output, shape {rows.y.shape}; "
            f"got {np.shape(predicted.mean)}"
        )
    good = np.isfinite(predicted.mean) & np.isfinite(predicted.var) & (predicted.var > 0.0)
    if not np.all(good):
        row = label(rows.row_ids[int(np.argmin(good))])
        raise ValueError(f"the prediction of row {row} is not a finite mean and variance")
    return predicted


def _baselines(train: Rows | None, metadata: Mapping[str, Any]) -> Baselines:
    if train is not None:
        return Baselines.fit(train.X, train.y)
    if metadata.get("baselines") is not None:
        return Baselines.from_dict(metadata["baselines"])
    note = MISSING_BASELINES
    summary = metadata.get("train_summary")
    if summary is None:
        return Baselines(None, None, note)
    constant = ConstantBaseline(float(summary["y_mean"]), float(summary["y_var"]))
    return Baselines(
        constant, None, note.replace("baselines, which need", "linear baseline, which needs")
    )


def _baseline_predictions(baselines: Baselines, x: np.ndarray) -> dict[str, Predictive]:
    found: dict[str, Predictive] = {}
    if baselines.linear is not None:
        d = len(baselines.linear.weight_mean)
        if d != x.shape[1]:
            raise ValueError(
                f"the stored linear baseline has {d} features and the table {x.shape[1]}: "
                "they do not belong together"
            )
        found["linear"] = baselines.linear.predict_dist(x)
    if baselines.constant is not None:
        found["constant"] = baselines.constant.predict_dist(x)
    return found


def _calibration(predicted: Predictive, y: np.ndarray, found: tuple[Score, ...]) -> Calibration:
    pit = metrics.pit(predicted, y)
    held = tuple((s.nominal, s.values[0]) for s in found if s.nominal is not None)
    return Calibration(
        verdict=judge(pit, _stretch(predicted, y), held),
        error=metrics.calibration_error(predicted, y),
        pit=pit_histogram(pit),
        coverage=coverage_curve(pit),
    )


def _stretch(predicted: Predictive, y: np.ndarray) -> float:
    """Factor by which the 90 % intervals must grow, about their centres, to hold 90 % of rows."""
    interval = predicted.interval(0.9)
    centre, half = np.mean(interval, axis=1), (interval[:, 1] - interval[:, 0]) / 2.0
    return float(np.quantile(np.abs(y - centre) / half, 0.9))


def _cloud(predicted: Predictive, y: np.ndarray, seed: int) -> Cloud:
    n = len(y)
    drawn = np.sort(np.random.default_rng(seed).choice(n, min(n, MAX_POINTS), replace=False))
    chosen = predicted[drawn]
    interval = chosen.interval(0.9)
    return Cloud(y[drawn], chosen.mean, interval[:, 0], interval[:, 1], chosen.std)


def _groups(predicted: Predictive, y: np.ndarray) -> tuple[ErrorGroup, ...]:
    """Cut the rows into five by their predicted std, where rows and differences are enough."""
    if len(y) < _GROUPED_ROWS or _is_even(predicted):
        return ()
    std, size = predicted.std, np.abs(y - predicted.mean)
    order = np.argsort(std, kind="stable")
    return tuple(
        ErrorGroup(float(std[part[0]]), float(std[part[-1]]), float(np.quantile(size[part], 0.9)))
        for part in np.array_split(order, _GROUPS)
    )


def _is_even(predicted: Predictive) -> bool:
    """Whether 95 % of the predicted standard deviations lie within 5 % of each other."""
    low, high = np.quantile(predicted.std, (0.025, 0.975))
    return bool(high <= 1.05 * low)

"""Everything that a report says, computed: no drawing and no markup."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.model.fit_report import FitReport
from bayesprop.model.predictive import Predictive
from bayesprop.report.baselines import Baselines, ConstantBaseline
from bayesprop.report.calibration import (
    CoverageCurve,
    PitHistogram,
    coverage_curve,
    pit_histogram,
)
from bayesprop.report.effects import Effects, effects
from bayesprop.report.scoring import Comparison, Score, compare, scores
from bayesprop.report.unsure import Rows, UnsureRow, features_of, least_sure
from bayesprop.report.verdict import Verdict, judge
from bayesprop.report.words import label

if TYPE_CHECKING:
    from bayesprop.data.encoding import TableEncoding

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
class About:
    """What the page is about, in the user's own words; empty where nothing is known.

    reproduction
        (name, text) pairs: what reproduces the model.
    """

    title: str
    target: str
    unit: str
    source: str
    created: str
    reproduction: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Calibration:
    """Whether the intervals keep their promise; `error` is the mean |nominal - actual| coverage."""

    verdict: Verdict
    error: float
    pit: PitHistogram | None
    coverage: CoverageCurve | None


@dataclass(frozen=True)
class ReportContents:
    """What a report says.

    kind
        Which rows were judged: "held-out", "training", or "table" (one given later).
    models
        The fitted model and its baselines, in the order of the values of `scores`.
    median_error
        Median absolute error, y.
    is_even
        Whether the model predicts the same std, within 5 %, for nearly all rows.
    remarks
        Sentences that the caller wants at the head of the page.
    """

    about: About
    kind: str
    n_rows: int
    models: tuple[str, ...]
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...]
    baseline_note: str
    median_error: float
    epistemic_share: float
    calibration: Calibration
    cloud: Cloud
    groups: tuple[ErrorGroup, ...]
    is_even: bool
    effects: Effects
    unsure: tuple[UnsureRow, ...]
    fit: FitReport
    data_notes: tuple[str, ...]
    remarks: tuple[str, ...]


def collect(
    *,
    estimator: Any,
    encoding: TableEncoding | None,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
) -> ReportContents:
    """Compute the contents; arguments as in `write_report`."""
    judged, kind = _judged(train, test)
    predict, seed = _predictor(estimator), _seed(metadata)
    predicted = _checked(predict(judged.X), judged)
    baselines = _baselines(train, metadata)
    models = {"model": predicted, **_baseline_predictions(baselines, judged.X)}
    found = scores(models, judged.y)
    compared = [compare(predicted, models[name], name, judged.y) for name in list(models)[1:]]
    reference = judged if train is None else train
    features = features_of(encoding, _names(estimator, encoding, reference), reference.X)
    return ReportContents(
        about=_about(estimator, encoding, metadata),
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
        effects=effects(predict, reference.X, features, seed=seed),
        unsure=least_sure(predicted, judged, features, estimator.x_scaler_.transform),
        fit=estimator.fit_report_,
        data_notes=tuple(encoding.report) if encoding is not None else (),
        remarks=tuple(map(str, metadata.get("remarks") or ())),
    )


def _judged(train: Rows | None, test: Rows | None) -> tuple[Rows, str]:
    rows = train if test is None else test
    if rows is None:
        raise ValueError("a report needs rows to judge: give test, train or both, got neither")
    for name, given in (("train", train), ("test", test)):
        if given is not None:
            _check_rows(name, given)
    kind = "training" if test is None else "table" if train is None else "held-out"
    return rows, kind


def _check_rows(name: str, rows: Rows) -> None:
    if rows.y.ndim != 1:
        raise ValueError(
            f"{name}.y must have shape (n,), got {rows.y.shape}: report one output at a time"
        )
    if not (len(rows.y) == len(rows.X) == len(rows.row_ids) > 0):
        raise ValueError(
            f"{name} must have as many targets and row_ids as rows, and at least one; "
            f"got {len(rows.X)} rows, {len(rows.y)} targets, {len(rows.row_ids)} row_ids"
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


def _predictor(estimator: Any) -> Callable[[np.ndarray], Predictive]:
    """Predict from arrays, also where the estimator was fitted on a frame with named columns."""

    def predict(x: np.ndarray) -> Predictive:
        with warnings.catch_warnings():
            # The columns are in the order of the fit: that is what `Rows` promises.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            return estimator.predict_dist(x)

    return predict


def _names(estimator: Any, encoding: TableEncoding | None, rows: Rows) -> tuple[str, ...]:
    if encoding is not None:
        return tuple(encoding.feature_names)
    named = getattr(estimator, "feature_names_in_", None)
    return (
        tuple(f"x{i + 1}" for i in range(rows.X.shape[1]))
        if named is None
        else tuple(map(str, named))
    )


def _about(estimator: Any, encoding: TableEncoding | None, metadata: Mapping[str, Any]) -> About:
    target = str(metadata.get("target") or (encoding.target_name if encoding is not None else "y"))
    return About(
        title=str(metadata.get("title") or f"Predicting {target}"),
        target=target,
        unit=str(metadata.get("unit") or ""),
        source=str(metadata.get("source") or ""),
        created=str(metadata.get("created") or ""),
        reproduction=_reproduction(estimator, metadata),
    )


def _seed(metadata: Mapping[str, Any]) -> int:
    seed = metadata.get("seed")
    return seed if isinstance(seed, int) and seed >= 0 else 0


def _baselines(train: Rows | None, metadata: Mapping[str, Any]) -> Baselines:
    if train is not None:
        return Baselines.fit(train.X, train.y)
    if metadata.get("baselines") is not None:
        return Baselines.from_dict(metadata["baselines"])
    note = "The model file does not hold the baselines, which need the training rows."
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


def _reproduction(estimator: Any, metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    parameters = ", ".join(f"{k}={v!r}" for k, v in sorted(estimator.get_params().items()))
    versions = ", ".join(f"{k} {v}" for k, v in (metadata.get("versions") or {}).items())
    pairs = [
        ("Command", metadata.get("command")),
        ("Table", metadata.get("source")),
        ("Seed", metadata.get("seed")),
        ("Model", f"{type(estimator).__name__}({parameters})"),
        ("Versions", versions),
        ("Created", metadata.get("created")),
    ]
    return tuple((name, str(text)) for name, text in pairs if text not in (None, ""))

"""What a page is about, in the user's own words, and what every estimator is asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop.model.task import Standardiser
from bayesprop.report.rows import Rows

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding


@dataclass(frozen=True)
class About:
    """What the page is about, in the user's own words; empty where nothing is known.

    reproduction
        (name, text) pairs: what reproduces the model.
    data_notes
        Sentences on what was filled, grouped or dropped.
    remarks
        Sentences that the caller wants at the head of the page.
    """

    title: str
    target: str
    unit: str
    source: str
    created: str
    reproduction: tuple[tuple[str, str], ...]
    data_notes: tuple[str, ...]
    remarks: tuple[str, ...]


def predictor(estimator: Any) -> Callable[[np.ndarray], Any]:
    """Predict from arrays, also where the estimator was fitted on a frame with named columns."""

    def predict(x: np.ndarray) -> Any:
        with warnings.catch_warnings():
            # The columns are in the order of the fit: that is what `Rows` promises.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            return estimator.predict_dist(x)

    return predict


def feature_names(estimator: Any, encoding: TableEncoding | None, rows: Rows) -> tuple[str, ...]:
    """Name the encoded columns as well as is known; x1, x2, ... where nothing is."""
    if encoding is not None:
        return tuple(encoding.feature_names)
    named = getattr(estimator, "feature_names_in_", None)
    return (
        tuple(f"x{i + 1}" for i in range(rows.X.shape[1]))
        if named is None
        else tuple(map(str, named))
    )


def standardises(estimator: Any) -> bool:
    """Say whether the model standardises its inputs; some are told to take them as they are."""
    scaler = estimator.x_scaler_
    return bool(np.any(scaler.scale != 1.0) or np.any(scaler.mean != 0.0))


def standardiser_of(estimator: Any, reference: Rows) -> Standardiser:
    """Return what measures how unusual a value is: the model's own scaling, if it has one."""
    return estimator.x_scaler_ if standardises(estimator) else Standardiser.fit(reference.X)


def about(
    estimator: Any,
    encoding: TableEncoding | None,
    metadata: Mapping[str, Any],
    remarks: tuple[str, ...],
) -> About:
    """Gather what is known of the model, its table and its making; `remarks` come first."""
    target = str(metadata.get("target") or (encoding.target_name if encoding is not None else "y"))
    return About(
        title=str(metadata.get("title") or f"Predicting {target}"),
        target=target,
        unit=str(metadata.get("unit") or ""),
        source=str(metadata.get("source") or ""),
        created=str(metadata.get("created") or ""),
        reproduction=_reproduction(estimator, metadata),
        data_notes=tuple(encoding.report) if encoding is not None else (),
        remarks=(*remarks, *map(str, metadata.get("remarks") or ())),
    )


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


def seed_of(metadata: Mapping[str, Any]) -> int:
    """Return the seed that draws the rows of the figures."""
    seed = metadata.get("seed")
    return seed if isinstance(seed, int) and seed >= 0 else 0

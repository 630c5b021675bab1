"""Tables by file or name, what a model predicts for their rows, and how good that is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.cli.actions import Learning
from bayesprop.cli.console import InputError, figure, print_table, refusals_of_estimator, width
from bayesprop.datasets import registry
from bayesprop.model.task import FarInputError
from bayesprop.table.division import Division, HoldOut, divide
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import listing, one_line
from bayesprop.table.read import read_table
from bayesprop.table.values import column_of

if TYPE_CHECKING:
    import polars as pl

Scores = dict[str, dict[str, float]]
USUAL_SHARE = 0.1
"""Of the rows, held out to judge a fit."""
_WIDE = 100
"""Columns below which scores stand without what they mean."""
_LABELS = {
    "rmse": ("RMSE", "typical error; lower is better"),
    "mae": ("MAE", "mean error, either way"),
    "log_likelihood": ("log-likelihood, nats a row", "higher is better"),
    "crps": ("CRPS", "error of the whole distribution"),
    "coverage_50": ("share inside 50 % intervals", "0.5 is honest"),
    "coverage_90": ("share inside 90 % intervals", "0.9 is honest"),
    "width_90": ("width of 90 % intervals", "narrower is sharper, if honest"),
    "calibration_error": ("calibration error", "gap between promised and actual; 0 is honest"),
    "epistemic_share": ("epistemic share of doubt", "what more data would remove"),
    "accuracy": ("accuracy", "share of rows whose likeliest class is right"),
    "average_precision": ("average precision", "of the positive class; its share is chance"),
    "roc_auc": ("area under the ROC curve", "positives ranked first; 0.5 is chance"),
    "brier": ("Brier score", "squared error of the probabilities, 0 to 2; lower is better"),
    "mean_confidence": ("mean confidence", "near the accuracy is honest"),
    "mean_entropy": ("mean entropy, nats", "doubt about the class; 0 is certain"),
}


def read_source(source: str, text: Collection[str] = ()) -> pl.DataFrame:
    """Read a table, or a data set, whose name wins over a file of that name (then `./name`).

    text
        Columns that stay text, as `read_table` takes them.
    """
    if registry.find(source) is not None:
        return registry.load(source).frame()
    if source != "-" and not Path(source).suffix and not Path(source).exists():
        sets = ", ".join(registry.names())
        raise InputError(f"there is no file {one_line(source)!r}; data sets: {sets}")
    return read_table(source, text)


def fingerprint(target: np.ndarray) -> str:
    """Return a digest by which the table of a fit is known again, whatever its file is called."""
    return hashlib.sha256(np.ascontiguousarray(target).tobytes()).hexdigest()


def table_name(source: str) -> str:
    """Return what messages call a table."""
    return "standard input" if source == "-" else one_line(source)


def column(frame: pl.DataFrame, name: str, source: str) -> pl.Series:
    """Return a column of a table that came from somewhere."""
    return column_of(frame, name, table_name(source))


class Target(NamedTuple):
    """The column to predict, its unit, and the task where a known data set says it."""

    name: str
    unit: str
    task: str | None


def target_of(options: Learning, frame: pl.DataFrame) -> Target:
    """Find the column to predict: the one asked for, or a known data set's own."""
    known = registry.find(options.table)
    name = options.target or (known.target if known is not None else None)
    if name is None:
        raise InputError(
            "--target is needed: the column to predict; columns: "
            + one_line(listing(frame.columns))
        )
    column(frame, name, options.table)
    own = known if known is not None and known.target == name else None
    return Target(name, "", None) if own is None else Target(name, own.unit, own.task)


def divided(options: Learning, frame: pl.DataFrame, target: str, task: str | None) -> Division:
    """Divide a table into training and held-out rows, as asked."""
    return divide(
        frame,
        target,
        task,
        HoldOut(_share(options), options.seed, options.group, options.time),
        weights=options.weights,
        drop=options.drop,
        where=table_name(options.table),
    )


def _share(options: Learning) -> float:
    return USUAL_SHARE if options.test_fraction is None else options.test_fraction


def check_output(path: Path, option: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written or holds an input."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable")
    for source in inputs:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {path} would overwrite an input; choose another name")


@contextmanager
def refusals_by_name(
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[Any] | np.ndarray,
) -> Iterator[None]:
    """Word an estimator's refusals as the table does, a far value not by places in a matrix."""
    try:
        with refusals_of_estimator(ValueError):
            yield
    except InputError as refusal:
        error = refusal.__cause__
        if not isinstance(error, FarInputError):
            raise
        # It may have seen a few of the rows, in another order.
        places = np.flatnonzero(features[:, error.column] == error.value)
        row = f"data row {numbers[places[0]]}: " if len(places) else ""
        name = one_line(encoding.feature_names[error.column])
        raise InputError(
            f"{row}{name} must lie within {error.furthest:g} standard deviations of its mean in "
            f"the training table, got {error.value:g}"
        ) from error


def predict_rows(
    estimator: Any,
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[Any] | np.ndarray,
) -> Any:
    """Predict some rows; refuse values too far from the training table for a finite answer.

    numbers
        What the table calls the rows, for the message.
    """
    with refusals_by_name(features, encoding, numbers):
        predictive = estimator.predict_dist(features)
    if not np.all(good := predictive.is_finite):
        raise InputError(
            f"data row {numbers[int(np.argmin(good))]}: the prediction is not finite; its values "
            "lie too far from the training table"
        )
    return predictive


def print_scores(
    title: str, scores: Scores, unit: str, errors: Mapping[str, float] | None = None
) -> None:
    """Print one row a metric, one column a model, and what the metric means.

    errors
        Standard errors of the model's.
    """
    rows = []
    for metric in scores["model"]:
        label, meaning = _LABELS.get(metric, (metric, ""))
        model, *others = (figure(values.get(metric)) for values in scores.values())
        error = None if errors is None else errors.get(metric)
        spread = () if errors is None else ("" if error is None else figure(error, 2),)
        rows.append((label, model, *spread, *others, meaning))
    if (width() or _WIDE) < _WIDE:
        rows = [(*row[:-1], "") for row in rows]
    first, *others = scores
    names = (first, *(() if errors is None else ("± s.e.",)), *others)
    heading = f"{title} (in {unit})" if unit else title
    print_table(heading, ("", *names, ""), rows, right=range(1, 1 + len(names)))

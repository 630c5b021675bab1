"""Fits of several methods to the same splits, summarised: best first, and how far behind others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bayesprop.catalogue import CLASSIFICATION, REGRESSION

SCORES = {CLASSIFICATION: ("log_loss", "log loss"), REGRESSION: ("crps", "CRPS")}
"""What methods are ordered by, its key and its name; lower is better."""


class Trial(NamedTuple):
    """One method on one split: its metrics and seconds, or why there are none."""

    method: str
    split: int
    metrics: dict[str, float] | None
    seconds: float
    failure: str | None


class Gap(NamedTuple):
    """Mean difference of the scores of two methods on the same splits.

    error
        Its standard error, corrected for splits that share rows (Nadeau & Bengio 2003); None of
        one split.
    """

    mean: float
    error: float | None

    @property
    def is_clear(self) -> bool:
        """Whether it exceeds two standard errors."""
        return self.error is not None and abs(self.mean) > 2.0 * self.error


class Summary(NamedTuple):
    """One method over its splits: means, of the seconds the median, of those that went well.

    score
        Mean log loss, nats a row, or mean CRPS, y; lower is better. None where no split went well.
    behind
        The score less that of the best method; None of the best itself.
    standard_errors
        Of the means of the metrics over splits; empty of one split.
    """

    method: str
    n_splits: int
    score: float | None
    behind: Gap | None
    metrics: dict[str, float]
    standard_errors: dict[str, float]
    seconds: float | None
    failures: list[str]


def summarise_trials(
    trials: Sequence[Trial], names: Sequence[str], task: str, ratio: float
) -> list[Summary]:
    """Average over splits; the best score first, what failed last.

    ratio
        Rows held out for each row learnt.
    """
    own = {name: [trial for trial in trials if trial.method == name] for name in names}
    every = [_summary(name, own[name], task) for name in names]
    every.sort(key=lambda one: np.inf if one.score is None else one.score)
    best = every[0].method
    return [
        summary._replace(behind=gap(own[summary.method], own[best], task, ratio))
        if summary.method != best
        else summary
        for summary in every
    ]


def score_of(metrics: dict[str, float], task: str) -> float:
    """Return what a trial is judged by."""
    return -metrics["log_likelihood"] if task == CLASSIFICATION else metrics["crps"]


def _summary(name: str, trials: Sequence[Trial], task: str) -> Summary:
    good = [trial.metrics for trial in trials if trial.metrics is not None]
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if not good:
        return Summary(name, 0, None, None, {}, {}, None, failures)

    def each(of: Callable[[list[float]], float]) -> dict[str, float]:
        return {key: float(of([metrics[key] for metrics in good])) for key in good[0]}

    means = each(lambda values: np.mean(values).item())
    errors = each(lambda values: np.std(values, ddof=1) / np.sqrt(len(good))) if good[1:] else {}
    seconds = float(np.median([trial.seconds for trial in trials if trial.metrics is not None]))
    score = score_of(means, task)
    return Summary(name, len(good), score, None, means, errors, seconds, failures)


def gap(one: Sequence[Trial], other: Sequence[Trial], task: str, ratio: float) -> Gap | None:
    """Compare two methods on the splits that went well for both; None where there are none."""
    of_other = {trial.split: trial.metrics for trial in other}
    pairs = [(trial.metrics, of_other.get(trial.split)) for trial in one]
    gaps = [score_of(a, task) - score_of(b, task) for a, b in pairs if a and b]
    if not gaps or not np.all(np.isfinite(gaps)):
        return None
    mean, n = float(np.mean(gaps)), len(gaps)
    if n < 2:
        return Gap(mean, None)
    return Gap(mean, float(np.sqrt((1.0 / n + ratio) * np.var(gaps, ddof=1))))

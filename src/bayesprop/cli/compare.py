"""`compare`: several methods on one table, on the same held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.actions import Compare
from bayesprop.cli.console import describe, note, print_json, print_table, progress, warn
from bayesprop.cli.in_time import limited
from bayesprop.cli.settings import row_request
from bayesprop.cli.tables import check_output
from bayesprop.cli.told import Told
from bayesprop.metrics import summarise
from bayesprop.report.baselines import ConstantBaseline, FrequencyBaseline
from bayesprop.table.division import Division
from bayesprop.table.encoding import Rows
from bayesprop.table.errors import did_you_mean
from bayesprop.table_model.judging import learn
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.predicting import predict_rows
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.settings import (
    Settings,
    check_method,
    make_estimator,
    method_of,
    methods_for,
)
from bayesprop.table_model.sources import divided, read_to_learn, target_of
from bayesprop.table_model.target_kind import kind_of

if TYPE_CHECKING:
    import polars as pl

CONSTANT = "constant"
PICTURES = (".svg", ".png")
_METRICS = {
    CLASSIFICATION: {"accuracy": "accuracy", "calibration_error": "calibration error"},
    REGRESSION: {"rmse": "RMSE", "coverage_90": "inside 90 %"},
}


class Trial(NamedTuple):
    """One method on one split: its metrics and seconds, or why there are none."""

    method: str
    split: int
    metrics: dict[str, float] | None
    seconds: float
    failure: str | None


class Summary(NamedTuple):
    """One method over its splits: means, of the seconds the median, of those that went well.

    None where none did; the standard error of the log-likelihood takes two.
    """

    method: str
    n_splits: int
    log_likelihood: float | None
    standard_error: float | None
    metrics: dict[str, float]
    seconds: float | None
    failures: list[str]


def run(options: Compare) -> None:
    """Fit every method to every split, show a table and draw a plot."""
    _check(options)
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = read_to_learn(row_request(options))
    target = target_of(row_request(options), frame)
    divisions = _divisions(options, frame, target.name, options.task or target.task)
    names = _chosen(options.method, divisions[0].task)
    first = divisions[0]
    train, _ = first.encoded(first.encoding())
    kind = kind_of(row_request(options), target.name, first.task, train, Told(quiet=options.quiet))
    trials: list[Trial] = []
    try:
        for trial in _trials(options, divisions, names, kind):
            trials.append(trial)
    except KeyboardInterrupt:
        if trials and not options.as_json:
            done = dict.fromkeys(trial.method for trial in trials)
            _conclude(options, target.name, divisions[0], trials, list(done), kind)
        raise
    summaries = _conclude(options, target.name, divisions[0], trials, [CONSTANT, *names], kind)
    if all(summary.log_likelihood is None for summary in summaries if summary.method != CONSTANT):
        raise InputError("every method failed; the reasons stand above")


def _check(options: Compare) -> None:
    """Refuse what can be refused before the table is read."""
    if options.test_fraction == 0.0:
        raise InputError("--test-fraction must be above 0 and at most 0.9, got 0")
    if options.time is not None and options.splits > 1:
        raise InputError("--time divides the table one way only: give --splits 1")
    for name in options.method:
        check_method(name)
    if options.plot.suffix not in PICTURES:
        hint = did_you_mean(options.plot.suffix, PICTURES)
        raise InputError(f"--plot {options.plot} must end in {' or '.join(PICTURES)}{hint}")
    check_output(options.plot, "--plot", [options.table])


def _chosen(asked: Sequence[str], task: str) -> list[str]:
    """Return methods that do the task, in the order of the table of methods."""
    for name in asked:
        method_of(name, task, f"the target asks for {task}")
    able = methods_for(task)
    return [name for name in able if (name in asked if asked else not _is_slow(name))]


def _is_slow(name: str) -> bool:
    return catalogue.METHODS[name].is_slow


def _divisions(
    options: Compare, frame: pl.DataFrame, target: str, task: str | None
) -> list[Division]:
    """Divide the table once for each split, each by a seed of its own."""
    request = row_request(options)
    first = divided(request, frame, target, task)
    warn(first.remarks)
    if not first.counts["held_out"]:
        raise InputError(
            f"--test-fraction {options.test_fraction:g} holds no row out of "
            f"{len(first.target)}: raise it"
        )
    seeds = range(options.seed + 1, options.seed + options.splits)
    others = [divided(replace(request, seed=s), frame, target, task) for s in seeds]
    return [first, *others]


def _trials(
    options: Compare, divisions: Sequence[Division], names: Sequence[str], kind: str | None
) -> Iterator[Trial]:
    """Fit method after method, so that what is common to its fits is compiled once."""
    for name in (CONSTANT, *names):
        remarks: set[str] = set()
        for split, parts in enumerate(divisions):
            what = f"{name}, split {split + 1} of {len(divisions)}"
            with progress(what, quiet=options.quiet), limited(options.time_limit):
                trial = _trial(name, kind, split, parts, options.seed + split, remarks)
            yield trial
        warn(sorted(f"{name}: {sentence}" for sentence in remarks))


def _trial(
    name: str, kind: str | None, split: int, parts: Division, seed: int, remarks: set[str]
) -> Trial:
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoding = parts.encoding()
            train, test = parts.encoded(encoding)
            started = time.perf_counter()
            model = _fitted(name, parts.task, kind, train, seed, remarks)
            seconds = time.perf_counter() - started
            predictive = predict_rows(model, test.X, encoding, test.numbers)
            return Trial(name, split, summarise(predictive, test.y), seconds, None)
    except Exception as error:  # the other methods go on
        seconds = time.perf_counter() - started
        return Trial(name, split, None, seconds, describe(error).message)


def _fitted(
    name: str, task: str, kind: str | None, train: Rows, seed: int, remarks: set[str]
) -> Any:
    """Fit a method, or the constant that any should beat."""
    if name != CONSTANT:
        settings = Settings({} if kind is None else {"target_kind": kind})
        estimator = make_estimator(settings, name, task, seed)
        remarks.update(learn(estimator, train))
        return estimator
    if task == CLASSIFICATION:
        return FrequencyBaseline.fit(train.y, np.unique(train.y))
    return ConstantBaseline.fit(train.y)


def summarise_trials(trials: Sequence[Trial], names: Sequence[str]) -> list[Summary]:
    """Average over splits; the best log-likelihood first, what failed last."""
    every = [_summary(name, [trial for trial in trials if trial.method == name]) for name in names]
    return sorted(every, key=lambda summary: -summary.metrics.get("log_likelihood", -np.inf))


def _summary(name: str, trials: Sequence[Trial]) -> Summary:
    good = [trial.metrics for trial in trials if trial.metrics is not None]
    seconds = [trial.seconds for trial in trials if trial.metrics is not None]
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if not good:
        return Summary(name, 0, None, None, {}, None, failures)
    means = {key: float(np.mean([metrics[key] for metrics in good])) for key in good[0]}
    spread = np.std([metrics["log_likelihood"] for metrics in good], ddof=1) if good[1:] else None
    error = None if spread is None else float(spread / np.sqrt(len(good)))
    mean, median = means["log_likelihood"], float(np.median(seconds))
    return Summary(name, len(good), mean, error, means, median, failures)


def _conclude(
    options: Compare,
    target: str,
    parts: Division,
    trials: Sequence[Trial],
    names: Sequence[str],
    kind: str | None,
) -> list[Summary]:
    """Draw the plot, warn of failures, print the summaries."""
    summaries = summarise_trials(trials, names)
    plot = str(options.plot) if _draw(options.plot, summaries, target) else None
    for summary in summaries:
        if summary.failures:
            warn([f"{summary.method} failed on {len(summary.failures)} of {options.splits} "
                  f"splits: {summary.failures[0]}"])  # fmt: skip
    if options.as_json:
        print_json(
            {
                "table": options.table,
                "target": target,
                "task": parts.task,
                "target_kind": kind,
                "splits": options.splits,
                "rows": parts.counts,
                "methods": [summary._asdict() for summary in summaries],
                "trials": [trial._asdict() for trial in trials],
                "plot": plot,
            }
        )
    else:
        _show(options, target, parts, summaries)
        if plot is not None:
            note(f"plot: {plot}", quiet=options.quiet)
    return summaries


def _draw(path: Path, summaries: Sequence[Summary], target: str) -> bool:
    """Draw what has a log-likelihood; say whether anything has."""
    from bayesprop.report.comparison_figure import Point, draw

    points = {
        s.method: Point(s.method, s.seconds, s.log_likelihood, s.standard_error)
        for s in summaries
        if s.seconds is not None and s.log_likelihood is not None
    }
    constant = points.pop(CONSTANT, None)
    if points:
        level = None if constant is None else constant.log_likelihood
        draw(path, list(points.values()), constant=level, title=target)
    return bool(points)


def _show(options: Compare, target: str, parts: Division, summaries: Sequence[Summary]) -> None:
    columns = _METRICS[parts.task]
    rows = [_line(summary, columns) for summary in summaries]
    n_train, n_test = parts.counts.values()
    title = f"{target}: {options.splits} splits, {n_train} rows to learn from and {n_test} held out"
    names = ("", "log-likelihood", "± s.e.", *columns.values(), "seconds a fit")
    print_table(title, names, rows, right=range(1, len(names)))
    note("log-likelihood: nats a held-out row, higher is better; splits share rows, so that the "
         "standard errors are a guide", quiet=options.quiet)  # fmt: skip
    slow = [name for name in methods_for(parts.task) if _is_slow(name) and not options.method]
    if slow:
        note(f"left out, because slow: {', '.join(slow)}; name them with --method",
             quiet=options.quiet)  # fmt: skip


def _line(summary: Summary, columns: dict[str, str]) -> tuple[str, ...]:
    metrics = (summary.metrics.get(key) for key in columns)
    figures = (summary.log_likelihood, summary.standard_error, *metrics, summary.seconds)
    return (summary.method, *map(figure, figures))

"""`compare`: several methods on one table, on the same held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesprop import methods
from bayesprop.cli.actions import Compare
from bayesprop.cli.console import figure, note, print_json, print_table, progress, warn
from bayesprop.cli.division import Parts, divide, target_of
from bayesprop.cli.failures import InputError, describe, did_you_mean
from bayesprop.cli.scores import predict_rows, score
from bayesprop.cli.settings import make_estimator, read_settings
from bayesprop.cli.sources import check_output
from bayesprop.methods import CLASSIFICATION
from bayesprop.report.baselines import ConstantBaseline
from bayesprop.report.class_baselines import FrequencyBaseline
from bayesprop.table.read import TableEncoding, read_table

if TYPE_CHECKING:
    import polars as pl

CONSTANT = "constant"
PICTURES = (".svg", ".png")
_METRICS = {
    True: {"accuracy": "accuracy", "calibration_error": "calibration error"},
    False: {"rmse": "RMSE", "coverage_90": "inside 90 %"},
}


class Trial(NamedTuple):
    """One method on one split: its metrics and seconds, or why there are none."""

    method: str
    split: int
    metrics: dict[str, float] | None
    seconds: float
    failure: str | None


class Summary(NamedTuple):
    """One method over its splits.

    log_likelihood, metrics, seconds
        Means over the splits that went well, the median for seconds; None where none did.
    standard_error
        Of the log-likelihood; None for fewer than two splits.
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
        frame = read_table(options.table)
    target = target_of(options, frame)
    divisions = _divisions(options, frame, target.name, options.task or target.task)
    task = divisions[0].task
    names = _chosen(options.method, task)
    trials: list[Trial] = []

    def conclude(names: Sequence[str]) -> list[Summary]:
        found = summarise(trials, names)
        is_drawn = _draw(options.plot, found, target.name)
        _tell(options, task, target.name, divisions[0], trials, found, is_drawn=is_drawn)
        return found

    try:
        for trial in _trials(options, divisions, names, target.name):
            trials.append(trial)
    except KeyboardInterrupt:
        if trials and not options.as_json:
            conclude(list(dict.fromkeys(trial.method for trial in trials)))
        raise
    found = conclude([CONSTANT, *names])
    if all(summary.log_likelihood is None for summary in found if summary.method != CONSTANT):
        raise InputError("every method failed; the reasons stand above")


def _check(options: Compare) -> None:
    if not 0.0 < options.test_fraction <= 0.9:
        raise InputError(
            f"--test-fraction must be above 0 and at most 0.9, got {options.test_fraction}"
        )
    if options.splits < 1:
        raise InputError(f"--splits must be 1 or more, got {options.splits}")
    for name in options.method:  # an unknown name is refused before the table is read
        read_settings(name, hidden=(), epochs=None, batch_size=None, inference=None, assignments=())
    if options.plot.suffix not in PICTURES:
        hint = did_you_mean(options.plot.suffix, PICTURES)
        raise InputError(f"--plot {options.plot} must end in {' or '.join(PICTURES)}{hint}")
    check_output(options.plot, "--plot", [options.table])


def _chosen(asked: Sequence[str], task: str) -> list[str]:
    """Return methods that do the task, in the order of the table of methods."""
    able = [name for name, method in methods.METHODS.items() if task in method.homes]
    unable = [name for name in asked if name not in able]
    if unable:
        raise InputError(
            f"--method {unable[0]} does {methods.METHODS[unable[0]].task} only, and the target "
            f"asks for {task}; methods for {task}: {', '.join(able)}"
        )
    return [name for name in able if (name in asked if asked else _is_quick(name))]


def _is_quick(name: str) -> bool:
    return not methods.METHODS[name].is_slow


def _divisions(options: Compare, frame: pl.DataFrame, target: str, task: str | None) -> list[Parts]:
    """Divide the table once for each split, each by a seed of its own."""
    seeds = range(options.seed, options.seed + options.splits)
    found = [divide(replace(options, seed=seed), frame, target, task) for seed in seeds[:1]]
    if not len(found[0].test.frame):
        raise InputError(
            f"--test-fraction {options.test_fraction:g} holds no row out of "
            f"{len(found[0].target)}: raise it"
        )
    with warnings.catch_warnings():  # the first division has said it
        warnings.simplefilter("ignore")
        return found + [
            divide(replace(options, seed=seed), frame, target, task) for seed in seeds[1:]
        ]


def _trials(
    options: Compare, divisions: Sequence[Parts], names: Sequence[str], target: str
) -> Iterator[Trial]:
    """Fit method after method, so that what is common to its fits is compiled once."""
    for name in (CONSTANT, *names):
        said: set[str] = set()
        for split, parts in enumerate(divisions):
            what = f"{name}, split {split + 1} of {len(divisions)}"
            with progress(what, quiet=options.quiet):
                trial = _trial(name, split, parts, target, options.seed + split, said)
            yield trial
        warn(sorted(f"{name}: {sentence}" for sentence in said))


def _trial(name: str, split: int, parts: Parts, target: str, seed: int, said: set[str]) -> Trial:
    started = time.perf_counter()
    try:
        scores, seconds = _judged(name, parts, target, seed, said)
    except Exception as error:  # the other methods go on
        seconds = time.perf_counter() - started
        return Trial(name, split, None, seconds, describe(error).message)
    return Trial(name, split, scores, seconds, None)


def _judged(
    name: str, parts: Parts, target: str, seed: int, said: set[str]
) -> tuple[dict[str, float], float]:
    """Fit a method (or the constant) and return its metrics and the seconds of the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoding = TableEncoding.fit(parts.train.frame, target, parts.task)
        X, y = encoding.encode(parts.train.frame).X, encoding.target(parts.train.frame)
        X_test, y_test = encoding.encode(parts.test.frame).X, encoding.target(parts.test.frame)
        settings = read_settings(
            None if name == CONSTANT else name,
            hidden=(), epochs=None, batch_size=None, inference=None, assignments=(),
        )  # fmt: skip
        weight = {} if parts.train.weight is None else {"sample_weight": parts.train.weight}
        started = time.perf_counter()
        if name == CONSTANT:
            predictive = _constant(parts.task, y).predict_dist(X_test)
            return score(predictive, None, X_test, y_test)["model"], time.perf_counter() - started
        estimator = make_estimator(settings, name, parts.task, seed)
        estimator.fit(X, y, **weight)
        seconds = time.perf_counter() - started
        said.update(estimator.fit_report_.warnings)
        predictive = predict_rows(estimator, X_test, encoding, parts.test.row_numbers)
        return score(predictive, None, X_test, y_test)["model"], seconds


def _constant(task: str, y: np.ndarray) -> ConstantBaseline | FrequencyBaseline:
    """Fit what any model should beat: the same prediction for every row."""
    if task == CLASSIFICATION:
        return FrequencyBaseline.fit(y, np.unique(y))
    return ConstantBaseline.fit(y)


def summarise(trials: Sequence[Trial], names: Sequence[str]) -> list[Summary]:
    """Average over splits; the best log-likelihood first, what failed last."""
    found = [_summary(name, [trial for trial in trials if trial.method == name]) for name in names]
    failed = [summary for summary in found if summary.log_likelihood is None]
    good = [summary for summary in found if summary.log_likelihood is not None]
    return sorted(good, key=lambda summary: -(summary.log_likelihood or 0.0)) + failed


def _summary(name: str, trials: Sequence[Trial]) -> Summary:
    good = [trial for trial in trials if trial.metrics is not None]
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if not good:
        return Summary(name, 0, None, None, {}, None, failures)
    columns = {key: [(trial.metrics or {})[key] for trial in good] for key in good[0].metrics or {}}
    means = {key: float(np.mean(values)) for key, values in columns.items()}
    spread = np.std(columns["log_likelihood"], ddof=1) if len(good) > 1 else None
    return Summary(
        name,
        len(good),
        means["log_likelihood"],
        None if spread is None else float(spread / np.sqrt(len(good))),
        means,
        float(np.median([trial.seconds for trial in good])),
        failures,
    )


def _draw(path: Path, found: Sequence[Summary], target: str) -> bool:
    """Draw what has a log-likelihood; say whether anything has."""
    from bayesprop.report.comparison_figure import Point, draw

    points = [
        Point(s.method, s.seconds, s.log_likelihood, s.standard_error)
        for s in found
        if s.seconds is not None and s.log_likelihood is not None and s.method != CONSTANT
    ]
    constant = next((s.log_likelihood for s in found if s.method == CONSTANT), None)
    if points:
        draw(path, points, constant=constant, title=target)
    return bool(points)


def _tell(
    options: Compare,
    task: str,
    target: str,
    parts: Parts,
    trials: Sequence[Trial],
    found: Sequence[Summary],
    *,
    is_drawn: bool,
) -> None:
    for summary in found:
        if summary.failures:
            warn([f"{summary.method} failed on {len(summary.failures)} of {options.splits} "
                  f"splits: {summary.failures[0]}"])  # fmt: skip
    if options.as_json:
        print_json(
            {
                "table": options.table,
                "target": target,
                "task": task,
                "splits": options.splits,
                "rows": {"train": len(parts.train.frame), "held_out": len(parts.test.frame)},
                "methods": [summary._asdict() for summary in found],
                "trials": [trial._asdict() for trial in trials],
                "plot": str(options.plot) if is_drawn else None,
            }
        )
        return
    columns = _METRICS[task == CLASSIFICATION]
    rows = [_line(summary, columns) for summary in found]
    title = (
        f"{target}: {options.splits} splits, {len(parts.train.frame)} rows to learn from and "
        f"{len(parts.test.frame)} held out"
    )
    names = ("", "log-likelihood", "± s.e.", *columns.values(), "seconds a fit")
    print_table(title, names, rows, right=range(1, len(names)))
    left_out = [
        name
        for name, method in methods.METHODS.items()
        if task in method.homes and method.is_slow and not options.method
    ]
    note("log-likelihood: nats a held-out row, higher is better; splits share rows, so that the "
         "standard errors are a guide", quiet=options.quiet)  # fmt: skip
    if left_out:
        note(f"left out, because slow: {', '.join(left_out)}; name them with --method",
             quiet=options.quiet)  # fmt: skip
    if is_drawn:
        note(f"plot: {options.plot}", quiet=options.quiet)


def _line(summary: Summary, columns: dict[str, str]) -> tuple[str, ...]:
    return (
        summary.method,
        figure(summary.log_likelihood),
        figure(summary.standard_error),
        *(figure(summary.metrics.get(key)) for key in columns),
        figure(summary.seconds),
    )

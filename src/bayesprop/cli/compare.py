"""`compare`: several methods on one table, on the same held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.actions import Compare
from bayesprop.cli.console import (
    TerminalListener,
    describe,
    limited,
    note,
    print_json,
    print_table,
    progress,
    warn,
)
from bayesprop.cli.options import check_output
from bayesprop.cli.settings import row_request
from bayesprop.cli.trials import SCORES, Summary, Trial, gap, summarise_trials
from bayesprop.metrics import is_mostly_one_class, summarise
from bayesprop.model.task import ORDERED, classes_of
from bayesprop.report.baselines import Baselines
from bayesprop.report.peers import Plans, plans
from bayesprop.table.division import Division
from bayesprop.table.encoding import Rows
from bayesprop.table.errors import did_you_mean
from bayesprop.table_model.deciding import Positive, choice_in_words, positive_of
from bayesprop.table_model.judging import learn
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.predicting import predict_rows
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import (
    RowRequest,
    Settings,
    check_method,
    make_estimator,
    method_of,
    methods_for,
)
from bayesprop.table_model.sources import Target, divided, read_to_learn, target_of
from bayesprop.table_model.target_kind import settings_of_kind

CONSTANT = "constant"
PICTURES = (".svg", ".png")
_METRICS = {
    CLASSIFICATION: {"calibration_error": "calibration error", "accuracy": "accuracy"},
    REGRESSION: {"rmse": "RMSE", "log_likelihood": "log-lik.", "coverage_90": "in 90 %"},
}
_OF_A_RARE_CLASS = {
    "average_precision": "average precision",
    "calibration_error": "calibration error",
}


def run(options: Compare) -> None:
    """Fit every method to every split, show a table and draw a plot."""
    _check(options)
    request = row_request(options)
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = read_to_learn(request)
    target = target_of(request, frame)
    divisions = _divisions(options, request, frame, target)
    first = divisions[0]
    names = _chosen(options.method, first.task)
    encoding = first.encoding()
    train, _ = first.encoded(encoding)
    listener = TerminalListener(quiet=options.quiet)
    kind = settings_of_kind(request, encoding, train, first.frame[target.name], listener)
    classes = np.unique(train.y) if first.task == CLASSIFICATION else None
    peers = Plans((), ()) if options.no_peers else plans(len(train.X), train.X.shape[1], classes)
    asked = [CONSTANT, *names, *(plan.peer.name for plan in peers.each)]
    positive = positive_of(encoding.classes, options.positive, train.y)
    of = Table(options, target.name, first, kind, train.y, peers, positive)
    trials: list[Trial] = []
    try:
        for trial in _trials(of, divisions, asked):
            trials.append(trial)
    except KeyboardInterrupt:
        if trials and not options.as_json:
            _conclude(of, trials, list(dict.fromkeys(trial.method for trial in trials)))
        raise
    summaries = _conclude(of, trials, asked)
    if all(summary.score is None for summary in summaries if summary.method in names):
        raise InputError("every method failed; the reasons stand above")


class Table(NamedTuple):
    """What is compared: the command, the target, a division, and the targets of its rows learnt.

    positive
        Of two classes, the one that the rankings of every split and method are about.
    """

    options: Compare
    target: str
    parts: Division
    kind: dict[str, Any]
    y: np.ndarray
    peers: Plans
    positive: Positive | None

    @property
    def columns(self) -> dict[str, str]:
        """The metrics shown beside the score; no accuracy where the positive class matters."""
        if self.kind.get("target_kind") == ORDERED:
            return {"rps": "RPS", **_METRICS[CLASSIFICATION]}
        is_named = self.options.positive is not None
        if self.positive is not None and (is_named or is_mostly_one_class(self.y)):
            return _OF_A_RARE_CLASS
        return _METRICS[self.parts.task]


def _check(options: Compare) -> None:
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
    for name in asked:
        method_of(name, task, f"the target asks for {task}")
    able = methods_for(task)
    return [one for one in able if (one in asked if asked else not catalogue.METHODS[one].is_slow)]


def _divisions(
    options: Compare, request: RowRequest, frame: pl.DataFrame, target: Target
) -> list[Division]:
    """Divide the table once for each split, each by a seed of its own."""
    seeds = range(options.seed, options.seed + options.splits)
    task = request.task_or(target.task)
    first, *others = (
        divided(replace(request, seed=seed), frame, target.name, task) for seed in seeds
    )
    warn(first.remarks)
    if not first.counts["held_out"]:
        raise InputError(
            f"--test-fraction {options.test_fraction:g} holds no row out of "
            f"{len(first.target)}: raise it"
        )
    return [first, *others]


def _trials(of: Table, divisions: Sequence[Division], names: Sequence[str]) -> Iterator[Trial]:
    """Fit method after method, so that what is common to its fits is compiled once."""
    options = of.options
    for name in names:
        remarks: set[str] = set()
        for split, parts in enumerate(divisions):
            what = f"{name}, split {split + 1} of {len(divisions)}"
            with progress(what, quiet=options.quiet), limited(options.time_limit):
                trial = _trial(name, of, split, parts, remarks)
            yield trial
        warn(sorted(f"{name}: {sentence}" for sentence in remarks))


def _trial(name: str, of: Table, split: int, parts: Division, remarks: set[str]) -> Trial:
    kind, place = of.kind, of.positive and of.positive.place
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoding = parts.encoding()
            train, test = parts.encoded(encoding)
            started = time.perf_counter()
            seed = of.options.seed + split
            predict = _fitted(name, parts.task, kind, train, seed, remarks)
            seconds = time.perf_counter() - started
            predictive = predict_rows(predict, test.X, encoding, test.numbers, place)
            if kind.get("target_kind") == ORDERED:
                order = classes_of(predictive.classes, ORDERED, kind.get("order")).order
                predictive = replace(predictive, order=order)
            return Trial(name, split, summarise(predictive, test.y), seconds, None)
    except Exception as error:  # the other methods go on
        seconds = time.perf_counter() - started
        return Trial(name, split, None, seconds, describe(error).message)


def _fitted(
    name: str, task: str, kind: dict[str, Any], train: Rows, seed: int, remarks: set[str]
) -> Callable[[np.ndarray], Any]:
    """Fit a method, a peer, or the constant that any should beat; return how it predicts."""
    if name in catalogue.METHODS:
        estimator = make_estimator(Settings(kind), name, task, seed)
        remarks.update(learn(estimator, train))
        return estimator.predict_dist
    if task == CLASSIFICATION:
        baselines = Baselines.fit(train.X, train.y, np.unique(train.y), names=(name,))
    else:
        about = {"kind": kind["target_kind"], "exposure": kind.get("exposure")}
        baselines = Baselines.fit(train.X, train.y, **about, names=(name,))
    if name not in baselines.models:
        raise InputError(baselines.peer_notes[-1])
    return lambda x: baselines.predict(x)[name]


def _conclude(of: Table, trials: Sequence[Trial], names: Sequence[str]) -> list[Summary]:
    options, parts = of.options, of.parts
    ratio = parts.counts["held_out"] / parts.counts["train"]
    summaries = summarise_trials(trials, names, parts.task, ratio)
    plot = str(options.plot) if _draw(of, summaries) else None
    for summary in summaries:
        if summary.failures:
            warn([f"{summary.method} failed on {len(summary.failures)} of {options.splits} "
                  f"splits: {summary.failures[0]}"])  # fmt: skip
    if options.as_json:
        print_json(
            {
                "table": options.table,
                "target": of.target,
                "task": parts.task,
                "target_kind": of.kind.get("target_kind"),
                "positive": of.positive and of.positive.label,
                "splits": options.splits,
                "rows": parts.counts,
                "score": SCORES[parts.task][0],
                "methods": [
                    summary._asdict() | {"behind": summary.behind and summary.behind._asdict()}
                    for summary in summaries
                ],
                "trials": [trial._asdict() for trial in trials],
                "plot": plot,
            }
        )
        return summaries
    _show(of, summaries)
    _show_winner(of, trials, summaries, ratio)
    if plot is not None:
        note(f"plot: {plot}", quiet=options.quiet)
    return summaries


def _draw(of: Table, summaries: Sequence[Summary]) -> bool:
    from bayesprop.report.comparison_figure import Point, draw

    is_class = of.parts.task == CLASSIFICATION
    key, unit = ("log_likelihood", ", nats a row") if is_class else ("crps", "")
    points = {
        s.method: Point(s.method, s.seconds, s.score, s.standard_errors.get(key))
        for s in summaries
        if s.seconds is not None and s.score is not None and np.isfinite(s.score)
    }
    constant = points.pop(CONSTANT, None)
    if points:
        title = f"{of.target}: held-out {SCORES[of.parts.task][1]}{unit}; lower is better"
        level = None if constant is None else constant.score
        draw(of.options.plot, list(points.values()), constant=level, title=title)
    return bool(points)


def _show(of: Table, summaries: Sequence[Summary]) -> None:
    options, task = of.options, of.parts.task
    n_train, n_test = of.parts.counts.values()
    title = (
        f"{of.target}: {options.splits} splits, {n_train} rows to learn from and {n_test} held out"
    )
    names = ("", SCORES[task][1], "behind", "± s.e.", *of.columns.values(), "seconds")
    rows = [_line(summary, of.columns) for summary in summaries]
    print_table(title, names, rows, right=range(1, len(names)))
    unit = (
        "log loss: nats a held-out row" if task == CLASSIFICATION else "CRPS: in the target's unit"
    )
    note(f"{unit}, lower is better; behind: the best, on the same rows; its standard error allows "
         "for splits that share rows", quiet=options.quiet)  # fmt: skip
    if of.positive is not None and "average_precision" in of.columns:
        note(choice_in_words(of.positive, options.positive), quiet=options.quiet)
    for sentence in of.peers.notes:
        note(sentence, quiet=options.quiet)
    slow = [name for name in methods_for(task) if catalogue.METHODS[name].is_slow]
    if slow and not options.method:
        note(f"left out, because slow: {', '.join(slow)}; name them with --method",
             quiet=options.quiet)  # fmt: skip


def _show_winner(
    of: Table, trials: Sequence[Trial], summaries: Sequence[Summary], ratio: float
) -> None:
    peers = {plan.peer.name for plan in of.peers.each}
    good = [summary.method for summary in summaries if summary.score is not None]
    peer = next((name for name in good if name in peers), None)
    own = next((name for name in good if name not in {*peers, CONSTANT}), None)
    if peer is None or own is None:
        return
    of_own, of_peer = ([t for t in trials if t.method == name] for name in (own, peer))
    ahead, score = gap(of_own, of_peer, of.parts.task, ratio), SCORES[of.parts.task][1]
    if ahead is None or ahead.error is None:
        return
    by = f"by {score}: {figure(abs(ahead.mean), 2)} ± {figure(ahead.error, 2)}"
    if not ahead.is_clear:
        note(f"{own} and scikit-learn's {peer} cannot be told apart {by}", quiet=of.options.quiet)
    elif ahead.mean > 0.0:
        warn([f"scikit-learn's {peer} predicts better than every method here, {by} below {own}"])
    else:
        note(f"{own} predicts better than scikit-learn's {peer}, {by}", quiet=of.options.quiet)


def _line(summary: Summary, columns: dict[str, str]) -> tuple[str, ...]:
    gap = () if summary.behind is None else summary.behind
    behind = [figure(value, 2) for value in gap] or ["", ""]
    metrics = (figure(summary.metrics.get(key)) for key in columns)
    score, seconds = figure(summary.score), figure(summary.seconds, 2)
    return (summary.method, score, *behind, *metrics, seconds)

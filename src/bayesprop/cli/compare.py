"""`compare`: several methods on one table, on the same held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
from bayesprop.metrics import is_mostly_one_class
from bayesprop.model.task import ORDERED, classes_of
from bayesprop.report.baselines import Baselines
from bayesprop.report.peers import Plans, plans
from bayesprop.table.column_checks import giveaways
from bayesprop.table.division import Division
from bayesprop.table.encoding import Rows, TableEncoding
from bayesprop.table.errors import counted, did_you_mean
from bayesprop.table_model.deciding import Positive, choice_in_words, positive_of
from bayesprop.table_model.judged_again import JudgedAgain, judged_again
from bayesprop.table_model.judging import Judged, learn
from bayesprop.table_model.learning import own_rows
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.predicting import predict_rows, scored
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import (
    RowRequest,
    Settings,
    check_method,
    make_estimator,
    method_of,
    methods_for,
)
from bayesprop.table_model.sources import Target, divided, read_to_learn, table_name, target_of
from bayesprop.table_model.target_kind import settings_of_kind

CONSTANT = "constant"
SPLITS, SHARE = 5, 0.2
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
    options = _checked(options)
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
    test = options.test
    own = None if test is None else own_rows(test, encoding, train, options.group)
    doubts = _doubts(encoding, first, train, own)
    of = Table(options, target.name, first, kind, train.y, peers, positive, own, doubts)
    trials: list[Trial] = []
    judged: dict[str, Judged] = {}
    try:
        for trial, one in _trials(of, divisions, asked):
            trials.append(trial)
            if one is not None and trial.method in names:
                judged.setdefault(trial.method, one)
        again = _judged_again(of, request, encoding, trials, judged)
    except KeyboardInterrupt:
        if trials and not options.as_json:
            _conclude(of, trials, list(dict.fromkeys(trial.method for trial in trials)), [])
        raise
    summaries = _conclude(of, trials, asked, again)
    if all(summary.score is None for summary in summaries if summary.method in names):
        raise InputError("every method failed; the reasons stand above")


class Table(NamedTuple):
    """What is compared: the command, the target, a division, and the targets of its rows learnt.

    positive
        Of two classes, the one that the rankings of every split and method are about.
    own
        Rows to judge by; None: those that a division holds out.
    doubts
        What there is to say of the table.
    """

    options: Compare
    target: str
    parts: Division
    kind: dict[str, Any]
    y: np.ndarray
    peers: Plans
    positive: Positive | None
    own: Rows | None
    doubts: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are learnt, and how many judge."""
        counts = self.parts.counts
        return counts if self.own is None else counts | {"held_out": len(self.own.y)}

    @property
    def columns(self) -> dict[str, str]:
        """The metrics shown beside the score; no accuracy where the positive class matters."""
        if self.kind.get("target_kind") == ORDERED:
            return {"rps": "RPS", **_METRICS[CLASSIFICATION]}
        is_named = self.options.positive is not None
        if self.positive is not None and (is_named or is_mostly_one_class(self.y)):
            return _OF_A_RARE_CLASS
        return _METRICS[self.parts.task]


def _checked(options: Compare) -> Compare:
    """Check what can be checked without a table; return the options with splits and a share."""
    if options.test_fraction == 0.0:
        raise InputError("--test-fraction must be above 0 and at most 0.9, got 0")
    one_way = {"--time": options.time, "--test": options.test}
    single = [name for name, value in one_way.items() if value is not None]
    splits = options.splits or (1 if single else SPLITS)
    if single and splits > 1:
        raise InputError(
            f"--splits must be 1 with {single[0]}, which divides the rows one way only, got"
            f" {splits}: leave --splits out"
        )
    for name in options.method:
        check_method(name)
    if options.plot.suffix not in PICTURES:
        hint = did_you_mean(options.plot.suffix, PICTURES)
        raise InputError(f"--plot {options.plot} must end in {' or '.join(PICTURES)}{hint}")
    check_output(options.plot, "--plot", [options.table, options.test])
    share = SHARE if options.test_fraction is None and options.test is None else None
    return replace(options, splits=splits, test_fraction=options.test_fraction or share)


def _chosen(asked: Sequence[str], task: str) -> list[str]:
    for name in asked:
        method_of(name, task, f"the target asks for {task}")
    able = methods_for(task)
    return [one for one in able if (one in asked if asked else not catalogue.METHODS[one].is_slow)]


def _divisions(
    options: Compare, request: RowRequest, frame: pl.DataFrame, target: Target
) -> list[Division]:
    """Divide the table once for each split, each by a seed of its own."""
    seeds = range(options.seed, options.seed + (options.splits or 1))
    task = request.task_or(target.task)
    first, *others = (
        divided(replace(request, seed=seed), frame, target.name, task) for seed in seeds
    )
    if options.test is None and not first.counts["held_out"]:
        raise InputError(
            f"--test-fraction {options.test_fraction:g} holds no row out of "
            f"{len(first.target)}: raise it"
        )
    return [first, *others]


def _doubts(encoding: TableEncoding, parts: Division, train: Rows, own: Rows | None) -> list[str]:
    """Warn of what makes a table, and the rows of one's own to judge by, doubtful."""
    doubts = [
        *parts.remarks,
        *encoding.questions,
        *giveaways(encoding, parts.frame.filter(~parts.is_test), train),
        *(own.remarks if own is not None else ()),
    ]
    warn(doubts)
    return doubts


def _trials(
    of: Table, divisions: Sequence[Division], names: Sequence[str]
) -> Iterator[tuple[Trial, Judged | None]]:
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


def _trial(
    name: str, of: Table, split: int, parts: Division, remarks: set[str]
) -> tuple[Trial, Judged | None]:
    kind, place = of.kind, of.positive and of.positive.place
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoding = parts.encoding()
            train, test = parts.encoded(encoding)
            test = test if of.own is None else of.own
            started = time.perf_counter()
            seed = of.options.seed + split
            predict = _fitted(name, parts.task, kind, train, seed, remarks)
            seconds = time.perf_counter() - started
            predictive = predict_rows(predict, test.X, encoding, test.numbers, place)
            if kind.get("target_kind") == ORDERED:
                order = classes_of(predictive.classes, ORDERED, kind.get("order")).order
                predictive = replace(predictive, order=order)
            scores, errors = scored({"model": predictive}, test)
            judged = Judged(None, test, scores=scores, errors=errors)
            return Trial(name, split, scores["model"], seconds, None), judged
    except Exception as error:  # the other methods go on
        seconds = time.perf_counter() - started
        return Trial(name, split, None, seconds, describe(error).message), None


def _judged_again(
    of: Table,
    request: RowRequest,
    encoding: TableEncoding,
    trials: Sequence[Trial],
    judged: Mapping[str, Judged],
) -> list[JudgedAgain]:
    """Judge the best method as `fit` does, on new groups and later rows, if columns ask for it."""
    if not judged:
        return []
    best = summarise_trials(trials, list(judged), of.parts.task, 0.0)[0].method
    make = partial(make_estimator, Settings(of.kind), best, of.parts.task, of.options.seed)
    with (
        progress("looking for rows that belong together", quiet=of.options.quiet),
        limited(of.options.time_limit),
    ):
        again = judged_again(request, of.parts, judged[best], make, encoding)
    return [one._replace(remark=f"{best}: {one.remark}") for one in again]


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


def _conclude(
    of: Table, trials: Sequence[Trial], names: Sequence[str], again: Sequence[JudgedAgain]
) -> list[Summary]:
    options, parts = of.options, of.parts
    ratio = of.counts["held_out"] / of.counts["train"]
    summaries = summarise_trials(trials, names, parts.task, ratio)
    plot = str(options.plot) if _draw(of, summaries) else None
    for summary in summaries:
        if summary.failures:
            warn([f"{summary.method} failed on {len(summary.failures)} of {options.splits} "
                  f"splits: {summary.failures[0]}"])  # fmt: skip
    worse = [one.remark for one in again if one.is_worse]
    warn(worse)
    if options.as_json:
        print_json(
            {
                "table": options.table,
                "target": of.target,
                "task": parts.task,
                "target_kind": of.kind.get("target_kind"),
                "positive": of.positive and of.positive.label,
                "splits": options.splits,
                "rows": of.counts,
                "score": SCORES[parts.task][0],
                "methods": [
                    summary._asdict() | {"behind": summary.behind and summary.behind._asdict()}
                    for summary in summaries
                ],
                "trials": [trial._asdict() for trial in trials],
                "plot": plot,
                "judged_again": [one._asdict() for one in again],
                "warnings": [*of.doubts, *worse],
            }
        )
        return summaries
    _show(of, summaries)
    for one in again:
        if not one.is_worse:
            note(one.remark, quiet=options.quiet)
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
    n_train, n_test = of.counts.values()
    judging = f"judged by {n_test} of {table_name(options.test)}"
    if options.test is None:
        judging = f"{n_test} held out, in {counted(options.splits or 1, 'split')}"
    title = f"{of.target}: {n_train} rows to learn from, {judging}"
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

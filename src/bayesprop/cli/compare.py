"""`compare`: several methods on one table, on the same held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION
from bayesprop.cli.actions import Compare
from bayesprop.cli.console import TerminalListener, describe, limited
from bayesprop.cli.options import check_output
from bayesprop.cli.settings import row_request
from bayesprop.cli.trials import CONSTANT, Table, Trial, conclude, summarise_trials
from bayesprop.model.task import ORDERED, classes_of
from bayesprop.report.baselines import Baselines
from bayesprop.report.peers import Plans, plans
from bayesprop.table.column_checks import giveaways
from bayesprop.table.division import Division
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import did_you_mean
from bayesprop.table_model.deciding import positive_of
from bayesprop.table_model.judged_again import JudgedAgain, judged_again
from bayesprop.table_model.judging import Judged, learn
from bayesprop.table_model.learning import own_rows
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
from bayesprop.table_model.sources import Target, divided, read_to_learn, target_of
from bayesprop.table_model.target_kind import settings_of_kind

SPLITS, SHARE = 5, 0.2
PICTURES = (".svg", ".png")


def run(options: Compare) -> None:
    """Fit every method to every split, show a table and draw a plot."""
    options = _checked(options)
    request = row_request(options)
    listener = TerminalListener(quiet=options.quiet)
    with listener.doing(f"reading {options.table}"):
        frame = read_to_learn(request)
    target = target_of(request, frame)
    divisions = _divisions(options, request, frame, target)
    first = divisions[0]
    names = _chosen(options.method, first.task)
    encoding = first.encoding()
    train, _ = first.encoded(encoding)
    kind = settings_of_kind(request, encoding, train, first.frame[target.name], listener)
    classes = np.unique(train.y) if first.task == CLASSIFICATION else None
    peers = Plans((), ()) if options.no_peers else plans(len(train.X), train.X.shape[1], classes)
    asked = [CONSTANT, *names, *(plan.peer.name for plan in peers.each)]
    positive = positive_of(encoding.classes, options.positive, train.y)
    test = options.test
    own = None if test is None else own_rows(test, encoding, train, options.group)
    doubts = [
        *first.remarks,
        *encoding.questions,
        *giveaways(encoding, first.frame.filter(~first.is_test), train),
        *(own.remarks if own is not None else ()),
    ]
    listener.warn(doubts)
    of = Table(options, listener, target.name, first, kind, train.y, peers, positive, own, doubts)
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
            conclude(of, trials, list(dict.fromkeys(trial.method for trial in trials)), [])
        raise
    summaries = conclude(of, trials, asked, again)
    if all(summary.score is None for summary in summaries if summary.method in names):
        raise InputError("every method failed; the reasons stand above")


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


def _trials(
    of: Table, divisions: Sequence[Division], names: Sequence[str]
) -> Iterator[tuple[Trial, Judged | None]]:
    """Fit method after method, so that what is common to its fits is compiled once."""
    for name in names:
        remarks: set[str] = set()
        for split, parts in enumerate(divisions):
            what = f"{name}, split {split + 1} of {len(divisions)}"
            with of.listener.doing(what), limited(of.options.time_limit):
                trial = _trial(name, of, split, parts, remarks)
            yield trial
        of.listener.warn(sorted(f"{name}: {sentence}" for sentence in remarks))


def _trial(
    name: str, of: Table, split: int, parts: Division, remarks: set[str]
) -> tuple[Trial, Judged | None]:
    kind, place = of.kind, of.positive and of.positive.place
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(action="ignore"):
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
        of.listener.doing("looking for rows that belong together"),
        limited(of.options.time_limit),
    ):
        again = judged_again(request, of.parts, judged[best], make, encoding)
    return [one._replace(remark=f"{best}: {one.remark}") for one in again]


def _fitted(
    name: str, task: str, kind: dict[str, Any], train: EncodedRows, seed: int, remarks: set[str]
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

"""Several methods on one table, on the same held-out rows: best first, and how far behind."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION, Params
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.evaluation.baselines import Baselines, Plans, plans
from bayesprop.evaluation.scores import Comparison, Lead, Rival, compare_in_words, side
from bayesprop.metrics import is_mostly_one_class
from bayesprop.model.progress import limited
from bayesprop.model.task import ORDERED, classes_of
from bayesprop.table.column_checks import giveaways
from bayesprop.table.division import Division, factors_of
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import (
    InputError,
    Message,
    Said,
    counted,
    did_you_mean,
    for_terminal,
    one_line,
)
from bayesprop.table_model.answers import Positive, choice_in_words, positive_of
from bayesprop.table_model.evaluate import (
    Judged,
    JudgedAgain,
    judged_again,
    learn,
    predicting,
    scored,
)
from bayesprop.table_model.learning import own_rows
from bayesprop.table_model.listener import current_listener, figure
from bayesprop.table_model.predict import predict_rows
from bayesprop.table_model.request import (
    FitRequest,
    check_method,
    make_estimator,
    method_of,
    methods_for,
    settings_of_kind,
)
from bayesprop.table_model.sources import Table, divided, read_to_learn, table_name, target_of

SPLITS, SHARE, CONSTANT = 5, 0.2, "constant"
PICTURES = (".svg", ".png")
SCORES = {CLASSIFICATION: ("log_loss", "log loss"), REGRESSION: ("crps", "CRPS")}
"""The score that ranks methods: its key and its name; lower is better."""
_METRICS = {
    CLASSIFICATION: {"calibration_error": "calibration error", "accuracy": "accuracy"},
    REGRESSION: {"rmse": "RMSE", "log_likelihood": "log-lik.", "coverage_90": "in 90 %"},
}
_OF_ONE_FIT = {"settings", "cost", "rate", "unit", "with_peers", "shards", "rounds", "cluster"}
"""Arguments of `fit` that say nothing of rows and columns."""
_OF_A_RARE_CLASS = {
    "average_precision": "average precision",
    "calibration_error": "calibration error",
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

    score
        Mean log loss, nats a row, or mean CRPS, y; lower is better. None where no split went well.
    behind
        By how much the best method's score is below; None of the best itself.
    standard_errors
        Of the means of the metrics over splits; empty of one split.
    """

    method: str
    n_splits: int
    score: float | None
    behind: Comparison | None
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
        summary._replace(behind=gap(own[best], own[summary.method], task, ratio))
        if summary.method != best
        else summary
        for summary in every
    ]


def score_of(metrics: dict[str, float], task: str) -> float:
    """Return the evaluation of a trial."""
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


def gap(one: Sequence[Trial], other: Sequence[Trial], task: str, ratio: float) -> Comparison | None:
    """Compare two methods on the splits that went well for both; None where there are none.

    The standard error is corrected for splits that share rows (Nadeau & Bengio 2003); NaN of one.
    """
    of_other = {trial.split: trial.metrics for trial in other}
    pairs = [(trial.metrics, of_other.get(trial.split)) for trial in one]
    gaps = [score_of(b, task) - score_of(a, task) for a, b in pairs if a and b]
    if not gaps or not np.all(np.isfinite(gaps)):
        return None
    n = len(gaps)
    var = np.var(gaps, ddof=1) if n > 1 else np.nan
    return Comparison(float(np.mean(gaps)), float(np.sqrt((1.0 / n + ratio) * var)))


class _Table(NamedTuple):
    """What is compared: the request, the target, the divisions, and the targets of rows learnt.

    positive
        Of two classes, the one that the rankings of every split and method are about.
    own
        Rows to judge by; None: those that a division holds out.
    seconds
        Of every fit; None: as it takes.
    """

    request: FitRequest
    target: str
    divisions: list[Division]
    kind: Params
    y: np.ndarray
    reference: Plans
    positive: Positive | None
    own: EncodedRows | None
    seconds: float | None

    @property
    def task(self) -> str:
        """What the target asks for."""
        return self.divisions[0].task

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of training rows and of evaluation rows."""
        counts = self.divisions[0].counts
        return counts if self.own is None else counts | {"held_out": len(self.own.y)}


@dataclass(frozen=True, repr=False)
class Compared:
    """Methods on one table, on the same held-out rows: `print` shows the best first.

    table
        What was compared.
    methods, trials
        A summary a method, best first, and what came of every fit.
    again
        How the best does on new groups and on later rows, if columns look like it.
    plot
        File of the picture; None where there is none.
    """

    table: _Table
    methods: list[Summary]
    trials: list[Trial]
    again: list[JudgedAgain]
    plot: str | None = None

    @property
    def score(self) -> tuple[str, str]:
        """The score that ranks methods: its key and its name; lower is better."""
        return SCORES[self.table.task]

    @property
    def columns(self) -> dict[str, str]:
        """The metrics shown beside the score; no accuracy where the positive class matters."""
        of = self.table
        if of.kind.get("target_kind") == ORDERED:
            return {"rps": "RPS", **_METRICS[CLASSIFICATION]}
        is_named = of.request.positive is not None
        if of.positive is not None and (is_named or is_mostly_one_class(of.y)):
            return _OF_A_RARE_CLASS
        return _METRICS[of.task]

    @property
    def title(self) -> str:
        """What is predicted, and from how many rows."""
        (n_train, n_test), of = self.table.counts.values(), self.table
        judging = f"evaluated on {n_test} of {table_name(of.request.test)}"
        if of.own is None:
            judging = f"{n_test} held out, in {counted(len(of.divisions), 'split')}"
        return f"{of.target}: {n_train} training rows, {judging}"

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """The cells of a table for people, its header first."""
        header = ("", self.score[1], "behind", "± s.e.", *self.columns.values(), "seconds")
        return [header, *(_line(summary, self.columns) for summary in self.methods)]

    @property
    def frame(self) -> pl.DataFrame:
        """One row a method: its score, how far it is behind, its metrics and seconds."""
        return pl.DataFrame(
            [
                {
                    "method": one.method,
                    self.score[0]: one.score,
                    "behind": one.behind and one.behind.gain,
                    "behind_error": one.behind and one.behind.error,
                    **{key: one.metrics.get(key) for key in self.methods[0].metrics},
                    "seconds": one.seconds,
                }
                for one in self.methods
            ]
        )

    def __repr__(self) -> str:
        width = [max(map(len, cells)) for cells in zip(*self.lines, strict=True)]
        rows = ("  ".join(map(str.ljust, cells, width)).rstrip() for cells in self.lines)
        return "\n".join([one_line(self.title), *rows, *map(str, self.notes)])

    @property
    def notes(self) -> list[Said]:
        """Remarks on what the figures are, and what was left out."""
        task, asked = self.table.task, self.table.request
        unit = "log loss: nats a held-out row"
        if task == REGRESSION:
            unit = "CRPS: in the target's unit"
        notes: list[Said] = [
            f"{unit}, lower is better; behind: the best, on the same rows; its standard error "
            "allows for splits that share rows"
        ]
        if self.table.positive is not None and "average_precision" in self.columns:
            notes.append(choice_in_words(self.table.positive, asked.positive))
        notes += self.table.reference.notes
        slow = [name for name in methods_for(task) if catalogue.METHODS[name].is_slow]
        if slow and not {trial.method for trial in self.trials}.intersection(slow):
            notes.append(Message.of("compare.slow", names=", ".join(slow)))
        return [*notes, *(one.remark for one in self.again if not one.is_worse)]

    @property
    def winner(self) -> tuple[str, bool] | None:
        """A sentence on the best method and the best reference model, and whether that is ahead."""
        of, good = self.table, [one.method for one in self.methods if one.score is not None]
        names = {plan.model.name for plan in of.reference.each}
        best = next((name for name in good if name in names), None)
        own = next((name for name in good if name not in {*names, CONSTANT}), None)
        if best is None or own is None:
            return None
        of_own, of_best = ([t for t in self.trials if t.method == name] for name in (own, best))
        ahead = gap(of_own, of_best, of.task, _ratio(of))
        if ahead is None or np.isnan(ahead.error):
            return None
        rival = Rival(best, (Lead(self.score[1], "", ahead),))
        is_behind = side(rival.leads) == "behind"
        return compare_in_words(rival, rival.title, model=own), is_behind


class InterruptedComparison(KeyboardInterrupt):
    """A comparison was interrupted; `compared` holds the finished part, None if there is none."""

    def __init__(self, compared: Compared | None) -> None:
        super().__init__()
        self.compared = compared


def compare(
    table: Table,
    *,
    method: str | Sequence[str] = (),
    splits: int | None = None,
    test_fraction: float | None = None,
    seed: int = 0,
    no_peers: bool = False,
    time_limit: float | None = None,
    plot: str | Path | None = None,
    **rows: Any,
) -> Compared:
    """Fit several methods with their defaults and evaluate them on the same held-out rows.

    Best first, by log loss or, of numbers, by CRPS; scikit-learn's boosting and, on small tables,
    its Gaussian process stand beside them. A method that fails does not stop the others.

    table
        As `fit` takes it, but whole.
    method
        One method or several. Default: all that are quick.
    splits
        Random splits, the same for every method. None: 5; with `test` or `time` there is one.
    test_fraction
        Share of rows held out. None: 0.2.
    seed
        Fixes the splits and the fits.
    no_peers
        Whether to leave scikit-learn's out.
    time_limit
        Of every fit, seconds.
    plot
        File of a picture (.svg, .png).
    rows
        What `fit` takes to say what is learnt from which rows: target, task, target_kind, exposure,
        order, weights, drop, group, time, std_of, missing, kinds, test, positive.

    Raises ValueError, in one line that names the column or argument.
    """
    names = (method,) if isinstance(method, str) else tuple(method)
    for name in names:
        check_method(name)
    if plot is not None:
        check_picture(Path(plot))
    if others := sorted(rows.keys() & _OF_ONE_FIT):
        raise TypeError(f"compare() takes no {others[0]}, which is of the fit of one method")
    splits, share = _split_plan(splits, test_fraction, rows)
    request = FitRequest.of(table, test_fraction=share, seed=seed, **rows)
    listener = current_listener()
    with listener.doing(f"reading {table_name(request.table)}"):
        frame = read_to_learn(request, table)
    target = target_of(request, frame)
    request = replace(request, group=factors_of(request.group, frame.columns) or None)
    divisions = _divisions(request, frame, target.name, request.task_or(target.task), splits)
    first = divisions[0]
    chosen = _chosen(names, first.task)
    encoding = first.encoding()
    train, _ = first.encoded(encoding)
    kind = settings_of_kind(request, encoding, train, first.frame[target.name])
    classes = np.unique(train.y) if first.task == CLASSIFICATION else None
    reference = Plans((), ()) if no_peers else plans(len(train.X), train.X.shape[1], classes)
    asked = [CONSTANT, *chosen, *(plan.model.name for plan in reference.each)]
    positive = positive_of(encoding.classes, request.positive, train.y)
    own = None
    if request.test is not None:
        own = own_rows(request.test, encoding, train, request.group, request.std_of)
    listener.warn(
        [
            *first.remarks,
            *encoding.questions,
            *giveaways(encoding, first.frame.filter(~first.is_test), train),
            *(own.remarks if own is not None else ()),
        ]
    )
    of = _Table(
        request, target.name, divisions, kind, train.y, reference, positive, own, time_limit
    )
    trials: list[Trial] = []
    judged: dict[str, Judged] = {}
    try:
        for trial, one in _trials(of, asked):
            trials.append(trial)
            if one is not None and trial.method in chosen:
                judged.setdefault(trial.method, one)
        again = _judged_again(of, encoding, trials, judged)
    except KeyboardInterrupt as stop:
        done = list(dict.fromkeys(trial.method for trial in trials))
        raise InterruptedComparison(
            _compared(of, trials, done, [], plot) if done else None
        ) from stop
    return _compared(of, trials, asked, again, plot)


def check_picture(plot: Path) -> None:
    """Refuse a file that no picture can be written to."""
    if plot.suffix not in PICTURES:
        hint = did_you_mean(plot.suffix, PICTURES)
        own = {"got": plot, "kinds": " or ".join(PICTURES), "hint": hint}
        raise InputError(Message.of("plot.kind", **own))


def _split_plan(
    splits: int | None, test_fraction: float | None, rows: Params
) -> tuple[int, float | None]:
    """Return how often to divide the rows, and the share to hold out."""
    if test_fraction == 0.0:
        raise InputError(Message.of("compare.share"))
    single = [name for name in ("time", "test") if rows.get(name) is not None]
    n_splits = splits or (1 if single else SPLITS)
    if single and n_splits > 1:
        raise InputError(Message.of(f"compare.{single[0]}_once", got=n_splits))
    share = SHARE if test_fraction is None and rows.get("test") is None else None
    return n_splits, test_fraction or share


def _chosen(asked: Sequence[str], task: str) -> list[str]:
    for name in asked:
        method_of(name, task, f"the target asks for {task}")
    able = methods_for(task)
    return [one for one in able if (one in asked if asked else not catalogue.METHODS[one].is_slow)]


def _divisions(
    request: FitRequest, frame: pl.DataFrame, target: str, task: str | None, n: int
) -> list[Division]:
    """Divide the table once for each split, each by a seed of its own."""
    seeds = range(request.seed, request.seed + n)
    first, *others = (divided(replace(request, seed=seed), frame, target, task) for seed in seeds)
    if request.test is None and not first.counts["held_out"]:
        own = {"share": request.test_fraction, "n": len(first.target)}
        raise InputError(Message.of("compare.no_rows", **own))
    return [first, *others]


def _trials(of: _Table, names: Sequence[str]) -> Iterator[tuple[Trial, Judged | None]]:
    """Fit method after method, so that what is common to its fits is compiled once."""
    listener = current_listener()
    for name in names:
        remarks: set[str] = set()
        for split, parts in enumerate(of.divisions):
            with (
                listener.doing(f"{name}, split {split + 1} of {len(of.divisions)}"),
                limited(of.seconds),
            ):
                trial = _trial(name, of, split, parts, remarks)
            yield trial
        listener.warn(sorted(f"{name}: {sentence}" for sentence in remarks))


def _trial(
    name: str, of: _Table, split: int, parts: Division, remarks: set[str]
) -> tuple[Trial, Judged | None]:
    kind, place = of.kind, of.positive and of.positive.place
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(action="ignore"):
            encoding = parts.encoding()
            train, test = parts.encoded(encoding)
            test = test if of.own is None else of.own
            started = time.perf_counter()
            predict = _fitted(name, of, train, test, of.request.seed + split, remarks)
            seconds = time.perf_counter() - started
            predictive = predict_rows(predict, test.X, encoding, test.numbers, place)
            if kind.get("target_kind") == ORDERED:
                order = classes_of(
                    cast(ClassPredictive, predictive).classes, ORDERED, kind.get("order")
                ).order
                predictive = replace(predictive, order=order)
            scores, errors = scored({"model": predictive}, test)
            judged = Judged(None, test, scores=scores, errors=errors)
            return Trial(name, split, scores["model"], seconds, None), judged
    except Exception as error:  # the other methods go on
        seconds = time.perf_counter() - started
        is_ours = type(error).__module__.startswith("bayesprop.")
        failure = f"unexpected {type(error).__name__}: {error}"
        failure = one_line(for_terminal(error) if is_ours else failure)
        return Trial(name, split, None, seconds, failure), None


def _judged_again(
    of: _Table, encoding: TableEncoding, trials: Sequence[Trial], judged: Mapping[str, Judged]
) -> list[JudgedAgain]:
    """Evaluate the best method on new groups and later rows, if columns suggest it, as `fit`."""
    if not judged:
        return []
    best = summarise_trials(trials, list(judged), of.task, 0.0)[0].method
    make = partial(make_estimator, of.kind, best, of.task, of.request.seed)
    with current_listener().doing("looking for rows that belong together"), limited(of.seconds):
        again = judged_again(of.request, of.divisions[0], judged[best], make, encoding)
    prefix = {"code": "compare.of_method", "method": best}
    return [one._replace(remark=one.remark.within(**prefix)) for one in again]


def _fitted(
    name: str, of: _Table, train: EncodedRows, test: EncodedRows, seed: int, remarks: set[str]
) -> Callable[[np.ndarray], Distribution]:
    """Fit a method, a reference model, or the constant; return how it predicts the test rows."""
    if name in catalogue.METHODS:
        estimator = make_estimator(of.kind, name, of.task, seed)
        remarks.update(learn(estimator, train))
        return predicting(estimator, test)
    if of.task == CLASSIFICATION:
        baselines = Baselines.fit(train.X, train.y, np.unique(train.y), names=(name,))
    else:
        about = {"kind": of.kind["target_kind"], "exposure": of.kind.get("exposure")}
        baselines = Baselines.fit(train.X, train.y, **about, names=(name,))
    if name not in baselines.models:
        raise InputError(baselines.reference_notes[-1])
    return lambda x: baselines.predict(x)[name]


def _ratio(of: _Table) -> float:
    return of.counts["held_out"] / of.counts["train"]


def _compared(
    of: _Table,
    trials: list[Trial],
    names: Sequence[str],
    again: list[JudgedAgain],
    plot: str | Path | None,
) -> Compared:
    """Summarise and draw what was compared; warn of what failed, and of what is worse elsewhere."""
    summaries = summarise_trials(trials, names, of.task, _ratio(of))
    failed = [
        f"{one.method} failed on {len(one.failures)} of {len(of.divisions)} splits:"
        f" {one.failures[0]}"
        for one in summaries
        if one.failures
    ]
    current_listener().warn([*failed, *(one.remark for one in again if one.is_worse)])
    is_drawn = plot is not None and _draw(of, summaries, Path(plot))
    return Compared(of, summaries, trials, again, str(plot) if is_drawn else None)


def _draw(of: _Table, summaries: Sequence[Summary], path: Path) -> bool:
    """Draw scores against seconds; whether there is anything but the constant."""
    from bayesprop.report.comparison_figure import Point, draw

    key, unit = ("log_likelihood", ", nats a row") if of.task == CLASSIFICATION else ("crps", "")
    points = {
        s.method: Point(s.method, s.seconds, s.score, s.standard_errors.get(key))
        for s in summaries
        if s.seconds is not None and s.score is not None and np.isfinite(s.score)
    }
    constant = points.pop(CONSTANT, None)
    if points:
        title = f"{of.target}: held-out {SCORES[of.task][1]}{unit}; lower is better"
        level = None if constant is None else constant.score
        draw(path, list(points.values()), constant=level, title=title)
    return bool(points)


def _line(summary: Summary, columns: dict[str, str]) -> tuple[str, ...]:
    gap = () if summary.behind is None else summary.behind
    behind = [figure(value, 2) for value in gap] or ["", ""]
    metrics = (figure(summary.metrics.get(key)) for key in columns)
    score, seconds = figure(summary.score), figure(summary.seconds, 2)
    return (summary.method, score, *behind, *metrics, seconds)

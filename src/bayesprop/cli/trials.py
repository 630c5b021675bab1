"""Fits of several methods to the same splits: best first, and how far behind; a table, a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.actions import Compare
from bayesprop.cli.console import print_json, print_table
from bayesprop.metrics import is_mostly_one_class
from bayesprop.model.task import ORDERED
from bayesprop.report.advice import compare_in_words, side
from bayesprop.report.peers import Plans
from bayesprop.report.scores import Comparison, Lead, Rival
from bayesprop.table.division import Division
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import counted
from bayesprop.table_model.deciding import Positive, choice_in_words
from bayesprop.table_model.judged_again import JudgedAgain
from bayesprop.table_model.listener import Listener
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.request import methods_for
from bayesprop.table_model.sources import table_name

CONSTANT, _GAP = "constant", ("mean", "error")
SCORES = {CLASSIFICATION: ("log_loss", "log loss"), REGRESSION: ("crps", "CRPS")}
"""What methods are ordered by, its key and its name; lower is better."""
_METRICS = {
    CLASSIFICATION: {"calibration_error": "calibration error", "accuracy": "accuracy"},
    REGRESSION: {"rmse": "RMSE", "log_likelihood": "log-lik.", "coverage_90": "in 90 %"},
}
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
    listener: Listener
    target: str
    parts: Division
    kind: dict[str, Any]
    y: np.ndarray
    peers: Plans
    positive: Positive | None
    own: EncodedRows | None
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


def conclude(
    of: Table, trials: Sequence[Trial], names: Sequence[str], again: Sequence[JudgedAgain]
) -> list[Summary]:
    """Summarise, draw and show what was compared, or print it as JSON."""
    options, parts, listener = of.options, of.parts, of.listener
    ratio = of.counts["held_out"] / of.counts["train"]
    summaries = summarise_trials(trials, names, parts.task, ratio)
    plot = str(options.plot) if _draw(of, summaries) else None
    for summary in summaries:
        if summary.failures:
            failed = f"{len(summary.failures)} of {options.splits} splits"
            listener.warn([f"{summary.method} failed on {failed}: {summary.failures[0]}"])
    worse = [one.remark for one in again if one.is_worse]
    listener.warn(worse)
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
                    s._asdict() | {"behind": s.behind and dict(zip(_GAP, s.behind, strict=True))}
                    for s in summaries
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
            listener.note(one.remark)
    _show_winner(of, trials, summaries, ratio)
    if plot is not None:
        listener.note(f"plot: {plot}")
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
    notes = [
        f"{unit}, lower is better; behind: the best, on the same rows; its standard error allows "
        "for splits that share rows"
    ]
    if of.positive is not None and "average_precision" in of.columns:
        notes.append(choice_in_words(of.positive, options.positive))
    notes += of.peers.notes
    slow = [name for name in methods_for(task) if catalogue.METHODS[name].is_slow]
    if slow and not options.method:
        notes.append(f"left out, because slow: {', '.join(slow)}; name them with --method")
    for sentence in notes:
        of.listener.note(sentence)


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
    if ahead is None or np.isnan(ahead.error):
        return
    rival = Rival(peer, (Lead(score, "", ahead),))
    words = compare_in_words(rival, rival.title, model=own)
    if side(rival.leads) == "behind":
        of.listener.warn([words])
    else:
        of.listener.note(words)


def _line(summary: Summary, columns: dict[str, str]) -> tuple[str, ...]:
    gap = () if summary.behind is None else summary.behind
    behind = [figure(value, 2) for value in gap] or ["", ""]
    metrics = (figure(summary.metrics.get(key)) for key in columns)
    score, seconds = figure(summary.score), figure(summary.seconds, 2)
    return (summary.method, score, *behind, *metrics, seconds)

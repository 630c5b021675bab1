"""Evaluation of a fit on rows that it has not learnt, beside baselines, and on new groups or times.

Nobody named a column for the latter: rows at random are like those learnt, later ones are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Shaped

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import Predictive
from bayesprop.estimators.stored import method_and_task
from bayesprop.evaluation.baselines import EVERY, SIMPLE, Baselines
from bayesprop.evaluation.calibration import GroupCoverage, coverage_by_group
from bayesprop.evaluation.scores import Comparison, advise
from bayesprop.model.method import KnowsGroups
from bayesprop.model.progress import NothingLearntError, current, following
from bayesprop.table.column_checks import likely_group
from bayesprop.table.columns import YEARS, DateColumn
from bayesprop.table.division import Division, groups_of, latest, moments_of, whole_groups
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import Message, counted, for_terminal, quoted
from bayesprop.table_model.answers import decided
from bayesprop.table_model.listener import Scores, current_listener, figure
from bayesprop.table_model.predict import predict_rows, predictive_of
from bayesprop.table_model.request import FitRequest, outside_support

if TYPE_CHECKING:
    from bayesprop.codec import JsonObject
    from bayesprop.estimators.shell import EstimatorBase
    from bayesprop.table_model.model import TableModel


N_FOLDS = 5
_FOLDS_TIME = 0.8
"""Share of the time left after the fit that folds may take."""
_BASELINES, _PREDICTED = (0.1, 0.5), 0.8
"""Shares of the time to judge by which baselines are fitted, without reference models and with,
and by which rows are predicted."""
_LEAST_MOMENTS = 20


def beside(
    model: TableModel, rows: EncodedRows, baselines: Baselines | None
) -> dict[str, Distribution]:
    """Predict some rows by a table's model, under "model", and by baselines."""
    groups = rows.groups if model.known_groups else None
    predictive = predictive_of(model, rows.X, rows.numbers, rows.X_std, groups)
    inputs = model.saved.fitted.inputs
    others = {} if baselines is None else baselines.predict(rows.X, predictive, inputs)
    return {"model": predictive, **others}


class Scored(NamedTuple):
    """Figures of every prediction of some rows, and standard errors of the model's."""

    scores: Scores
    errors: dict[str, float]


def scored(models: Mapping[str, Distribution], rows: EncodedRows) -> Scored:
    """Compute them."""
    each = {name: metrics.summary(one, rows.y, rows.group) for name, one in models.items()}
    return Scored({name: one.values for name, one in each.items()}, each["model"].errors)


class Evaluation(dict[str, dict[str, float]]):
    """Metrics of "model" and of its baselines, by name, on some rows.

    n_rows
        How many rows these are.
    errors
        Standard errors of the metrics of the model.
    confusion
        Rows by actual (outer list) and predicted class, in their order: "classes", "counts". None
        of numbers.
    decided
        What the decision between two classes does, as `answers.decided` says it; None without.
    coverage_by_group
        Of numbers: known and new groups, and those least likely at 90 %; None without groups.
    """

    def __init__(
        self,
        models: Mapping[str, Distribution],
        rows: EncodedRows,
        decided: JsonObject | None = None,
        is_known: Bool[np.ndarray, " n"] | None = None,
    ) -> None:
        scores, self.errors = scored(models, rows)
        super().__init__(scores)
        self.n_rows, self.decided, predictive = len(rows.y), decided, models["model"]
        self.confusion: JsonObject | None = None
        self.coverage_by_group: tuple[GroupCoverage, ...] | None = None
        if isinstance(predictive, Predictive) and rows.group is not None:
            self.coverage_by_group = coverage_by_group(predictive, rows.y, rows.group, is_known)
        if isinstance(predictive, ClassPredictive):
            shown, counts = predictive.shown, metrics.confusion(predictive, rows.y)
            classes = predictive.classes[shown].tolist()
            self.confusion = {"classes": classes, "counts": counts[np.ix_(shown, shown)].tolist()}


def evaluation(model: TableModel, rows: EncodedRows) -> Evaluation:
    """Evaluate the model of a table, and its stored baselines, on some rows."""
    models = beside(model, rows, model.notes.baselines)
    done = decided(model.notes.rule, model.positive, models["model"], rows.y)
    return Evaluation(models, rows, done, model.saved.fitted.encoding.knows(rows.groups))


class Judged(NamedTuple):
    """Evaluation of a fit on held-out rows.

    baselines
        What any model should beat, fitted to the rows learnt.
    rows
        Those judged; None where none are held out, and so are the others.
    models
        Predictions of these rows, by name: "model", the constant, a line, reference models.
    scores, errors
        Figures of all but the reference models, and standard errors of the model's.
    remarks
        Sentences on what does as well.
    """

    baselines: Baselines | None
    rows: EncodedRows | None = None
    models: Mapping[str, Distribution] | None = None
    scores: Scores | None = None
    errors: Mapping[str, float] = {}
    remarks: tuple[str, ...] = ()


UNJUDGED = Judged(None)
INTERRUPTED = UNJUDGED._replace(remarks=("the fit is not evaluated, because it was interrupted",))


def learn(
    estimator: Any,
    rows: EncodedRows,
    learn_all: Callable[[EstimatorBase, EncodedRows], None] | None = None,
) -> list[str]:
    """Fit an estimator to rows, with their weights and groups; return what there is to say.

    learn_all
        Fits it to a table larger than memory, of which the rows are a sample.
    """
    knows_groups = issubclass(estimator.method_class, KnowsGroups)
    groups = {"groups": rows.groups} if rows.groups is not None and knows_groups else {}
    if knows_groups:
        estimator.are_rows_exchangeable = rows.are_exchangeable
    # The fit's report says the same.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        if learn_all is None:
            estimator.fit(rows.X, rows.y, **rows.weights, **groups, X_std=rows.X_std)
        else:
            learn_all(estimator, rows)
    remarks = list(estimator.fit_report_.warnings)
    if rows.groups is not None and rows.groups.shape[1] > 1 and not knows_groups:
        remarks.append(
            "this method learns no effects of groups: of the columns of groups only the first is"
            " used, to hold whole groups out"
        )
    if rows.group is not None and not knows_groups:
        remarks.append(
            "this method holds no groups out during training: it is evaluated on held-out groups,"
            " but its error bars are those for known groups"
        )
    return remarks


def judge(
    estimator: EstimatorBase,
    encoding: TableEncoding,
    train: EncodedRows,
    test: EncodedRows,
    positive: int | None = None,
    *,
    with_peers: bool = False,
) -> Judged:
    """Fit the baselines of an estimator's task to its training rows, score all on the others.

    positive
        Place of the positive one of two classes.
    """
    judged = _predicted(estimator, encoding, train, test, positive, with_peers=with_peers)
    bad = outside_support(estimator.task_, test.y, encoding.target_name)
    scored = _scored(judged, estimator)
    return scored._replace(remarks=(*bad, *scored.remarks))


def _predicted(
    estimator: EstimatorBase,
    encoding: TableEncoding,
    train: EncodedRows,
    test: EncodedRows,
    positive: int | None,
    *,
    with_peers: bool,
) -> Judged:
    """Predict rows by an estimator, and by the baselines of its training rows."""
    going, with_peers = current(), with_peers and len(test.y) > 0
    going.report(0.0, 1.0, "baselines")
    baselines = Baselines.of(estimator, train.X, train.y, EVERY if with_peers else SIMPLE)
    if not len(test.y):
        return Judged(baselines)
    begun = _BASELINES[with_peers]
    going.report(begun, 1.0, "predictions")
    with following(going.part(begun, _PREDICTED)):
        predict = predicting(estimator, test)
        model = predict_rows(predict, test.X, encoding, test.numbers, positive)
    going.report(_PREDICTED, 1.0, "scores")
    beside = baselines.predict(test.X, model, estimator.fitted_.inputs)
    return Judged(baselines, test, {"model": model, **beside})


def predicting(estimator: EstimatorBase, rows: EncodedRows) -> Callable[..., Distribution]:
    """Return how rows are predicted, with their errors and, where the fit knows some, groups."""
    groups = {} if estimator.encoding_.groups is None else {"groups": rows.groups}
    return partial(estimator.predict_dist, **groups, X_std=rows.X_std)


def _scored(judged: Judged, estimator: EstimatorBase) -> Judged:
    """Add the figures of what was predicted, if anything was, and what there is to say of them."""
    models, rows = judged.models, judged.rows
    if models is None or rows is None:
        return judged
    simple = {name: model for name, model in models.items() if name in ("model", *SIMPLE)}
    method, _ = method_and_task(estimator)
    remarks = tuple(advise(models, rows, method))
    return judged._replace(**scored(simple, rows)._asdict(), remarks=remarks)


def judged_in_folds(
    request: FitRequest,
    division: Division,
    encoding: TableEncoding,
    make: Callable[[], EstimatorBase],
    positive: int | None,
) -> Judged:
    """Evaluate by cross-validation; no evaluation if the time limit is too short."""
    text = f"evaluating {len(division.frame)} rows in {N_FOLDS} folds"
    with current_listener().doing(text, time_share=_FOLDS_TIME) as going:
        try:
            folds = _folds(request, division, make, positive)
        except NothingLearntError as error:
            return UNJUDGED._replace(remarks=(f"the fit is not evaluated: {error}",))
        judged = _scored(_pooled(division, encoding, folds), make())
    if not going.cuts:
        return judged
    remark = f"evaluated by fits with less time than the saved model: {going.cuts[0]}"
    return judged._replace(remarks=(*judged.remarks, remark))


def _folds(
    request: FitRequest, division: Division, make: Callable[[], EstimatorBase], positive: int | None
) -> list[Judged]:
    going, folds = current(), []
    for k, part in enumerate(division.in_folds(N_FOLDS, request.seed)):
        here, name = (k / N_FOLDS, (k + 1) / N_FOLDS), f"fold {k + 1} of {N_FOLDS}"
        with following(going.part(*here, name, time_share=1.0 / (N_FOLDS - k))):
            encoding, estimator = part.encoding(), make()
            train, test = part.encoded(encoding)
            learn(estimator, train)
            peers = request.with_peers
            folds.append(_predicted(estimator, encoding, train, test, positive, with_peers=peers))
    return folds


def _pooled(division: Division, encoding: TableEncoding, folds: list) -> Judged:
    """Put together what each fold predicts, in the order of the rows."""
    rows, _ = division.encoded(encoding)
    numbers = np.concatenate([fold.rows.numbers for fold in folds])
    ends = np.cumsum([len(fold.rows.y) for fold in folds])[:-1]
    places = np.split(np.argsort(np.argsort(numbers, kind="stable")), ends)
    shared = set.intersection(*(set(fold.models) for fold in folds))
    models = {
        name: pooled([fold.models[name] for fold in folds], places)
        for name in folds[0].models
        if name in shared
    }
    classes = np.array(encoding.classes) if encoding.classes else None
    before = folds[-1].baselines
    baselines = replace(
        before.again(rows.X, rows.y, classes), reference_notes=before.reference_notes
    )
    return Judged(baselines, rows.of(np.isin(rows.numbers, numbers)), models)


class JudgedAgain(NamedTuple):
    """How a fit does on rows of groups that it has not seen, or on later ones.

    option
        What names the column for it: "group" or "time".
    n_groups
        Of the rows judged; 0 of later ones.
    remark
        A sentence; `is_worse` where it is a warning.
    """

    column: str
    option: str
    n_groups: int
    n_rows: int
    scores: Scores
    is_worse: bool
    remark: Message

    @property
    def facts(self) -> JsonObject:
        """The fields as JSON has them, the remark in words."""
        return {**self._asdict(), "remark": for_terminal(self.remark)}


class _Suspect(NamedTuple):
    """A column that rows should be held out by, and a sentence on what it seems to be.

    labels
        Group of every row; None: its moments order them.
    """

    column: str
    option: str
    seems: str
    labels: Shaped[np.ndarray, " n"] | None


def judged_again(
    request: FitRequest,
    division: Division,
    judged: Judged,
    make: Callable[[], EstimatorBase],
    encoding: TableEncoding,
) -> list[JudgedAgain]:
    """Fit again without some groups, and without the latest rows, of columns that look like it."""
    choices = (request.group, request.time, request.test)
    if any(a is not None for a in choices) or judged.rows is None or judged.scores is None:
        return []
    suspects = _suspects(division, encoding)
    again = (_judged(suspect, request, division, judged, make) for suspect in suspects)
    return [one for one in again if one is not None]


def _suspects(division: Division, encoding: TableEncoding) -> Iterator[_Suspect]:
    frame, nominal = division.inputs, encoding.nominal_columns
    likely = likely_group(frame, division.target.columns[0], nominal)
    if likely is not None:
        seems = f"rows of one {quoted(likely.column)} seem to belong together ({likely.why})"
        yield _Suspect(likely.column, "group", seems, groups_of(frame[likely.column]))
    dates = (one for one in encoding.columns if isinstance(one, DateColumn) and YEARS in one.parts)
    date = next((one for one in dates if not one.missing), None)
    if date is not None and frame[date.name].n_unique() >= _LEAST_MOMENTS:
        yield _Suspect(date.name, "time", f"{quoted(date.name)} orders the rows in time", None)


def _judged(
    suspect: _Suspect,
    request: FitRequest,
    division: Division,
    before: Judged,
    make: Callable[[], EstimatorBase],
) -> JudgedAgain | None:
    if before.rows is None or before.scores is None:
        return None
    (name, option, seems, labels), n = suspect, len(before.rows.y)
    try:
        if labels is None:
            is_test = latest(moments_of(division.frame[name]), n, name)
        else:
            is_test = whole_groups(labels, n, request.seed, name)
        again = division._replace(is_test=is_test)
        encoding, estimator = again.encoding(), make()
        train, test = again.encoded(encoding)
        learn(estimator, train)
        new = judge(estimator, encoding, train, test)
    except ValueError as error:  # what can be learnt of all groups may not of some
        which = "new ones" if labels is not None else "later rows"
        reason = for_terminal(error)
        remark = Message.of("again.unjudged", name, seems=seems, which=which, reason=reason)
        return JudgedAgain(name, option, 0, 0, {}, is_worse=False, remark=remark)
    if new.scores is None:
        return None
    unsure = [one.errors.get("log_likelihood", np.inf) for one in (before, new)]
    worse = before.scores["model"]["log_likelihood"] - new.scores["model"]["log_likelihood"]
    is_worse = worse > 0.0 and Comparison(worse, float(np.linalg.norm(unsure))).is_clear
    n_groups = 0 if labels is None else len(np.unique(labels[is_test]))
    remark = _remark(suspect, n_groups, len(test.y), before.scores, new.scores, is_worse)
    return JudgedAgain(name, option, n_groups, len(test.y), new.scores, is_worse, remark)


def _remark(
    suspect: _Suspect, n_groups: int, n_rows: int, before: Scores, new: Scores, is_worse: bool
) -> Message:
    key, what = "accuracy", "accuracy"
    if "coverage_90" in new["model"]:
        key, what = "coverage_90", "share inside 90 % intervals"
    figures = ", ".join(
        f"{label} {figure(new['model'][one])} (rows at random: {figure(before['model'][one])})"
        for one, label in ((key, what), ("log_likelihood", "log-likelihood"))
    )
    if not is_worse:
        kind = "the latest rows" if suspect.labels is None else "new groups"
        text = f"hold-out of {kind} by {quoted(suspect.column)}: no loss of accuracy: {figures}"
        return Message.of("said", suspect.column, text=text)
    which, those = f"{n_rows} rows of {counted(n_groups, 'held-out group')}", "of new groups"
    if suspect.labels is None:
        which, those = f"the {n_rows} latest rows, by a fit to the rows before", "later rows"
    own = {"seems": suspect.seems, "which": which, "figures": figures, "those": those}
    return Message.of(f"again.{suspect.option}", suspect.column, **own)

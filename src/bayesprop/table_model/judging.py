"""How good a fit is, and whether anything simpler does as well: on rows that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bayesprop.distributions.pooled import pooled
from bayesprop.estimators.stored import method_and_task
from bayesprop.evaluation.advice import advise
from bayesprop.evaluation.baselines import EVERY, SIMPLE, Baselines
from bayesprop.model.method import LeavesGroupsOut
from bayesprop.model.progress import NothingLearntError, current, following
from bayesprop.table.division import Division
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table_model.listener import current_listener
from bayesprop.table_model.plain_values import Scores
from bayesprop.table_model.predicting import predict_rows, scored
from bayesprop.table_model.request import FitRequest
from bayesprop.table_model.target_kind import outside_support

N_FOLDS = 5
_FOLDS_TIME = 0.8
"""Share of the time left after the fit that folds may take."""
_BASELINES, _PREDICTED = (0.1, 0.5), 0.8
"""Shares of the time to judge by which baselines are fitted, without reference models and with,
and by which rows are predicted."""


class Judged(NamedTuple):
    """What came of judging a fit on rows that it has not seen.

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
    models: Mapping[str, Any] | None = None
    scores: Scores | None = None
    errors: Mapping[str, float] = MappingProxyType({})
    remarks: tuple[str, ...] = ()


UNJUDGED = Judged(None)
INTERRUPTED = UNJUDGED._replace(remarks=("the fit is not judged, because it was interrupted",))


def learn(
    estimator: Any, rows: EncodedRows, learn_all: Callable[[Any, EncodedRows], None] | None = None
) -> list[str]:
    """Fit an estimator to rows, with their weights and groups; return what there is to say.

    learn_all
        Fits it to a table larger than memory, of which the rows are a sample.
    """
    judges = issubclass(estimator.method_class, LeavesGroupsOut)
    groups = {"groups": rows.group} if rows.group is not None and judges else {}
    # The fit's report says the same.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        if learn_all is None:
            estimator.fit(rows.X, rows.y, **rows.weights, **groups)
        else:
            learn_all(estimator, rows)
    remarks = list(estimator.fit_report_.warnings)
    if rows.group is not None and not judges:
        remarks.append(
            "this method leaves no groups out while it learns: the groups held out judge it, but"
            " its error bars are those of the groups that it knows"
        )
    return remarks


def judge(
    estimator: Any,
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
    estimator: Any,
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
        model = predict_rows(estimator.predict_dist, test.X, encoding, test.numbers, positive)
    going.report(_PREDICTED, 1.0, "scores")
    beside = baselines.predict(test.X, model, estimator.fitted_.inputs)
    return Judged(baselines, test, {"model": model, **beside})


def _scored(judged: Judged, estimator: Any) -> Judged:
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
    make: Callable[[], Any],
    positive: int | None,
) -> Judged:
    """Judge every row by a fit to the other folds; none where the time is too short for that."""
    text = f"judging {len(division.frame)} rows in {N_FOLDS} folds"
    with current_listener().doing(text, time_share=_FOLDS_TIME) as going:
        try:
            folds = _folds(request, division, make, positive)
        except NothingLearntError as error:
            return UNJUDGED._replace(remarks=(f"the fit is not judged: {error}",))
        judged = _scored(_pooled(division, encoding, folds), make())
    if not going.cuts:
        return judged
    remark = f"judged by fits of less time than the one that is saved: {going.cuts[0]}"
    return judged._replace(remarks=(*judged.remarks, remark))


def _folds(
    request: FitRequest, division: Division, make: Callable[[], Any], positive: int | None
) -> list[Any]:
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


def _pooled(division: Division, encoding: TableEncoding, folds: list[Any]) -> Judged:
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

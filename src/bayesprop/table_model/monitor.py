"""Whether a model still holds for new rows: what has changed, and whether intervals still cover."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Shaped

from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.evaluation.shift import Check, Learnt, least, proportions, with_alarms, worse
from bayesprop.evaluation.words import label
from bayesprop.table.columns import YEARS, DateColumn
from bayesprop.table.encoded import EncodedColumn, LevelsColumn
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import InputError, Message, one_line, refusals_of_estimator
from bayesprop.table.target_encoded import TargetEncodedColumn, TextColumn
from bayesprop.table_model.listener import current_listener, figure
from bayesprop.table_model.predict import predictive_of
from bayesprop.table_model.sources import Table, table_name

if TYPE_CHECKING:
    from bayesprop.table_model.model import TableModel

MOST_LEARNT = 2000
"""Rows that the copula of the inputs learns from, at most."""
ALARM_RATE = 0.01
FEWEST = 20
"""Rows below which nothing is tested."""
_COVERAGE = 0.9


class Monitoring(NamedTuple):
    """What has moved since the fit.

    checks
        Every comparison; `pandas.DataFrame` of them shows one line each.
    n_rows, n_outside
        New rows, and those with a number outside the range of nearly all rows of the fit.
    n_outcomes
        Rows whose target is known.
    rate
        Probability of any alarm where nothing has changed, at most.
    """

    checks: list[Check]
    n_rows: int
    n_outside: int
    n_outcomes: int
    rate: float

    @property
    def alarms(self) -> list[str]:
        """A sentence on each check that failed."""
        return [
            f"{label(one.what)} changed: {figure(one.learnt)} in the fit, {figure(one.now)} now "
            f"(p = {one.p:.1g})"
            for one in self.checks
            if one.alarm
        ]


def monitor(model: TableModel, table: Table, rate: float) -> Monitoring:
    """Compare the rows of a table with those of the fit."""
    if not (isinstance(rate, Real) and 0.0 < float(rate) < 1.0):
        raise InputError(Message.of("monitor.rate", got=one_line(str(rate))))
    listener, what, target = current_listener(), table_name(table), model.encoding.target_name
    with listener.doing(f"reading {what}"):
        frame = model.read(table)
        encoded = model.encode(frame)
    if len(frame) < FEWEST:
        raise InputError(Message.of("monitor.few", what=what, n=len(frame), least=FEWEST))
    listener.warn(encoded.warnings)
    with listener.doing(f"comparing {len(frame)} rows"), refusals_of_estimator(ValueError):
        checks, outside = _of_inputs(model, frame, encoded.X)
        n_outcomes = int(frame[target].count()) if target in frame.columns else 0
        if n_outcomes >= FEWEST:
            rows = model.rows_of(frame, table)
            if (seen := model.seen_before(rows.y, table)) is not None:
                listener.warn([f"{seen}: coverage and scores flatter it"])
            try:
                predictive = predictive_of(model, rows.X, rows.numbers, rows.X_std)
                checks += _of_outcomes(model, predictive, rows.y)
            except InputError as refusal:  # a value too far to predict from, itself an alarm
                listener.warn([f"coverage and scores are not compared: {refusal}"])
        elif n_outcomes:
            listener.warn([Message.of("monitor.few_outcomes", n=n_outcomes, least=FEWEST)])
    return Monitoring(with_alarms(checks, rate), len(frame), int(outside.sum()), n_outcomes, rate)


def since_the_fit(model: TableModel, rows: EncodedRows, predictive: Distribution) -> list[str]:
    """Return the alarms of rows that are predicted already, for a report."""
    if len(rows.y) < FEWEST or model.saved.fitted.inputs is None:
        return []
    checks, outside = _of_inputs(model, None, rows.X)
    checks = with_alarms([*checks, *_of_outcomes(model, predictive, rows.y)], ALARM_RATE)
    found = Monitoring(checks, len(rows.y), int(outside.sum()), len(rows.y), ALARM_RATE)
    return [f"Compared with the fit, {alarm}." for alarm in found.alarms]


def _of_inputs(
    model: TableModel, frame: pl.DataFrame | None, X: Float[np.ndarray, "n d"]
) -> tuple[list[Check], Bool[np.ndarray, " n"]]:
    """Compare every column; return the checks, and which rows hold a number outside the range.

    frame
        Tells the missing levels from those that are new; None: neither is compared.
    """
    knots, notes, at = model.saved.fitted.known_inputs.knots, model.notes, 0
    n_rows = max(1, notes.n_fitted or MOST_LEARNT)
    unseen = {} if frame is None else model.encoding.unseen(frame)
    checks, outside, n_known = list[Check](), np.zeros(len(X), bool), min(n_rows, MOST_LEARNT)
    for column in model.encoding.columns:
        width, is_new = len(column.feature_names), unseen.get(column.name, np.zeros(len(X), bool))
        here, at = range(at, at + width - column.marked), at + width
        if frame is not None or not isinstance(column, LevelsColumn):
            gap, share = np.isnan(X[:, here[0]]) & ~is_new, notes.missing.get(column.name, 0.0)
            checks.append(proportions(f"missing values of {column.name}", share, n_rows, gap))
        if isinstance(column, LevelsColumn) and column.name in unseen:
            # What was never seen in n rows is at most this share of all, on average.
            share = min(1.0, len(column.known) / n_rows)
            one = proportions(f"new levels of {column.name}", share, n_rows, is_new)
            checks.append(one if is_new.mean() > share else one._replace(p=1.0))
        places, known = _compared(column, here, knots)
        own = list[Check]()
        for place, quantiles in zip(places, known.T, strict=True):
            name, learnt = column.feature_names[place - here[0]], Learnt(quantiles, n_known)
            values = X[~np.isnan(X[:, place]), place]
            if not len(values):
                continue
            if np.isin(values, (0.0, 1.0)).all() and np.isin(quantiles, (0.0, 1.0)).all():
                own.append(learnt.share(name, values == 1.0))
                continue
            own.append(learnt.number(name, values))
            outside |= (X[:, place] < quantiles[0]) | (X[:, place] > quantiles[-1])
        checks += [least(own)] if own else []
    return checks, outside


def _compared(
    column: EncodedColumn, here: range, knots: Float[np.ndarray, "q d"]
) -> tuple[range, Float[np.ndarray, "q k"]]:
    """Return which places of a column are compared, and quantiles of the rows of the fit there.

    Not those of dates, as later rows have later dates, and of text. The rows of a fit are encoded
    by what others tell of their levels: of many levels new rows are like the levels themselves.
    """
    if isinstance(column, TextColumn) or (isinstance(column, DateColumn) and YEARS in column.parts):
        here = here[:0]
    if isinstance(column, TargetEncodedColumn):
        means = column.quantiles(MOST_LEARNT)
        return here[-1 - means.shape[1] : -1], means
    return here, knots[:, here]


def _of_outcomes(
    model: TableModel, predictive: Distribution, y: Shaped[np.ndarray, " n"]
) -> list[Check]:
    """Compare coverage and scores with those of the rows that the fit held out."""
    notes, checks = model.notes, list[Check]()
    noted = {} if notes.held_out is None else notes.held_out["model"]
    held_out = {name: one for name, one in noted.items() if one is not None}
    if isinstance(predictive, ClassPredictive):
        hits, name = predictive.label == y, "accuracy"
        scores = {
            name: (hits.astype(float), True),
            "log_likelihood": (predictive.log_prob(y), True),
        }
        nominal, is_two_sided = float(np.mean(predictive.confidence)), name not in held_out
    else:
        scores = {"crps": (predictive.crps(y), False)}
        low, high = np.moveaxis(predictive.interval(_COVERAGE), -1, 0)
        hits, name, nominal = (low <= y) & (y <= high), "coverage_90", _COVERAGE
        is_two_sided = True
    if is_two_sided:
        learnt = min(max(held_out.get(name, nominal), 0.0), 1.0)  # a file may say anything
        error = notes.errors.get(name, 0.0)
        n = max(1, notes.rows.get("held_out", 1)) if name in held_out else np.inf
        n = max(1.0, learnt * (1.0 - learnt) / error**2) if error else n
        checks.append(proportions(name, learnt, n, hits))
    for name, (now, higher) in scores.items():
        if name in held_out and name in notes.errors:
            checks.append(worse(name, held_out[name], notes.errors[name], now, higher=higher))
    return checks

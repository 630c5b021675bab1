"""Which rows of a table to measure next, and why."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bayesprop.active_learning.acquisition import (
    ACQUISITIONS,
    EXPECTED_ENTROPY_REDUCTION,
    LOG_EXPECTED_IMPROVEMENT,
    PROBABILITY,
    RANDOM,
)
from bayesprop.active_learning.batches import BATCHES, Batch, Chosen
from bayesprop.active_learning.goal import (
    DIRECTIONS,
    Direction,
    Goal,
    best_of,
    log_expected_improvement,
    probability_of_improvement,
    score,
)
from bayesprop.active_learning.learner import ActiveLearner
from bayesprop.codec import JsonObject
from bayesprop.distributions.predictive import Predictive
from bayesprop.report.effects import features_of
from bayesprop.report.unsure import unlike_training
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import InputError, Message, at_rows, close_to, one_line
from bayesprop.table.values import as_numbers
from bayesprop.table_model.answers import NumberAnswers, answers_of
from bayesprop.table_model.conditions import Requirement, log_probability_of_all, meets
from bayesprop.table_model.listener import current_listener, figure
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.predict import predictive_of, refusals_by_name
from bayesprop.table_model.sources import Table, column, like, table_name

FAR_STDS = 2.0
"""Of the training rows, from which a value of a candidate is named."""
MOST_PLANNED = 100
"""The last planned rows of a table, whose results count as known when others are chosen."""
_BEST, _WORST, _ASKED = "the best so far", "the worst so far", "the value asked for"
_NONE_MET = (
    "no measured row is likely to meet what is required: until one is, the value to beat is the "
    "worst so far"
)
_REVERSED = {"max": Goal("min"), "min": Goal("max")}
_NO_DOUBT = (
    "every candidate scores 0: the model has no epistemic uncertainty, and the choice is random"
)


class SuggestRequest(NamedTuple):
    """What is asked of suggestions, as `TableModel.suggest` takes it.

    requires
        Conditions on further outputs. The score of a row is multiplied by the probability that it
        meets all, a logarithm is added to (Gardner et al. 2014; Gelbart et al. 2014).
    known
        Rows that are not to be suggested again, with a target or planned. None: those measured.
    source
        What messages call the table. None: its file, or the frame.
    """

    n: int
    acquisition: str | None
    batch: str
    cost: str | None
    where: Sequence[str]
    reference: Table | None
    seed: int
    goal: str | None = None
    target_value: float | None = None
    measured: Table | None = None
    requires: Sequence[Requirement] = ()
    known: Table | None = None
    source: str | None = None

    @property
    def by(self) -> str:
        """Name of the acquisition: the one asked for, or the usual one."""
        if self.acquisition is not None:
            return str(self.acquisition)
        if self.goal is None:
            return "mutual-information"
        return LOG_EXPECTED_IMPROVEMENT if self.target_value is None else PROBABILITY

    def check(self) -> None:
        """Refuse what no table is needed for."""
        if not isinstance(self.n, int | np.integer) or self.n < 1:
            raise InputError(Message.of("suggest.n", got=repr(self.n)))
        if self.by not in ACQUISITIONS:
            meant = close_to(self.by, ACQUISITIONS)
            own = {"name": one_line(self.by), "known": ", ".join(ACQUISITIONS)}
            raise InputError(Message.of("acquisition.unknown", meant=meant, **own))
        self._check_goal(ACQUISITIONS[self.by].goal)
        if self.batch not in ("auto", *BATCHES):
            known = ", ".join(("auto", *BATCHES))
            raise InputError(Message.of("batch.unknown", known=known, got=one_line(self.batch)))
        needs = self.by == EXPECTED_ENTROPY_REDUCTION
        if needs != (self.reference is not None):
            raise InputError(Message.of("reference.alone"))

    def _check_goal(self, needed: bool | None) -> None:
        if self.goal is None:
            asked = self.target_value, self.measured, self.requires or None
            for name, given in zip(("target_value", "measured", "requires"), asked, strict=True):
                if given is not None:
                    raise InputError(Message.of("goal.alone", settings=name))
            if needed:
                raise InputError(Message.of("goal.needed", name=self.by))
            return
        if self.goal not in DIRECTIONS:
            raise InputError(Message.of("goal.unknown", got=one_line(str(self.goal))))
        if needed is False:
            known = ", ".join(name for name, one in ACQUISITIONS.items() if one.goal is not False)
            raise InputError(Message.of("goal.other_acquisition", name=self.by, known=known))
        if self.requires and not ACQUISITIONS[self.by].beats:
            known = ", ".join(name for name, one in ACQUISITIONS.items() if one.beats)
            raise InputError(Message.of("requires.acquisition", name=self.by, known=known))
        if self.target_value is not None and self.measured is not None:
            raise InputError(Message.of("goal.twice"))
        value = 0.0 if self.target_value is None else self.target_value
        if not (isinstance(value, Real) and np.isfinite(float(value))):
            raise InputError(Message.of("goal.value", got=one_line(str(value))))


class Suggestions(NamedTuple):
    """Rows worth measuring, best first.

    frame
        These rows of the table, as a frame of its kind, with `records` beside them; a column that
        the table has already is called "suggested_..." there.
    records
        Of each row its number, score, prediction, and why.
    unit
        Of the scores; empty where they have none.
    n_candidates
        Rows of the table.
    acquisition
        What the scores are.
    best
        With a goal the value to beat, y; None: not known, or no goal.
    """

    frame: Any
    records: list[JsonObject]
    unit: str
    n_candidates: int
    acquisition: str = "mutual-information"
    best: float | None = None

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()


class _Candidates(NamedTuple):
    """The table of candidates: as it came, encoded, what each costs, which may be chosen.

    log_met
        Log probability that each meets what is required; None: nothing is.
    """

    frame: pl.DataFrame
    X: Float[np.ndarray, "n k"]
    cost: Float[np.ndarray, " n"] | None
    allowed: Bool[np.ndarray, " n"]
    log_met: Float[np.ndarray, " n"] | None
    warnings: list[Message]


def suggest(model: TableModel, table: Table, request: SuggestRequest) -> Suggestions:
    """Score the candidates, choose, and say why."""
    request.check()
    listener, what = current_listener(), table_name(request.source or table)
    with listener.doing(f"reading {what}"):
        if request.measured is not None and request.known is None:
            request = request._replace(known=model.read(request.measured))
        candidates = _candidates(request, model, table)
        goal, beaten = _goal(request, model)
    with listener.doing(f"scoring {len(candidates.frame)} candidates"):
        chosen = _choose(request, model, candidates, goal)
    no_doubt = [] if np.any(chosen.pool_scores != 0.0) else [_NO_DOUBT]
    none_met = [_NONE_MET] if beaten == _WORST else []
    listener.warn([*candidates.warnings, *no_doubt, *none_met])
    unit, own = ACQUISITIONS[request.by].unit, model.notes.unit
    units = {"y": own or unit, "y²": f"({own})²" if own else unit, "log y": own and f"log {own}"}
    unit = units.get(unit, unit)
    records = _records(model, candidates, chosen, unit, goal, beaten, request)
    rows, added = candidates.frame[chosen.indices], pl.DataFrame(records)
    names: dict[str, str] = {}
    for name in added.columns:
        while names.get(name, name) in rows.columns:
            names[name] = f"suggested_{names.get(name, name)}"
    frame = like(table, rows.hstack(added.rename(names)), chosen.indices)
    best = None if goal is None else goal.best
    return Suggestions(frame, records, unit, len(candidates.frame), request.by, best)


def _goal(request: SuggestRequest, model: TableModel) -> tuple[Goal | None, str]:
    """Return what is sought, with the value to beat where it is known, and its name.

    The best so far is that of the measured rows that meet what is required with a probability of a
    half at least. Where none does, any result is a gain: the worst (a deviation from Gelbart et al.
    2014, who then score the probability alone, which says nothing of how several rows differ).
    """
    if request.goal is None:
        return None, ""
    if model.encoding.classes:
        raise InputError(Message.of("goal.classes", model.encoding.target_name))
    goal, beaten = Goal(cast(Direction, request.goal), request.target_value), _ASKED
    if goal.best is None and (measured := _measured(request, model)) is not None:
        X, is_met = measured
        seeks, beaten = (goal, _BEST) if is_met.any() else (_REVERSED[goal.direction], _WORST)
        goal = goal._replace(best=best_of(model.estimator, X[is_met | ~is_met.any()], seeks))
    if goal.best is None and ACQUISITIONS[request.by].beats:
        raise InputError(Message.of("goal.no_best"))
    return goal, beaten


def measured_rows(
    model: TableModel,
    frame: pl.DataFrame,
    requires: Sequence[Requirement],
    source: Table | None = None,
) -> tuple[EncodedRows, Bool[np.ndarray, " n"]]:
    """Return the rows of a table that have a target, and which probably meet what is required.

    source
        Where the table came from, for messages.
    """
    rows = model.rows_of(frame, source)
    return rows, log_probability_of_all(requires, frame[rows.numbers - 1]) >= np.log(0.5)


def _measured(
    request: SuggestRequest, model: TableModel
) -> tuple[Float[np.ndarray, "n k"], Bool[np.ndarray, " n"]] | None:
    """Return the measured rows, those named or those of the fit, and which meet what is required.

    None where they are not known.
    """
    if request.measured is not None:
        frame = model.read(request.measured if request.known is None else request.known)
        rows, is_met = measured_rows(model, frame, request.requires, request.measured)
        return rows.X, is_met
    if model.fitted is None or request.requires:
        return None
    judged = model.fitted.judged.rows
    X = np.concatenate([model.fitted.train.X, *([] if judged is None else [judged.X])])
    return X, np.ones(len(X), dtype=bool)


def _candidates(request: SuggestRequest, model: TableModel, table: Table) -> _Candidates:
    frame = model.read(table)
    if not len(frame):
        raise InputError(Message.of("predict.no_rows", what=table_name(table)))
    encoded = model.encode(frame)
    cost = _costs(request, frame, table)
    source = request.source or table
    met = [meets(frame, text, source) for text in request.where]
    allowed = np.all([np.ones(len(frame), dtype=bool), *met], axis=0)
    if not allowed.any():
        raise InputError(Message.of("suggest.where", where=table_name(source)))
    if request.known is not None:
        known = {_key(row) for row in model.encode(model.read(request.known)).X.tolist()}
        allowed &= np.array([_key(row) not in known for row in encoded.X.tolist()], dtype=bool)
        if not allowed.any():
            code = "suggest.known" if request.source is None else "make.known"
            raise InputError(Message.of(code, where=table_name(source)))
    log_met = _log_met(request, frame)
    return _Candidates(frame, encoded.X, cost, allowed, log_met, encoded.warnings)


def _costs(
    request: SuggestRequest, frame: pl.DataFrame, source: Table | None
) -> Float[np.ndarray, " n"] | None:
    """Return what each row costs; None: all cost the same."""
    if request.cost is None:
        return None
    values = column(frame, str(request.cost), source)
    costs = as_numbers(values).fill_null(float("nan")).to_numpy()
    if not (is_cost := np.isfinite(costs) & (costs > 0.0)).all():
        at = at_rows(values, pl.Series(~is_cost))
        raise InputError(Message.of("suggest.cost", request.cost, where=at))
    return costs


def _log_met(request: SuggestRequest, frame: pl.DataFrame) -> Float[np.ndarray, " n"] | None:
    """Return the log probability that each row meets what is required; None: nothing is."""
    return log_probability_of_all(request.requires, frame) if request.requires else None


def _key(row: list[float]) -> tuple[float | None, ...]:
    """Return a row as what equals that of the same row: no NaN equals another."""
    return tuple(None if value != value else value for value in row)


def scores_of(
    request: SuggestRequest, model: TableModel, frame: pl.DataFrame
) -> Float[np.ndarray, " n"]:
    """Score every row of a table on its own, higher is better."""
    encoded, (goal, _) = model.encode(frame).X, _goal(request, model)
    with refusals_by_name(encoded, model.encoding, range(1, 1 + len(frame))):
        return _learner(request, model).scores(
            encoded,
            costs=_costs(request, frame, request.source),
            goal=goal,
            log_met=_log_met(request, frame),
        )


def _learner(request: SuggestRequest, model: TableModel) -> ActiveLearner:
    return ActiveLearner(
        model.estimator,
        request.by,
        batch=cast(Batch, request.batch),
        update="stream" if hasattr(model.estimator, "partial_fit") else "refit",
        random_state=request.seed,
    )


def _choose(
    request: SuggestRequest, model: TableModel, candidates: _Candidates, goal: Goal | None
) -> Chosen:
    reference = pending = None
    if request.known is not None:
        known = model.read(request.known)
        has_result = model.rows_of(known, request.known).numbers - 1
        planned = np.delete(model.encode(known).X, has_result, axis=0)[-MOST_PLANNED:]
        pending = planned if len(planned) else None
    if request.reference is not None:
        reference = model.encode(model.read(request.reference)).X
    with refusals_by_name(candidates.X, model.encoding, range(1, 1 + len(candidates.frame))):
        return _learner(request, model).query(
            candidates.X,
            request.n,
            costs=candidates.cost,
            allowed=candidates.allowed,
            reference=reference,
            goal=goal,
            log_met=candidates.log_met,
            pending=pending,
        )


def _records(
    model: TableModel,
    candidates: _Candidates,
    chosen: Chosen,
    unit: str,
    goal: Goal | None,
    beaten: str,
    request: SuggestRequest,
) -> list[JsonObject]:
    """Say of each chosen row, best first, what it scores, on its own too, and why."""
    rows, alone, scaler = np.asarray(chosen.indices), chosen.pool_scores, model.estimator.x_scaler_
    # Without a mean and std of the training rows, no value is known to be unusual.
    is_known = np.any(scaler.scale != 1.0) or np.any(scaler.mean != 0.0)
    features = features_of(model.encoding, candidates.X) if is_known else ()
    x, log_met, records = candidates.X[rows], candidates.log_met, []
    predictive: Any = predictive_of(model, x, rows + 1)
    answers = answers_of(model.encoding, "likeliest", NumberAnswers())
    z = scaler.transform(x)
    for at, row in enumerate(rows.tolist()):
        one = predictive[at : at + 1]
        record = {
            "row": row + 1,
            "score": float(chosen.scores[at]),
            "score_alone": float(alone[row]),
            "share_below": float(np.mean(alone < alone[row])),
            **({} if candidates.cost is None else {"cost": float(candidates.cost[row])}),
            **{name: values.tolist()[0] for name, values in answers.columns(one).items()},
            **_prospects(one, goal),
            **({} if log_met is None else {"met": float(np.exp(log_met[row]))}),
        }
        unlike = unlike_training(x[at], z[at], predictive.gap_share[at], features, FAR_STDS)
        words = f"{model.encoding.target_name} would be {answers.words(one, model.notes.unit)}"
        is_log = request.by == LOG_EXPECTED_IMPROVEMENT
        sentences = [words, _scores(record, len(alone), unit, is_log=is_log)]
        if goal is not None and goal.best is not None:
            is_random = request.by == RANDOM
            sentences.insert(
                1, _chances(record, goal, beaten, model.notes.unit, is_random=is_random)
            )
        if request.requires:
            all_of = " and ".join(one.words for one in request.requires)
            sentences.insert(2, f"It meets {all_of} with a probability of {record['met']:.2g}")
        sentences += [f"Unlike the training rows in {'; '.join(unlike)}"] if unlike else []
        records.append(record | {"why": ". ".join(sentences) + "."})
    return records


def _prospects(one: Predictive, goal: Goal | None) -> dict[str, float]:
    """Chance of beating the best so far, and the expected gain over it, in the target's unit."""
    if goal is None or goal.best is None:
        return {}
    chance = score(probability_of_improvement, one, goal)
    gain = np.exp(score(log_expected_improvement, one, goal))
    return {"chance": float(chance[0]), "expected_gain": float(gain[0])}


def _chances(record: JsonObject, goal: Goal, beaten: str, unit: str, *, is_random: bool) -> str:
    """Say what may be gained, and whether by its expected value or by the doubt about it."""
    best, unit = cast(float, goal.best), f"{' ' * bool(unit)}{unit}"
    ahead = goal.sign * (record["mean"] - best)
    worse = "worse" if is_random else "worse, so that it is tried for its uncertainty"
    how = "better" if ahead >= 0.0 else worse
    return (
        f"It beats {beaten}, {figure(best)}{unit}, with a chance of {record['chance']:.2g}; the "
        f"expected gain is {figure(record['expected_gain'])}{unit}, and the expected value "
        f"{figure(abs(ahead))}{unit} {how}"
    )


def _scores(record: JsonObject, n: int, unit: str, *, is_log: bool) -> str:
    score, alone = record["score"], record["score_alone"]
    percent = np.floor(1000.0 * record["share_below"]) / 10.0  # so that only all is 100 %
    words = f"It scores {figure(alone)}{' ' * bool(unit)}{unit}"
    words += f", more than {percent:g} % of the {n} candidates"
    if abs(score - alone) > 1e-9 * abs(alone):
        words += f", and {figure(score)} once the rows chosen before are measured"
    if "cost" in record:
        by_cost = score - np.log(record["cost"]) if is_log else score / record["cost"]
        words += f"; {figure(float(by_cost))} for each unit of cost"
    return words

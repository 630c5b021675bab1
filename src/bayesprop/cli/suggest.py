"""`suggest`: which rows of a table to measure next, and why."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bayesprop.active_learning.acquisition import ACQUISITIONS, EXPECTED_ENTROPY_REDUCTION
from bayesprop.active_learning.batches import BATCHES, Chosen
from bayesprop.active_learning.learner import ActiveLearner
from bayesprop.cli.actions import Suggest
from bayesprop.cli.console import note, print_json, print_table, progress, warn, wrapped
from bayesprop.cli.options import check_output
from bayesprop.report.effects import features_of
from bayesprop.report.unsure import unlike_training
from bayesprop.table.errors import did_you_mean, one_line
from bayesprop.table.values import MARKS, as_numbers, cleaned, unmarked, without
from bayesprop.table.write import check_kind, write_table
from bayesprop.table_model.answers import Answers, NumberAnswers, answers_of
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.predicting import predict_rows, refusals_by_name
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.sources import column

MAX_SHOWN_COLUMNS = 5
FAR_STDS = 2.0
"""Of the training rows, from which a value of a candidate is named."""
_CELL_DIGITS = 5
_NO_DOUBT = (
    "every candidate scores 0: the model knows of nothing to learn, and the choice is random"
)
_CONDITION = re.compile(r"(?P<column>.+?)\s*(?P<sign><=|>=|==|!=|<|>|=)\s*(?P<value>.*)")
_COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
}


class Candidates(NamedTuple):
    """The table of candidates: as it came, encoded, what each costs, which may be chosen."""

    frame: pl.DataFrame
    X: Float[np.ndarray, "n k"]
    cost: Float[np.ndarray, " n"] | None
    allowed: Bool[np.ndarray, " n"]
    warnings: list[str]


def run(options: Suggest) -> None:
    """Score the candidates, choose, and say why."""
    _check(options)
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    with progress(f"reading {options.table}", quiet=options.quiet):
        candidates = _candidates(options, model)
    chosen = _choose(options, model, candidates)
    warnings = [*candidates.warnings, *([] if np.any(chosen.pool_scores != 0.0) else [_NO_DOUBT])]
    warn(warnings)
    answers = answers_of(model.encoding, "likeliest", NumberAnswers())
    unit, own = ACQUISITIONS[options.acquisition].unit, model.notes.unit
    unit = unit.replace("y", f"({own})") if own and unit.startswith("y") else unit
    n = len(candidates.frame)
    rows = np.asarray(chosen.indices)
    predictive = predict_rows(
        model.saved.fitted.predict, candidates.X[rows], model.encoding, rows + 1
    )
    records = _records(model, candidates, chosen, predictive, answers, unit)
    if options.out is not None:
        write_table(_as_frame(candidates, chosen, records), str(options.out))
        note(f"{len(records)} suggestions: {options.out}", quiet=options.quiet)
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "target": model.encoding.target_name,
                "acquisition": options.acquisition,
                "unit": unit,
                "candidates": n,
                "suggestions": records,
                "warnings": warnings,
            }
        )
    elif options.out is None:
        about = ACQUISITIONS[options.acquisition].meaning + (f", {unit}" if unit else "")
        title = f"{len(records)} of {n} candidates; score: {about}"
        _show(title, model, answers, candidates.frame, predictive, records)
        for record in records if options.why else []:
            sentence = f"row {record['row']}: {one_line(record['why'])}"
            print(f"\n{wrapped(sentence)}")


def _check(options: Suggest) -> None:
    if options.acquisition not in ACQUISITIONS:
        hint = did_you_mean(options.acquisition, ACQUISITIONS) or ";"
        known = ", ".join(ACQUISITIONS)
        raise InputError(
            f"no acquisition {one_line(options.acquisition)!r}{hint} there are: {known}"
        )
    if options.batch not in ("auto", *BATCHES):
        known = ", ".join(("auto", *BATCHES))
        raise InputError(f"--batch must be one of {known}; got {one_line(options.batch)!r}")
    needs = options.acquisition == EXPECTED_ENTROPY_REDUCTION
    if needs != (options.reference is not None):
        raise InputError(f"--reference goes with --acquisition {EXPECTED_ENTROPY_REDUCTION}")
    if options.out is not None:
        check_output(options.out, "--out", [options.table, options.model, options.reference])
        check_kind(str(options.out))


def _candidates(options: Suggest, model: TableModel) -> Candidates:
    frame = model.read(options.table)
    encoded = model.encode(frame)
    cost = None
    if options.cost is not None:
        costs = as_numbers(column(frame, options.cost, options.table))
        cost = costs.fill_null(float("nan")).to_numpy()
    met = [_meets(frame, text.strip(), options.table) for text in options.where]
    allowed = np.all([np.ones(len(frame), dtype=bool), *met], axis=0)
    if not allowed.any():
        raise InputError(f"no row of {one_line(options.table)} meets every --where")
    return Candidates(frame, encoded.X, cost, allowed, encoded.warnings)


def _choose(options: Suggest, model: TableModel, candidates: Candidates) -> Chosen:
    reference = None
    if options.reference is not None:
        reference = model.encode(model.read(options.reference)).X
    numbers = range(1, 1 + len(candidates.frame))
    with (
        progress(f"scoring {len(candidates.frame)} candidates", quiet=options.quiet),
        refusals_by_name(candidates.X, model.encoding, numbers),
    ):
        learner = ActiveLearner(
            model.estimator,
            options.acquisition,
            batch=cast(Any, options.batch),
            update="stream" if hasattr(model.estimator, "partial_fit") else "refit",
            random_state=options.seed,
        )
        return learner.query(
            candidates.X,
            options.n,
            costs=candidates.cost,
            allowed=candidates.allowed,
            reference=reference,
        )


def _records(
    model: TableModel,
    candidates: Candidates,
    chosen: Chosen,
    predictive: Any,
    answers: Answers,
    unit: str,
) -> list[dict[str, Any]]:
    """Say of each chosen row, best first, what it scores, on its own too, and why."""
    rows, alone, scaler = np.asarray(chosen.indices), chosen.pool_scores, model.estimator.x_scaler_
    # Without a mean and std of the training rows, no value is known to be unusual.
    is_known = np.any(scaler.scale != 1.0) or np.any(scaler.mean != 0.0)
    features = features_of(model.encoding, candidates.X) if is_known else ()
    x, records = candidates.X[rows], []
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
        }
        unlike = unlike_training(x[at], z[at], predictive.gap_share[at], features, FAR_STDS)
        words = f"{model.encoding.target_name} would be {answers.words(one, model.notes.unit)}"
        sentences = [words, _scores(record, len(alone), unit)]
        sentences += [f"Unlike the training rows in {'; '.join(unlike)}"] if unlike else []
        records.append(record | {"why": ". ".join(sentences) + "."})
    return records


def _scores(record: dict[str, Any], n: int, unit: str) -> str:
    score, alone = record["score"], record["score_alone"]
    percent = np.floor(1000.0 * record["share_below"]) / 10.0  # so that only all is 100 %
    words = f"It scores {figure(alone)}{' ' * bool(unit)}{unit}"
    words += f", more than {percent:g} % of the {n} candidates"
    if abs(score - alone) > 1e-9 * abs(alone):
        words += f", and {figure(score)} once the rows above are measured"
    if "cost" in record:
        words += f"; {figure(score / record['cost'])} for each unit of cost"
    return words


def _as_frame(
    candidates: Candidates, chosen: Chosen, records: Sequence[dict[str, Any]]
) -> pl.DataFrame:
    own, added = candidates.frame[chosen.indices], pl.DataFrame(list(records))
    taken = set(own.columns)
    return own.hstack(
        added.rename({name: f"suggested_{name}" for name in added.columns if name in taken})
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.{_CELL_DIGITS}g}" if isinstance(value, float) else str(value)


def _show(
    title: str,
    model: TableModel,
    answers: Answers,
    frame: pl.DataFrame,
    predictive: Any,
    records: Sequence[dict[str, Any]],
) -> None:
    names = [column.name for column in model.encoding.columns][:MAX_SHOWN_COLUMNS]
    columns, cells = [], []
    for at, record in enumerate(records):
        own = frame.row(record["row"] - 1, named=True)
        values = [_cell(own[name]) for name in names]
        answer = answers.brief(model.encoding.target_name, predictive[at : at + 1])
        cells.append([str(record["row"]), *values, *answer.values(), figure(record["score"])])
        columns = ["row", *names, *answer, "score"]
    print_table(title, columns, cells, right=range(len(columns)))


def _meets(frame: pl.DataFrame, text: str, source: str) -> Bool[np.ndarray, " n"]:
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise InputError(
            f"--where must be a column, one of {' '.join(_COMPARE)} and a value, such as "
            f"'temperature <= 80'; got {one_line(text)!r}"
        )
    values = column(frame, parts["column"], source)
    sign, value = parts["sign"], parts["value"].strip("'\"")
    compare, is_ordered = _COMPARE[sign], sign not in ("==", "=", "!=")
    if is_ordered and values.dtype == pl.String:
        marked = unmarked(without(cleaned(values), MARKS))
        values = values if marked is None else marked.numbers
    if values.dtype.is_numeric():
        try:
            met = compare(values, float(value))
        except ValueError:
            raise InputError(
                f"--where {one_line(text)}: {parts['column']} holds numbers, and "
                f"{one_line(value)!r} is none"
            ) from None
    elif not is_ordered:
        met = compare(values.cast(pl.String), value)
    else:
        raise InputError(
            f"--where {one_line(text)}: {parts['column']} holds {values.dtype}, for which there "
            "are == and !="
        )
    return met.fill_null(False).to_numpy()

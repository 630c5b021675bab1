"""`suggest`: which rows of a table to measure next, and why."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bayesprop.cli.actions import Suggest
from bayesprop.cli.answers import Answers, NumberAnswers, answers_of
from bayesprop.cli.console import (
    InputError,
    figure,
    note,
    print_json,
    print_table,
    progress,
    warn,
)
from bayesprop.cli.opened import OpenedModel, open_model
from bayesprop.cli.tables import check_output, column, predict_rows, refusals_by_name
from bayesprop.decisions.acquisition import ACQUISITIONS, EXPECTED_ENTROPY_REDUCTION
from bayesprop.decisions.active_learner import ActiveLearner
from bayesprop.decisions.batches import BATCHES, Chosen
from bayesprop.table.columns import CategoryColumn
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import did_you_mean, one_line
from bayesprop.table.write import check_kind, write_table

MAX_SHOWN_COLUMNS = 5
FAR_STDS, FEW = 2.0, 0.05
_SHOWN_INPUTS = 3
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
    features: Float[np.ndarray, "n k"]
    cost: Float[np.ndarray, " n"] | None
    allowed: Bool[np.ndarray, " n"]
    warnings: list[str]


class Worth(NamedTuple):
    """What the score of a chosen row is.

    score, alone
        When it was chosen, and on its own.
    unit
        Of both.
    share_below
        Of the candidates, those whose score on their own is lower.
    n_candidates
        All of them.
    cost
        None where nothing is known of costs.
    """

    score: float
    alone: float
    unit: str
    share_below: float
    n_candidates: int
    cost: float | None


class Suggestion(NamedTuple):
    """One chosen row: its number from 1, its score, what is predicted, why."""

    row: int
    worth: Worth
    predicted: Any
    why: str


def run(options: Suggest) -> None:
    """Score the candidates, choose, and say why."""
    _check(options)
    model = open_model(options.model)
    with progress(f"reading {options.table}", quiet=options.quiet):
        candidates = _candidates(options, model)
    chosen = _choose(options, model, candidates)
    warnings = [*candidates.warnings, *_remarks(chosen)]
    warn(warnings)
    answers = answers_of(model.encoding, "likeliest", NumberAnswers())
    suggestions = _suggestions(options, model, answers, candidates, chosen)
    records = [_record(suggestion, answers) for suggestion in suggestions]
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
                "unit": _unit(options, model),
                "candidates": len(candidates.frame),
                "suggestions": records,
                "warnings": warnings,
            }
        )
    elif options.out is None:
        _show(options, model, answers, candidates, suggestions)


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


def _candidates(options: Suggest, model: OpenedModel) -> Candidates:
    frame = model.read(options.table)
    encoded = model.encoding.encode(frame)
    cost = None
    if options.cost is not None:
        costs = column(frame, options.cost, options.table)
        if not costs.dtype.is_numeric():
            raise InputError(f"--cost {options.cost} must hold numbers")
        cost = costs.cast(float).fill_null(float("nan")).to_numpy()
    allowed = _rows_where(frame, options.where, options.table)
    if not allowed.any():
        raise InputError(f"no row of {one_line(options.table)} meets every --where")
    return Candidates(frame, encoded.X, cost, allowed, encoded.warnings)


def _choose(options: Suggest, model: OpenedModel, candidates: Candidates) -> Chosen:
    reference = None
    if options.reference is not None:
        reference = model.encoding.encode(model.read(options.reference)).X
    numbers = range(1, 1 + len(candidates.frame))
    with (
        progress(f"scoring {len(candidates.frame)} candidates", quiet=options.quiet),
        refusals_by_name(candidates.features, model.encoding, numbers),
    ):
        learner = ActiveLearner(
            model.estimator,
            options.acquisition,
            batch=cast(Any, options.batch),
            update="stream" if hasattr(model.estimator, "partial_fit") else "refit",
            random_state=options.seed,
        )
        return learner.query(
            candidates.features,
            options.n,
            costs=candidates.cost,
            allowed=candidates.allowed,
            reference=reference,
        )


def _remarks(chosen: Chosen) -> list[str]:
    if np.any(chosen.pool_scores != 0.0):
        return []
    return [
        "every candidate scores 0: the model knows of nothing to learn, and the choice is random"
    ]


def _unit(options: Suggest, model: OpenedModel) -> str:
    unit, own = ACQUISITIONS[options.acquisition].unit, model.notes.unit
    return unit.replace("y", f"({own})") if own and unit.startswith("y") else unit


def _suggestions(
    options: Suggest, model: OpenedModel, answers: Answers, candidates: Candidates, chosen: Chosen
) -> list[Suggestion]:
    """Describe each chosen row, best first."""
    encoding, rows = model.encoding, np.asarray(chosen.indices)
    predictive = predict_rows(model.estimator, candidates.features[rows], encoding, rows + 1)
    suggestions = []
    for at, (index, score) in enumerate(zip(rows, chosen.scores, strict=True)):
        alone = float(chosen.pool_scores[index])
        worth = Worth(
            score=float(score),
            alone=alone,
            unit=_unit(options, model),
            share_below=float(np.mean(chosen.pool_scores < alone)),
            n_candidates=len(candidates.frame),
            cost=None if candidates.cost is None else float(candidates.cost[index]),
        )
        one = predictive[at : at + 1]
        unlike = _unlike_training(encoding, model.estimator.x_scaler_, candidates.features[index])
        expected = f"{encoding.target_name} would be {answers.words(one, model.notes.unit)}"
        suggestions.append(Suggestion(int(index) + 1, worth, one, _reason(expected, worth, unlike)))
    return suggestions


def _record(suggestion: Suggestion, answers: Answers) -> dict[str, Any]:
    """Return what is said of a row by name, as plain values."""
    worth = suggestion.worth
    predicted = answers.columns(suggestion.predicted)
    return {
        "row": suggestion.row,
        "score": worth.score,
        "score_alone": worth.alone,
        "share_below": worth.share_below,
        **({} if worth.cost is None else {"cost": worth.cost}),
        **{name: values.tolist()[0] for name, values in predicted.items()},
        "why": suggestion.why,
    }


def _as_frame(
    candidates: Candidates, chosen: Chosen, records: Sequence[dict[str, Any]]
) -> pl.DataFrame:
    """Put the table's own columns first, then what is said of each row."""
    own, added = candidates.frame[chosen.indices], pl.DataFrame(list(records))
    taken = set(own.columns)
    return own.hstack(
        added.rename({name: f"suggested_{name}" for name in added.columns if name in taken})
    )


def _show(
    options: Suggest,
    model: OpenedModel,
    answers: Answers,
    candidates: Candidates,
    suggestions: Sequence[Suggestion],
) -> None:
    encoding = model.encoding
    names = [column.name for column in encoding.columns][:MAX_SHOWN_COLUMNS]
    cells = []
    for one in suggestions:
        own = candidates.frame.row(one.row - 1, named=True)
        values = {name: "" if own[name] is None else str(own[name]) for name in names}
        answer = answers.brief(encoding.target_name, one.predicted)
        cells.append([{"row": str(one.row)}, values, answer, {"score": figure(one.worth.score)}])
    columns = [name for part in cells[0] for name in part]
    rows = [[text for part in parts for text in part.values()] for parts in cells]
    about = ACQUISITIONS[options.acquisition]
    title = f"{len(suggestions)} of {len(candidates.frame)} candidates; score: {about.meaning}"
    unit = _unit(options, model)
    print_table(f"{title}, {unit}" if unit else title, columns, rows, right=range(len(columns)))
    if options.why:
        for one in suggestions:
            print(f"\nrow {one.row}: {one_line(one.why)}")


def _reason(expected: str, worth: Worth, unlike: list[str]) -> str:
    """Word one reason.

    expected
        What is predicted, in words; it begins with the name of a column, which stays as it is.
    unlike
        In what the row is unlike the training rows.
    """
    others = [_worth(worth)]
    if unlike:
        others.append(f"Unlike the training rows in {'; '.join(unlike)}")
    return ". ".join([expected, *others]) + "."


def _worth(worth: Worth) -> str:
    unit = f" {worth.unit}" if worth.unit else ""
    text = f"It scores {figure(worth.alone)}{unit}, more than {_percent(worth.share_below)} of "
    text += f"the {worth.n_candidates} candidates"
    if abs(worth.score - worth.alone) > 1e-9 * abs(worth.alone):
        text += f", and {figure(worth.score)} once the rows above are measured"
    if worth.cost is not None:
        text += f"; {figure(worth.score / worth.cost)} for each unit of cost"
    return text


def _percent(share: float) -> str:
    """Round down, so that only all is 100 %."""
    return f"{np.floor(1000.0 * share) / 10.0:g} %"


def _unlike_training(
    encoding: TableEncoding, scaler: Any, row: Float[np.ndarray, " k"]
) -> list[str]:
    """Say in which columns a row is far from the training rows, furthest first."""
    scale = scaler.scale
    mean = scaler.mean * scaler.unit
    if np.all(scale == 1.0) and np.all(mean == 0.0):
        return []  # the model was fitted to inputs as they are
    apart: list[tuple[float, str]] = []
    first = 0
    for known in encoding.columns:
        own = slice(first, first + len(known.feature_names))
        if isinstance(known, CategoryColumn):
            apart += _rare_level(known, row[own], mean[own])
        else:
            z = float((row[first] - mean[first]) / scale[first])
            side = "above" if z > 0.0 else "below"
            text = f"{known.name} {row[first]:.4g}, {abs(z):.1f} standard deviations {side}"
            apart += [(abs(z), f"{text} their mean")] if abs(z) >= FAR_STDS else []
        first = own.stop
    apart.sort(key=lambda one: -one[0])
    return [text for _, text in apart[:_SHOWN_INPUTS]]


def _rare_level(
    column: CategoryColumn, row: Float[np.ndarray, " l"], shares: Float[np.ndarray, " l"]
) -> list[tuple[float, str]]:
    if not row.any():
        return [(np.inf, f"{column.name}, a level that has no column of its own")]
    place = int(np.argmax(row))
    if shares[place] > FEW:
        return []
    level = column.levels[place] if place < len(column.levels) else "missing"
    return [(1.0 / max(shares[place], 1e-9), f"{column.name} {level}, {shares[place]:.1%} of them")]


def _rows_where(
    frame: pl.DataFrame, conditions: Sequence[str], source: str
) -> Bool[np.ndarray, " n"]:
    """Say of every row whether it meets all conditions; a missing value meets none."""
    meets = [_meets(frame, text.strip(), source) for text in conditions]
    return np.all([np.ones(len(frame), dtype=bool), *meets], axis=0)


def _meets(frame: pl.DataFrame, text: str, source: str) -> Bool[np.ndarray, " n"]:
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise InputError(
            f"--where must be a column, one of {' '.join(_COMPARE)} and a value, such as "
            f"'temperature <= 80'; got {one_line(text)!r}"
        )
    values = column(frame, parts["column"], source)
    sign, value = parts["sign"], parts["value"].strip("'\"")
    compare = _COMPARE[sign]
    if values.dtype.is_numeric():
        try:
            met = compare(values, float(value))
        except ValueError:
            raise InputError(
                f"--where {one_line(text)}: {parts['column']} holds numbers, and "
                f"{one_line(value)!r} is none"
            ) from None
    elif sign in ("==", "=", "!="):
        met = compare(values.cast(pl.String), value)
    else:
        raise InputError(
            f"--where {one_line(text)}: {parts['column']} holds {values.dtype}, for which there "
            "are == and !="
        )
    return met.fill_null(False).to_numpy()

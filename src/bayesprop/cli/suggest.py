"""`suggest`: which rows of a table to measure next, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bayesprop.cli.actions import Suggest
from bayesprop.cli.answers import Answers, NumberAnswers, answers_of
from bayesprop.cli.conditions import rows_where
from bayesprop.cli.console import (
    InputError,
    figure,
    note,
    print_json,
    print_table,
    progress,
    refusals_of_estimator,
    warn,
)
from bayesprop.cli.opened import OpenedModel, open_model
from bayesprop.cli.predictions import far_rows_by_name, predict_rows
from bayesprop.cli.reasons import Worth, unlike_training, why
from bayesprop.cli.tables import check_output, column
from bayesprop.decisions.acquisition import ACQUISITIONS, EXPECTED_ENTROPY_REDUCTION
from bayesprop.decisions.active_learner import ActiveLearner
from bayesprop.decisions.batches import BATCHES, Chosen
from bayesprop.table.errors import did_you_mean, one_line
from bayesprop.table.write import check_kind, write_table

MAX_SHOWN_COLUMNS = 5


class Candidates(NamedTuple):
    """The table of candidates: as it came, encoded, what each costs, which may be chosen."""

    frame: pl.DataFrame
    features: Float[np.ndarray, "n k"]
    cost: Float[np.ndarray, " n"] | None
    allowed: Bool[np.ndarray, " n"]
    warnings: list[str]


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
    allowed = rows_where(frame, options.where, options.table)
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
        refusals_of_estimator(ValueError),
        far_rows_by_name(candidates.features, model.encoding, numbers),
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
        unlike = unlike_training(encoding, model.estimator.x_scaler_, candidates.features[index])
        expected = f"{encoding.target_name} would be {answers.words(one, model.notes.unit)}"
        suggestions.append(Suggestion(int(index) + 1, worth, one, why(expected, worth, unlike)))
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

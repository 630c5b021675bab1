"""`suggest`: which rows of a table to measure next, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.cli.actions import Suggest
from bayesprop.cli.conditions import rows_where
from bayesprop.cli.console import figure, note, print_json, print_table, progress, warn
from bayesprop.cli.failures import InputError, did_you_mean, one_line, refusals_of_estimator
from bayesprop.cli.predict import MAX_CLASS_COLUMNS, check_table_output
from bayesprop.cli.reasons import Scored, unlike_training, why
from bayesprop.cli.remembered import remember
from bayesprop.cli.scores import far_rows_by_name, predict_rows
from bayesprop.cli.sources import encoding_of, open_model, require_column, table_of
from bayesprop.decisions.acquisition import ACQUISITIONS, EXPECTED_ENTROPY_REDUCTION
from bayesprop.decisions.active_learner import ActiveLearner
from bayesprop.decisions.batches import BATCHES, Chosen
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.table.read import class_text, write_table

if TYPE_CHECKING:
    from bayesprop.store import SavedModel

MAX_SHOWN_COLUMNS = 5


class Candidates(NamedTuple):
    """The table of candidates: as it came, encoded, what each costs, which may be chosen."""

    frame: pl.DataFrame
    features: Float[np.ndarray, "n k"]
    cost: Float[np.ndarray, " n"] | None
    allowed: np.ndarray
    warnings: list[str]


def run(options: Suggest) -> None:
    """Score the candidates, choose, and say why."""
    _check(options)
    saved = open_model(options.model)
    with progress(f"reading {options.table}", quiet=options.quiet):
        candidates = _candidates(options, saved)
        reference = _reference(options, saved)
    with (
        progress(f"scoring {len(candidates.frame)} candidates", quiet=options.quiet),
        refusals_of_estimator(ValueError),
        far_rows_by_name(
            candidates.features, encoding_of(saved), range(1, 1 + len(candidates.frame))
        ),
    ):
        estimator = saved.estimator
        learner = ActiveLearner(
            estimator,
            options.acquisition,
            batch=cast(Any, options.batch),
            update="stream" if hasattr(estimator, "partial_fit") else "refit",
            random_state=options.seed,
        )
        chosen = learner.query(
            candidates.features,
            options.n,
            costs=candidates.cost,
            allowed=candidates.allowed,
            reference=reference,
        )
    warnings = [*candidates.warnings, *_remarks(chosen)]
    warn(warnings)
    found = suggestions(options, saved, candidates, chosen)
    if options.out is not None:
        write_table(_as_frame(candidates, chosen, found), str(options.out))
        note(f"{len(found)} suggestions: {options.out}", quiet=options.quiet)
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "target": encoding_of(saved).target_name,
                "acquisition": options.acquisition,
                "unit": _unit(options, saved),
                "candidates": len(candidates.frame),
                "suggestions": found,
                "warnings": warnings,
            }
        )
    elif options.out is None:
        _show(options, saved, candidates, found)


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
        inputs = [options.table, options.model, *([options.reference] if options.reference else [])]
        check_table_output(str(options.out), inputs)


def _candidates(options: Suggest, saved: SavedModel) -> Candidates:
    frame = table_of(saved, options.table)
    encoded = encoding_of(saved).encode(frame)
    cost = None
    if options.cost is not None:
        require_column(frame, options.cost, options.table)
        if not frame[options.cost].dtype.is_numeric():
            raise InputError(f"--cost {options.cost} must hold numbers")
        cost = frame[options.cost].cast(float).fill_null(float("nan")).to_numpy()
    allowed = rows_where(frame, options.where, options.table)
    if not allowed.any():
        raise InputError(f"no row of {one_line(options.table)} meets every --where")
    return Candidates(frame, encoded.X, cost, allowed, encoded.warnings)


def _reference(options: Suggest, saved: SavedModel) -> Float[np.ndarray, "m k"] | None:
    if options.reference is None:
        return None
    return encoding_of(saved).encode(table_of(saved, options.reference)).X


def _remarks(chosen: Chosen) -> list[str]:
    if chosen.pool_scores.max() > 0.0 or chosen.pool_scores.min() < 0.0:
        return []
    return [
        "every candidate scores 0: the model knows of nothing to learn, and the choice is random"
    ]


def _unit(options: Suggest, saved: SavedModel) -> str:
    unit = ACQUISITIONS[options.acquisition].unit
    own = remember(saved).unit
    return unit.replace("y", f"({own})") if own and unit.startswith("y") else unit


def suggestions(
    options: Suggest, saved: SavedModel, candidates: Candidates, chosen: Chosen
) -> list[dict[str, Any]]:
    """Describe each chosen row, best first; `row` counts from 1."""
    encoding, notes = encoding_of(saved), remember(saved)
    features, numbers = candidates.features[chosen.indices], np.asarray(chosen.indices) + 1
    predicted = predict_rows(saved.estimator, features, encoding, numbers)
    found = []
    for at, (index, score) in enumerate(zip(chosen.indices, chosen.scores, strict=True)):
        alone = float(chosen.pool_scores[index])
        scored = Scored(
            score=float(score),
            alone=alone,
            unit=_unit(options, saved),
            share_below=float(np.mean(chosen.pool_scores < alone)),
            n_candidates=len(candidates.frame),
            cost=None if candidates.cost is None else float(candidates.cost[index]),
        )
        one = predicted[at : at + 1]
        row = candidates.features[index]
        unlike = unlike_training(encoding, saved.estimator.x_scaler_, row)
        target, unit = encoding.target_name, notes.unit
        found.append(
            {
                "row": int(index) + 1,
                "score": scored.score,
                "score_alone": alone,
                "share_below": scored.share_below,
                **({} if scored.cost is None else {"cost": scored.cost}),
                **_predicted(one),
                "why": why(one, scored, unlike, target=target, unit=unit),
            }
        )
    return found


def _predicted(one: Any) -> dict[str, Any]:
    if not isinstance(one, ClassPredictive):
        return {
            "mean": float(one.mean[0]),
            "std": float(one.std[0]),
            "epistemic_std": float(np.sqrt(one.epistemic_var[0])),
            "noise_std": float(np.sqrt(one.noise_var[0])),
        }
    shares = {
        f"p({class_text(label)})": float(p)
        for label, p in zip(one.classes, one.proba[0], strict=True)
    }
    return {
        "likeliest": class_text(one.label[0]),
        **(shares if len(shares) <= MAX_CLASS_COLUMNS else {}),
        "entropy": float(one.entropy[0]),
        "mutual_information": float(one.mutual_information[0]),
    }


def _as_frame(
    candidates: Candidates, chosen: Chosen, found: Sequence[dict[str, Any]]
) -> pl.DataFrame:
    """Put the table's own columns first, then what is said of each row."""
    own = candidates.frame[chosen.indices]
    said = pl.DataFrame(list(found))
    taken = set(own.columns)
    renamed = {name: f"suggested_{name}" for name in said.columns if name in taken}
    return own.hstack(said.rename(renamed))


def _show(
    options: Suggest, saved: SavedModel, candidates: Candidates, found: Sequence[dict[str, Any]]
) -> None:
    encoding = encoding_of(saved)
    names = [column.name for column in encoding.columns][:MAX_SHOWN_COLUMNS]
    is_number = "mean" in found[0]
    columns = ["row", *names, encoding.target_name, *(["±"] if is_number else []), "score"]
    rows = []
    for one in found:
        own = candidates.frame[one["row"] - 1]
        values = ["" if own[name][0] is None else str(own[name][0]) for name in names]
        expected = [figure(one["mean"]), figure(one["std"])] if is_number else [one["likeliest"]]
        rows.append((str(one["row"]), *values, *expected, figure(one["score"])))
    line = ACQUISITIONS[options.acquisition]
    title = f"{len(found)} of {len(candidates.frame)} candidates; score: {line.meaning}"
    unit = _unit(options, saved)
    print_table(f"{title}, {unit}" if unit else title, columns, rows, right=range(len(columns)))
    if options.why:
        for one in found:
            print(f"\nrow {one['row']}: {one_line(one['why'])}")

"""`suggest`: which rows of a table to measure next, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayesprop.active_learning.acquisition import ACQUISITIONS
from bayesprop.cli.actions import Choosing, Suggest
from bayesprop.cli.console import (
    ask,
    check_outputs,
    listening,
    note,
    print_json,
    print_table,
    wrapped,
)
from bayesprop.codec import Json
from bayesprop.table.errors import InputError, one_line
from bayesprop.table.write import check_kind, write_table
from bayesprop.table_model.answers import NumberAnswers, answers_of
from bayesprop.table_model.listener import figure
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.suggest import Suggestions

MAX_SHOWN_COLUMNS = 5
_CELL_DIGITS = 5


def run(options: Suggest) -> None:
    """Show the rows, or write them to a file."""
    check_rows(options, [options.table, options.model, options.reference, options.measured])
    with listening(options) as listener:
        model = open_model(options.model)
        goal = goal_of(maximise=options.maximise, minimise=options.minimise)
        suggested = ask(model.suggest, options, goal=goal)
    write_rows(options, suggested)
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "target": model.encoding.target_name,
                "acquisition": suggested.acquisition,
                "unit": suggested.unit,
                **({} if suggested.best is None else {"best": suggested.best}),
                "candidates": suggested.n_candidates,
                "suggestions": suggested.records,
                "warnings": listener.warnings,
            }
        )
    elif options.out is None:
        show(model, suggested, with_reasons=options.why)


def check_rows(
    options: Choosing, inputs: Sequence[str | Path | None], report: Path | None = None
) -> None:
    """Refuse, before any work is done, files that rows and a report cannot be written to."""
    check_outputs({"--report": report, "--out": options.out}, inputs)
    if options.as_json and str(options.out) == "-":
        raise InputError("--json prints an object on stdout, and --out - rows: leave one out")
    out = options.out and str(options.out)
    if out or options.escape_formulas:
        check_kind(out, escape_formulas=options.escape_formulas)


def write_rows(options: Choosing, suggested: Suggestions) -> None:
    """Write the rows where a file was named."""
    if options.out is not None:
        out = str(options.out)
        write_table(suggested.frame, out, escape_formulas=options.escape_formulas)
        note(f"{len(suggested.records)} suggestions: {out}", quiet=options.quiet)


def goal_of(*, maximise: bool, minimise: bool) -> str | None:
    """Return what is sought; InputError where it is both."""
    if maximise and minimise:
        raise InputError("--maximise and --minimise exclude each other: give one of them")
    return "max" if maximise else "min" if minimise else None


def show(model: TableModel, suggested: Suggestions, *, with_reasons: bool) -> None:
    """Print the rows, and why."""
    unit, records = suggested.unit, suggested.records
    about = ACQUISITIONS[suggested.acquisition].meaning + (f", {unit}" if unit else "")
    about += ", times the probability that all is met" * ("met" in records[0])
    title = f"{len(records)} of {suggested.n_candidates} candidates; score: {about}"
    names = [column.name for column in model.encoding.columns][:MAX_SHOWN_COLUMNS]
    answers = answers_of(model.encoding, "likeliest", NumberAnswers())
    columns, cells = [], []
    for own, record in zip(suggested.frame.iter_rows(named=True), records, strict=True):
        answer = answers.brief(model.encoding.target_name, record)
        if "chance" in record:
            answer["chance"] = f"{record['chance']:.2g}"
        if "met" in record:
            answer["met"] = f"{record['met']:.2g}"
        values = [_cell(own[name]) for name in names]
        cells.append([str(record["row"]), *values, *answer.values(), figure(record["score"])])
        columns = ["row", *names, *answer, "score"]
    print_table(title, columns, cells, right=range(len(columns)))
    for record in records if with_reasons else []:
        sentence = f"row {record['row']}: {one_line(record['why'])}"
        print(f"\n{wrapped(sentence)}")


def _cell(value: Json) -> str:
    if value is None:
        return ""
    return f"{value:.{_CELL_DIGITS}g}" if isinstance(value, float) else str(value)

"""`suggest`: which rows of a table to measure next, and why."""

from __future__ import annotations

from typing import Any

from bayesprop.active_learning.acquisition import ACQUISITIONS
from bayesprop.cli.actions import Suggest
from bayesprop.cli.console import ask, listening, note, print_json, print_table, wrapped
from bayesprop.cli.options import check_output
from bayesprop.table.errors import one_line
from bayesprop.table.write import check_kind, write_table
from bayesprop.table_model.answers import NumberAnswers, answers_of
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.suggest import Suggestions

MAX_SHOWN_COLUMNS = 5
_CELL_DIGITS = 5


def run(options: Suggest) -> None:
    """Show the rows, or write them to a file."""
    if options.out is not None:
        check_output(options.out, "--out", [options.table, options.model, options.reference])
    out = None if options.out is None else str(options.out)
    if out is not None or options.escape_formulas:
        check_kind(out, escape_formulas=options.escape_formulas)
    with listening(options) as listener:
        model = open_model(options.model)
        suggested = ask(model.suggest, options)
    if out is not None:
        write_table(suggested.frame, out, escape_formulas=options.escape_formulas)
        rows = f"{len(suggested.records)} suggestions"
        note(f"{rows}: {options.out}", quiet=options.quiet)
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "target": model.encoding.target_name,
                "acquisition": options.acquisition,
                "unit": suggested.unit,
                "candidates": suggested.n_candidates,
                "suggestions": suggested.records,
                "warnings": listener.warnings,
            }
        )
    elif options.out is None:
        _show(options, model, suggested)


def _show(options: Suggest, model: TableModel, suggested: Suggestions) -> None:
    unit, records = suggested.unit, suggested.records
    about = ACQUISITIONS[options.acquisition].meaning + (f", {unit}" if unit else "")
    title = f"{len(records)} of {suggested.n_candidates} candidates; score: {about}"
    names = [column.name for column in model.encoding.columns][:MAX_SHOWN_COLUMNS]
    answers = answers_of(model.encoding, "likeliest", NumberAnswers())
    columns, cells = [], []
    for own, record in zip(suggested.frame.iter_rows(named=True), records, strict=True):
        answer = answers.brief(model.encoding.target_name, record)
        values = [_cell(own[name]) for name in names]
        cells.append([str(record["row"]), *values, *answer.values(), figure(record["score"])])
        columns = ["row", *names, *answer, "score"]
    print_table(title, columns, cells, right=range(len(columns)))
    for record in records if options.why else []:
        sentence = f"row {record['row']}: {one_line(record['why'])}"
        print(f"\n{wrapped(sentence)}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.{_CELL_DIGITS}g}" if isinstance(value, float) else str(value)

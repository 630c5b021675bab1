"""`optimise`: from a table of experiments to those to run next, and why."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from bayesprop.atomic import write_atomically
from bayesprop.cli.console import ask, listening, note, print_json
from bayesprop.cli.further_rows import Optimise
from bayesprop.cli.options import check_output
from bayesprop.cli.suggest import goal_of, show
from bayesprop.table.errors import one_line
from bayesprop.table.lines import separator_of
from bayesprop.table.read import SEPARATORS
from bayesprop.table.write import check_kind, write_table
from bayesprop.table_model.optimise import Optimiser
from bayesprop.table_model.refusals import InputError


def run(options: Optimise) -> None:
    """Fit, choose, print; write the rows where asked."""
    goal = goal_of(maximise=options.maximise, minimise=options.minimise)
    if goal is None:
        raise InputError("give --maximise or --minimise: which value of the target is the best?")
    if options.out is not None:
        check_output(options.out, "--out", [options.table, options.candidates])
    out = None if options.out is None else str(options.out)
    if out is not None or options.escape_formulas:
        check_kind(out, escape_formulas=options.escape_formulas)
    header = _header(Path(options.table)) if options.append else []
    with listening(options) as listener:
        about = {"drop": options.drop, "method": options.method, "unit": options.unit}
        ranges = dict(map(_range, options.ranges))
        optimiser = ask(Optimiser, options, goal=goal, ranges=ranges, **about)
        suggested = optimiser.ask(options.n)
    model, n = optimiser.model, len(suggested.records)
    if options.as_json:
        print_json(
            {
                "table": options.table,
                "target": options.target,
                "goal": goal,
                "acquisition": suggested.acquisition,
                "unit": suggested.unit,
                "best": suggested.best,
                "rows": len(optimiser.measured),
                "candidates": suggested.n_candidates,
                "suggestions": suggested.frame.to_dicts(),
                "warnings": listener.warnings,
            }
        )
    else:
        show(model, suggested, with_reasons=True)
    if out is not None:
        write_table(suggested.frame, out, escape_formulas=options.escape_formulas)
        note(f"{n} suggestions: {out}", quiet=options.quiet)
    if options.append:
        _append(Path(options.table), header, suggested.frame.to_dicts())
        note(f"{n} rows added to {options.table}: fill in {options.target}", quiet=options.quiet)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    """Read "heat=20:90"."""
    name, _, bounds = text.rpartition("=")
    try:
        low, high = map(float, bounds.split(":"))
    except ValueError:
        raise InputError(
            f"--range must be COL=LOW:HIGH, such as heat=20:90; got {one_line(text)!r}"
        ) from None
    return name.strip(), (low, high)


def _header(path: Path) -> list[str]:
    """Return the names of the columns of a file of text that rows can be added to."""
    if path.suffix.lower() not in SEPARATORS or not path.is_file():
        raise InputError(f"--append needs a .csv or .tsv file, got {path}: take --out for others")
    return next(csv.reader(io.StringIO(text := path.read_text("utf-8")), delimiter=_sign(text)))


def _sign(text: str) -> str:
    return separator_of(text.lstrip("\ufeff"))


def _append(path: Path, header: list[str], rows: list[dict[str, Any]]) -> None:
    """Add rows below those of a file, with nothing in the columns that they have no value for."""
    before = path.read_text("utf-8")
    added = io.StringIO()
    writer = csv.writer(added, delimiter=_sign(before), lineterminator="\n")
    names = [name.strip().lstrip("\ufeff") for name in header]
    for row in rows:
        own = {name: value for name, value in row.items() if name in names}
        writer.writerow(["" if (one := own.get(name)) is None else one for name in names])
    whole = before + ("" if before.endswith("\n") else "\n") + added.getvalue()
    write_atomically(path, lambda file: file.write(whole.encode()))

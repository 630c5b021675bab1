"""`optimise`: from a table of experiments to those to run next, and why."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from bayesprop.atomic import write_atomically
from bayesprop.cli.console import ask, listening, note, print_json
from bayesprop.cli.further_rows import Optimise
from bayesprop.cli.suggest import check_rows, goal_of, show, write_rows
from bayesprop.codec import Json, JsonObject
from bayesprop.table.delimited import separator_of
from bayesprop.table.errors import InputError, one_line
from bayesprop.table.read import SEPARATORS
from bayesprop.table_model.optimise import Optimiser


def run(options: Optimise) -> None:
    """Fit, choose, print; write the rows where asked."""
    goal = goal_of(maximise=options.maximise, minimise=options.minimise)
    if goal is None:
        raise InputError("give --maximise or --minimise: which value of the target is the best?")
    check_rows(options, [options.table, options.candidates], options.report)
    header = _header(Path(options.table)) if options.append else []
    with listening(options) as listener:
        about = {name: getattr(options, name) for name in ("drop", "method", "unit", "target_kind")}
        ranges = _ranges(options.ranges)
        optimiser = ask(Optimiser, options, goal=goal, ranges=ranges, **about)
        suggested = optimiser.ask(options.n)
        if options.report is not None:
            optimiser.report(options.report, suggested)
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
                "report": None if options.report is None else str(options.report),
                "warnings": listener.warnings,
            }
        )
    else:
        show(model, suggested, with_reasons=True)
    write_rows(options, suggested)
    if options.report is not None:
        note(f"report: {options.report}", quiet=options.quiet)
    if options.append:
        chosen = suggested.frame.drop(suggested.frame.columns[-len(suggested.records[0]) :])
        results = [options.target, *optimiser.outputs]
        _append(Path(options.table), header, chosen.drop(results, strict=False).to_dicts())
        named = " and ".join(results)
        note(f"{n} rows added to {options.table}: fill in {named}", quiet=options.quiet)


_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


def _cell(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ranges(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, bounds = _range(text)
        if name in ranges:
            raise InputError(f"--range names {one_line(name)} twice: give it one range")
        ranges[name] = bounds
    return ranges


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
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise InputError(f"--append needs UTF-8, and {path} is not: save it as UTF-8") from None
    header, *rows = csv.reader(io.StringIO(text), delimiter=_sign(text))
    names = [name.strip().lstrip("\ufeff") for name in header]
    if len(set(names)) < len(names):
        raise InputError(f"--append needs columns of different names in {path}: rename one")
    if any(_DECIMAL_COMMA.fullmatch(cell.strip()) for row in rows for cell in row):
        raise InputError(f"--append writes decimal points, and {path} has commas: take --out")
    return names


def _sign(text: str) -> str:
    return separator_of(text.lstrip("\ufeff"))


def _append(path: Path, names: list[str], rows: list[JsonObject]) -> None:
    """Add rows below those of a file, with nothing in the columns that they have no value for."""
    before, added = path.read_bytes().decode(), io.StringIO()
    end = "\r\n" if "\r\n" in before else "\n"
    writer = csv.writer(added, delimiter=_sign(before), lineterminator=end)
    for row in rows:
        writer.writerow(["" if (one := row.get(name)) is None else _cell(one) for name in names])
    whole = before + ("" if before.endswith("\n") else end) + added.getvalue()
    write_atomically(path, lambda file: file.write(whole.encode()))

"""`monitor`: whether new rows are like those of the fit, and whether the model still holds."""

from __future__ import annotations

import typer

from bayesprop.cli.actions import Monitor
from bayesprop.cli.console import ask, listening, print_json, print_table, wrapped
from bayesprop.table_model.listener import figure
from bayesprop.table_model.model import open_model
from bayesprop.table_model.sources import table_name

ALARM = 3
"""Exit code where something has changed."""
_MOST_SHOWN = 10


def run(options: Monitor) -> None:
    """Print what has changed; of the rest the checks nearest to an alarm."""
    with listening(options) as listener:
        found = ask(open_model(options.model).monitor, options)
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "rows": found.n_rows,
                "rows_outside": found.n_outside,
                "outcomes": found.n_outcomes,
                "alarm_rate": found.rate,
                "alarms": found.alarms,
                "checks": [check._asdict() for check in found.checks],
                "warnings": listener.warnings,
            }
        )
    else:
        n = len(found.alarms)
        title = f"{found.n_rows} rows of {table_name(options.table)}: "
        title += f"{n} of {len(found.checks)} checks failed" if n else "no change found"
        nearest = sorted(found.checks, key=lambda check: check.p)[: max(n, _MOST_SHOWN)]
        cells = [
            (one.what, figure(one.learnt), figure(one.now), f"{one.p:.1g}", "ALARM" * one.alarm)
            for one in nearest
        ]
        print_table(title, ("check", "fit", "now", "p", ""), cells, right=(1, 2, 3))
        share = f"{found.n_outside} of {found.n_rows} rows"
        print(f"\n{wrapped(f'{share} hold a number outside the range of nearly all rows learnt.')}")
    if found.alarms:
        raise typer.Exit(ALARM)

"""`compare`: several methods on one table, on the same held-out rows."""

from __future__ import annotations

from bayesprop import catalogue
from bayesprop.cli.actions import Compare
from bayesprop.cli.console import (
    TerminalListener,
    ask,
    check_output,
    listening,
    print_json,
    print_table,
)
from bayesprop.cli.fit import rows_asked
from bayesprop.table.errors import InputError
from bayesprop.table_model.compare import Compared, InterruptedComparison, compare


def run(options: Compare) -> None:
    """Fit every method to every split, show a table and draw a plot."""
    check_output(options.plot, "--plot", [options.table, options.test])
    with listening(options) as listener:
        try:
            compared = ask(compare, options, **rows_asked(options))
        except InterruptedComparison as stop:
            if stop.compared is not None and not options.as_json:
                _show(stop.compared, listener)
            raise
        if options.as_json:
            _print_json(options, compared, listener)
        else:
            _show(compared, listener)
    own = [one for one in compared.methods if one.method in catalogue.METHODS]
    if all(one.score is None for one in own):
        raise InputError("every method failed; the reasons stand above")


def _print_json(options: Compare, compared: Compared, listener: TerminalListener) -> None:
    of = compared.table
    print_json(
        {
            "table": options.table,
            "target": of.target,
            "task": of.task,
            "target_kind": of.kind.get("target_kind"),
            "positive": of.positive and of.positive.label,
            "splits": len(of.divisions),
            "rows": of.counts,
            "score": compared.score[0],
            "methods": [
                one._asdict()
                | {"behind": one.behind and {"mean": one.behind.gain, "error": one.behind.error}}
                for one in compared.methods
            ],
            "trials": [trial._asdict() for trial in compared.trials],
            "plot": compared.plot,
            "judged_again": [one.facts for one in compared.again],
            "warnings": listener.warnings,
        }
    )


def _show(compared: Compared, listener: TerminalListener) -> None:
    header, *rows = compared.lines
    print_table(compared.title, header, rows, right=range(1, len(header)))
    for sentence in compared.notes:
        listener.note(sentence)
    if (winner := compared.winner) is not None:
        sentence, is_peer = winner
        listener.warn([sentence]) if is_peer else listener.note(sentence)
    if compared.plot is not None:
        listener.note(f"plot: {compared.plot}")

"""`merge`: one model from several files, each fitted to rows that stayed where they were."""

from __future__ import annotations

from bayesprop.cli.console import check_output, listening, note, print_json
from bayesprop.cli.further_rows import Merge
from bayesprop.table.errors import InputError
from bayesprop.table_model.model import open_model
from bayesprop.table_model.update import merged


def run(options: Merge) -> None:
    """Merge the models and save the model of all rows."""
    paths = [*options.models, *([] if options.start is None else [options.start])]
    check_output(options.out, "--out", paths)
    if not options.models:
        raise InputError("MODELS must be one model file at least")
    if len({path.resolve() for path in options.models}) < len(options.models):
        raise InputError("MODELS names a file twice: its rows would count twice")
    with listening(options):
        models = {str(path): open_model(path) for path in options.models}
        model = merged(models, options.start and open_model(options.start))
        model.save(options.out)
    rows = model.notes.rows
    if options.as_json:
        facts = {
            "model": str(options.out),
            "target": model.encoding.target_name,
            "method": model.saved.header["method"],
            "merged": list(models),
            "rows": rows,
            "guards": model.estimator.fit_report_.guards,
        }
        print_json(facts)
    note(f"merged {len(models)} models of {rows['train']} rows in all", quiet=options.quiet)
    note(f"model: {options.out}", quiet=options.quiet)

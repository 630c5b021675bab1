"""`export`: a model as a graph of ONNX."""

from __future__ import annotations

from bayesprop.cli.actions import Export
from bayesprop.cli.console import check_output, listening
from bayesprop.cli.predict import quantiles_of
from bayesprop.table_model.model import open_model


def run(options: Export) -> None:
    """Write the graph."""
    check_output(options.out, "FILE", [options.model])
    levels = quantiles_of(options.quantiles) or (0.05, 0.5, 0.95)
    with listening(options) as listener:
        open_model(options.model).to_onnx(options.out, levels)
    listener.note(f"graph: {options.out}")

"""The shell of a graph of ONNX: inputs, units, outputs, what its file says of itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.atomic import write_atomically
from bayesprop.model.method import WritesGraph
from bayesprop.model.task import Classes, Fitted, Numbers
from bayesprop.numerics.graphs import (
    ClassNodes,
    Node,
    NumberNodes,
    applied,
    entropy,
    larger,
    where_less,
)

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

QUANTILES = (0.05, 0.5, 0.95)
_ABLE = (
    "ONNX takes the methods 'linear', 'logistic', 'pbp', 'closed-form-vi', 'laplace' and 'ebp': "
    "fit one of these, as with --method pbp"
)
_GAPS = "every output of a row with a missing value, an unknown level or a far value is NaN"


def write_onnx(
    path: str | Path,
    fitted: Fitted,
    table: TableEncoding,
    about: dict[str, str],
    quantiles: Sequence[float] = QUANTILES,
) -> None:
    """Write what a fit predicts as a graph of ONNX, in float64, whole or not at all.

    table
        Whose columns are the inputs.
    about
        Kept in the file, with notes on its inputs and outputs.

    ValueError for what has no graph; ImportError without spox.
    """
    levels = np.asarray(quantiles, np.float64)
    if not ((levels > 0.0) & (levels < 1.0)).all():
        raise ValueError(f"quantiles must be levels between 0 and 1, got {[*quantiles]}")
    check(fitted)
    try:
        import onnx
        import spox
    except ImportError as error:
        raise ImportError("to_onnx needs spox: pip install 'bayesprop[onnx]'") from error
    inputs, X, columns = _inputs(table)
    outputs, notes = _outputs(fitted, X, levels)
    taken = {name: name if name not in inputs else f"predicted_{name}" for name in outputs}
    model = spox.build(inputs, {taken[name]: node.var for name, node in outputs.items()})
    about = about | {"inputs": columns, "gaps": _GAPS} | notes
    onnx.helper.set_model_props(model, about)
    model.producer_name, model.producer_version = "bayesprop", about.get("bayesprop", "")
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, lambda file: file.write(model.SerializeToString()))


def check(fitted: Fitted) -> None:
    """Raise ValueError for a fit whose method or kind of target has no graph."""
    if not isinstance(fitted.method, WritesGraph):
        raise ValueError(_ABLE)
    kind = fitted.task.kind
    if kind not in ("numbers", "classes"):
        raise ValueError(
            f"ONNX takes a target of the kind 'numbers' or 'classes', got {kind!r}: fit again with "
            "target_kind so (--target-kind numbers)"
        )


def _inputs(table: TableEncoding) -> tuple[dict[str, Any], Node, str]:
    """Return the inputs of a graph, the matrix that they become, and notes on them."""
    from spox import Tensor, argument

    from bayesprop.export import columns

    for column in table.columns:
        columns.check_column(column)
    given = {
        one.name: argument(Tensor(np.str_ if columns.is_text(one) else np.float64, ("rows", 1)))
        for one in table.columns
    }
    X = columns.matrix(table.columns, [Node(given[one.name]) for one in table.columns])
    said = [{"name": one.name, "holds": columns.unit_of(one)} for one in table.columns]
    return given, X, json.dumps(said)


def _outputs(
    fitted: Fitted, X: Node, levels: Float[np.ndarray, " q"]
) -> tuple[dict[str, Node], dict[str, str]]:
    """Return the predictions by name, and notes on them."""
    scaler, task = fitted.encoding.scaler, fitted.task
    x = (X - scaler.mean * scaler.unit) / scaler.scale  # exact: units are powers of two
    # NaN where a value is missing or far, else 0.
    far = where_less(applied("abs", x).sum(), fitted.method.furthest_input, 0.0, np.nan)
    nodes = cast(WritesGraph, fitted.method).graph(fitted.learned.state, x)
    if isinstance(nodes, ClassNodes):
        labels = [str(label) for label in cast(Classes, task).labels]
        proba = nodes.proba / nodes.proba.sum()
        doubt = larger(entropy(proba) - nodes.expected_entropy, 0.0)
        said = {"classes": json.dumps(labels), "doubt": "mutual_information in nats"}
        return {"proba": proba + far, "mutual_information": doubt + far}, said
    nodes = nodes._replace(mean=nodes.mean + far, epistemic_var=nodes.epistemic_var + far)
    named = _numbers(nodes, cast(Numbers, task), levels)
    return named, {"doubt": "epistemic_var and noise_var in the square of the target's unit"}


def _numbers(nodes: NumberNodes, task: Numbers, levels: Float[np.ndarray, " q"]) -> dict[str, Node]:
    """Bring a prediction to the units of the target, (n, o)."""
    scaler = task.scaler
    mean = nodes.mean * scaler.scale + scaler.mean * scaler.unit
    epistemic = nodes.epistemic_var * scaler.scale**2
    noise = (epistemic * 0.0) + nodes.noise_var * scaler.scale**2
    std = applied("sqrt", epistemic + noise)
    named = {"mean": mean, "epistemic_var": epistemic, "noise_var": noise}
    dof = nodes.dof
    shrink = np.where(np.isinf(dof), 1.0, np.sqrt(1.0 - 2.0 / dof))
    for level in levels:
        reach = shrink * np.where(np.isinf(dof), special.ndtri(level), special.stdtrit(dof, level))
        named[f"q_{level:g}"] = mean + std * reach
    return named

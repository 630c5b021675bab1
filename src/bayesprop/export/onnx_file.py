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
from bayesprop.distributions.gaussian_copula import COMPLETIONS
from bayesprop.model.method import WritesGraph
from bayesprop.model.task import Classes, Fitted, Numbers
from bayesprop.numerics.graphs import (
    ClassNodes,
    Node,
    NumberNodes,
    applied,
    bell,
    entropy,
    larger,
    operators,
    repeated,
    side_by_side,
    taken,
    where_less,
)

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

QUANTILES = (0.05, 0.5, 0.95)
_ABLE = (
    "ONNX takes the methods 'linear', 'logistic', 'pbp', 'closed-form-vi', 'laplace' and 'ebp': "
    "fit one of these, as with --method pbp"
)
_GAPS = f"such a row is a mixture over {COMPLETIONS} ways to fill them; one with a far value is NaN"
_DOUBT = "variances in the square of the target's unit, mutual_information in nats"
_SHARE = np.full((COMPLETIONS, 1), 1.0 / COMPLETIONS)
_HALVINGS = 36  # of the interval that holds a quantile of a mixture
_N_NORMALS = 16


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
    outputs = _outputs(fitted, X, levels)
    taken = {name: name if name not in inputs else f"predicted_{name}" for name in outputs}
    model = spox.build(inputs, {taken[name]: node.var for name, node in outputs.items()})
    about = about | {"inputs": columns, "gaps": _GAPS, "doubt": _DOUBT}
    if isinstance(fitted.task, Classes):
        about["classes"] = json.dumps([str(label) for label in fitted.task.labels])
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


def _outputs(fitted: Fitted, X: Node, levels: Float[np.ndarray, " q"]) -> dict[str, Node]:
    """Return the predictions by name; of rows with gaps where there are any."""
    op, named = operators(), _predicted(fitted, X, levels)

    def with_gaps() -> list[Any]:
        rows = Node(op.non_zero(Node(op.isnan(X.sum().var)).reshape(-1).var)).reshape(-1)
        copula = fitted.known_inputs.of_columns(len(fitted.encoding.scaler.mean))
        some = _predicted(fitted, copula.graph(taken(X, rows)), levels, is_completed=True)
        at = rows.reshape(-1, 1).var
        return [op.scatter_nd(named[name].var, at, one.var) for name, one in some.items()]

    both = op.if_(
        op.isnan(op.reduce_sum((X * 0.0).var, keepdims=0)),
        then_branch=with_gaps,
        else_branch=lambda: [op.identity(one.var) for one in named.values()],
    )
    return dict(zip(named, map(Node, both), strict=True))


def _predicted(
    fitted: Fitted, X: Node, levels: Float[np.ndarray, " q"], *, is_completed: bool = False
) -> dict[str, Node]:
    """Predict rows, NaN where a value is missing or far; or mix over the completions of each."""
    scaler, task = fitted.encoding.scaler, fitted.task
    x = (X - scaler.mean * scaler.unit) / scaler.scale  # exact: units are powers of two
    far = where_less(applied("abs", x).sum(), fitted.method.furthest_input, 0.0, np.nan)
    nodes = cast(WritesGraph, fitted.method).graph(fitted.learned.state, x)
    if isinstance(nodes, ClassNodes):
        proba, expected = nodes.proba / nodes.proba.sum() + far, nodes.expected_entropy + far
        if is_completed:
            n_classes, known = cast(Classes, task).n_classes, entropy(proba)
            proba = proba.reshape(-1, COMPLETIONS, n_classes).sum(1).reshape(-1, n_classes)
            proba, known, expected = proba * _SHARE[0], _averaged(known), _averaged(expected)
            # Between completions classes differ, but not by what more rows would tell.
            expected += larger(entropy(proba) - known, 0.0)
        doubt = entropy(proba) - expected
        return {"proba": proba, "mutual_information": larger(doubt, doubt * 0.0)}
    nodes = nodes._replace(mean=nodes.mean + far, epistemic_var=nodes.epistemic_var + far)
    each = _numbers(nodes, cast(Numbers, task), levels)
    return _mixed(each, nodes.dof, levels) if is_completed else each


def _averaged(node: Node) -> Node:
    """Average (n c, 1) over the completions of a row, (n, 1)."""
    return node.reshape(-1, COMPLETIONS) @ _SHARE


def _numbers(nodes: NumberNodes, task: Numbers, levels: Float[np.ndarray, " q"]) -> dict[str, Node]:
    """Bring a prediction to the units of the target, (n, 1)."""
    scaler, dof = task.scaler, nodes.dof
    mean = nodes.mean * scaler.scale + scaler.mean * scaler.unit
    epistemic = nodes.epistemic_var * scaler.scale**2
    noise = (epistemic * 0.0) + nodes.noise_var * scaler.scale**2
    std = applied("sqrt", epistemic + noise)
    named = {"mean": mean, "epistemic_var": epistemic, "noise_var": noise}
    shrink = np.where(np.isinf(dof), 1.0, np.sqrt(1.0 - 2.0 / dof))
    for level in levels:
        reach = np.where(np.isinf(dof), special.ndtri(level), special.stdtrit(dof, level))
        named[f"q_{level:g}"] = mean + std * (shrink * reach)
    return named


def _mixed(
    each: dict[str, Node], dof: Float[np.ndarray, " 1"], levels: Float[np.ndarray, " q"]
) -> dict[str, Node]:
    """Mix the predictions of completions; what these add to the variance is noise."""
    m, epistemic, noise = (one.reshape(-1, COMPLETIONS) for one in [*each.values()][:3])
    mean = m @ _SHARE
    noise_var = (noise + (m - mean) * (m - mean)) @ _SHARE
    named = {"mean": mean, "epistemic_var": epistemic @ _SHARE, "noise_var": noise_var}
    if not (n := len(levels)):
        return named
    stds, weights = _normals(float(dof[0]))
    stds = applied("sqrt", epistemic + noise).reshape(-1, 1, COMPLETIONS, 1) * stds
    m = m.reshape(-1, 1, COMPLETIONS, 1)
    q = side_by_side([*each.values()][3:]).reshape(-1, COMPLETIONS, n).mT

    def halved(_: Node, low: Node, high: Node) -> list[Node]:
        middle = (low + high) * 0.5
        below = bell((middle.reshape(-1, n, 1, 1) - m) / stds).lower @ weights[:, None]
        below = below.reshape(-1, n, COMPLETIONS) @ _SHARE - levels[:, None]
        return [where_less(below, 0.0, *pair) for pair in ((middle, low), (high, middle))]

    low, _ = repeated(_HALVINGS, halved, -(-q).max(), q.max())
    return named | {f"q_{level:g}": taken(low, k, 1) for k, level in enumerate(levels)}


def _normals(dof: float) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """Return stds and shares of the normal distributions that a Student-t of std 1 mixes.

    Gauss quadrature over its precision, Gamma(dof / 2, dof / 2) (Golub & Welsch 1969): distribution
    functions to 5e-9 from 20 dof on.
    """
    if np.isinf(dof):
        return np.ones(1), np.ones(1)
    k, shape = np.arange(float(_N_NORMALS)), 0.5 * dof
    beside = np.diag(np.sqrt(k[1:] * (k[1:] + shape - 1.0)), 1)
    nodes, vectors = np.linalg.eigh(np.diag(2.0 * k + shape) + beside + beside.T)
    return np.sqrt((shape - 1.0) / nodes), vectors[0] ** 2

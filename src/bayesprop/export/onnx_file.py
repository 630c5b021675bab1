"""The shell of a graph of ONNX: columns of a table, units, outputs, what its file tells of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.atomic import write_atomically
from bayesprop.distributions.gaussian_copula import COMPLETIONS
from bayesprop.distributions.imputed import MEMBERS
from bayesprop.distributions.mixture import members_heard
from bayesprop.model.method import WritesGraph
from bayesprop.model.task import Classes, Fitted, Numbers
from bayesprop.numerics.graphs import (
    ClassNodes,
    Node,
    NumberNodes,
    affine,
    applied,
    entropy,
    larger,
    non_zero,
    operators,
    repeated,
    side_by_side,
    smaller,
    student,
    taken,
    variable,
    where_less,
)
from bayesprop.table.columns import (
    DAY_SECONDS,
    HOUR,
    SEASON,
    WEEKDAY,
    YEAR_SECONDS,
    YEARS,
    CategoryColumn,
    DateColumn,
    NumericColumn,
)
from bayesprop.table.encoded import EncodedColumn, LevelsColumn
from bayesprop.table.values import DURATION, MARKS

if TYPE_CHECKING:
    from spox import Var

    from bayesprop.table.encoding import TableEncoding


_LARGEST = float(np.finfo(np.float64).max)
_SAME = 1e-300  # a distance that only equal numbers have
QUANTILES = (0.05, 0.5, 0.95)
_ABLE = "ONNX takes every method but 'default' and 'batch-ep': fit another, as with --method pbp"
_GAPS = f"such a row is a mixture over {COMPLETIONS} ways to fill them; one with a far value is NaN"
_DOUBT = "variances in the square of the target's unit, mutual_information in nats"
_SHARE = np.full((COMPLETIONS, 1), 1.0 / COMPLETIONS)
_MOST_STEPS, _LEAST_MOVE = 60, 1e-7  # of Newton's method, in standard deviations


def check_column(column: EncodedColumn) -> None:
    """Raise ValueError for a column that no graph can encode."""
    is_numeric = isinstance(column, NumericColumn) and not column.limits
    if is_numeric or isinstance(column, CategoryColumn | DateColumn):
        return
    raise ValueError(
        f"ONNX takes columns of numbers, true and false, dates, durations and categories of up "
        f"to 50 levels, and column {column.name!r} is none of them: fit again without it (drop)"
    )


def is_text(column: EncodedColumn) -> bool:
    """Whether the input of a column is a string; else it is a double."""
    return isinstance(column, LevelsColumn) and not column.is_numbers


def unit_of(column: EncodedColumn) -> str:
    """Say what the numbers of an input are."""
    if is_text(column):
        return "a level as text, without spaces around it; empty: missing"
    if isinstance(column, DateColumn):
        return "seconds since 1970-01-01, or since midnight of a time of day; NaN: missing"
    of_durations = isinstance(column, NumericColumn) and column.written == DURATION
    return "seconds" if of_durations else "a number as in training, true 1, false 0; NaN: missing"


def matrix(columns: Sequence[EncodedColumn], given: Sequence[Node]) -> Node:
    """Encode all inputs (n, 1), NaN where a value is missing or a level is unknown."""
    plain = [isinstance(one, NumericColumn) and not one.marked for one in columns]
    parts = []
    for is_plain, run in groupby(zip(plain, columns, given, strict=True), itemgetter(0)):
        # Fewer operators serve columns of numbers together.
        nodes = [node if is_plain else _encoded(column, node) for _, column, node in run]
        parts += [_finite(side_by_side(nodes))] if is_plain else nodes
    return side_by_side(parts)


def _finite(given: Node) -> Node:
    """Return numbers; infinities are missing, too."""
    return where_less(applied("abs", given), _LARGEST, given, np.nan)


def _encoded(column: EncodedColumn, given: Node) -> Node:
    if is_text(column):
        return _encoded_text(cast(LevelsColumn, column), given)
    known = _finite(given)
    gap = known - known
    if isinstance(column, DateColumn):
        return _marked(column, [_PARTS[part](known) for part in column.parts], gap)
    if not isinstance(column, LevelsColumn):
        return _marked(column, [known], gap)
    numbers = np.array(column.known, np.float64)
    within = smaller(larger(known, numbers.min()), numbers.max()) + gap
    flags = where_less(applied("abs", known - numbers), _SAME, 1.0, 0.0)
    # 0 / 0 where no level is the number.
    return _marked(column, [within, flags + (flags.sum() / flags.sum() - 1.0)], gap)


def _encoded_text(column: LevelsColumn, given: Node) -> Node:
    import spox.opset.ai.onnx.ml.v3 as ml

    n, missing = len(column.known), ("", *MARKS, *column.words)
    missing = [word for word in missing if word not in column.known]
    # The last row, the place -1, is of words that no list has: only missing ones are marked.
    rows = np.vstack([np.eye(n), np.full((2, n), np.nan)])
    if column.marked:
        rows = np.column_stack([rows, np.arange(n + 2) == n])
    places = ml.label_encoder(
        given.var,
        default_int64=-1,
        keys_strings=[*column.known, *missing],
        values_int64s=[*range(n), *[n] * len(missing)],
    )
    return Node(operators().gather(variable(rows), places, axis=0)).reshape(-1, rows.shape[1])


def _round(turns: Node) -> Node:
    """Return sine and cosine of turns, as `table.columns` does."""
    angle = (turns - applied("floor", turns)) * (2.0 * np.pi)
    return side_by_side([applied("sin", angle), applied("sin", angle + 0.5 * np.pi)])


def _weekday(seconds: Node) -> Node:
    days = applied("floor", seconds / DAY_SECONDS) + 3.0  # 1970 began on a Thursday
    day = days - applied("floor", days / 7.0) * 7.0
    return where_less(applied("abs", day - np.arange(7.0)), 0.5, 1.0, 0.0) + (seconds - seconds)


_PARTS: dict[str, Callable[[Node], Node]] = {
    YEARS: lambda seconds: seconds / YEAR_SECONDS + 1970.0,
    SEASON: lambda seconds: _round(seconds / YEAR_SECONDS),
    WEEKDAY: _weekday,
    HOUR: lambda seconds: _round(seconds / DAY_SECONDS),
}


def _marked(column: EncodedColumn, values: list[Node], gap: Node) -> Node:
    """Mark missing values in a further column, if the encoding does; `gap` is NaN there, else 0."""
    if column.marked:
        values = [*values, where_less(gap, 1.0, 0.0, 1.0)]
    return side_by_side(values)


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


def _inputs(table: TableEncoding) -> tuple[dict[str, Var], Node, str]:
    """Return the inputs of a graph, the matrix that they become, and notes on them."""
    from spox import Tensor, argument

    for column in table.columns:
        check_column(column)
    given = {
        one.name: argument(Tensor(np.str_ if is_text(one) else np.float64, ("rows", 1)))
        for one in table.columns
    }
    X = matrix(table.columns, [Node(given[one.name]) for one in table.columns])
    said = [{"name": one.name, "holds": unit_of(one)} for one in table.columns]
    return given, X, json.dumps(said)


def _outputs(fitted: Fitted, X: Node, levels: Float[np.ndarray, " q"]) -> dict[str, Node]:
    """Return the predictions by name; of rows with gaps where there are any."""
    op, scaler = operators(), fitted.encoding.scaler

    def standardised(X: Node) -> tuple[Node, Node]:
        x = (X - scaler.mean * scaler.unit) / scaler.scale  # exact: units are powers of two
        return x, applied("abs", x).sum()

    x, size = standardised(X)
    every = _predicted(fitted, x, size, levels)

    def with_gaps() -> list[Var]:
        rows = non_zero(Node(op.isnan(size.var)).reshape(-1))
        copula = fitted.known_inputs.of_columns(len(scaler.mean))
        filled = standardised(copula.graph(taken(X, rows)))
        some = _predicted(fitted, *filled, levels, is_completed=True)
        at = op.cast(rows.reshape(-1, 1).var, to=np.int64)
        return [op.scatter_nd(every.var, at, some.var)]

    (both,) = op.if_(
        op.isnan(op.reduce_sum(size.var, keepdims=0)),
        then_branch=with_gaps,
        else_branch=lambda: [op.identity(every.var)],
    )
    widths = dict.fromkeys(["mean", "epistemic_var", "noise_var", *map("q_{:g}".format, levels)], 1)
    if isinstance(fitted.task, Classes):
        widths = {"proba": fitted.task.n_classes, "mutual_information": 1}
    sizes = op.const(np.array([*widths.values()]))
    return dict(
        zip(
            widths,
            map(Node, op.split(both, sizes, outputs_count=len(widths), axis=-1)),
            strict=True,
        )
    )


def _predicted(
    fitted: Fitted,
    x: Node,
    size: Node,
    levels: Float[np.ndarray, " q"],
    *,
    is_completed: bool = False,
) -> Node:
    """Predict standardised rows, or mix over the completions of each: outputs side by side.

    size
        Sum of the absolute values of a row, (n, 1): NaN where one is missing.
    """
    far = where_less(size, fitted.method.furthest_input, 0.0, np.nan)
    nodes = cast(WritesGraph, fitted.method).graph(fitted.learned.state, x)
    if isinstance(nodes, ClassNodes):
        proba, expected = nodes.proba / nodes.proba.sum() + far, nodes.expected_entropy + far
        if is_completed:
            n_classes, known = cast(Classes, fitted.task).n_classes, entropy(proba)
            proba = proba.reshape(-1, COMPLETIONS, n_classes).sum(1).reshape(-1, n_classes)
            proba, known, expected = proba * _SHARE[0], _averaged(known), _averaged(expected)
            # Between completions classes differ, but not by what more rows would tell.
            expected += larger(entropy(proba) - known, 0.0)
        doubt = entropy(proba) - expected
        return side_by_side([proba, larger(doubt, doubt * 0.0)])
    each, n_completions = _numbers(nodes, cast(Numbers, fitted.task), levels), 1
    if is_completed:
        n_completions = COMPLETIONS
    elif nodes.n_draws == 1:
        return each + far
    each = each.reshape(-1, nodes.n_draws, 3 + len(levels)) + far.reshape(-1, 1, 1)
    return _mixed(each, float(nodes.dof[0]), levels, n_completions, nodes.n_draws)


def _averaged(node: Node) -> Node:
    """Average (n c, 1) over the completions of a row, (n, 1)."""
    return node.reshape(-1, COMPLETIONS) @ _SHARE


def _numbers(nodes: NumberNodes, task: Numbers, levels: Float[np.ndarray, " q"]) -> Node:
    """Mean, both variances and quantiles in the units of the target, (n, 3 + q)."""
    scaler, dof = task.scaler, nodes.dof
    std = applied("sqrt", nodes.epistemic_var + nodes.noise_var)
    reach = special.ndtri(levels)
    if np.isfinite(dof).all():
        reach = special.stdtrit(dof, levels) * np.sqrt(1.0 - 2.0 / dof)
    of_mean = np.append([1.0, 0.0, 0.0], np.ones_like(levels))
    change = np.zeros((4, 3 + len(levels)))
    change[0], change[1:3, 1:3], change[3, 3:] = of_mean, np.eye(2), reach
    to_target = np.stack([scaler.scale, scaler.scale**2, scaler.scale**2, scaler.scale])
    start, noise, used = of_mean * (scaler.mean * scaler.unit), [], [0, 1, 3]
    if isinstance(nodes.noise_var, Node):
        noise, used = [nodes.noise_var], [0, 1, 2, 3]
    else:
        start[2:3] = nodes.noise_var * scaler.scale**2
    moments = side_by_side([nodes.mean, nodes.epistemic_var, *noise, std])
    return affine(moments, (change * to_target)[used], start)


def _mixed(
    each: Node, dof: float, levels: Float[np.ndarray, " q"], n_completions: int, n_draws: int = 1
) -> Node:
    """Mix predictions of draws of the weights, and of completions.

    What draws add to the variance is epistemic, what completions add is noise.
    """
    n, n_each = len(levels), n_completions * n_draws
    each, share = each.reshape(-1, n_each, 3 + n), np.full((n_each, 1), 1.0 / n_each)
    m, epistemic, noise = (taken(each, k, 2) for k in range(3))
    mean, epistemic_var, noise_var = m @ share, epistemic @ share, noise @ share
    of_draws = m.reshape(-1, n_completions, n_draws)
    own = of_draws.sum() * (1.0 / n_draws)
    if n_draws > 1:
        apart = (of_draws - own).reshape(-1, n_each)
        epistemic_var += apart * apart @ share
    if n_completions > 1:
        apart = own.reshape(-1, n_completions) - mean
        noise_var += (apart * apart) @ np.full((n_completions, 1), 1.0 / n_completions)
    if not n:
        return side_by_side([mean, epistemic_var, noise_var])
    if n_completions > 1 and n_draws > MEMBERS:  # as `MixturePredictive.over_completions`
        heard = members_heard(MEMBERS, n_draws, n_completions) + n_draws * np.arange(n_completions)
        heard = heard.ravel()
        each, n_each = taken(each, heard, 1), len(heard)
        m, epistemic, noise = (taken(each, k, 2) for k in range(3))
        share = np.full((n_each, 1), 1.0 / n_each)
    # In standard deviations of the mixture, from its mean.
    std = applied("sqrt", epistemic_var + noise_var)
    m = ((m - mean) / std).reshape(-1, 1, n_each)
    shrink = 1.0 if np.isinf(dof) else np.sqrt(1.0 - 2.0 / dof)
    rate = (std * (1.0 / shrink) / applied("sqrt", epistemic + noise)).reshape(-1, 1, n_each)
    q = (taken(each, np.arange(3, 3 + n), 2).mT - mean.reshape(-1, 1, 1)) / std.reshape(-1, 1, 1)

    def newton(_: Node, at: Node, low: Node, high: Node) -> list[Node]:
        bell = student((at - m) * rate, dof)
        excess = bell.lower @ share - levels[:, None]
        low, high = where_less(excess, 0.0, at, low), where_less(excess, 0.0, high, at)
        step, middle = at - excess / ((bell.density * rate) @ share), (low + high) * 0.5
        is_within = applied("abs", step - middle), (high - low) * 0.5 + _LEAST_MOVE
        return [where_less(*is_within, step, middle), low, high]

    low, high = -(-q).max() - 1.0, q.max() + 1.0
    start = low * 0.0 + special.ndtri(levels)[:, None]
    at, *_ = repeated(_MOST_STEPS, newton, start, low, high, least_move=_LEAST_MOVE)
    return side_by_side([mean, epistemic_var, noise_var, mean + std * at.reshape(-1, n)])

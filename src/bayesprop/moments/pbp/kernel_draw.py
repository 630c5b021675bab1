"""Functions drawn from the posterior at a few inputs, compiled, without drawing the weights.

The weights into a unit are independent Gaussians, so that what the unit computes at k inputs, the
rows of X, is jointly Gaussian,

    a ~ N(s X m, s² X diag(v) X')        s = 1/sqrt(number of inputs, bias included)

and given the drawn inputs of the next layer, so are its units: k normals a unit instead of one a
weight, and the same distribution.
"""

from __future__ import annotations

from bayesprop.moments.pbp.kernel_layers import n_blocks
from bayesprop.moments.pbp.kernel_workspace import BLOCK, N_OUT, N_ROWS, PAIR, WEIGHTS
from bayesprop.simd.lanes import (
    compiled,
    inlined,
    load8,
    select,
    spread8,
    spread_at,
    store,
    total,
)
from bayesprop.simd.normals import roots

LEAST_PIVOT = 1e-13
"""What is left of a variance, as a share of it, below which it counts as rounding."""


def n_normals(layer_sizes, k):
    """Return how many standard normals a draw at k inputs takes."""
    hidden = sum(BLOCK * (size // BLOCK + 1) for size in layer_sizes[1:-1])
    return k * (hidden + layer_sizes[-1])


def scratch_size(k):
    """Return the floats that `draw_functions` works with at k inputs: means, roots, covariances."""
    return BLOCK * (2 * k + k * (k + 1) // 2)


@inlined
def _entry(k, i, j):
    """Where the covariance of inputs i >= j lies in the scratch memory."""
    return BLOCK * (2 * k + i * (i + 1) // 2 + j)


@inlined
def _hidden_moments(work, depth, acts, s, at, scratch):
    """Write mean and covariance of eight units, whose weights begin at `at`, for inputs acts[s]."""
    n_rows, k, scale = work.layers[depth, N_ROWS], acts.shape[1], work.scales[depth]
    for a in range(k):
        start = (s * k + a) * acts.shape[2]
        m_a, pair = spread8(0.0), at
        for i in range(n_rows):
            m_a = m_a + load8(work.weights, pair) * spread_at(acts, start + i)
            pair += PAIR
        store(scratch, BLOCK * a, scale * m_a)
        for b in range(a + 1):
            other = (s * k + b) * acts.shape[2]
            v_ab, pair = spread8(0.0), at + BLOCK
            for i in range(n_rows):
                product = spread_at(acts, start + i) * spread_at(acts, other + i)
                v_ab = v_ab + load8(work.weights, pair) * product
                pair += PAIR
            store(scratch, _entry(k, a, b), scale * scale * v_ab)


@inlined
def _output_moments(work, depth, acts, s, at, scratch):
    """Do as `_hidden_moments` for one output; all eight lanes are it."""
    n_rows, k, scale = work.layers[depth, N_ROWS], acts.shape[1], work.scales[depth]
    width = BLOCK * n_blocks(n_rows)
    for a in range(k):
        start = (s * k + a) * acts.shape[2]
        m_a, pair = spread8(0.0), at
        for unit in range(0, width, BLOCK):
            m_a = m_a + load8(work.weights, pair) * load8(acts, start + unit)
            pair += PAIR
        store(scratch, BLOCK * a, spread8(scale * total(m_a)))
        for b in range(a + 1):
            other = (s * k + b) * acts.shape[2]
            v_ab, pair = spread8(0.0), at + BLOCK
            for unit in range(0, width, BLOCK):
                product = load8(acts, start + unit) * load8(acts, other + unit)
                v_ab = v_ab + load8(work.weights, pair) * product
                pair += PAIR
            store(scratch, _entry(k, a, b), spread8(scale * scale * total(v_ab)))


@inlined
def _remainder(k, scratch, i, j):
    """Return the covariance of inputs i and j without what the inputs before j explain."""
    rest = load8(scratch, _entry(k, i, j))
    for p in range(j):
        root = load8(scratch, BLOCK * (k + p))
        rest = rest - (
            load8(scratch, _entry(k, i, p)) * root * (load8(scratch, _entry(k, j, p)) * root)
        )
    return rest


@inlined
def _factorise(k, scratch):
    """Replace covariances by L, of L D L', and write the roots of D; D may have zeros.

    The same inputs have the same entries, so that their row of L is exactly that of the first one,
    and what is left of their variance is 0.
    """
    for j in range(k):
        least = LEAST_PIVOT * load8(scratch, _entry(k, j, j))
        rest = _remainder(k, scratch, j, j)
        is_uncertain = rest > least
        pivot = select(is_uncertain, rest, 1.0)
        root, _ = roots(pivot)
        store(scratch, BLOCK * (k + j), select(is_uncertain, root, 0.0))
        store(scratch, _entry(k, j, j), spread8(1.0))
        for i in range(j + 1, k):
            part = _remainder(k, scratch, i, j) / pivot
            store(scratch, _entry(k, i, j), select(is_uncertain, part, 0.0))


@inlined
def _drawn(k, a, scratch, normals, at):
    """Return what eight units compute at input a; their normals begin at `at`, eight an input."""
    value = load8(scratch, BLOCK * a)
    for j in range(a + 1):
        step = load8(scratch, BLOCK * (k + j)) * load8(normals, at + BLOCK * j)
        value = value + load8(scratch, _entry(k, a, j)) * step
    return value


@inlined
def _activate(k, scratch, normals, at, acts, s, unit):
    """Write the activations of eight units in one draw."""
    for a in range(k):
        value = _drawn(k, a, scratch, normals, at)
        place = (s * k + a) * acts.shape[2] + unit
        store(acts, place, select(value > 0.0, value, 0.0))


@inlined
def _copy_rows(x, acts):
    """Make the rows of x, and a one for the bias, the inputs of every draw."""
    for s in range(acts.shape[0]):
        for a in range(x.shape[0]):
            for i in range(x.shape[1]):
                acts[s, a, i] = x[a, i]
            acts[s, a, x.shape[1]] = 1.0


@compiled
def draw_functions(work, x, normals, scratch, acts, spare, out):
    """Write draws of all outputs at all rows of x, at most a few: (s, k, o).

    normals
        (s, `n_normals`), used in the order of the layers.
    scratch
        `scratch_size` floats.
    acts, spare
        (s, k, units of the largest layer, inputs too, filled up as in the workspace), two of them.
    """
    last, k = work.layers.shape[0] - 1, x.shape[0]
    n_draws, n_normals = normals.shape
    used = 0
    _copy_rows(x, spare)
    for depth in range(last):
        at, size = work.layers[depth, WEIGHTS], PAIR * work.layers[depth, N_ROWS]
        for unit in range(0, work.layers[depth, N_OUT] + 1, BLOCK):
            for s in range(n_draws):
                if depth > 0 or s == 0:
                    _hidden_moments(work, depth, spare, s, at, scratch)
                    _factorise(k, scratch)
                _activate(k, scratch, normals, s * n_normals + used, acts, s, unit)
            at += size
            used += BLOCK * k
        acts, spare = spare, acts
    for s in range(n_draws):
        for o in range(work.layers[last, N_OUT]):
            size = 2 * BLOCK * n_blocks(work.layers[last, N_ROWS])
            _output_moments(work, last, spare, s, work.layers[last, WEIGHTS] + o * size, scratch)
            _factorise(k, scratch)
            for a in range(k):
                value = scratch[BLOCK * a]
                for j in range(a + 1):
                    step = scratch[BLOCK * (k + j)] * normals[s, used + o * k + j]
                    value += scratch[_entry(k, a, j)] * step
                out[s, a, o] = value

"""Members of the noise-network recipe that gave up on some rows, and a second start for them.

A mean network that weighs rows by their noise can leave a cluster of them alone, whose errors its
noise network then explains, so that it never learns them: one member in some hundreds. The others
show that the rows can be fitted.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.moments.network_ensemble.ensemble_state import (
    EnsembleSettings,
    EnsembleState,
    init,
)
from bayesprop.moments.network_ensemble.ensemble_training import (
    Rows,
    by_member,
    outputs,
    together,
    train,
)
from bayesprop.moments.network_ensemble.member import TILT_LIMIT

MOST_TIMES, MOST_NATS = 2.0, 0.1
"""Times the root mean square error of the others, and nats a row below them, of a member that is
still taken to have learnt all rows."""

_MOST_ROWS = 100_000


def gave_up(state: EnsembleState, rows: Rows) -> list[int]:
    """Return the numbers of members whose training errors are far above those of the others.

    They must lie above MOST_TIMES the median of the others, and the log-likelihood more than
    MOST_NATS below theirs: one that leaves outliers alone has large errors, too, but says so.
    """
    if state.n_members < 2:
        return []
    errors, log_likelihood = _on_rows(state, rows)
    found = []
    for k in range(state.n_members):
        others = np.arange(state.n_members) != k
        larger = errors[k] > MOST_TIMES * np.median(errors[others], axis=0)
        lower = log_likelihood[k] < np.median(log_likelihood[others], axis=0) - MOST_NATS
        if np.any(larger & lower):
            found.append(k)
    return found


def _on_rows(
    state: EnsembleState, rows: Rows
) -> tuple[Float[np.ndarray, "k o"], Float[np.ndarray, "k o"]]:
    """Root mean square errors of the members' means, and means of `student_t_bound`.

    Of a long table over rows at equal distances: memory stays bounded.
    """
    some = slice(None, None, -(-len(rows.x) // _MOST_ROWS))
    x, y, weight = rows.x[some], rows.y[some], rows.weight[some]
    said = outputs(state, x)
    dof = said.dof[:, None, :]
    square = (said.m - y) ** 2
    with np.errstate(over="ignore", invalid="ignore"):  # a fit that failed says so elsewhere
        e = np.exp(np.minimum(0.5 * said.l_v, TILT_LIMIT) - said.l_m) * square
    constant = special.gammaln(0.5 * (dof + 1.0)) - special.gammaln(0.5 * dof)
    constant = constant - 0.5 * np.log(np.pi * dof)
    bound = constant - 0.5 * said.l_m - 0.5 * (dof + 1.0) * np.log1p(e / dof)
    means = [np.average(each, axis=1, weights=weight) for each in (square, bound)]
    return np.sqrt(means[0]), means[1]


def start_again(
    state: EnsembleState, rows: Rows, settings: EnsembleSettings, member: int
) -> EnsembleState:
    """Train a member anew from another start, and keep the better of the two."""
    seed = int(np.random.SeedSequence([state.seed % 2**32, 1]).generate_state(1)[0])
    drawn = init(seed, state.n_inputs, rows.y, settings)
    n = drawn.slope.size // drawn.n_members
    fresh = drawn._replace(
        members=jax.tree.map(lambda leaf: leaf[member : member + 1], drawn.members),
        slope=np.zeros(n, np.float32),
        slope_square=np.zeros(n, np.float32),
        log_floor=state.log_floor,
        deviations=drawn.deviations[member : member + 1],
    )
    fresh, _ = train(fresh, rows, settings, settings.n_steps, first_member=member)
    replaced = _with_member(state, member, fresh)
    before, after = (_on_rows(each, rows)[1][member].sum() for each in (state, replaced))
    return replaced if after > before else state


def _with_member(state: EnsembleState, member: int, one: EnsembleState) -> EnsembleState:
    def put(leaf: np.ndarray, new: np.ndarray) -> np.ndarray:
        return np.concatenate([leaf[:member], new, leaf[member + 1 :]])

    slopes = []
    for whole, new in ((state.slope, one.slope), (state.slope_square, one.slope_square)):
        each = by_member(whole, state)
        each[member] = new
        slopes.append(np.concatenate([np.ravel(part) for part in together(each, state)]))
    members = jax.tree.map(put, state.members, one.members)
    return state._replace(members=members, slope=slopes[0], slope_square=slopes[1])

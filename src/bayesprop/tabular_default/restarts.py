"""Members of the ensemble that gave up on some rows, and a second start for them.

A mean network that weighs rows by their noise can leave a cluster of them alone, whose errors its
noise network then explains, so that it never learns them: one member in some hundreds. The others
show that the rows can be fitted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.numerics.student_t_bound import student_t_bound
from bayesprop.tabular_default.distinct_rows import Rows
from bayesprop.tabular_default.outputs import outputs
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.state import EnsembleState, init
from bayesprop.tabular_default.training import train

MOST_TIMES, MOST_NATS = 2.0, 0.1
"""Times the root mean square error of the others, and nats a row below them, of a member that is
still taken to have learnt all rows."""

_MOST_ROWS = 100_000


class Scores(NamedTuple):
    """Root mean square errors of the members' means, and means of `student_t_bound`; (k, o)."""

    rmse: Float[np.ndarray, "k o"]
    bound: Float[np.ndarray, "k o"]


def gave_up(
    state: EnsembleState, rows: Rows, fold: Int[np.ndarray, " n"] | None = None
) -> list[int]:
    """Return the numbers of members whose training errors are far above those of the others.

    They must lie above MOST_TIMES the median of the others, and the log-likelihood more than
    MOST_NATS below theirs: one that leaves outliers alone has large errors, too, but says so.
    """
    if state.n_members < 2:
        return []
    rmse, bound = scores(state, rows, fold)
    members = []
    for k in range(state.n_members):
        others = np.arange(state.n_members) != k
        larger = rmse[k] > MOST_TIMES * np.median(rmse[others], axis=0)
        lower = bound[k] < np.median(bound[others], axis=0) - MOST_NATS
        if np.any(larger & lower):
            members.append(k)
    return members


def scores(state: EnsembleState, rows: Rows, fold: Int[np.ndarray, " n"] | None = None) -> Scores:
    """Score every member on the rows it was trained on; of a long table on some of them."""
    some = slice(None, None, -(-len(rows.x) // _MOST_ROWS))
    x, y, weight = rows.x[some], rows.y[some], rows.weight[some]
    noisy = outputs(state, x)
    square = (noisy.m - y) ** 2
    bound = student_t_bound(square, noisy.l_m, noisy.l_v, noisy.dof)
    fold = np.full(len(rows.x), -1) if fold is None else fold
    counts = [np.where(fold[some] == k, 0.0, weight) for k in range(state.n_members)]
    means = [
        np.stack([np.average(one, axis=0, weights=w) for one, w in zip(each, counts, strict=True)])
        for each in (square, bound)
    ]
    return Scores(np.sqrt(means[0]), means[1])


def restart(
    state: EnsembleState,
    rows: Rows,
    settings: EnsembleSettings,
    member: int,
    fold: Int[np.ndarray, " n"] | None = None,
) -> EnsembleState:
    """Train a member anew from another start, and keep the better of the two."""
    seed = int(np.random.SeedSequence([state.seed % 2**32, 1]).generate_state(1)[0])
    drawn = init(seed, state.n_inputs, rows.y, settings).members[member]
    alone = EnsembleState.of((drawn,), state.log_floor, seed)
    (fresh,) = train(alone, rows, settings, fold=fold, first_member=member)[0].members
    members = *state.members[:member], fresh, *state.members[member + 1 :]
    replaced = state._replace(members=members)
    before, after = (scores(each, rows, fold).bound[member].sum() for each in (state, replaced))
    return replaced if after > before else state

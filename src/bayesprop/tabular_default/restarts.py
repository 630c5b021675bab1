"""Members of the ensemble that gave up on some rows, and a second start for them.

A mean network that weighs rows by their noise can leave a cluster of them alone, whose errors its
noise network then explains, so that it never learns them: one member in some hundreds. The others
show that the rows can be fitted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.numerics.student_t_bound import student_t_bound
from bayesprop.tabular_default.networks import Networks, init_networks
from bayesprop.tabular_default.outputs import outputs
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.training import Table, train

MOST_TIMES, MOST_NATS = 2.0, 0.1
"""Times the root mean square error of the others, and nats a row below them, of a member that is
still taken to have learnt all rows."""

_MOST_ROWS = 100_000


class Scores(NamedTuple):
    """Root mean square errors of the members' means, and means of `student_t_bound`; (k, o)."""

    rmse: Float[np.ndarray, "k o"]
    bound: Float[np.ndarray, "k o"]


def gave_up(networks: Networks, table: Table) -> list[int]:
    """Return the numbers of members whose training errors are far above those of the others.

    They must lie above MOST_TIMES the median of the others, and the log-likelihood more than
    MOST_NATS below theirs: one that leaves outliers alone has large errors, too, but says so.
    """
    if networks.n_members < 2:
        return []
    rmse, bound = scores(networks, table)
    members = []
    for k in range(networks.n_members):
        others = np.arange(networks.n_members) != k
        larger = rmse[k] > MOST_TIMES * np.median(rmse[others], axis=0)
        lower = bound[k] < np.median(bound[others], axis=0) - MOST_NATS
        if np.any(larger & lower):
            members.append(k)
    return members


def scores(networks: Networks, table: Table) -> Scores:
    """Score every member on the rows it was trained on; of a long table on some of them."""
    some = slice(None, None, -(-len(table.x) // _MOST_ROWS))
    x, y, weight = (part[some] for part in table[:3])
    noisy = outputs(networks, x)
    square = (noisy.m - y) ** 2
    bound = student_t_bound(square, noisy.l_m, noisy.l_v, noisy.dof)
    fold = np.full(len(x), -1) if table.fold is None else table.fold[some]
    counts = [np.where(fold == k, 0.0, weight) for k in range(networks.n_members)]
    means = [
        np.stack([np.average(one, axis=0, weights=w) for one, w in zip(each, counts, strict=True)])
        for each in (square, bound)
    ]
    return Scores(np.sqrt(means[0]), means[1])


def restart(
    networks: Networks, table: Table, settings: EnsembleSettings, seed: int, member: int
) -> Networks:
    """Train a member anew from another start, and keep the better of the two."""
    seed = int(np.random.SeedSequence([seed % 2**32, 1]).generate_state(1)[0])
    drawn = init_networks(seed, networks.n_inputs, table.y, settings).members[member]
    alone = Networks.of((drawn,), networks.log_floor)
    (one,), _ = train([alone], [table], [settings], seed=seed, numbers=[member])
    members = *networks.members[:member], *one.members, *networks.members[member + 1 :]
    replaced = networks._replace(members=members)
    before, after = (scores(each, table).bound[member].sum() for each in (networks, replaced))
    return replaced if after > before else networks

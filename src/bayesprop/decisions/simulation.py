"""A bandit in an environment: what it chose, what it regrets, how long it took."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.decisions.bandits import Bandit
from bayesprop.decisions.environments import Environment, expected_regret, realised_regret


class Run(NamedTuple):
    """One run.

    chosen
        Number of the arm, each interaction.
    expected_regret, realised_regret
        Each interaction; see `environments`.
    seconds
        Of select and settle, all interactions but the first, in which programs are compiled.
    """

    chosen: Int[np.ndarray, " n"]
    expected_regret: Float[np.ndarray, " n"]
    realised_regret: Float[np.ndarray, " n"]
    seconds: float


def run(bandit: Bandit, environment: Environment, n: int, *, seed: int) -> Run:
    """Let a bandit that has seen nothing interact n times; rewards come at once.

    seed
        Of the stream: agents with the same one meet the same contexts and the same luck.
    """
    if bandit.actions != list(environment.arms):
        raise ValueError(f"the bandit's arms are {bandit.actions}, not {environment.arms}")
    stream = environment.draw(n, seed=seed)
    place = {name: number for number, name in enumerate(environment.arms)}
    chosen, started = np.empty(n, int), time.perf_counter()
    for t in range(n):
        decision = bandit.select(stream.context[t])
        chosen[t] = place[decision.action]
        bandit.settle(decision, stream.realised[t, chosen[t]])
        if t == 0:
            started = time.perf_counter()
    seconds = time.perf_counter() - started
    return Run(chosen, expected_regret(stream, chosen), realised_regret(stream, chosen), seconds)

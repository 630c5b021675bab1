"""Milliseconds of one interaction of a bandit, to choose and to learn, on the mushroom's sizes.

python -m benchmarks.bandits           a minute; with torch installed, Bayes by Backprop in it, too

117 columns of 0 and 1, two arms, two hidden layers of 100; networks practise 64 steps on 64 rows of
4096 after every reward (Blundell et al. 2015, section 5.3). The memory is full from the start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median

import numpy as np

from bayesprop import (
    BayesByBackpropRegressor,
    EpsilonGreedy,
    PBPRegressor,
    PointNetworkRegressor,
    ThompsonSampler,
)
from bayesprop.bandits.policies import Bandit
from bayesprop.bandits.replayed_rewards import NeuralLinearRewards, ReplayedRewards
from bayesprop.cli.console import print_table

N_ATTRIBUTES, N_LETTERS, N_COLUMNS, N_MEMORY, N_INTERACTIONS = 22, 6, 117, 4096, 200
ARMS, SIZES = ("eat", "leave"), (100, 100)
RNG = np.random.default_rng(0)


def contexts(n: int) -> np.ndarray:
    """Draw one letter of every attribute, and cut to 117 columns."""
    letters = RNG.integers(N_LETTERS, size=(n, N_ATTRIBUTES))
    columns = (letters[:, :, None] == np.arange(N_LETTERS)).reshape(n, -1)
    return columns[:, :N_COLUMNS].astype(np.float64)


def bandits() -> dict[str, Bandit]:
    """Return agents by name; networks practise after every reward, as in the paper."""
    practising = partial(ReplayedRewards, reward_scale=10.0)
    settings = {"noise": 0.01, "learning_rate": 1e-3}
    backprop = BayesByBackpropRegressor(SIZES, **settings)
    mixture = BayesByBackpropRegressor(SIZES, prior="mixture", **settings)
    point = PointNetworkRegressor(SIZES, noise=1.0, learning_rate=1e-3, weight_decay=0.0)
    return {
        "Bayes by Backprop, 64 steps of 64": ThompsonSampler(
            practising(backprop), ARMS, n_averaged=2
        ),
        "the same with the scale mixture prior": ThompsonSampler(
            practising(mixture), ARMS, n_averaged=2
        ),
        "epsilon-greedy, 64 steps of 64": EpsilonGreedy(practising(point), ARMS),
        "neural-linear, 64 steps every 20": ThompsonSampler(NeuralLinearRewards(), ARMS),
        "linear": ThompsonSampler("linear", ARMS),
        "PBP, 1x50, streaming": ThompsonSampler(PBPRegressor((50,)), ARMS),
    }


def fill(bandit: Bandit) -> None:
    """Fill the memory in one practice instead of 4096."""
    rewards = bandit.begin(N_COLUMNS).rewards
    if not isinstance(rewards, ReplayedRewards):
        return
    every, rewards.every = rewards.every, N_MEMORY
    bandit.teach(contexts(N_MEMORY), RNG.choice(ARMS, N_MEMORY), RNG.standard_normal(N_MEMORY))
    rewards.every = every


def interaction(bandit: Bandit) -> Callable[[np.ndarray], object]:
    """Choose and learn once."""
    return lambda context: bandit.settle(bandit.select(context), float(context[0]))


def timed(once: Callable[[np.ndarray], object]) -> list[tuple[float, float]]:
    """Milliseconds of each interaction, and of the processor; the first twenty left out."""
    found = []
    for context in contexts(N_INTERACTIONS):
        started, busy = time.perf_counter(), time.process_time()
        once(context)
        busy = time.process_time() - busy
        found.append((1e3 * (time.perf_counter() - started), 1e3 * busy))
    return found[20:]


def line(name: str, found: list[tuple[float, float]]) -> tuple[str, ...]:
    """Summarise: best, median and mean time, and the processor's median."""
    taken, busy = zip(*found, strict=True)
    values = min(taken), median(taken), sum(taken) / len(taken), median(busy)
    return name, *(f"{value:.2f}" for value in values)


def in_torch() -> Callable[[np.ndarray], object]:
    """Bayes by Backprop written by hand in torch, eager: 64 steps of 64."""
    import torch

    sizes = (N_COLUMNS + len(ARMS), *SIZES, 1)
    m = [torch.randn(i + 1, o) / math.sqrt(i) for i, o in pairwise(sizes)]
    rho = [torch.full_like(part, -3.0) for part in m]
    for part in (*m, *rho):
        part.requires_grad_()
    adam = torch.optim.Adam([*m, *rho], lr=1e-3)
    x, y = torch.randn(N_MEMORY, sizes[0]), torch.randn(N_MEMORY, 1)
    ones = torch.ones(64, 1)

    def step() -> None:
        rows = torch.randint(0, N_MEMORY, (64,))
        z, kl = x[rows], torch.zeros(())
        for place, (mean, raw) in enumerate(zip(m, rho, strict=True)):
            std = torch.nn.functional.softplus(raw)
            w = mean + std * torch.randn_like(mean)
            z = torch.relu(z) if place else z
            z = torch.cat([z, ones], dim=1) @ w
            ratio = std**2 / 0.09
            kl = kl + 0.5 * (ratio - 1.0 - torch.log(ratio) + mean**2 / 0.09).sum()
        loss = kl / N_MEMORY + (0.5 * (z - y[rows]) ** 2 / 1e-4).mean()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()

    def once(context: np.ndarray) -> None:
        del context
        for _ in range(64):
            step()

    return once


def main() -> None:
    """Print milliseconds of every agent."""
    lines = []
    for name, bandit in bandits().items():
        fill(bandit)
        lines.append(line(name, timed(interaction(bandit))))
    try:
        found = timed(in_torch())
    except ImportError:
        lines.append(("Bayes by Backprop in torch: torch is not installed", "", "", "", ""))
    else:
        lines.append(line("Bayes by Backprop in torch, eager, learning only", found))
    head = ("agent", "best", "median", "mean", "processor")
    print_table("One interaction of a bandit, milliseconds", head, lines, right=(1, 2, 3, 4))


if __name__ == "__main__":
    main()

"""Two arms, rows of what they paid, and the whole state of a bandit, to compare."""

from __future__ import annotations

import json

import numpy as np

from bayesprop.bandits import policies
from bayesprop.bandits.arms import Arms

ARMS = Arms(["a", "b"], room=3)
FEATURES = Arms(["a", "b", "c"], features=[[0.0, 1.0], [1.0, 0.5], [1.0, -1.0]])
BOTH = np.array([0, 1])


def data(n, noise=0.0):
    """Contexts, arms and what they paid: the first number of a context, or -1."""
    rng = np.random.default_rng(1)
    rows, numbers = rng.standard_normal((n, 2)), rng.integers(2, size=n)
    return rows, numbers, np.where(numbers == 0, rows[:, 0], -1.0) + noise * rng.standard_normal(n)


def state(bandit):
    header, arrays = policies.to_stored(bandit)
    rewards = header["rewards"]["learnt"]
    if rewards.get("model") is not None:
        rewards["model"]["model"]["fit"].pop("report")  # which has the seconds
    return json.dumps(header, sort_keys=True), {k: v.tobytes() for k, v in arrays.items()}

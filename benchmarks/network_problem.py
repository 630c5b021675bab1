"""The network that the step times speak of, and rows to train it on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SIZES = (784, 1200, 1200, 10)
BATCH_SIZE = 128
N_STEPS = 25
N_ROWS = BATCH_SIZE * N_STEPS
N_THREADS = min(2, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else 2
LEARNING_RATE = 1e-3
RATES = (0.2, 0.5)  # of inputs and hidden units, as in Blundell et al. (2015), section 5.1

Epoch = Callable[[], None]
"""Runs one epoch to its end."""


class Digits(NamedTuple):
    """Rows of the size of MNIST's, without their content, which costs nothing."""

    x: np.ndarray
    y: np.ndarray


def digits() -> Digits:
    """Make the rows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(N_ROWS, SIZES[0])).astype(np.float32)
    return Digits(x, rng.integers(0, SIZES[-1], N_ROWS))


def use_same_cores() -> None:
    """Keep this process to two cores, or the one it was given: the same for every library."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:N_THREADS])

"""The same training with the two libraries that people take for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from benchmarks.network_problem import BATCH_SIZE, N_STEPS, SIZES, Epoch
from benchmarks.network_torch import train_epoch


def _blitz() -> Epoch:
    from blitz.modules import BayesianLinear
    from blitz.utils import variational_estimator

    mixture = {"prior_pi": 0.5, "prior_sigma_1": 1.0, "prior_sigma_2": math.exp(-6.0)}
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(SIZES):
        parts += [BayesianLinear(n_in, n_out, **mixture), nn.ReLU()]

    @variational_estimator
    class Net(nn.Sequential):
        """A network with blitz's methods."""

    net = Net(*parts[:-1])
    cost = 1.0 / (BATCH_SIZE * N_STEPS)

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return net.sample_elbo(
            x, y, functional.cross_entropy, sample_nbr=1, complexity_cost_weight=cost
        )

    return train_epoch(net.parameters(), loss)


def _bayesian_torch() -> Epoch:
    from bayesian_torch.layers import LinearReparameterization

    layers = nn.ModuleList([LinearReparameterization(*sizes) for sizes in pairwise(SIZES)])

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(())
        for k, layer in enumerate(layers):
            x, kl = layer(x)
            total = total + kl
            x = functional.relu(x) if k < len(layers) - 1 else x
        return functional.cross_entropy(x, y) + total / (BATCH_SIZE * N_STEPS)

    return train_epoch(layers.parameters(), loss)


EPOCHS: dict[str, Callable[[], Epoch]] = {
    "blitz-bayesian-pytorch": _blitz,
    "bayesian-torch": _bayesian_torch,
}

"""The same training in PyTorch, as a competent user would write it by hand: eager, or compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.network_problem import (
    BATCH_SIZE,
    LEARNING_RATE,
    N_STEPS,
    N_THREADS,
    RATES,
    SIZES,
    Epoch,
    digits,
)

Loss = Callable[[Tensor, Tensor], Tensor]
Wrap = Callable[[Loss], Loss]

_SHARE, _WIDE_STD, _NARROW_STD = 0.5, 1.0, math.exp(-6.0)
_PRIOR_VAR = 1.0


class GaussianLinear(nn.Module):
    """A layer whose weights are Gaussian; biases are a further row, as in a Bayesian network."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        start = torch.empty(n_in + 1, n_out).uniform_(-1.0, 1.0) * math.sqrt(6.0 / n_in)
        self.m = nn.Parameter(start)
        self.rho = nn.Parameter(torch.full_like(start, -5.0))


class LogVarianceLinear(GaussianLinear):
    """The same with the logarithm of the variance."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out)
        self.log_v = nn.Parameter(torch.full_like(self.m, -10.0))
        del self.rho


def _stack(layer: type[nn.Module]) -> nn.ModuleList:
    return nn.ModuleList([layer(n_in, n_out) for n_in, n_out in pairwise(SIZES)])


def train_epoch(
    parameters: Iterable[nn.Parameter], loss: Loss, *, optimizer_type: Any = torch.optim.SGD
) -> Epoch:
    """Give a function that trains an epoch, by plain gradient descent unless told otherwise."""
    data = digits()
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    optimizer = optimizer_type(parameters, lr=LEARNING_RATE, fused=True)

    def epoch() -> None:
        order = torch.randperm(len(x))
        for rows in order.split(BATCH_SIZE):
            optimizer.zero_grad(set_to_none=True)
            loss(x[rows], y[rows]).backward()
            optimizer.step()

    return epoch


def _plain(*, dropout: bool) -> Epoch:
    parts: list[nn.Module] = []
    for k, (n_in, n_out) in enumerate(pairwise(SIZES)):
        if dropout:
            parts.append(nn.Dropout(RATES[min(k, 1)]))
        parts += [nn.Linear(n_in, n_out), nn.ReLU()]
    net = nn.Sequential(*parts[:-1])
    return train_epoch(net.parameters(), lambda x, y: functional.cross_entropy(net(x), y))


def _normal_log_prob(w: Tensor, std: float) -> Tensor:
    return -0.5 * (w / std) ** 2 - math.log(std) - 0.5 * math.log(2.0 * math.pi)


def _mixture_log_prob(w: Tensor) -> Tensor:
    """Log of the sum of two densities; logaddexp costs three times as much."""
    wide = _normal_log_prob(w, _WIDE_STD) + math.log(_SHARE)
    narrow = _normal_log_prob(w, _NARROW_STD) + math.log(1.0 - _SHARE)
    return wide + functional.softplus(narrow - wide)


def _closed_kl(m: Tensor, v: Tensor, log_v: Tensor) -> Tensor:
    ratio = (v + m * m) / _PRIOR_VAR
    return 0.5 * (ratio - log_v).sum() + 0.5 * m.numel() * (math.log(_PRIOR_VAR) - 1.0)


def _back_prop(*, mixture: bool) -> Epoch:
    net = _stack(GaussianLinear)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        kl = x.new_zeros(())
        for k, layer in enumerate(net):
            std = functional.softplus(layer.rho)
            e = torch.randn_like(std)
            w = layer.m + std * e
            if mixture:
                log_q = -0.5 * e * e - std.log() - 0.5 * math.log(2.0 * math.pi)
                kl = kl + (log_q - _mixture_log_prob(w)).sum()
            else:
                kl = kl + _closed_kl(layer.m, std * std, 2.0 * std.log())
            x = torch.addmm(w[-1], x, w[:-1])
            x = functional.relu(x) if k < len(net) - 1 else x
        return functional.cross_entropy(x, y) + kl / (BATCH_SIZE * N_STEPS)

    return train_epoch(net.parameters(), loss)


def _local(wrap: Wrap) -> Epoch:
    net = _stack(LogVarianceLinear)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        kl = x.new_zeros(())
        for k, layer in enumerate(net):
            v = layer.log_v.exp()
            kl = kl + _closed_kl(layer.m, v, layer.log_v)
            mean = torch.addmm(layer.m[-1], x, layer.m[:-1])
            var = torch.addmm(v[-1], x * x, v[:-1])
            x = mean + var.sqrt() * torch.randn_like(mean)
            x = functional.relu(x) if k < len(net) - 1 else x
        return functional.cross_entropy(x, y) + kl / (BATCH_SIZE * N_STEPS)

    return train_epoch(net.parameters(), wrap(loss))


def _relu_moments(m: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    std = v.sqrt()
    a = m / std
    below = 0.5 * torch.erfc(-a / math.sqrt(2.0))
    density = torch.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    mean = m * below + std * density
    second = (m * m + v) * below + m * std * density
    return mean, second - mean * mean


def _closed_form(wrap: Wrap) -> Epoch:
    net = _stack(LogVarianceLinear)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        kl = x.new_zeros(())
        m_z, v_z = x, None
        for k, layer in enumerate(net):
            v_w = layer.log_v.exp()
            kl = kl + _closed_kl(layer.m, v_w, layer.log_v)
            m = torch.addmm(layer.m[-1], m_z, layer.m[:-1])
            square = m_z * m_z if v_z is None else m_z * m_z + v_z
            v = torch.addmm(v_w[-1], square, v_w[:-1])
            v = v if v_z is None else v + v_z @ layer.m[:-1] ** 2
            m_z, v_z = _relu_moments(m, v) if k < len(net) - 1 else (m, v)
        p = functional.softmax(m_z, dim=1)
        curvature = 0.5 * (p * (1.0 - p) * v_z).sum(dim=1)
        return functional.cross_entropy(m_z, y) + curvature.mean() + kl / (BATCH_SIZE * N_STEPS)

    return train_epoch(net.parameters(), wrap(loss), optimizer_type=torch.optim.Adam)


def _as_it_is(loss: Loss) -> Loss:
    return loss


torch.set_num_threads(N_THREADS)
torch.manual_seed(0)
torch.set_flush_denormal(True)  # as XLA does; without it, tails of densities cost tenfold

EPOCHS: dict[str, Callable[[], Epoch]] = {
    "plain": partial(_plain, dropout=False),
    "mc-dropout": partial(_plain, dropout=True),
    "bbb-mixture": partial(_back_prop, mixture=True),
    "bbb-gaussian": partial(_back_prop, mixture=False),
    "local": partial(_local, _as_it_is),
    "closed-form": partial(_closed_form, _as_it_is),
    "local, compiled": partial(_local, torch.compile),
    "closed-form, compiled": partial(_closed_form, torch.compile),
}

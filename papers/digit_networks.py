"""The networks behind the MNIST experiments of Blundell et al. (2015), each trained once.

A network is kept in a file beside the rows, written every few epochs, so that experiments share it
and a killed training goes on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesprop.atomic import write_atomically
from bayesprop.networks import draws
from bayesprop.networks.gradient_method import GradientMethod
from bayesprop.networks.likelihoods import Categorical
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.networks.priors import NormalPrior, ScaleMixturePrior
from bayesprop.numerics import loops
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.bayes_by_backprop import bayes_by_backprop
from bayesprop.sampling.mc_dropout import Rates, dropout_forward
from bayesprop.sampling.point_network import point_network
from papers import digits, uci
from papers import rows as row_files
from papers.protocol import Cell, Experiment, Scratch, Selection
from papers.rows import Row, done

LOCAL = "bbb-mixture-local"
"""The mixture's network whose activations are drawn, not its weights (Kingma et al. 2015)."""

BY_SGD = ("bbb-normal-sgd", "bbb-mixture-sgd")
"""Bayes by Backprop by plain SGD, as a public reproduction trains it: see `OF_SGD_KINDS`."""

KINDS = ("sgd", "dropout", "dropconnect", "bbb-normal", "bbb-mixture", LOCAL, *BY_SGD)
SAVED_EVERY = 5
_FOLDER = "networks"
_OF_SGD = {"sgd_step", "momentum"}
_OF_MIXTURE = {"share", "wide_std", "narrow_std"}
_OF_BBB = _OF_MIXTURE | {"bbb_step", "kl_weights", "n_samples", "init_std", "prior_std"}
SGD_STEP_ON_SUMS = 1e-3
"""Step of `BY_SGD` for a gradient summed over a batch, a tenth of it from half of the epochs on."""
OF_SGD_KINDS: Mapping[str, Any] = {
    "n_samples": 1,
    "kl_weights": "uniform",
    "init_std": 0.04,
    "narrow_std": 0.00033546263,
}
"""Settings that `BY_SGD` have in place of those of `Config`."""
_SGD_TAKES = 5
"""Times as many epochs as by Adam."""


@dataclass(frozen=True)
class Config:
    """Settings of all the networks.

    dataset, n_validation
        Pictures, and how many of the training pictures choose the epoch.
    units
        Sizes of the two hidden layers; the largest is that of the figures and of Table 2.
    n_epochs
        Of plain networks, of those with dropout or DropConnect, and of Bayes by Backprop.
    sgd_step, momentum
        Of plain networks and those with zeros, for a gradient averaged over a batch; the step falls
        to zero along a cosine.
    bbb_step, kl_weights
        Step of Adam, falling in the same way, and shares of the KL.
    n_samples
        Draws of the weights a step; activations are drawn once.
    prior_std
        Of the normal prior.
    share, wide_std, narrow_std
        Of the mixture prior; the validation digits chose the share. A narrower part, e^-7, errs no
        more, but leaves weights that cannot be removed.
    """

    seed: int = 1
    dataset: Literal["mnist", "digits"] = "mnist"
    n_validation: int = 10_000
    full_ink: float = 126.0
    units: tuple[int, ...] = (400, 800, 1200)
    batch_size: int = 128
    n_epochs: tuple[int, int, int] = (60, 200, 120)
    sgd_step: float = 0.02
    momentum: float = 0.9
    bbb_step: float = 2e-3
    kl_weights: Literal["uniform", "geometric"] = "geometric"
    n_samples: int = 10
    init_std: float = 0.0067
    prior_std: float = 1.0
    share: float = 0.75
    wide_std: float = 1.0
    narrow_std: float = 0.0024787522
    n_draws: int = 10

    def epochs_of(self, kind: str) -> int:
        """Count the epochs of a kind of network."""
        plain, zeros, bbb = self.n_epochs
        if kind in BY_SGD:
            return _SGD_TAKES * bbb
        return bbb if kind.startswith("bbb") else plain if kind == "sgd" else zeros

    def of_kind(self, kind: str) -> Config:
        """Return the settings with those that a kind of network prescribes."""
        if kind in BY_SGD:
            step = SGD_STEP_ON_SUMS * self.batch_size
            return replace(self, **OF_SGD_KINDS, bbb_step=step)
        return replace(self, n_samples=1) if kind == LOCAL else self


QUICK: Mapping[str, Any] = {
    "dataset": "digits",
    "n_validation": 287,
    "units": (32,),
    "n_epochs": (4, 4, 4),
}
"""Settings that shrink everything to seconds, on the digits that come with scikit-learn."""


class Pictures(NamedTuple):
    """Training, validation and test pictures, flat, ink divided by the paper's 126."""

    train: Rows
    validation: Rows
    test: Rows


class Network(NamedTuple):
    """A trained network.

    trace
        By name, one value an epoch: validation_error and test_error (shares of pictures) of the
        network of means, mean_log_likelihood (nats a row), seconds.
    """

    method: GradientMethod
    state: Any
    trace: dict[str, list[float]]

    @property
    def best(self) -> int:
        """Epoch of least validation error, from 0; the first of several."""
        return int(np.argmin(self.trace["validation_error"]))

    @property
    def n_epochs(self) -> int:
        """Count the epochs it was trained for."""
        return len(self.trace.get("seconds", ()))


@lru_cache(maxsize=2)
def pictures(config: Config) -> Pictures:
    """Read and divide the pictures; the validation pictures are a random part of the training's."""
    found = digits.divided(
        config.dataset, n_valid=config.n_validation, seed=config.seed, full_ink=config.full_ink
    )

    def rows(x: np.ndarray, y: np.ndarray) -> Rows:
        return Rows(jnp.asarray(x), jnp.asarray(y, jnp.int32), jnp.ones(len(x)))

    return Pictures(
        rows(found.train_x, found.train_y),
        rows(found.valid_x, found.valid_y),
        rows(found.test_x, found.test_y),
    )


def trained(config: Config, kind: str, units: int, scratch: Scratch, *, member: int = 0) -> Network:
    """Return a network, from its file as far as that goes, and trained from there.

    scratch
        The networks lie in a folder below its folder.
    member
        Which of several networks that differ in their seeds.
    """
    data = pictures(config)
    key_start, key_epochs = _keys(config, kind, units, member)
    path = _path(config, kind, units, scratch.folder, member=member)
    network = _read(path, _start(config, kind, units, key_start))
    for epoch in range(network.n_epochs, config.epochs_of(kind)):
        key = jax.random.fold_in(key_epochs, epoch)
        network = _one_epoch(network, key, data, config.batch_size)
        if (epoch + 1) % SAVED_EVERY == 0 or epoch + 1 == config.epochs_of(kind):
            _write(path, network)
            error = 100.0 * network.trace["validation_error"][-1]
            scratch.tell(f"{path.stem}: epoch {epoch + 1}, validation error {error:.2f} %")
    return network


def _keys(config: Config, kind: str, units: int, member: int) -> Any:
    """Return the keys of the start and of the epochs."""
    seed = uci.cell_seed(config.seed, KINDS.index(kind), units, member)
    return jax.random.split(jax.random.key(seed))


def _start(config: Config, kind: str, units: int, key: Any) -> Network:
    data = pictures(config)
    method = _method(config, kind, len(data.train.weight))
    sizes = (data.train.x.shape[1], units, units, int(jnp.max(data.train.y)) + 1)
    return Network(method, method.init(key, init_weights(key, sizes)), {})


def _path(config: Config, kind: str, units: int, folder: Path, *, member: int = 0) -> Path:
    return folder / _FOLDER / f"{kind}-{units}-{member}-{_digest(config, kind)}.npz"


def error(weights: Any, rows: Rows) -> float:
    """Share of the pictures that a network gets wrong."""
    return float(_error(weights, rows.x, rows.y))


def averaged_error(proba: Sequence[np.ndarray], rows: Rows) -> float:
    """Share of the pictures that the average of probabilities gets wrong."""
    label = np.mean(np.asarray(proba), axis=0).argmax(axis=1)
    return float(np.mean(label != np.asarray(rows.y)))


def probabilities(config: Config, network: Network, rows: Rows, *, n_draws: int = 1) -> np.ndarray:
    """Average class probabilities of draws of a network; of a plain one, one draw is itself."""
    key = jax.random.key(config.seed)
    found = draws.predict_draws(network.method, key, network.state, rows.x, n_draws=n_draws)
    return np.asarray(cast(draws.ClassMoments, found).proba)


def experiment(kinds: Iterable[str], **how: Any) -> Experiment:
    """Describe an experiment on networks of these kinds; its parts are their units.

    By default those of the largest. how: name, work, section and draw.
    """

    def cells(config: Config, asked: Selection) -> list[Cell]:
        chosen = map(int, asked.parts) if asked.named else [config.units[-1]]
        return [
            Cell({"method": kind, "units": units}, units**2 * config.epochs_of(kind))
            for units in chosen
            for kind in kinds
        ]

    return Experiment(
        config=Config,
        parts=lambda config: map(str, config.units),
        cells=cells,
        quick=QUICK,
        scratch=True,
        **how,
    )


def of_seeds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Sort the finished rows that share all settings but the seed by network, least seed first."""
    finished = done(rows).values()
    networks: dict[str, list[Row]] = {}
    newest = max(finished, key=lambda row: row.finished_at).config if finished else {}
    for row in sorted(finished, key=_place):
        if row.config | {"seed": 0} == newest | {"seed": 0}:
            name = name_of(row.cell["method"], row.cell["units"])
            networks.setdefault(name, []).append(row)
    return networks


def _place(row: Row) -> tuple[int, int, int]:
    return KINDS.index(row.cell["method"]), row.cell["units"], row.config["seed"]


def of_largest(
    rows: Sequence[Row], labels: Mapping[str, str], figure: str
) -> dict[str, np.ndarray]:
    """Return a figure of the largest networks, of the least seed, by the label of their kind."""
    firsts = [same[0] for same in largest(rows)]
    return {
        label: np.asarray((row.result or {})[figure])
        for kind, label in labels.items()
        for row in firsts
        if row.cell["method"] == kind
    }


def largest(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each of the largest networks, as `of_seeds` does."""
    networks = list(of_seeds(rows).values())
    units = max((same[0].cell["units"] for same in networks), default=0)
    return [same for same in networks if same[0].cell["units"] == units]


def flat(tree: Any) -> np.ndarray:
    """Put the numbers of a pytree into one vector."""
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(tree)])


def name_of(kind: str, units: int) -> str:
    """Name a network as the parts of the experiments do."""
    return f"{kind}-{units}"


@jax.jit
def _error(weights: Any, x: Any, y: Any) -> Any:
    outputs = jax.vmap(partial(plain_apply, weights))(x)
    return jnp.mean(jnp.argmax(outputs, axis=1) != y)


@lru_cache(maxsize=32)
def _method(config: Config, kind: str, n_rows: int) -> GradientMethod:
    config, likelihood = config.of_kind(kind), Categorical(10)
    n_steps = config.epochs_of(kind) * loops.count_batches(n_rows, config.batch_size)
    if not kind.startswith("bbb"):
        rates = {"dropout": Rates(0.2, 0.5), "dropconnect": Rates(connection=0.5)}.get(kind)
        forward = None if rates is None else dropout_forward(rates, activation_name="relu")
        falling = optax.cosine_decay_schedule(config.sgd_step, n_steps)
        optimizer = optax.sgd(falling, momentum=config.momentum or None)
        return point_network(plain_apply, likelihood, optimizer, forward=forward)
    is_mixture = not kind.startswith("bbb-normal")
    if kind in BY_SGD:
        optimizer = optax.sgd(
            optax.piecewise_constant_schedule(config.bbb_step, {n_steps // 2: 0.1})
        )
    else:
        optimizer = optax.adam(optax.cosine_decay_schedule(config.bbb_step, n_steps))
    mixture = ScaleMixturePrior(config.share, config.wide_std, config.narrow_std)
    return bayes_by_backprop(
        plain_apply,
        likelihood,
        mixture if is_mixture else NormalPrior(config.prior_std**2),
        optimizer,
        n_samples=config.n_samples,
        kl_weights=config.kl_weights,
        init_std=config.init_std,
        local_reparameterisation=kind == LOCAL,
    )


def _one_epoch(network: Network, key: Any, data: Pictures, batch_size: int) -> Network:
    started = time.perf_counter()
    method = network.method
    state, info = loops.epoch(method.update, network.state, key, data.train, batch_size=batch_size)
    fit = float(info.mean_log_likelihood)
    seconds = time.perf_counter() - started
    weights = method.mean(state).weights
    if not np.isfinite(fit):
        raise FloatingPointError("training left the finite numbers: lower the step size")
    found = {
        "validation_error": error(weights, data.validation),
        "test_error": error(weights, data.test),
        "mean_log_likelihood": fit,
        "seconds": seconds,
    }
    trace = {name: [*network.trace.get(name, []), value] for name, value in found.items()}
    return Network(method, state, trace)


def _digest(config: Config, kind: str) -> str:
    """Name the settings that the network depends on."""
    foreign = {"units", "n_draws", *(_OF_SGD if kind.startswith("bbb") else _OF_BBB)}
    foreign |= _OF_MIXTURE if kind.startswith("bbb-normal") else {"prior_std"}
    own = vars(config.of_kind(kind))
    settings = {name: value for name, value in own.items() if name not in foreign}
    settings |= {"n_epochs": config.epochs_of(kind), "kind": kind}
    return hashlib.sha256(row_files.identity(settings, {}).encode()).hexdigest()[:12]


def _write(path: Path, network: Network) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    leaves = {f"state.{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(network.state))}
    arrays = leaves | {name: np.asarray(values) for name, values in network.trace.items()}
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def _read(path: Path, start: Network) -> Network:
    if not path.exists():
        return start
    with np.load(path, allow_pickle=False) as stored:
        leaves, structure = jax.tree.flatten(start.state)
        found = [jnp.asarray(stored[f"state.{i}"]) for i in range(len(leaves))]
        names = [name for name in stored.files if not name.startswith("state.")]
        trace = {name: stored[name].tolist() for name in names}
    return Network(start.method, structure.unflatten(found), trace)

"""Table 1 of Roth & Pernkopf (2016): test errors on MNIST and its variations, three networks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from bayesprop.catalogue import make
from papers import compare, markdown, uci
from papers.compare import Estimate
from papers.digits import Digits, divided
from papers.mnist_variants import VARIANTS, mnist_variant
from papers.protocol import Cell, Experiment, Key, Selection
from papers.rows import Row

NAME = "closed-form-mnist"
DATASETS = ("mnist", *VARIANTS)
METHODS = {"nn": "network", "nn_bbb": "bayes-by-backprop", "nn_vi": "closed-form-vi"}
_DIGITS = "digits"
_DIGITS_VALIDATION, _MNIST_VALIDATION = 287, 10_000

_FALLING = {"steps": "falling"}
_DRAWN = {"optimizer": "rmsprop", "local_reparameterisation": True}
# The paper's grids: weight decay 2^-4 to 2^18, prior variance 1e-2 to 1e2, likelihood weight 1 to
# 1e3. Ours are a few points of each, with Adam's step as it is and falling, and by RMSprop.
# `_LONG`: with an equal step some errors swing, and still fall at the 60th epoch.
_LONG = {"n_epochs": 200} | _FALLING
_SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "nn": (
        *({"weight_decay": decay} for decay in (0.0625, 1.0, 16.0)),
        {"weight_decay": 1.0} | _FALLING,
        *({"weight_decay": decay, "optimizer": "rmsprop"} for decay in (1.0, 16.0)),
        *({"weight_decay": 1.0} | by | _LONG for by in ({}, {"optimizer": "rmsprop"})),
    ),
    "nn_bbb": (
        *({"share": share} for share in (0.25, 0.75)),
        {"share": 0.25} | _FALLING,
        {"share": 0.25, "init_std": 0.05} | _DRAWN,
        {"share": 0.25, "init_std": 0.05} | _DRAWN | _LONG,
    ),
    "nn_vi": tuple(
        {"prior": prior, "prior_var": 1.0, "likelihood_weight": weight} | steps
        for prior, weight, steps in (
            ("normal", 1.0, {}),
            ("normal", 10.0, {}),
            ("normal", 100.0, {}),
            ("laplace", 10.0, {}),
            ("laplace", 10.0, _FALLING),
            ("laplace", 30.0, _FALLING),
            ("normal", 1.0, {"optimizer": "rmsprop"}),
            ("laplace", 10.0, {"optimizer": "rmsprop"}),
            ("laplace", 10.0, _LONG),
            ("laplace", 10.0, {"optimizer": "rmsprop"} | _LONG),
        )
    ),
}

# Places in _SETTINGS of those that validation chose, among 60 epochs and among all: run again with
# other seeds.
_CHOSEN: dict[str, dict[str, tuple[int, ...]]] = {
    "mnist-basic": {"nn": (4,), "nn_bbb": (3, 4), "nn_vi": (3,)},
    "mnist-rot": {"nn": (1, 6), "nn_bbb": (3, 4), "nn_vi": (3, 8)},
    "mnist-back-rand": {"nn": (4, 7), "nn_bbb": (3, 4), "nn_vi": (7, 9)},
    "mnist-back-image": {"nn": (3,), "nn_bbb": (2,), "nn_vi": (7,)},
    "mnist-rot-back-image": {"nn": (4,), "nn_bbb": (1,), "nn_vi": (6,)},
}
_SEEDS = (2, 3)


@dataclass(frozen=True)
class Config:
    """Settings of the table.

    units
        Of each of the two hidden layers.
    n_epochs
        The validation pictures choose among these.
    learning_rate
        Of Adam, for all three networks (the paper's for two of them).
    wide_std, narrow_std
        Of Bayes by Backprop's mixture prior.
    """

    seed: int = 1
    units: int = 400
    n_epochs: int = 60
    batch_size: int = 100
    learning_rate: float = 1e-3
    wide_std: float = 1.0
    narrow_std: float = 0.0024787522


_OF_TABLE = {"dataset", "method", "steps", "share", "prior_var", *vars(Config())}


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List every setting of every network, and the chosen ones again. Quick: on small digits."""
    names = [_DIGITS] if asked.quick else asked.parts
    once = [
        Cell({"dataset": name, "method": method, **setting}, _cost(name, method))
        for name in names
        for method, settings in _SETTINGS.items()
        for setting in settings
        if not (asked.quick and "n_epochs" in setting)
    ]
    again = [
        Cell({**key, "seed": seed, **setting}, _cost(key["dataset"], key["method"]))
        for seed in _SEEDS
        for key, setting in _chosen()
        if key["dataset"] in names
    ]
    return once + again


def _chosen() -> Iterator[tuple[Key, Key]]:
    """Yield keys of data set and network with each setting that is run again."""
    for dataset, of_method in _CHOSEN.items():
        for method, places in of_method.items():
            for place in places:
                yield {"dataset": dataset, "method": method}, _SETTINGS[method][place]


def _cost(dataset: str, method: str) -> float:
    return (5.0 if dataset == "mnist" else 1.0) * {"nn": 1.0, "nn_bbb": 3.0, "nn_vi": 3.0}[method]


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Train one network and record its errors; the test error is that of the best epoch.

    key
        Besides data set and method: settings that replace those of the table, `steps`, `share` of
        the mixture prior's wide part, `prior_var`, and hyper-parameters of the estimator.
    """
    config = replace(config, **{name: key[name] for name in vars(config) if name in key})
    data = pictures(key["dataset"], config.seed)
    model = _network(config, key)
    valid_errors: list[float] = []
    seconds, best, chosen = 0.0, 0, model
    for epoch in range(config.n_epochs):
        started = time.perf_counter()
        if "steps" in key:
            model.set_params(learning_rate=config.learning_rate * _share(epoch, config.n_epochs))
        model.fit(data.train_x, data.train_y)
        seconds += time.perf_counter() - started
        valid_errors.append(_error(model, data.valid_x, data.valid_y))
        if valid_errors[epoch] < min(valid_errors[:-1], default=np.inf):
            best, chosen = epoch, copy(model)
    return {
        "n_epochs": config.n_epochs,
        "best_epoch": best + 1,
        "valid_error": valid_errors[best],
        "test_error": _error(chosen, data.test_x, data.test_y),
        "last_test_error": _error(model, data.test_x, data.test_y),
        "epoch_seconds": seconds / config.n_epochs,
        "valid_errors": valid_errors,
        **model.fit_report_.guards,
    }


def _share(epoch: int, n_epochs: int) -> float:
    """Return the share of the step: whole for half of the epochs, then a half, a quarter, a tenth.

    In few stages, for every one is compiled anew.
    """
    stage = 3 - 6 * (n_epochs - 1 - epoch) // n_epochs
    return (1.0, 0.5, 0.25, 0.1)[max(stage, 0)]


def _network(config: Config, key: Key) -> Any:
    method, dataset = key["method"], key["dataset"]
    is_table = dataset in DATASETS
    settings = {
        "hidden_layer_sizes": (config.units, config.units),
        "n_epochs": 1,
        "batch_size": config.batch_size,
        "learning_rate": config.learning_rate,
        "standardise": False,
        "warm_start": True,
        "random_state": uci.cell_seed(config.seed, DATASETS.index(dataset))
        if is_table
        else config.seed,
    }
    if method == "nn_bbb":
        settings |= {
            "prior": "mixture",
            "prior_mixture": (key["share"], config.wide_std, config.narrow_std),
            "kl_weights": "geometric",
            "init_std": 0.0067,
            "prediction": "mean",
        }
    elif method == "nn_vi":
        var = key["prior_var"]
        # The variance of a Laplace distribution is 2 scale².
        scale = (var if key["prior"] == "normal" else var / 2.0) ** 0.5
        settings |= {"prior_scale": scale, "expectation": "taylor"}
    own = {name: value for name, value in key.items() if name not in _OF_TABLE}
    return make(METHODS[method], task="classification", **settings | own)


def _error(model: Any, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(model.predict(x) != y))


@lru_cache(maxsize=1)
def pictures(dataset: str, seed: int) -> Digits:
    """Read one set and divide it: MNIST 50000, 10000 and 10000, its variations as published."""
    if dataset in VARIANTS:
        return mnist_variant(dataset, seed=seed)
    n_valid = _DIGITS_VALIDATION if dataset == _DIGITS else _MNIST_VALIDATION
    return divided(dataset, n_valid=n_valid, seed=seed)


def section(rows: Sequence[Row]) -> str:
    """Write the errors of the settings that validation chose beside the paper's."""
    finished = markdown.latest(rows)
    paper = compare.anchors("closed_form_table1.csv")
    names = [n for n in (*DATASETS, _DIGITS) if any(r.cell["dataset"] == n for r in finished)]
    once = [row for row in finished if "seed" not in row.cell]
    lines = [_line(name, method, once, paper.get(name, {})) for name in names for method in METHODS]
    return markdown.section(
        NAME,
        rows,
        finished,
        protocol=_protocol(finished),
        table=markdown.table(_HEADER, [line for line in lines if line]),
        again=_again(finished, paper),
    )


def _again(rows: Sequence[Row], paper: dict[str, dict[str, str]]) -> str:
    """Set the chosen settings with several seeds; nothing where none was run again."""
    lines = []
    for key, setting in _chosen():
        same = [row for row in rows if row.cell | {"seed": 1} == key | setting | {"seed": 1}]
        if len(same) > 1:
            dataset, method = key.values()
            printed = paper.get(dataset, {}).get(method, "–")
            errors = [_percent(same, error) for error in _ERRORS]
            name = [dataset, _LABELS[method], _words(setting), str(len(same))]
            lines.append([*name, *errors, printed])
    return f"{_OF_AGAIN}\n\n{markdown.table(_AGAIN_HEADER, lines)}" if lines else ""


def _percent(rows: Sequence[Row], error: str) -> str:
    return markdown.estimate(Estimate.of([100 * (row.result or {})[error] for row in rows]))


_ERRORS = ("valid_error", "test_error")
_OF_AGAIN = (
    "What validation chose, among 60 epochs and among all, with other seeds, that is with other "
    "digits, angles, backgrounds and starts; mean ± standard error over the seeds:"
)
_AGAIN_HEADER = (
    "data set | network | setting | seeds | validation error, % | test error, ours, % | "
    "test error, paper, %"
)
_HEADER = (
    "data set | network | chosen by validation | settings tried | chosen epoch | validation "
    "error, % | test error, paper, % | test error, ours, % | seconds an epoch"
)
_LABELS = {"nn": "NN, l2", "nn_bbb": "NN BBB", "nn_vi": "NN VI"}


def _protocol(rows: Sequence[Row]) -> str:
    settings = rows[0].config if rows else vars(Config())
    return (
        f"Two hidden layers of {settings['units']} rectified linear units, "
        f"{settings['n_epochs']} epochs of Adam ({settings['learning_rate']:g}) in batches of "
        f"{settings['batch_size']}, ink 0 to 1."
    )


def _line(
    dataset: str, method: str, rows: Sequence[Row], paper: dict[str, str]
) -> list[str] | None:
    found = [r for r in rows if (r.cell["dataset"], r.cell["method"]) == (dataset, method)]
    if not found:
        return None
    best = min(found, key=lambda row: (row.result or {})["valid_error"])
    result = best.result or {}
    return [
        dataset,
        _LABELS[method],
        _words(best.cell),
        str(len(found)),
        f"{result['best_epoch']} of {result['n_epochs']}",
        f"{100 * result['valid_error']:.2f}",
        paper.get(method, "–"),
        f"{100 * result['test_error']:.2f}",
        f"{result['epoch_seconds']:.1f}",
    ]


def _words(cell: Key) -> str:
    """Return the settings of a cell as text."""
    settings = [(name, value) for name, value in cell.items() if name not in ("dataset", "method")]
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings)


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=DATASETS,
    cells=cells,
    work=fit_cell,
    section=section,
    quick={"units": 32, "n_epochs": 3},
)

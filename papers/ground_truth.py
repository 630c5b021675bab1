"""Predictive means and standard deviations of every approximation beside those of exact sampling.

The truth is that of the model that PBP approximates: its network and noise, by the no-U-turn
sampler, once with PBP's priors of the two precisions and once with vague ones. Methods with another
prior or noise are as far from it as that takes them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.catalogue import make
from bayesprop.distributions.predictive import Predictive
from papers import markdown, uci
from papers.compare import Estimate
from papers.protocol import Cell, Experiment, Key, Selection
from papers.rows import Row, results
from papers.toy import cubic
from papers.uci import TrainTest

NAME = "ground-truth"
TRUTH, VAGUE = "mcmc", "mcmc-vague"
LABELS = {
    TRUTH: "HMC, priors of PBP",
    VAGUE: "HMC, vague priors",
    "pbp": "PBP",
    "closed-form-vi": "closed-form VI, learned noise",
    "batch-ep": "batch EP",
    "laplace": "Laplace",
    "mc-dropout": "MC dropout",
    "bayes-by-backprop": "Bayes by Backprop, 200 steps",
    "graves-vi": "VI (Graves 2011)",
    "deep-ensemble": "deep ensemble, learned noise",
    "network": "BP: one network",
    "linear": "linear regression",
}
TOOLBOX = (0.25, 0.000625)
"""Of a precision: what MCMCstuff, which the paper used, takes in its examples for both."""

SETTINGS: Mapping[str, dict[str, Any]] = {
    "deep-ensemble": {"noise": "learned"},
    "network": {"weight_decay": 1.0},
    "bayes-by-backprop": {"n_epochs": 200, "learning_rate": 1e-2},
}
_DATASETS = ("cubic", "boston", "energy", "yacht")
_N_REPEATS = 10
_N_TEST = 200


@dataclass(frozen=True)
class Config:
    """Settings of the comparison."""

    seed: int = 1
    n_train: int = 30
    n_hidden: int = 10
    n_chains: int = 4
    n_warmup: int = 1000
    n_draws: int = 2500
    n_epochs: int | None = None


class Distance(NamedTuple):
    """How far predictions are from the truth's, over rows.

    mean
        Root mean square of (mean - true mean) / true std.
    std
        Root mean square of log(std / true std).
    std_ratio
        Geometric mean of std / true std: below 1 is too sure.
    """

    mean: float
    std: float
    std_ratio: float


def distance(
    mean: Float[np.ndarray, " t"],
    std: Float[np.ndarray, " t"],
    *,
    true_mean: Float[np.ndarray, " t"],
    true_std: Float[np.ndarray, " t"],
) -> Distance:
    """Compare two predictions of the same rows."""
    log_ratio = np.log(std) - np.log(true_std)
    return Distance(
        float(np.sqrt(np.mean(np.square((mean - true_mean) / true_std)))),
        float(np.sqrt(np.mean(np.square(log_ratio)))),
        float(np.exp(np.mean(log_ratio))),
    )


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List fits to ten draws of every set (quick: two of the cubic); the parts are data sets."""
    datasets = [part for part in asked.parts if not asked.quick or part == "cubic"]
    real = [dataset for dataset in datasets if dataset != "cubic"]
    found = uci.at_hand(real, quick=False) if real else []
    return [
        Cell({"dataset": dataset, "method": method, "repeat": repeat})
        for repeat in range(2 if asked.quick else _N_REPEATS)
        for dataset in datasets
        if dataset == "cubic" or dataset in found
        for method in LABELS
    ]


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one method to one small set; keep what it predicts, to be set beside the truth."""
    data = problem(config, key["dataset"], key["repeat"])
    seed = uci.cell_seed(config.seed, key["repeat"], 1)
    model = estimator(config, key["method"], config.n_hidden, seed)
    started = time.perf_counter()
    model.fit(data.X_train, data.y_train)
    seconds = time.perf_counter() - started
    found = model.predict_dist(data.X_test)
    return {
        "rmse": metrics.rmse(found, data.y_test),
        "log_likelihood": metrics.mean_log_likelihood(found, data.y_test),
        "coverage_90": metrics.coverage(found, data.y_test, 0.9),
        "fit_seconds": seconds,
        **predicted(found),
        **chains_of(model),
    }


def problem(config: Config, dataset: str, repeat: int) -> TrainTest:
    """Draw rows at random without replacement, or points of the cubic."""
    seed = uci.cell_seed(config.seed, repeat, 0)
    if dataset == "cubic":
        train = cubic(config.n_train, random_state=seed)
        test = cubic(_N_TEST, random_state=seed + 1)
        return TrainTest(train.X, train.y, test.X, test.y)
    data = uci.loaded(dataset)
    rows = np.random.default_rng(seed).permutation(len(data.y))
    train_rows, test_rows = rows[: config.n_train], rows[config.n_train :][:_N_TEST]
    return TrainTest(data.X[train_rows], data.y[train_rows], data.X[test_rows], data.y[test_rows])


def estimator(config: Any, method: str, n_hidden: int, seed: int) -> Any:
    """Build a method with its defaults but for the size, and the chains of the truth."""
    if method == "linear":
        return make(method)
    if method in (TRUTH, VAGUE):
        priors: dict[str, Any] = {}
        if method == VAGUE:
            priors = {"weight_precision": TOOLBOX, "noise_prior": TOOLBOX}
        return make(
            "mcmc",
            hidden_layer_sizes=(n_hidden,),
            n_chains=config.n_chains,
            n_warmup=config.n_warmup,
            n_draws=config.n_draws,
            random_state=seed,
            **priors,
        )
    epochs = {} if config.n_epochs is None else {"n_epochs": config.n_epochs}
    settings = SETTINGS.get(method, {}) | epochs
    return make(method, hidden_layer_sizes=(n_hidden,), random_state=seed, **settings)


def predicted(found: Predictive) -> dict[str, list[float]]:
    """Return mean and standard deviation of every row, to six digits."""
    return {
        name: [float(f"{value:.6g}") for value in values]
        for name, values in (("mean", found.mean), ("std", found.std))
    }


def chains_of(model: Any) -> dict[str, float]:
    """Say how well the chains agree; nothing for a method without chains."""
    found = getattr(model, "diagnostics_", None)
    if found is None:
        return {}
    return {
        "r_hat": found.worst_r_hat,
        "least_ess": found.least_ess,
        "n_divergent": float(found.n_divergent),
    }


def distances(
    rows: Sequence[Row], of: Sequence[str], truth_name: str = TRUTH
) -> dict[tuple[Any, ...], Distance]:
    """Set every row beside the truth of its own problem; by the cell's values of `of`, in order.

    of
        What names a problem and, last, "method".
    truth_name
        The method that the others are set beside.
    """
    by_key = {tuple(row.cell[name] for name in of): row.result or {} for row in rows}
    found = {}
    for key, result in by_key.items():
        truth = by_key.get((*key[:-1], truth_name))
        if truth is not None and key[-1] != truth_name:
            found[key] = distance(
                *(np.asarray(result[name]) for name in ("mean", "std")),
                true_mean=np.asarray(truth["mean"]),
                true_std=np.asarray(truth["std"]),
            )
    return found


def section(rows: Sequence[Row]) -> str:
    """Write one table a data set, and say how well the chains of the truth agree."""
    finished = markdown.latest(rows)
    of = ("dataset", "repeat", "method")
    found = [distances(finished, of, truth) for truth in (TRUTH, VAGUE)]
    tables = []
    for dataset in _DATASETS:
        here = [row for row in finished if row.cell["dataset"] == dataset]
        if here:
            n_draws = len({row.cell["repeat"] for row in here})
            lines = [
                _line(method, [row for row in here if row.cell["method"] == method],
                      *([d for key, d in off.items() if key[0] == dataset and key[-1] == method]
                        for off in found))
                for method in LABELS
            ]  # fmt: skip
            title = f"### {dataset}, {n_draws} draws"
            tables += [title, chains_line(here), markdown.table(_HEADER, lines)]
    return markdown.section(NAME, rows, finished, n_test=_N_TEST, tables="\n\n".join(tables))


_HEADER = (
    "method | off in mean | ratio | off in mean, vague | ratio, vague | RMSE | log-likelihood | "
    "90 % interval held | seconds a fit"
)


def chains_line(rows: Sequence[Row]) -> str:
    """Say how well the chains of the truth agree, over all problems."""
    chains = [result for m in (TRUTH, VAGUE) for result in results(rows, method=m)]
    if not chains:
        return "Without chains there is no truth to compare with."
    worst = max(result["r_hat"] for result in chains)
    good = sum(result["r_hat"] < 1.01 for result in chains)
    divergent = sum(result["n_divergent"] for result in chains)
    return (
        f"Chains: R-hat below 1.01 in {good} of {len(chains)} problems, at most {worst:.3f} "
        f"(log density, predictions, precisions); {divergent:.0f} draws diverged."
    )


def _line(
    method: str, rows: Sequence[Row], off: Sequence[Distance], off_vague: Sequence[Distance]
) -> list[str]:
    found = results(rows)
    figures = [
        [getattr(d, name) for d in distances_of_truth]
        for distances_of_truth in (off, off_vague)
        for name in ("mean", "std_ratio")
    ]
    seconds = [result["fit_seconds"] for result in found]
    return [
        LABELS[method],
        *(markdown.estimate(Estimate.of(values)) for values in figures),
        *markdown.means(found, ("rmse", "log_likelihood", "coverage_90")),
        f"{np.median(seconds):.2g}" if seconds else "–",
    ]


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=_DATASETS,
    cells=cells,
    work=fit_cell,
    section=section,
    quick={"n_warmup": 200, "n_draws": 200},
)

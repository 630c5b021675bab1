"""Table 2 of Hernández-Lobato & Adams (2015): active learning, test RMSE after nine additions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bayesprop import metrics
from bayesprop.active_learning.learner import ActiveLearner
from bayesprop.catalogue import make
from bayesprop.sampling.diagnostics import MOST_R_HAT
from papers import compare, ground_truth, markdown, uci
from papers.compare import Estimate, Published
from papers.protocol import Cell, Experiment, Key, Selection
from papers.published_pbp import PublishedPBP
from papers.rows import Row
from papers.toolbox_laplace import ToolboxLaplace

NAME = "pbp-table2"
DATASETS = tuple(dataset for dataset in uci.DATASETS if dataset != "year")
NAMED = ("boston", "energy", "power_plant", "yacht")
"""Sets where active collection is better, by the words of the paper."""
ACTIVE, RANDOM = "active", "random"
RIDGE, EIGHT = "ridge", "hmc-eight"
COLLECTION = {RANDOM: "random", ACTIVE: "predictive-variance"}
"""How rows are collected, by the acquisition that does it; the paper's names end in R and A."""


@dataclass(frozen=True)
class Config:
    """Settings of the table."""

    seed: int = 1
    n_train: int = 20
    n_test: int = 100
    n_additions: int = 9
    n_hidden: int = 10
    n_epochs: int = 40
    n_chains: int = 2
    n_warmup: int = 500
    n_draws: int = 250


_SPARSE = (-6.0, 1.5)
"""Mean and std of the log variance of input weights: most are about 0.05."""


class Column(NamedTuple):
    """One method of the table: its label, its columns in the file of anchors, how it is made.

    seconds
        Of a cell, roughly: for the estimate of the time left.
    ends_alone
        Whether one fit is made, to the table that random collection ends with, and nothing before.
    """

    label: str
    anchor: str
    seconds: float
    make: Callable[[Config, int], Any]
    ends_alone: bool = False


def _of_catalogue(method: str, **settings: Any) -> Callable[[Config, int], Any]:
    """Return what makes a method of this library."""
    return lambda config, seed: make(
        method, hidden_layer_sizes=(config.n_hidden,), random_state=seed, **settings
    )


def _of_toolbox(**settings: Any) -> Callable[[Config, int], Any]:
    return lambda config, seed: ToolboxLaplace((config.n_hidden,), random_state=seed, **settings)


def _chains(priors: str) -> Callable[[Config, int], Any]:
    """Return what makes chains with priors as `ground_truth` names them."""
    return lambda config, seed: ground_truth.estimator(config, priors, config.n_hidden, seed)


def _eight_chains(config: Config, seed: int) -> Any:
    """Return HMC as the paper names it: paths of random length, priors as `mcmc` has them."""
    vague = ground_truth.TOOLBOX
    return make(
        "mcmc",
        hidden_layer_sizes=(config.n_hidden,),
        sampler="hmc",
        n_chains=8,
        n_warmup=500,
        n_draws=1000,
        thin=1,
        target_acceptance=0.8,
        n_leapfrog=400,
        activation="relu",
        weight_precision=vague,
        noise_prior=vague,
        random_state=seed,
    )


def _ridge(_config: Config, _seed: int) -> Any:
    """Return linear regression whose penalty and noise the evidence chooses."""
    return make("linear")


def _published(config: Config, seed: int) -> Any:
    return PublishedPBP((config.n_hidden,), config.n_epochs, seed)


_PAPERS_LA = {"structure": "diagonal", "activation": "erf"}
_SPARSE_EP = {"n_starts": 1, "relevance": True, "weight_scale_prior": _SPARSE}
_ONCE = {"prior_prec": "one", "n_rounds": 1}
_EVERY_STEP = "LA, evidence after every step"
COLUMNS: Mapping[str, Column] = {
    "pbp": Column("PBP", "pbp", 0.1, _published),
    "batch-ep": Column("EP", "ep", 3.2, _of_catalogue("batch-ep", n_starts=1)),
    "laplace": Column("LA", "la", 2.0, _of_catalogue("laplace", **_PAPERS_LA)),
    "batch-ep-sparse": Column(
        "EP, sparse prior", "ep", 1.0, _of_catalogue("batch-ep", **_SPARSE_EP)
    ),
    "laplace-once": Column(
        "LA, evidence once", "la", 1.5, _of_catalogue("laplace", **_PAPERS_LA, **_ONCE)
    ),
    "laplace-toolbox": Column(_EVERY_STEP, "la", 1.5, _of_toolbox()),
    "laplace-toolbox-full": Column(
        f"{_EVERY_STEP}, full matrix", "la", 8.0, _of_toolbox(is_diagonal=False)
    ),
    "mcmc": Column("HMC", "hmc", 35.0, _chains(ground_truth.VAGUE)),
    "mcmc-pbp-priors": Column("HMC, priors of PBP", "hmc", 25.0, _chains(ground_truth.TRUTH)),
    RIDGE: Column("Ridge, as a control of HMC", "hmc", 0.2, _ridge),
    EIGHT: Column("HMC, eight chains", "hmc", 60.0, _eight_chains, ends_alone=True),
}
PRINTED = ("pbp", "batch-ep", "laplace", "mcmc")
"""Columns of the paper; the others ask what made its EP, LA and HMC err as they do."""
_QUICK_METHOD, _QUICK_REPEATS, _N_REPEATS = "pbp", 2, 40
_BLOCK = 10
"""Repeats of a set in a row: its ten sizes of table are compiled once for all of them."""


class Problem(NamedTuple):
    """A random division of a data set; `in_pool` marks what is neither training nor test row."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    train: np.ndarray
    test: np.ndarray
    in_pool: Bool[np.ndarray, " n"]


def cells(
    _config: Config,
    asked: Selection,
    *,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] = tuple(COLUMNS),
) -> list[Cell]:
    """List the runs, ten repeats at a time; random and active collection start from the same rows.

    The parts are data sets and methods, all of either where none is named. Quick: two repeats of
    PBP on the sets named, or on those of at most 2000 rows.
    """
    named = asked.parts if asked.named else []
    sets = [part for part in named if part not in COLUMNS]
    found = uci.at_hand(sets or datasets, quick=asked.quick and not sets)
    asked_for = [part for part in named if part in methods]
    methods = asked_for or ([_QUICK_METHOD] if asked.quick else methods)
    n_repeats = _QUICK_REPEATS if asked.quick else _N_REPEATS
    found_cells = [
        Cell(
            {"dataset": dataset, "method": method, "collection": collection, "repeat": repeat},
            COLUMNS[method].seconds,
        )
        for first in range(0, n_repeats, _BLOCK)
        for method in methods
        for dataset in found
        for repeat in range(first, min(first + _BLOCK, n_repeats))
        for collection in COLLECTION
        if collection == RANDOM or not COLUMNS[method].ends_alone
    ]
    # What takes longest last, and repeat by repeat: a part of it covers all sets alike.
    return sorted(
        found_cells,
        key=lambda cell: COLUMNS[cell.key["method"]].ends_alone * (1 + cell.key["repeat"]),
    )


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Add rows one by one, fitting from scratch each time; return the test RMSE of every fit."""
    if COLUMNS[key["method"]].ends_alone:
        return _fit_at_the_end(config, key)
    data = problem(config, key["dataset"], key["repeat"])
    seed = uci.cell_seed(config.seed, key["repeat"], 1)
    learner = ActiveLearner(
        COLUMNS[key["method"]].make(config, seed),
        COLLECTION[key["collection"]],
        random_state=seed,
    )
    left = data.in_pool.copy()
    learner.teach(data.X[data.train], data.y[data.train])
    rmse, log_likelihood = [], []
    for n_added in range(config.n_additions + 1):
        predicted = learner.estimator_.predict_dist(data.X[data.test])
        error = predicted.mean - data.y[data.test]
        rmse.append(float(np.sqrt(np.mean(np.square(error)))))
        log_likelihood.append(float(np.mean(predicted.log_prob(data.y[data.test]))))
        if n_added < config.n_additions:
            row = learner.query(data.X, allowed=left).indices
            left[row] = False
            learner.teach(data.X[row], data.y[row])
    return {
        "rmse": rmse,
        "log_likelihood": log_likelihood,
        "fit_seconds": sum(step.seconds for step in learner.history_) / len(rmse),
    }


def _fit_at_the_end(config: Config, key: Key) -> dict[str, Any]:
    """Fit once, to the rows of the other columns' random collection, which no model chooses."""
    data = problem(config, key["dataset"], key["repeat"])
    seed = uci.cell_seed(config.seed, key["repeat"], 1)
    rows = random_rows(data, config, seed)
    started = time.perf_counter()
    model = COLUMNS[key["method"]].make(config, seed).fit(data.X[rows], data.y[rows])
    seconds = time.perf_counter() - started
    predicted, y = model.predict_dist(data.X[data.test]), data.y[data.test]
    agreement = model.diagnostics_
    of_predictions = np.char.startswith(agreement.names, "prediction")
    return {
        "rmse": [metrics.rmse(predicted, y)],
        "log_likelihood": [metrics.mean_log_likelihood(predicted, y)],
        "fit_seconds": seconds,
        "r_hat_predictions": float(agreement.r_hat[of_predictions].max()),
        **ground_truth.chains_of(model),
    }


def random_rows(data: Problem, config: Config, seed: int) -> list[int]:
    """Return the rows that are learnt when random collection ends, in their order."""
    learner = ActiveLearner(_ridge(config, seed), COLLECTION[RANDOM], random_state=seed)
    rows, left = data.train.tolist(), data.in_pool.copy()
    learner.teach(data.X[rows], data.y[rows])
    for _ in range(config.n_additions):
        row = learner.query(data.X, allowed=left).indices
        left[row] = False
        rows += row.tolist()
        learner.teach(data.X[row], data.y[row])
    return rows


def problem(config: Config, dataset: str, repeat: int) -> Problem:
    """Divide a data set at random: training rows, test rows, the pool."""
    data = uci.loaded(dataset)
    place = (repeat, uci.DATASETS.index(dataset))
    rng = np.random.default_rng(uci.cell_seed(config.seed, *place))
    order = rng.permutation(len(data.y))
    n_known = config.n_train + config.n_test
    in_pool = np.ones(len(order), dtype=bool)
    in_pool[order[:n_known]] = False
    train, test = order[: config.n_train], order[config.n_train : n_known]
    return Problem(data.X, data.y, train, test, in_pool)


def curves(rows: Sequence[Row], dataset: str, method: str, collection: str) -> list[list[float]]:
    """Return the test RMSE after every addition, one list a repeat, in the order of repeats."""
    key = {"dataset": dataset, "method": method, "collection": collection}
    found = {
        row.cell["repeat"]: (row.result or {})["rmse"]
        for row in rows
        if all(row.cell[name] == value for name, value in key.items())
    }
    return [found[repeat] for repeat in sorted(found)]


def section(rows: Sequence[Row]) -> str:
    """Write one table a method, random and active collection beside the paper's."""
    finished = markdown.latest(rows)
    paper = compare.anchors("pbp_table2.csv")
    tables = []
    for method, column in COLUMNS.items():
        if column.ends_alone:
            continue
        lines = [
            _line(finished, method, column.anchor, dataset, paper[dataset])
            for dataset in DATASETS
            if curves(finished, dataset, method, ACTIVE)
            or curves(finished, dataset, method, RANDOM)
        ]
        if lines:
            tables += [f"### {column.label}", markdown.table(_HEADER, lines)]
    return markdown.section(
        NAME,
        rows,
        finished,
        tables="\n\n".join(tables),
        verdict=_verdict(finished),
        chains=_chains_of_eight(finished),
        control=_control(finished),
    )


def gains(rows: Sequence[Row], method: str) -> dict[str, float]:
    """Return by how many standard errors active collection errs less, over pairs, set by set."""
    found = {}
    for dataset in DATASETS:
        last = [[curve[-1] for curve in curves(rows, dataset, method, c)] for c in (RANDOM, ACTIVE)]
        pairs = Estimate.of([r - a for r, a in zip(*last, strict=False)])
        if pairs.se:
            found[dataset] = pairs.mean / pairs.se
    return found


def _verdict(rows: Sequence[Row]) -> str:
    """Say on which sets active collection by PBP is better; nothing before there are pairs."""
    found = gains(rows, _QUICK_METHOD)
    if not found:
        return ""
    better = [dataset for dataset, gain in found.items() if gain >= compare.FLAG_AT]
    worse = [dataset for dataset, gain in found.items() if gain <= -compare.FLAG_AT]
    named = ", ".join(f"{dataset} {found[dataset]:+.1f}" for dataset in NAMED if dataset in found)
    also = [dataset for dataset in better if dataset in NAMED]
    return (
        f"By our own pairs PBP's active collection errs less by two standard errors or more on "
        f"{_listed(better)}, and more on {_listed(worse)}. Of the paper's four that is "
        f"{_listed(also)} (gains in standard errors: {named})."
    )


def _control(rows: Sequence[Row]) -> str:
    """Say on which sets the ridge errs less than the two chains, over pairs of random tables."""
    found = {}
    for dataset in DATASETS:
        ours = [curves(rows, dataset, method, RANDOM) for method in ("mcmc", RIDGE)]
        last = zip(*([curve[-1] for curve in method] for method in ours), strict=False)
        pairs = Estimate.of([chains - ridge for chains, ridge in last])
        if pairs.se:
            found[dataset] = pairs.mean / pairs.se
    if not found:
        return ""
    better = [f"{name} {gap:.1f}" for name, gap in found.items() if gap >= compare.FLAG_AT]
    worse = [f"{name} {-gap:.1f}" for name, gap in found.items() if gap <= -compare.FLAG_AT]
    return (
        "Over pairs of random tables, in standard errors, the ridge errs less than the column HMC "
        f"on {_listed(better)}, and more on {_listed(worse)}."
    )


def _chains_of_eight(rows: Sequence[Row]) -> str:
    """Set eight chains beside two, beside the control and print, on the same splits."""
    lines, n_fits, n_failed = [], 0, 0
    paper = compare.anchors("pbp_table2.csv")
    for dataset in DATASETS:
        key = {"dataset": dataset, "collection": RANDOM}
        of = {
            method: {row.cell["repeat"]: row.result or {} for row in rows
                     if row.cell == {**key, "method": method, "repeat": row.cell["repeat"]}}
            for method in (EIGHT, "mcmc", RIDGE)
        }  # fmt: skip
        eight = of[EIGHT]
        if not eight:
            continue
        n_fits += len(eight)
        n_failed += sum(result["r_hat"] > MOST_R_HAT for result in eight.values())
        errors = [
            markdown.estimate(Estimate.of([found[k]["rmse"][-1] for k in eight if k in found]))
            for found in of.values()
        ]
        figures = [
            f"{max(result[name] for result in eight.values()):.3f}"
            for name in ("r_hat", "r_hat_predictions")
        ]
        least = f"{min(result['least_ess'] for result in eight.values()):.0f}"
        divergent = f"{sum(result['n_divergent'] for result in eight.values()):.0f}"
        lines.append(
            [dataset, str(len(eight)), *figures, least, divergent, *errors, paper[dataset]["hmc_r"]]
        )
    if not lines:
        return ""
    return (
        f"{n_fits} of {len(DATASETS) * _N_REPEATS} fits to the tables that random collection ends "
        f"with are run; in {n_failed} R-hat exceeds {MOST_R_HAT}.\n\n"
        + markdown.table(_CHAINS_HEADER, lines)
    )


_CHAINS_HEADER = (
    "data set | repeats | worst R-hat | of predictions | least ESS | divergent draws | "
    "RMSE, eight chains | two chains | ridge | paper, 40 repeats"
)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


_HEADER = (
    "data set | repeats | random, paper | random, ours | apart | active, paper | active, ours | "
    "apart | random - active, paper | ours, same repeats"
)


def _line(
    rows: Sequence[Row], method: str, anchor: str, dataset: str, paper: Mapping[str, str]
) -> list[str]:
    last = {
        collection: [curve[-1] for curve in curves(rows, dataset, method, collection)]
        for collection in COLLECTION
    }
    line = [dataset, str(min(map(len, last.values())))]
    published = {}
    for collection in COLLECTION:
        ours = Estimate.of(last[collection])
        published[collection] = Published.parse(paper[f"{anchor}_{collection[0]}"])
        apart = compare.difference(ours, published[collection])
        line += [published[collection].text, markdown.estimate(ours), markdown.gap(apart)]
    gain = published[RANDOM].mean - published[ACTIVE].mean
    se = np.hypot(published[RANDOM].se or 0.0, published[ACTIVE].se or 0.0)
    pairs = zip(last[RANDOM], last[ACTIVE], strict=False)
    return [
        *line,
        f"{gain:.3f} ± {se:.3f}",
        markdown.estimate(Estimate.of([r - a for r, a in pairs])),
    ]


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=(*DATASETS, *COLUMNS),
    cells=cells,
    work=fit_cell,
    section=section,
)

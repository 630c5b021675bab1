"""Where the field stands: our methods and what a user would pick instead, on the UCI sets.

Every model at its defaults, the same splits for all, several scores. The page tells a reader which
method to use when.
"""

from __future__ import annotations

from bayesprop.catalogue import REGRESSION, make
from bayesprop.datasets import registry
from papers import today_page, uci
from papers.arena import OF_NUMBERS, Arena, Data, Size
from papers.number_peers import PEERS
from papers.table_models import of_matrix
from papers.table_splits import TableRows

SPLITS_OF_LARGE = 5
# Of a fit, by method: some processor seconds, and seconds a thousand rows; measured on one core.
SECONDS = {
    "default": (4.0, 0.5),
    "closed-form-vi": (1.0, 4.0),
    "pbp": (0.1, 0.1),
    "batch-ep": (0.0, 90.0),
    "linear": (0.1, 0.0),
    "bayes-by-backprop": (2.5, 2.0),
    "graves-vi": (3.0, 1.2),
    "laplace": (1.0, 1.5),
    "mc-dropout": (1.0, 0.8),
    "deep-ensemble": (1.5, 1.2),
    "mcmc": (25.0, 180.0),
    "network": (0.5, 0.8),
    "NGBoost": (3.0, 10.0),
    "Gaussian process": (6.0, 1.5),
    "quantile boosting": (5.0, 1.0),
    "CatBoost": (3.0, 2.0),
    "CatBoost quantiles": (10.0, 10.0),
    "LightGBM quantiles": (5.0, 2.0),
    "RealMLP": (4.0, 14.0),
    "TabM": (5.0, 25.0),
    "Treeffuser": (30.0, 20.0),
    "quantile forest": (1.0, 1.0),
}


def size(dataset: str) -> Size:
    """Return what is known of a set before it is read."""
    about = registry.describe(dataset)
    return Size(about.n, about.d)


def n_splits(dataset: str, *, quick: bool = False) -> int:
    """Count the splits: those of the protocol, five of the larger sets."""
    full = uci.n_splits(dataset, quick=quick)
    return full if size(dataset).n <= uci.SMALL_ROWS else min(full, SPLITS_OF_LARGE)


def data(dataset: str, split: int) -> Data:
    """Return a standard split."""
    of = uci.train_test(dataset, split)
    train, test = (TableRows.of_numbers(X) for X in (of.X_train, of.X_test))
    return Data(train, of.y_train, test, of.y_test)


ARENA = Arena(
    name="uci-today",
    task=REGRESSION,
    sets=tuple(name for name in uci.DATASETS if name != "year"),
    scores=OF_NUMBERS,
    lead=OF_NUMBERS[1],
    ours=lambda method, seed: of_matrix(make(method, random_state=seed)),
    peers=PEERS,
    size=size,
    data=data,
    n_splits=n_splits,
    at_hand=lambda sets, quick: uci.at_hand(sets, quick=quick),
    quick=("pbp", "linear", "deep-ensemble", "NGBoost", "quantile boosting"),
    seconds=SECONDS,
)
EXPERIMENT = ARENA.experiment(today_page.section, today_page.draw)

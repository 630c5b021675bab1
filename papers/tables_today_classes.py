"""Where the field stands on real tables of classes: our methods and what a user would pick instead.

Every model at its defaults, the same splits for all; ours as `bayesprop.fit` gives them to a table.
"""

from __future__ import annotations

from bayesprop.catalogue import CLASSIFICATION
from papers import arena, class_peers, table_splits, today_page
from papers.table_models import Ours
from papers.uci_today import SECONDS

ARENA = arena.Arena(
    name="tables-today-classes",
    task=CLASSIFICATION,
    sets=tuple(table_splits.CLASSES),
    scores=arena.OF_CLASSES,
    lead=arena.OF_CLASSES[0],
    ours=lambda method, seed: Ours(CLASSIFICATION, method, seed),
    peers=class_peers.PEERS,
    size=table_splits.size,
    data=table_splits.train_test,
    n_splits=table_splits.n_splits,
    at_hand=table_splits.at_hand,
    quick=("pbp", "logistic", "LogisticRegression", "constant"),
    seconds=SECONDS
    | {
        "ebp": (0.2, 1.0),
        "logistic": (0.5, 0.5),
        "CatBoost": (5.0, 4.0),
        "LightGBM": (0.5, 0.5),
        "RealMLP": (2.0, 8.0),
        "TabM": (5.0, 25.0),
        "NGBoost": (5.0, 15.0),
        "random forest": (1.0, 1.0),
        "histogram boosting": (1.0, 1.0),
        "LogisticRegression": (0.1, 0.1),
        "constant": (0.0, 0.0),
    },
)
EXPERIMENT = ARENA.experiment(today_page.section, today_page.draw)

"""Where the field stands on real tables of classes: our methods and what a user would pick instead.

Every model at its defaults, the same splits for all; ours as `bayesprop.fit` gives them to a table.
"""

from __future__ import annotations

from bayesprop.catalogue import CLASSIFICATION
from papers import arena, table_splits, today_page
from papers.class_peers import PEERS
from papers.table_models import arena_of_tables
from papers.uci_today import SECONDS

ARENA = arena_of_tables(
    CLASSIFICATION,
    PEERS,
    name="tables-today-classes",
    sets=tuple(table_splits.CLASSES),
    scores=arena.OF_CLASSES,
    lead=arena.OF_CLASSES[0],
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

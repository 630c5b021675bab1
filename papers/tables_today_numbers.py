"""Where the field stands on real tables of numbers: our methods and what a user would pick instead.

Every model at its defaults, the same splits for all; ours as `bayesprop.fit` gives them to a table.
"""

from __future__ import annotations

from bayesprop.catalogue import REGRESSION
from papers import arena, table_splits, today_page
from papers.number_peers import PEERS
from papers.table_models import arena_of_tables
from papers.uci_today import SECONDS

ARENA = arena_of_tables(
    REGRESSION,
    PEERS,
    name="tables-today-numbers",
    sets=tuple(table_splits.NUMBERS),
    scores=(*arena.OF_NUMBERS, arena.INTERVALS),
    lead=arena.OF_NUMBERS[1],
    quick=("pbp", "linear", "quantile forest"),
    seconds=SECONDS,
)
EXPERIMENT = ARENA.experiment(today_page.section, today_page.draw)

"""Rows on disk are found again: the names of cells stay what they were when hours went into them.

`identities.json` holds some cells of every experiment, small and whole, with their settings.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayesprop.datasets import registry
from papers import rows, uci
from papers.registry import EXPERIMENTS

KNOWN = json.loads(Path(__file__).with_name("identities.json").read_text("utf-8"))


@pytest.mark.parametrize("name", list(KNOWN))
@pytest.mark.parametrize("form", ["full", "quick"])
def test_cells_keep_their_names(name, form, monkeypatch):
    def at_hand(datasets, *, quick):
        return [d for d in datasets if not quick or registry.describe(d).n <= uci.SMALL_ROWS]

    monkeypatch.setattr(uci, "at_hand", at_hand)
    experiment, quick = EXPERIMENTS[name].load(), form == "quick"
    config = experiment.settings(quick=quick)
    cells = experiment.cells(config, experiment.select(config, quick=quick))
    settings = rows.settings(config)
    found = {rows.identity(cell.key, settings) for cell in cells}
    assert len(found) == len(cells)
    assert {rows.identity(*known) for known in KNOWN[name][form]} <= found

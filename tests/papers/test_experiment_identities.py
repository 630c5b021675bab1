"""Rows on disk are found again, and mean what they meant when hours went into them.

`identities.json` holds some cells of every experiment, small and whole, with their settings;
`defaults.json` the settings that papers' experiments leave to the estimators.
"""

from __future__ import annotations

import ast
import json
from inspect import signature
from pathlib import Path

import pytest

import papers
from bayesprop import catalogue
from bayesprop.datasets import registry
from papers import rows, uci
from papers.registry import EXPERIMENTS

DEFAULTS = Path(__file__).with_name("defaults.json")
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


def settings_left_to_defaults() -> dict[str, dict[str, str]]:
    """Return the defaults of what calls of estimators in `papers` do not name, by their places."""
    classes = {
        one.__name__: one
        for name, method in catalogue.METHODS.items()
        for one in (catalogue.estimator_class(name, task) for task in method.homes)
    }
    left: dict[str, dict[str, str]] = {}
    for path in sorted(Path(papers.__file__).parent.glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(getattr(call, "func", None), "id", "")
            if isinstance(call, ast.Call) and name in classes:
                parameters = signature(classes[name]).parameters
                named = {*list(parameters)[: len(call.args)], *(one.arg for one in call.keywords)}
                own = left.setdefault(f"{path.stem}: {name}", {})
                own |= {k: repr(v.default) for k, v in parameters.items() if k not in named}
    return left


def test_no_default_moves_under_an_experiment():
    """Whoever changes a default names the old value in the experiments, or runs them again.

    `python -m tests.papers.test_experiment_identities` writes what they leave to defaults.
    """
    assert settings_left_to_defaults() == json.loads(DEFAULTS.read_text("utf-8"))


if __name__ == "__main__":
    DEFAULTS.write_text(json.dumps(settings_left_to_defaults(), indent=1) + "\n")

"""The table of what methods can do is that of the methods themselves."""

from __future__ import annotations

from typing import Any

from doc_pages import text_of

from bayesprop.catalogue import METHODS, REGRESSION, estimator_class
from bayesprop.model.method import DrawsFunctions, Features, Merges, Prunes, Resumes, Streams

ABILITIES: dict[str, type] = {
    "warm_start": Resumes,
    "partial_fit": Streams,
    "merge": Merges,
    "sample_y": DrawsFunctions,
    "posterior_features": Features,
    "prune": Prunes,
}
"""Optional abilities by the name that users know, each with its protocol."""
OF_NUMBERS = ("sample_y", "posterior_features")
"""Those that only regressors show."""


def cell(name: str, ability: str) -> str:
    """Yes, the tasks that can, or nothing."""
    homes = METHODS[name].homes
    tasks = [task for task in homes if task == REGRESSION or ability not in OF_NUMBERS]
    kinds: dict[str, Any] = {task: estimator_class(name, task) for task in tasks}
    able = [t for t in tasks if issubclass(kinds[t].method_class, ABILITIES[ability])]
    if ability == "warm_start":
        able = [task for task in able if hasattr(kinds[task], ability)]
    return "yes" if able and able == tasks else ", ".join(able)


def test_the_page_says_what_methods_can_do():
    page = text_of("docs/use/which-method.md").splitlines()
    for name in METHODS:
        row = f"| `{name}` | " + " | ".join(cell(name, ability) for ability in ABILITIES) + " |"
        assert row in page, f"docs/use/which-method.md must have the line {row}"

"""What users can name, as it was before the third house: nothing comes or goes unseen.

`tests/inventory.txt` has a line for each name of then (`benchmarks/before-third-house.txt`); what
has gone since begins with "-", what has come with "+". `python tests/test_inventory.py` prints the
names of now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import bayesprop
from bayesprop import catalogue

HERE = Path(__file__).parent
TEMPLATES = HERE.parent / "src/bayesprop/report/templates"


def names() -> Iterator[str]:
    import typer.main

    from bayesprop.cli import app
    from papers.registry import EXPERIMENTS

    for name in bayesprop.__all__:
        yield f"name {name}"
        one = getattr(bayesprop, name)
        if callable(one):
            yield from (f"parameter {name}.{parameter}" for parameter in signature(one).parameters)
    yield from (f"method {name}" for name in catalogue.METHODS)
    for command, about in vars(typer.main.get_command(app))["commands"].items():
        yield from (f"option {command} {word}" for one in about.params for word in one.opts)
    for page in sorted(TEMPLATES.glob("*.html")):
        yield from (f"section {id}" for id in re.findall(r'section\("(\w+)"', page.read_text()))
    yield from (f"experiment {name}" for name in EXPERIMENTS)


def test_nothing_comes_or_goes_unseen():
    lines = (HERE / "inventory.txt").read_text().splitlines()
    assert sorted(set(names())) == sorted(line.lstrip("+ ") for line in lines if line[0] != "-")


if __name__ == "__main__":
    print(*sorted(set(names())), sep="\n")

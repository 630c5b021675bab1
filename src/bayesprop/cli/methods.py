"""`methods`: what there is to choose from."""

from __future__ import annotations

from dataclasses import asdict

from bayesprop.catalogue import METHODS
from bayesprop.cli.actions import Methods
from bayesprop.cli.console import print_json


def run(options: Methods) -> None:
    """List the methods."""
    if options.as_json:
        known = [asdict(method) | {"tasks": list(method.homes)} for method in METHODS.values()]
        print_json({"methods": known})
        return
    for method in METHODS.values():
        print(f"{method.name}  {method.summary}")
        print(f"    tasks  {method.task}")
        print(f"    paper  {method.paper}")
        print(f"    cost   {method.cost}")
        print(f"    when   {method.when}")

"""`methods`: list the methods."""

from __future__ import annotations

from dataclasses import asdict

from bayesprop.catalogue import METHODS
from bayesprop.cli.actions import Methods
from bayesprop.cli.console import print_json, wrapped


def run(options: Methods) -> None:
    """List the methods."""
    if options.as_json:
        known = [asdict(method) | {"tasks": list(method.homes)} for method in METHODS.values()]
        print_json({"methods": known})
        return
    for method in METHODS.values():
        print(wrapped(f"{method.name}  {method.summary}"))
        for name, text in (
            ("tasks", method.task),
            ("paper", method.paper),
            ("cost", method.cost),
            ("when", method.when),
        ):
            print(wrapped(f"    {name:<7}{text}", 11))

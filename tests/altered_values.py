"""What could stand in a file in place of what was stored there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

OTHERS = [None, True, 3, -5.5, float("nan"), float("inf"), 1e308, 10**400, "%q", "", "\ud800"]
OTHERS += [[], [0.5, 1.5], ["x", "x"], [[]], {}]


def altered(value: Any) -> Iterator[Any]:
    """What could stand in a file for a value: others, and its own with a part changed or less."""
    yield from OTHERS
    if isinstance(value, dict):
        yield value | {"more": 1}
        yield {key: [] if isinstance(own, list) else own for key, own in value.items()}
        for key, own in value.items():
            yield {one: value[one] for one in value if one != key}
            yield from (value | {key: other} for other in altered(own))
    elif isinstance(value, list) and value:
        yield from (value[1:], value[::-1], [*value, value[0]], [value[-1], *value[1:]])
        yield from ([1e308] * len(value), [[1e308]] * len(value))
        yield from ([other, *value[1:]] for other in altered(value[0]))
        yield from ([*value[:-1], other] for other in altered(value[-1]))

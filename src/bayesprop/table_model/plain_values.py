"""Values as JSON and people read them. Light, because `--help` imports it."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """Turn arrays, tuples and numpy scalars into what JSON knows, non-finite numbers into None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def figure(value: float | None, digits: int = 4) -> str:
    """Format a number for a person: so many significant digits, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:#.{digits}g}".rstrip(".")


def figure_beside(value: float, std: float) -> str:
    """Format a number for a person by its error bar, to the third significant digit of that."""
    if not (math.isfinite(value) and math.isfinite(std) and std > 0.0):
        return figure(value)
    n_decimals = 2 - math.floor(math.log10(std))
    return f"{round(value, n_decimals):.{max(n_decimals, 0)}f}"

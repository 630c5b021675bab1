"""A table with all that tables have: numbers, a category, missing values, noise."""

from __future__ import annotations

import numpy as np


def house_rows(n: int = 120, seed: int = 3) -> list[dict[str, object]]:
    """Houses with a category, missing values of both kinds, and a price that depends on them."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        area, rooms = rng.uniform(30, 200), int(rng.integers(1, 7))
        town = str(rng.choice(["Ulm", "Bath", "Nice"]))
        price = 2.0 * area + 10.0 * rooms + 40.0 * (town == "Nice") + rng.normal(0.0, 5.0)
        rows.append(
            {
                "area": "" if rng.random() < 0.1 else round(area, 2),
                "rooms": rooms,
                "town": "" if rng.random() < 0.1 else town,
                "price": round(price, 3),
            }
        )
    return rows


def as_csv(rows: list[dict[str, object]]) -> str:
    lines = [",".join(rows[0]), *(",".join(str(v) for v in row.values()) for row in rows)]
    return "\n".join(lines) + "\n"

"""A last row that sums up the rows above it."""

import numpy as np
import polars as pl
import pytest

from bayesprop.table.division import HoldOut, divide, totals

SALES = pl.DataFrame(
    {
        "shop": ["Aachen", "Bonn", "Celle", "Dahn", "Essen"],
        "month": [1, 2, 2, 1, 3],
        "units": [120, 85, 143, 97, 110],
        "price": [1410.25, 911.5, 1802.75, 1024.0, 1297.4],
    }
)


def ending(frame=SALES, **last):
    cells = {name: [last.get(name)] for name in frame.columns}
    return pl.concat([frame, pl.DataFrame(cells, schema=frame.schema, strict=False)])


SUMS = {"units": 555, "price": 6445.9}


def test_a_column_that_is_left_out_says_so_too():
    hold_out = HoldOut(test_fraction=0.0, drop=("shop",))
    assert len(divide(ending(shop="Total", **SUMS), "price", None, hold_out).frame) == 5


def numbers(*rows):
    return pl.DataFrame(np.array(rows), schema=[f"x{k}" for k in range(len(rows[0]))])


N = np.arange(1.0, 9.0)
DOUBLED = np.concatenate([[1.0], 2.0 ** np.arange(20)])


@pytest.mark.parametrize(
    "frame",
    [
        ending(shop="Bonn", **SUMS),
        ending(shop="Essen-Nord", units=555, price=1300.0),
        ending(units=111, price=1289.18),
        SALES[:2],
        numbers([0, 0], [0, 0], [0, 0], [0, 0]),
        numbers([5, 7], [5, 7], [5, 7], [5, 7]),
        numbers([1, 10], [2, 20], [3, 30], [6, 60]),
        numbers([0, 1], [1, 1], [1, 0], [2, 2]),
        numbers([1500.25, 0], [0, 2750.5], [0, 0], [1500.25, 2750.5]),
        numbers([-1, -1], [1, 1], [-1, 1], [1, -1], [0, 0]),
        numbers([150.5, 30.25], [170.5, 50.25], [160.5, 40.25]),
        numbers(*zip(np.cumsum(N), np.cumsum(N**2), strict=True)),
        numbers(*zip(DOUBLED, 2.54 * DOUBLED, strict=True)),
        numbers(*zip(1e-5 * N, 1e-7 * N**2, strict=True)),
        numbers([1, 2.0], [3, np.nan], [4, 5], [np.nan, np.inf]),
        pl.DataFrame({"shop": ["Total", "Bonn", "Celle", "Total"], "x": [1, 2, 3, 6]}),
        pl.DataFrame({"x": [None, None, None, None], "y": [None, None, 1, 1]}),
    ],
)
def test_an_ordinary_row_stays(frame):
    assert totals(frame) is None


def test_many_rows_above():
    price = np.round(np.random.default_rng(0).lognormal(4.0, 1.0, (500, 2)), 2)
    frame = numbers(*price, np.round(price.sum(axis=0), 2))
    assert totals(frame).remark.values["row"] == "501"
    assert totals(frame.with_columns(x1=(1.08 * pl.col("x0")).round(2))) is None


def test_small_whole_numbers_at_random_stay():
    rng = np.random.default_rng(0)
    for n in range(4, 404):
        x = rng.poisson(rng.choice([0.1, 1.0, 5.0]), (4 + n % 9, 2 + n % 4))
        assert totals(numbers(*x)) is None

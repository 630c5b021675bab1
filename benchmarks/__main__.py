"""`python -m benchmarks` (`make bench`): speed and memory on this machine, in some minutes."""

from __future__ import annotations

import platform

import numpy as np

from bayesprop.cli.console import note, print_table
from benchmarks import calls, networks, pbp_fits, single_rows, split_fits


def main() -> None:
    """Measure everything, one thing after the other, and print tables."""
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}")
    note("PBP row by row ...")
    print_single_rows(single_rows.measure_all())
    note("whole fits, first calls, prediction ...")
    print_times(
        pbp_fits.measure_fits(), pbp_fits.measure_cold_start(), pbp_fits.measure_prediction()
    )
    calls.main()
    networks.main([])
    split_fits.main()


def print_single_rows(measured: list[single_rows.SingleRows]) -> None:
    """Print microseconds a point beside the floor and the JAX form."""
    print_table(
        "PBP row by row, float64, one core, prior refresh included: microseconds a data point",
        (
            "size",
            "data and network",
            "kernel",
            "median",
            "floor",
            "x floor",
            "JAX form",
            "JAX / kernel",
        ),
        [
            (
                m.shape.name,
                m.shape.text,
                f"{m.kernel.best:.2f}",
                f"{m.kernel.median:.2f}",
                f"{m.kernel.floor:.2f}",
                f"{m.kernel.ratio:.1f}",
                f"{m.jax:.1f}",
                f"{m.jax / m.kernel.best:.0f}",
            )
            for m in measured
        ],
        right=range(2, 8),
    )
    print("kernel: best run; floor: the operations of a point at this core's multiply-add rate")


def print_times(
    fits: pbp_fits.WholeFits, cold: pbp_fits.ColdStart, predicted: pbp_fits.Prediction
) -> None:
    """Print seconds of whole fits and of first calls, and what prediction costs."""
    many = f"{pbp_fits.N_FITS} fits of {pbp_fits.N_EPOCHS} epochs, boston's size"
    first = "start of Python, imports, first fit of boston's size"
    lines = [
        (f"{many}, engine, {pbp_fits.N_THREADS} threads", f"{fits.engine:.3f} s"),
        (f"{many}, engine, 1 thread", f"{fits.engine_one_thread:.3f} s"),
        (f"{many}, PBPRegressor, {pbp_fits.N_THREADS} threads", f"{fits.estimator:.3f} s"),
        (f"{first}, engine", f"{cold.engine:.2f} s"),
        (f"{first}, PBPRegressor", f"{cold.estimator:.2f} s"),
        ("the start of Python alone", f"{cold.interpreter:.2f} s"),
        ("the same with nothing compiled before, engine", f"{cold.compiling:.1f} s"),
        ("predict, mean and std, 13 inputs, 50 units", f"{predicted.rows_a_second:,.0f} rows/s"),
        (
            f"memory of predicting {pbp_fits.N_ROWS:,} rows, beyond input and output",
            f"{predicted.extra_mib:.0f} MiB",
        ),
    ]
    print()
    print_table("Whole runs", ("what", "measured"), lines, right={1})


if __name__ == "__main__":
    main()

"""`python -m benchmarks` (`make bench`): speed and memory on this machine, in some minutes."""

from __future__ import annotations

import platform

import numpy as np

from bayesprop.cli.console import note
from benchmarks import calls, networks, pbp_fits, single_rows, split_fits


def main() -> None:
    """Measure everything, one thing after the other, and print tables."""
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}")
    note("PBP row by row ...")
    single_rows.main(["adf"])
    note("whole fits, first calls, prediction ...")
    pbp_fits.main()
    calls.main()
    networks.main([])
    split_fits.main()


if __name__ == "__main__":
    main()

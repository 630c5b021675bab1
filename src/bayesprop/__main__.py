"""Run the command line with ``python -m bayesprop``."""

from __future__ import annotations

import sys

from bayesprop.cli import main

if __name__ == "__main__":
    sys.exit(main())

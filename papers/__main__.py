"""Run an experiment with `python -m papers NAME`."""

from __future__ import annotations

import sys

from papers.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], name="python -m papers"))

"""What a newcomer types first runs as it stands: README and the first page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

OPTIMISED = True

REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "docs" / "hooks"))

from blocks import run_page  # noqa: E402


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_blocks_run(page: str, tmp_path: Path):
    run_page(REPOSITORY / page, tmp_path)

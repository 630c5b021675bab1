"""What a newcomer types first runs as it stands: README and the first page."""

from __future__ import annotations

from pathlib import Path

import pytest
from blocks import run_page
from doc_pages import REPOSITORY

OPTIMISED = True

LATER = pytest.param("docs/index.md", marks=pytest.mark.exhaustive)  # what README says, shorter


@pytest.mark.parametrize("page", ["README.md", LATER])
def test_blocks_run(page: str, tmp_path: Path):
    run_page(REPOSITORY / page, tmp_path)

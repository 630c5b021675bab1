"""The folder of published data, where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("BAYESPROP_DATA") or Path(__file__).resolve().parents[2] / "../shared/data"
)


@pytest.fixture
def published(monkeypatch):
    """Let the registry read the published files; skip where there are none."""
    if not (FOLDER / "uci").exists():
        pytest.skip("the data folder is not here")
    monkeypatch.setenv("BAYESPROP_DATA", str(FOLDER))

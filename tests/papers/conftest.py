"""What tests of experiments share: running one in a folder of the test, on the UCI sets."""

from __future__ import annotations

import pytest

from papers import rows, runner, uci
from papers.registry import EXPERIMENTS


@pytest.fixture
def reproduce(tmp_path):
    """Run an experiment, or that of a name; return all finished rows of its file.

    What every experiment leaves beside its rows is looked at: its section, and what it draws.
    """

    def run(experiment, *only, quick=True, **options):
        if isinstance(experiment, str):
            experiment = EXPERIMENTS[experiment].load()
        runner.run(experiment, out=tmp_path, quick=quick, only=list(only) or None, **options)
        left = {suffix: tmp_path / f"{experiment.name}.{suffix}" for suffix in ("md", "png", "svg")}
        assert left["md"].read_text("utf-8").startswith("## ")
        if experiment.draw is not None:
            assert left["png"].read_bytes().startswith(b"\x89PNG")
            assert left["svg"].stat().st_size > 1000
        return list(rows.done(rows.read(tmp_path / f"{experiment.name}.jsonl")).values())

    return run


@pytest.fixture
def uci_data(published):
    uci.loaded.cache_clear()
    yield
    uci.loaded.cache_clear()

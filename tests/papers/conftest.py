"""What tests of experiments share: running one in a folder of the test, on the UCI sets."""

from __future__ import annotations

import pytest

from papers import rows, runner, uci


@pytest.fixture
def reproduce(tmp_path):
    """Run an experiment; return all finished rows of its file."""

    def run(experiment, *only, quick=True, **options):
        runner.run(experiment, out=tmp_path, quick=quick, only=list(only) or None, **options)
        return list(rows.done(rows.read(tmp_path / f"{experiment.name}.jsonl")).values())

    return run


@pytest.fixture
def uci_data(published):
    uci.loaded.cache_clear()
    yield
    uci.loaded.cache_clear()

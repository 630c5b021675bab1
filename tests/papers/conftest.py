"""What tests of experiments share: running one in a folder of the test."""

from __future__ import annotations

import pytest

from papers import rows, runner


@pytest.fixture
def reproduce(tmp_path):
    """Run an experiment; return all finished rows of its file."""

    def run(experiment, *only, quick=True, **options):
        runner.run(experiment, out=tmp_path, quick=quick, only=list(only) or None, **options)
        return list(rows.done(rows.read(tmp_path / f"{experiment.name}.jsonl")).values())

    return run

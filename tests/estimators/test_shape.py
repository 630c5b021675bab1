"""How many files `fit` and `partial_fit` open: a reader opens them to learn what they do."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
from method_settings import ALL, X, silently, targets, unfitted

import bayesprop

SOURCE = Path(bayesprop.__file__).parent
MOST_ON_THE_WAY = 12
MOST = {"mlp": 25, "laplace": 17, "pbp": 14, "deep-ensemble": 13, "network": 13, "mcmc": 13}
"""With the mathematics, of which `numerics` and `simd` are not counted; of the others 12."""


def opened(act):
    """Files in which something is called while `act` runs, rules of parameters included."""
    files = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(Path(frame.f_code.co_filename))

    sys.setprofile(note)
    act()
    sys.setprofile(None)
    ours = {file for file in files if file.is_relative_to(SOURCE)}
    return {file for file in ours if file.relative_to(SOURCE).parts[0] not in ("numerics", "simd")}


@pytest.mark.parametrize(("name", "task"), ALL)
def test_few_files_are_opened(name, task):
    model, y = unfitted(name, task), targets(task)
    silently(model.fit, X, y)  # compiles, so that no program is traced below
    kinds = inspect.getmro(model.method_class)[:-1]
    homes = {Path(inspect.getfile(kind)) for kind in kinds if kind.__module__[:9] == "bayesprop"}
    for learn in filter(None, (model.fit, getattr(model, "partial_fit", None))):
        files = opened(lambda learn=learn: silently(learn, X, y))
        assert len(files) <= MOST.get(name, MOST_ON_THE_WAY)
        way = {f for f in files if f.relative_to(SOURCE).parts[0] in ("estimators", "model")}
        assert len(way | files & homes) <= MOST_ON_THE_WAY

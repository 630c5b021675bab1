"""What `warm` compiles serves other tables, tasks and files: nothing is compiled after it."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import sys
import numpy as np
from bayesprop import BayesianClassifier, BayesianRegressor, PBPRegressor, store
from bayesprop.cli import main

ROOMS = "bayesprop.moments", "bayesprop.tabular_default"

def programs():
    modules = [m for name, m in sys.modules.items() if name.startswith(ROOMS)]
    entries = {id(e): e for m in modules for e in vars(m).values() if hasattr(e, "signatures")}
    return {e.py_func.__name__: len(e.signatures) for e in entries.values() if e.signatures}

assert main(["warm"]) == 0
before = programs()
rng = np.random.default_rng(1)
X, weight = rng.standard_normal((120, 5)), rng.uniform(0.5, 2.0, 120)
y = X[:, :2] + rng.standard_normal((120, 2))
X[::7, 0] = np.nan
short = {"n_epochs": 1, "n_members": 5}
model = BayesianRegressor(**short).fit(X, y, weight)
model.save("model.bayesprop")
store.load_model("model.bayesprop").estimator.predict_interval(X[:1])
BayesianRegressor(**short).fit(X, y[:, 0], groups=np.arange(120) % 9).sample_y(X)
BayesianClassifier(**short).fit(X, y[:, 0] > 0.0).predict(X)
PBPRegressor(n_epochs=1).fit(X, y, weight).partial_fit(X[:3], y[:3]).predict(X)
assert {"evaluate", "advance", "advance_classes", "absorb_rows"} <= set(before), before
assert programs() == before, (before, programs())
"""


@pytest.mark.exhaustive
def test_nothing_is_compiled_after_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=tmp_path, capture_output=True, text=True, timeout=540
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("compiled default, pbp in")

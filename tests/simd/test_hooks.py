"""What is used of numba without its promise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SUMS = """
import sys, numba
numba.version_info = numba.version_info._replace(short=tuple(map(int, sys.argv[1].split("."))))
import numpy as np
from bayesprop import BayesianRegressor
from bayesprop.simd import hooks
x = np.random.default_rng(0).standard_normal((60, 3))
model = BayesianRegressor(n_epochs=2, random_state=0).fit(x, x[:, 0])
print("pipeline_class" in hooks.ENTRY, model.predict(x).tobytes().hex())
"""


@pytest.mark.exhaustive
def test_an_unknown_numba_compiles_by_itself_to_the_same_bits(tmp_path):
    found = []
    for version in ("0.68", "9.0"):
        where = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / version)}
        words = [sys.executable, "-W", "ignore", "-c", SUMS, version]
        found += subprocess.check_output(words, env=where, text=True).split()
    known, bits, other, same = found
    assert (known, other, bits) == ("True", "False", same)

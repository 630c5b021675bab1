"""Run by `test_mesh`: fits in a process of several devices, predictions as JSON on standard output.

`python fits_over_a_mesh.py DEVICES [--address HOST:PORT --rank 0] METHOD:TASK ...`: over a mesh of
all devices where there is more than one.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import nullcontext

parser = argparse.ArgumentParser()
parser.add_argument("n_devices", type=int)
parser.add_argument("--address")
parser.add_argument("--rank", type=int)
parser.add_argument("fits", nargs="+")
asked = parser.parse_args()
flags = f"--xla_force_host_platform_device_count={asked.n_devices}"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"

import jax  # noqa: E402  (devices are counted when it is imported)
import numpy as np  # noqa: E402

from bayesprop import catalogue  # noqa: E402
from bayesprop.numerics.devices import dealt_out, partitioned_by_xla  # noqa: E402

if asked.address:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(asked.address, 2, asked.rank)
n_devices = jax.device_count()
rng = np.random.default_rng(0)
X = rng.standard_normal((150, 4))
y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.1 * rng.standard_normal(150)
for fit in asked.fits:
    method, task = fit.split(":")
    model = catalogue.make(method, task=task, n_epochs=4, batch_size=50, random_state=0)
    mesh = jax.set_mesh(jax.make_mesh((n_devices,), ("rows",))) if n_devices > 1 else nullcontext()
    with mesh:
        with partitioned_by_xla():
            dealt = jax.jit(dealt_out)(np.ones((2 * n_devices, 3)))
        assert [one.data.shape for one in dealt.addressable_shards] == [(2, 3)] * asked.n_devices
        model.fit(X, y if task == "regression" else y > 0.0)
    predictive = model.predict_dist(X)
    is_numbers = task == "regression"
    columns = [predictive.mean, predictive.std] if is_numbers else predictive.proba.T
    print(json.dumps({"fit": fit, "columns": [np.asarray(one).tolist() for one in columns]}))

"""Training over a mesh of devices: as on one device, to rounding."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest

# `DEVICES [--address HOST:PORT --rank RANK] METHOD:TASK ...`; a mesh of all devices, if several.
CHILD = """
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

import jax
import numpy as np

from bayesprop import catalogue
from bayesprop.numerics.loops import dealt_out, partitioned_by_xla

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
        predictive = model.fit(X, y if task == "regression" else y > 0.0).predict_dist(X)
    outside = model.predict_dist(X[:1])
    assert np.isfinite(outside.mean if task == "regression" else outside.proba).all()
    is_numbers = task == "regression"
    columns = [predictive.mean, predictive.std] if is_numbers else predictive.proba.T
    print(json.dumps({"fit": fit, "columns": [np.asarray(one).tolist() for one in columns]}))
"""

_BOTH = ("regression", "classification")
_FEW = ["bayes-by-backprop:regression", "deep-ensemble:classification"]
_METHODS = ("closed-form-vi", "graves-vi", "mc-dropout", "network", "laplace")
_REST = [f"{method}:{task}" for method in _METHODS for task in _BOTH]


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", CHILD, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _predictions(process: subprocess.Popen[str]) -> dict[str, np.ndarray]:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    fits = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {fit["fit"]: np.array(fit["columns"]) for fit in fits}


def _assert_alike(one: dict[str, np.ndarray], several: dict[str, np.ndarray]) -> None:
    assert list(one) == list(several)
    for fit, columns in one.items():
        np.testing.assert_allclose(several[fit], columns, rtol=1e-3, atol=1e-4, err_msg=fit)


@pytest.mark.parametrize("fits", [_FEW, _REST])
def test_eight_devices_train_as_one(fits):
    # Neither the batches of 50 nor the five members divide by eight.
    one, eight = _started("1", *fits), _started("8", *fits)
    _assert_alike(_predictions(one), _predictions(eight))


def test_two_processes_train_as_one():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    one = _started("1", *_FEW)
    ranks = [_started("2", "--address", address, "--rank", str(rank), *_FEW) for rank in (0, 1)]
    alone = _predictions(one)
    for rank in ranks:
        _assert_alike(alone, _predictions(rank))

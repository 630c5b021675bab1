"""Training over a mesh of devices: as on one device, to rounding."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_SCRIPT = Path(__file__).with_name("fits_over_a_mesh.py")
_BOTH = ("regression", "classification")
_FEW = ["bayes-by-backprop:regression", "deep-ensemble:classification"]
_METHODS = ("closed-form-vi", "graves-vi", "mc-dropout", "network", "laplace")
_REST = [f"{method}:{task}" for method in _METHODS for task in _BOTH]


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", str(_SCRIPT), *arguments]
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


@pytest.mark.parametrize("fits", [_FEW, pytest.param(_REST, marks=pytest.mark.exhaustive)])
def test_eight_devices_train_as_one(fits):
    # Neither the batches of 50 nor the five members divide by eight.
    one, eight = _started("1", *fits), _started("8", *fits)
    _assert_alike(_predictions(one), _predictions(eight))


@pytest.mark.exhaustive
def test_two_processes_train_as_one():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    one = _started("1", *_FEW)
    ranks = [_started("2", "--address", address, "--rank", str(rank), *_FEW) for rank in (0, 1)]
    alone = _predictions(one)
    for rank in ranks:
        _assert_alike(alone, _predictions(rank))

"""The examples run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

OPTIMISED = True

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def test_convolution_on_digits(capsys):
    main = runpy.run_path(str(EXAMPLES / "convolution_mnist.py"))["main"]
    main(["--quick", "--epochs", "25"])
    said = capsys.readouterr().out
    accuracy = float(re.search(r"accuracy ([\d.]+)", said)[1])
    area = float(re.search(r"ROC curve ([\d.]+)", said)[1])
    assert accuracy > 0.85
    assert area > 0.8

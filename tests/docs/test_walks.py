"""The ways through the code that the page on the architecture shows are those that calls take."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bayesprop
from bayesprop import BayesianRegressor, PBPRegressor
from opened import opened

PAGE = Path(__file__).parents[2] / "docs/understand/architecture.md"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
Y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * RNG.normal(size=400)


@pytest.fixture(scope="module")
def model() -> BayesianRegressor:
    return BayesianRegressor(random_state=0).fit(X, Y)


def shown(title: str) -> list[str]:
    """The files of the list below a heading."""
    below = PAGE.read_text().split(f"### {title}\n")[1].split("\n#")[0]
    return re.findall(r"^- `([a-z_/0-9]+\.py)`", below, re.M)


def test_a_fit(model):
    assert opened(lambda: BayesianRegressor(random_state=0).fit(X, Y)) == shown("A fit")


def test_a_prediction(model):
    model.predict_dist(X[:1])
    assert opened(lambda: model.predict_dist(X[:5])) == shown("A prediction")


def test_a_saved_model(model, tmp_path):
    model.save(tmp_path / "m")
    bayesprop.load(tmp_path / "m")
    assert opened(lambda: bayesprop.load(tmp_path / "m")) == shown("A saved model")


def test_a_stream():
    stream = PBPRegressor(random_state=0).fit(X, Y)
    stream.partial_fit(X[:5], Y[:5])
    assert opened(lambda: stream.partial_fit(X[5:9], Y[5:9])) == shown("A stream")

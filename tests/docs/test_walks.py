"""The ways through the code that the page on the architecture shows are those that calls take."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import BayesianRegressor, PBPRegressor
from bayesprop.cli import main
from opened import opened

PAGE = Path(__file__).parents[2] / "docs/understand/architecture.md"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
Y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * RNG.normal(size=400)

compiled = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="sys.setprofile sees no call of a compiled function"
)


@pytest.fixture(scope="module")
def model() -> BayesianRegressor:
    return BayesianRegressor(random_state=0).fit(X, Y)


def shown(title: str) -> list[str]:
    """The files of the list below a heading."""
    below = PAGE.read_text().split(f"### {title}\n")[1].split("\n#")[0]
    return re.findall(r"^- `([a-z_/0-9]+\.py)`", below, re.M)


@compiled
def test_a_fit(model):
    assert opened(lambda: BayesianRegressor(random_state=0).fit(X, Y)) == shown("A fit")


@compiled
def test_a_prediction(model):
    model.predict_dist(X[:1])
    assert opened(lambda: model.predict_dist(X[:5])) == shown("A prediction")


def test_a_saved_model(model, tmp_path):
    model.save(tmp_path / "m")
    bayesprop.load(tmp_path / "m")
    assert opened(lambda: bayesprop.load(tmp_path / "m")) == shown("A saved model")


@compiled
def test_a_stream():
    stream = PBPRegressor(random_state=0).fit(X, Y)
    stream.partial_fit(X[:5], Y[:5])
    assert opened(lambda: stream.partial_fit(X[5:9], Y[5:9])) == shown("A stream")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Tables and models for the commands."""
    folder = tmp_path_factory.mktemp("walks")
    columns = {f"x{k}": x for k, x in enumerate(X.T)}
    table = pl.DataFrame(columns | {"kind": np.resize(["a", "b", "c"], 400), "y": Y})
    table.write_csv(folder / "table.csv")
    table[:10].write_csv(folder / "more.csv")
    table[:10].drop("y").write_csv(folder / "new.csv")
    for method in ("default", "pbp"):
        out = str(folder / f"{method}.model")
        words = ["fit", str(folder / "table.csv"), "--target", "y", "--method", method]
        assert main([*words, "--out", out, "--quiet"]) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "fit table.csv --target y --out new.model --quiet",
        "predict default.model new.csv --out out.csv --quiet",
        "suggest default.model new.csv --n 3 --quiet",
        "update pbp.model more.csv --out new.model --quiet",
    ],
)
def test_a_command(folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    words = command.split()
    assert main(words) == 0
    files = opened(lambda: main(words))
    rooms = dict.fromkeys(file.split("/")[0].removesuffix(".py") for file in files)
    line = f"- `{words[0]}`: {', '.join(f'`{room}`' for room in rooms)}"
    assert f"{line}\n" in PAGE.read_text()

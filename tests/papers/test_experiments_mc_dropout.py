"""The lecture's two pictures of MC dropout, tiny: data, one cell of each, text and figure."""

from __future__ import annotations

import numpy as np
import pytest

from papers import mc_dropout_moons, mc_dropout_regression, runner
from papers.protocol import Cell

TINY = {"n_points": 20, "n_hidden": 5, "n_epochs": 2}


def test_points_lie_about_the_curve():
    toy = mc_dropout_regression.points(4000, random_state=0)
    error = toy.y - (toy.X[:, 0] + np.sin(toy.X[:, 0]))
    assert abs(error.mean()) < 4.5 * 0.5 / np.sqrt(4000)
    assert error.std() == pytest.approx(0.5, rel=0.06)
    assert np.abs(toy.X).max() <= 6.0


def test_moons_are_half_circles():
    moons = mc_dropout_moons.moons(500, 0.0, random_state=0)
    upper, lower = moons.X[moons.y == 0], moons.X[moons.y == 1]
    np.testing.assert_allclose(np.hypot(*upper.T), 1.0)
    np.testing.assert_allclose(np.hypot(*(lower - [1.0, 0.5]).T), 1.0)
    assert (upper[:, 1] >= 0.0).all()
    assert (lower[:, 1] <= 0.5).all()


@pytest.mark.parametrize("experiment", [mc_dropout_regression, mc_dropout_moons])
def test_cells_text_and_figure(experiment, tmp_path):
    cells = [Cell({"method": method, "draw": 0}) for method in ("network", "mc-dropout")]
    described = experiment.EXPERIMENT
    rows = runner.run_cells(described, experiment.Config(**TINY), cells, out=tmp_path)
    runner.check_all_done(rows)
    stem = tmp_path / experiment.NAME
    described.draw(rows, stem)
    text = described.section(rows)
    assert stem.with_suffix(".svg").exists()
    assert "one network" in text
    assert "MC dropout" in text
    results = {row.cell["method"]: row.result for row in rows}
    doubt = [name for name in results["network"] if "epistemic" in name or "information" in name]
    assert doubt
    for name in doubt:
        assert results["network"][name] == pytest.approx(0.0, abs=1e-6)
        assert results["mc-dropout"][name] > 0.0

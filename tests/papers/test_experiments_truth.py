"""Distances to exact sampling: the arithmetic by hand, tiny cells, what the sections say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from papers import ground_truth, pbp_toy, runner
from papers.protocol import Cell

TINY = {"n_hidden": 3, "n_epochs": 2, "n_chains": 2, "n_warmup": 20, "n_draws": 10}


def test_distance_by_hand():
    true = {"true_mean": np.array([0.0, 2.0]), "true_std": np.array([2.0, 4.0])}
    found = ground_truth.distance(np.array([1.0, 2.0]), np.array([2.0, 1.0]), **true)
    assert found.mean == pytest.approx(np.sqrt(0.25 / 2.0))
    assert found.std == pytest.approx(np.log(4.0) / np.sqrt(2.0))
    assert found.std_ratio == pytest.approx(0.5)


def rows_of(experiment, config, cells, tmp_path):
    rows = runner.run_cells(experiment.EXPERIMENT, config, cells, out=tmp_path)
    runner.check_all_done(rows)
    return rows


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_method_is_set_beside_the_truth_of_its_own_problem(tmp_path):
    config = ground_truth.Config(**TINY)
    pairs = [(repeat, method) for repeat in range(2) for method in ("mcmc", "pbp", "linear")]
    cells = [Cell({"dataset": "cubic", "method": m, "repeat": repeat}) for repeat, m in pairs]
    rows = rows_of(ground_truth, config, cells, tmp_path)
    found = ground_truth.distances(rows, ("dataset", "repeat", "method"))
    assert set(found) == {("cubic", r, m) for r in range(2) for m in ("pbp", "linear")}
    result = {(row.cell["repeat"], row.cell["method"]): row.result for row in rows}
    truth, other = result[1, "mcmc"], result[1, "linear"]
    off = (np.array(other["mean"]) - truth["mean"]) / np.array(truth["std"])
    assert found["cubic", 1, "linear"].mean == pytest.approx(np.sqrt(np.mean(off**2)))
    text = ground_truth.section(rows)
    assert "R-hat below 1.01 in" in text
    assert text.count("| linear regression |") == 1
    problem = ground_truth.problem(config, "cubic", 1)
    assert (len(problem.y_train), len(problem.y_test)) == (30, 200)


@pytest.mark.usefixtures("published")
def test_no_row_is_both_learnt_from_and_predicted():
    data = ground_truth.problem(ground_truth.Config(), "yacht", 0)
    both = np.vstack([data.X_train, data.X_test])
    assert (len(data.y_train), len(data.y_test), len(np.unique(both, axis=0))) == (30, 200, 230)


def test_five_panels(tmp_path):
    config = pbp_toy.Config(**{**TINY, "n_epochs": 3})
    (fitted,) = rows_of(pbp_toy, config, [Cell({"method": "pbp", "draw": 0})], tmp_path)
    wider = fitted.result | {"std": [2.0 * std for std in fitted.result["std"]]}
    chains = {"r_hat": 1.02, "n_divergent": 3.0, "least_ess": 100.0}
    results = {m: wider | chains if "mcmc" in m else fitted.result for m in pbp_toy.PANELS}
    rows = [
        replace(fitted, cell={"method": method, "draw": 0}, result=result)
        for method, result in results.items()
    ]
    pbp_toy.draw(rows, tmp_path / "pbp-toy")
    picture = (tmp_path / "pbp-toy.svg").read_text()
    assert all(f"<!-- {title} -->" in picture for title in pbp_toy.PANELS.values())
    text = pbp_toy.section(rows)
    header = "| mean ± s.e. over draws of the data | VI | BP | PBP | HMC | HMC, priors of PBP |"
    assert header in text
    assert "R-hat below 1.01 in 0 of 2 problems, at most 1.020" in text
    assert "; 6 draws diverged" in text
    half = "| 0.5 | 0.5 | 0.5 |"
    assert f"| from HMC: geometric mean of std / its std {half} – | 1 |" in text
    assert f"| from HMC, priors of PBP: geometric mean of std / its std {half} 1 | – |" in text

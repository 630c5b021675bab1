"""Chains in the report: ranks by hand, what is kept of them, what the page says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from bayesprop.estimators.mcmc import MCMCRegressor
from bayesprop.model.fit_report import ChainTrace, FitReport
from bayesprop.report import chain_figures


def test_ranks_of_chains_that_agree_and_of_chains_that_do_not():
    rng = np.random.default_rng(0)
    same = rng.normal(size=(4, 400))
    apart = np.stack([rng.normal(size=100), 10.0 + rng.normal(size=100)])
    for values, n_bins, flat in ((same, 20, True), (apart, 10, False)):
        (axes,) = chain_figures.ranks(values).axes
        heights = np.array([patch.get_data().values for patch in axes.patches])
        assert heights.shape == (len(values), n_bins)
        np.testing.assert_allclose(heights.mean(axis=1), 1.0)
        if flat:  # counts of 20 draws a bin, without replacement from four chains
            assert np.abs(heights - 1.0).max() < 4.5 * np.sqrt(0.75 / 20)
        else:
            expected = [[2.0] * 5 + [0.0] * 5, [0.0] * 5 + [2.0] * 5]
            np.testing.assert_array_equal(heights, expected)


def test_the_course_of_every_chain_is_drawn():
    values = np.arange(12.0).reshape(3, 4)
    (axes,) = chain_figures.course(values).axes
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], values)


def test_a_fit_report_keeps_its_chains():
    chains = {"log_density": ChainTrace([[1.0, 2.0], [3.0, 4.0]], 1.5, None)}
    report = FitReport(3, 2, 0.1, 4, {}, {}, step="draw", chains=chains)
    assert FitReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    older = report.to_dict()
    del older["step"], older["chains"]
    assert FitReport.from_dict(older).step == "epoch"
    with pytest.raises(ValueError, match="not a fit report"):
        FitReport.from_dict(report.to_dict() | {"chains": {"a": {"values": 1}}})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_fit_leaves_of_its_chains(monkeypatch):
    monkeypatch.setattr("bayesprop.estimators.chain_fitting._MOST_TRACED", 5)
    X, y = load_diabetes(return_X_y=True)
    model = MCMCRegressor((), n_chains=2, n_warmup=20, n_draws=12, random_state=0)
    report = model.fit(X[:30, :2], y[:30]).fit_report_
    assert set(report.chains) == {"log_density", "log_weight_precision", "log_noise_var[0]"}
    kept = np.array(report.chains["log_density"].values)
    np.testing.assert_allclose(kept, model.state_.log_density[:, ::3])
    place = model.diagnostics_.names.index("log_density")
    assert report.chains["log_density"].r_hat == pytest.approx(model.diagnostics_.r_hat[place])
    assert "target 1" in chain_figures.name_of("log_noise_var[0]")

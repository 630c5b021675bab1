"""Chains in the report: ranks by hand, what is kept of them, what the page says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayesprop import codec
from bayesprop.model.fit_report import ChainTrace, FitReport
from bayesprop.report import fit_course


def test_ranks_of_chains_that_agree_and_of_chains_that_do_not():
    rng = np.random.default_rng(0)
    same = rng.normal(size=(4, 400))
    apart = np.stack([rng.normal(size=100), 10.0 + rng.normal(size=100)])
    for values, n_bins, flat in ((same, 20, True), (apart, 10, False)):
        (axes,) = fit_course.ranks(values).axes
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
    (axes,) = fit_course.course(values).axes
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], values)


def test_a_fit_report_keeps_its_chains():
    chains = {"log_density": ChainTrace([[1.0, 2.0], [3.0, 4.0]], 1.5, None)}
    report = FitReport(3, 2, 0.1, 4, {}, {}, step="draw", chains=chains)
    stored = json.loads(json.dumps(codec.to_json(report, FitReport)))
    assert codec.from_json(FitReport, stored) == report
    with pytest.raises(ValueError, match=r"chains\.a must hold"):
        codec.from_json(FitReport, stored | {"chains": {"a": {"value": 1}}})


def test_names_in_words():
    assert fit_course.name_of("log_noise_var[0]") == "Log noise variance, target 1"
    assert fit_course.name_of("log_density") == "Log density"
    assert fit_course.name_of("my_own[a]") == "My own"
    assert "from one chain" in fit_course.caption(ChainTrace([[1.0]]))
    assert fit_course.caption(ChainTrace([[1.0]], 1.2345, 80.0)).startswith("R-hat 1.23")

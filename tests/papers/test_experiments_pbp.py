"""The experiments of the PBP paper, small, on the engines and data that are there."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import integrate, stats

from papers import pbp_deep, pbp_student_t, protocol, uci
from papers.pbp_student_t import Watched
from papers.registry import EXPERIMENTS
from papers.toy import cubic, cubic_mean


@pytest.mark.parametrize(
    "datum", [(0.3, 0.5, 6.0, 6.0), (4.0, 0.1, 6.0, 6.0), (-1.2, 2.0, 2.5, 9.0)]
)
def test_student_t_integral_against_quad(datum):
    watched = Watched(*datum)
    dof, scale = 2.0 * watched.noise_shape, np.sqrt(watched.noise_rate / watched.noise_shape)

    def integrand(z):
        noise = stats.t.pdf(watched.error, dof, loc=z, scale=scale)
        return noise * stats.norm.pdf(z, 0.0, np.sqrt(watched.v))

    exact = integrate.quad(integrand, -60.0, 60.0, points=[0.0, watched.error], epsabs=1e-14)[0]
    assert pbp_student_t.student_t_log_z(watched) == pytest.approx(np.log(exact), abs=1e-9)
    noise_var = watched.noise_rate / (watched.noise_shape - 1.0)
    gaussian = stats.norm.logpdf(watched.error, scale=np.sqrt(noise_var + watched.v))
    assert pbp_student_t.gaussian_log_z(watched) == pytest.approx(gaussian)


@pytest.mark.usefixtures("uci_data")
def test_table1_quick(reproduce, tmp_path):
    found = reproduce("pbp-table1", "yacht")
    assert sorted(row.cell["split"] for row in found) == [0, 1]
    for row in found:
        assert 0.5 < row.result["rmse"] < 2.0
        assert -2.2 < row.result["log_likelihood"] < -1.2
    assert "| yacht | 2 | 1.015±0.0542 |" in (tmp_path / "pbp-table1.md").read_text()
    again = reproduce("pbp-table1", "yacht", quick=False)
    assert len(again) == 20
    assert again[:2] == found


@pytest.mark.usefixtures("uci_data")
def test_split_follows_the_published_order():
    data = uci.train_test("yacht", 3)
    whole = uci.loaded("yacht")
    with np.load(whole.source) as arrays:
        published = whole.y[arrays["test_index"][3]]
    np.testing.assert_array_equal(data.y_test, published)
    assert len(data.y_train) + len(data.y_test) == len(whole.y)


@pytest.mark.usefixtures("uci_data")
def test_deep_quick(reproduce, monkeypatch, tmp_path):
    monkeypatch.setattr(pbp_deep, "LAYERS", (1, 2))
    found = reproduce("pbp-deep", "yacht")
    assert len(found) == 2 * 2 * 2
    assert all(np.isfinite(row.result["rmse"]) for row in found)
    assert len(re.findall(r"^\| yacht \|", (tmp_path / "pbp-deep.md").read_text(), re.M)) == 2


def test_cubic_has_the_papers_range_and_noise_variance():
    toy = cubic(40_000, random_state=3)
    assert -4.0 <= toy.X.min() < -3.99
    assert 3.99 < toy.X.max() <= 4.0
    noise = toy.y - cubic_mean(toy.X[:, 0])
    assert abs(noise.mean()) < 4 * 3.0 / np.sqrt(len(noise))
    assert abs(noise.var() - 9.0) < 4 * 9.0 * np.sqrt(2.0 / len(noise))
    assert cubic_mean(np.array(-2.0)) == -8.0


def test_toy_quick(reproduce, tmp_path):
    found = reproduce("pbp-toy", "pbp")
    assert len(found) == 2
    assert all(row.result["curve_in_band"] > 0.9 for row in found)
    assert all(row.result["std_beyond"] > row.result["std_inside"] > 3.0 for row in found)
    first = (tmp_path / "pbp-toy.svg").read_bytes()
    reproduce("pbp-toy", "pbp")
    assert (tmp_path / "pbp-toy.svg").read_bytes() == first


def test_tuned_toy_quick(reproduce):
    found = reproduce("pbp-toy-tuned")
    assert {row.cell["method"] for row in found} == {"vi", "vi-rmse", "bp"}
    assert len(found) == 6
    for row in found:
        assert 0.0 < row.result["rmse_of_curve"] < 25.0  # of a constant, 24.2
        is_flat = np.ptp(row.result["std"]) == 0.0
        assert is_flat == (row.cell["method"] == "bp")


@pytest.mark.usefixtures("uci_data")
def test_student_t_quick(reproduce):
    first, second = reproduce("pbp-student-t")
    for row in (first, second):
        assert row.result["last_noise_shape"] > 1000.0
        assert row.result["last_median_nats"] < 0.1 * row.result["first_median_nats"]
    assert sum("first_relative" in row.result for row in (first, second)) == 1


def test_timing_of_the_size_of_year(reproduce, tmp_path):
    (row,) = reproduce("pbp-table1", "year-shaped")
    result = row.result
    assert result["n_rows"] == 4637
    assert result["fit_seconds"] == pytest.approx(40 * result["epoch_seconds"])
    assert "made-up data of 4637 rows (1.0% of" in (tmp_path / "pbp-table1.md").read_text()


def test_no_data_is_said_in_one_line(reproduce, monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    uci.loaded.cache_clear()
    with pytest.raises(protocol.NothingToRun, match=r"year.*not found") as caught:
        reproduce("pbp-table1", "year")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_experiment_writes_its_part_of_the_results_page(name):
    experiment = EXPERIMENTS[name].load()
    assert experiment.name == name
    assert "Nothing has been run" in experiment.section([])

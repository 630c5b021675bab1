"""The arithmetic of the summaries, against figures worked out by hand."""

from __future__ import annotations

import math

import pytest
from made_rows import made

from bayesprop.datasets import registry
from papers import compare, markdown
from papers.compare import Estimate, Published


def test_estimate():
    ours = Estimate.of([1.0, 2.0, 4.0, 5.0])
    assert ours == Estimate(3.0, math.sqrt(10.0 / 3.0) / 2.0, 4)
    assert Estimate.of([2.5, None]) == Estimate(2.5, None, 1)
    assert math.isnan(Estimate.of([None]).mean)


def test_an_estimate_has_two_digits_of_its_error_and_none_that_are_rounding():
    assert markdown.estimate(Estimate(3.14159, 0.0123, 5)) == "3.142 ± 0.012"
    assert markdown.estimate(Estimate(0.0674489752, 4.4e-10, 5)) == "0.06745"


def test_published_figures_are_read_with_their_rounding():
    kin8nm = Published.parse("0.098±0.0007")
    assert (kin8nm.mean, kin8nm.se) == (0.098, 0.0007)
    assert kin8nm.mean_rounding == pytest.approx(0.0005)
    assert kin8nm.se_rounding == pytest.approx(0.00005)
    year = Published.parse("-3.603±NA")
    assert (year.mean, year.se, year.se_rounding) == (-3.603, None, 0.0)
    with pytest.raises(ValueError, match="mean±se"):
        Published.parse("0.098 +- 0.0007")


def test_difference_in_combined_standard_errors():
    apart = compare.difference(Estimate(2.9, 0.03, 20), Published.parse("3.0±0.04"))
    assert apart.plain == pytest.approx(-0.1 / 0.05)
    assert apart.rounded == pytest.approx(-0.1 / math.sqrt(0.05**2 + 0.05**2 + 0.005**2))
    assert not apart.is_flagged
    assert compare.difference(Estimate(2.5, 0.03, 20), Published.parse("3.0±0.04")).is_flagged


def test_a_standard_error_printed_as_zero_is_rounding():
    apart = compare.difference(Estimate(0.0057, 0.00005, 20), Published.parse("0.006±0.0000"))
    assert apart.plain == pytest.approx(-6.0)
    assert apart.rounded == pytest.approx(-0.0003 / math.sqrt(5e-5**2 + 5e-4**2 + 5e-5**2))
    assert not apart.is_flagged


def test_without_a_standard_error_or_a_mean_there_is_no_difference():
    apart = compare.difference(Estimate(8.9, None, 1), Published.parse("8.879±NA"))
    assert (apart.plain, apart.rounded, apart.is_flagged) == (None, None, False)
    assert compare.difference(Estimate(math.nan, 0.1, 20), Published.parse("1.0±0.1")).is_flagged


@pytest.mark.parametrize(("file", "columns"), [("pbp_table1.csv", 3), ("pbp_deep.csv", 4)])
def test_anchors_hold_every_set(file, columns):
    anchors = compare.anchors(file)
    assert set(anchors) == {
        n for n in registry.names() if registry.describe(n).task == "regression"
    } - {"diabetes"}
    assert all(len(record) == columns for record in anchors.values())
    assert anchors["year"]["rmse" if columns == 3 else "1"].endswith("±NA")


def test_only_the_latest_settings_are_shown():
    old = made({"a": 1}, {"x": 1.0}, config={"seed": 1}, finished_at="2026-01-01T00:00:00+00:00")
    new = made({"a": 1}, {"x": 2.0}, config={"seed": 2}, finished_at="2026-01-02T00:00:00+00:00")
    assert markdown.latest([new, old]) == [new]
    assert markdown.latest([]) == []
    assert "--seed 2" in markdown.origin([new])


def test_a_failure_made_good_is_not_shown():
    failed = made({"a": 1}, None, error="OSError: gone")
    assert markdown.failures([failed, made({"a": 1}, {"x": 1.0})]) == ""
    text = markdown.failures([failed])
    assert "1 cells failed" in text
    assert "OSError: gone" in text
    assert "commit 0123456789ab" in markdown.origin([failed])

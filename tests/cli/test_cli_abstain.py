"""Rows that the model is too unsure of get no prediction but a reason, and are counted."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest


def test_classes_beyond_are_left_empty(cli, fitted, tmp_path):
    rng = np.random.default_rng(0)
    kinds = np.tile(["a", "b", "c"], 40)
    x = np.tile([0.0, 1.0, 2.0], 40) + rng.standard_normal(120)
    frame = pl.DataFrame({"x": x, "z": rng.standard_normal(120), "abstained": kinds})
    words = ("--method", "pbp", "--hidden", "5", "--epochs", "10", "--test-fraction", 0)
    path, model, _ = fitted(frame.write_csv(), *words, target="abstained")
    plain = cli("predict", model, path).rows
    words = ["--abstain-above", 0.4, "--by", "error-probability"]
    result = cli("predict", model, path, *words)
    found = result.rows
    doubt = [1.0 - max(float(row[f"p({kind})"]) for kind in "abc") for row in plain]
    assert 0 < sum(d > 0.4 for d in doubt) < 120
    for row, known, d in zip(found, plain, doubt, strict=True):
        # the target has the name of the reasons, so that the label takes another
        assert row["predicted_abstained"] == ("" if d > 0.4 else known["abstained"])
        assert (row["p(a)"] == "") == (row["abstained"] != "") == (d > 0.4)
        assert row["entropy"] == known["entropy"]
        if d > 0.4:
            value = float(re.search(r" (\S+) > 0.4$", row["abstained"])[1])
            assert value == pytest.approx(d, rel=1e-5)
    n = sum(d > 0.4 for d in doubt)
    assert f"abstained on {n} of 120 rows ({100 * n / 120:.3g} %): " in result.err
    assert cli("predict", model, path, *words, "--quiet").err == ""
    kept = cli("predict", model, path, *words, "--columns", "all")
    assert "--columns: the table already has abstained" in kept.error
    out = tmp_path / "out.parquet"
    assert cli("predict", model, path, "--abstain-above", 0, "--out", out).code == 0
    assert pl.read_parquet(out)["predicted_abstained"].null_count() == 120
    wrong = cli("predict", model, path, "--abstain-above", 1, "--by", "std")
    assert "--by std is not known for a model of classes" in wrong.error

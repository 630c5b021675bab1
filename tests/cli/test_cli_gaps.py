"""Tables with gaps through the command line: what a missing value costs, and columns left out."""

from __future__ import annotations

import pytest
from house_table import as_csv, house_rows


@pytest.fixture
def later(tmp_path):
    """Rows to predict: complete, one with a gap, one with a new level, one with neither value."""
    rows = [dict(row) for row in house_rows()[:4]]
    for row in rows:
        row |= {"area": row["area"] or 80, "town": row["town"] or "Ulm"}
    rows[1]["area"] = ""
    rows[2]["town"] = "Atlantis"
    rows[3] |= {"area": "", "town": ""}
    path = tmp_path / "later.csv"
    path.write_text(as_csv(rows))
    return path


def test_predictions_say_what_gaps_cost_where_there_are_any(cli, house_model, later, tmp_path):
    result = cli("predict", house_model, later)
    shares = [float(row["gap_share"]) for row in result.rows]
    assert shares[0] == 0.0
    assert all(share > 0.0 for share in shares[1:])
    std = [float(row["std"]) for row in result.rows]
    assert std[3] > std[0]
    assert "1 row with a level that the training data did not have ('Atlantis')" in result.err
    first = tmp_path / "first.csv"
    first.write_text("\n".join(later.read_text().splitlines()[:2]))
    assert "gap_share" not in cli("predict", house_model, first).rows[0]


def test_columns_may_be_absent_where_that_is_allowed(cli, house_model, houses, tmp_path):
    rows = [{k: v for k, v in row.items() if k != "area"} for row in house_rows()]
    path = tmp_path / "no-area.csv"
    path.write_text(as_csv(rows))
    refusal = cli("predict", house_model, path).refusal
    assert "'area'" in refusal
    assert "--allow-missing-columns" in refusal
    allowed = cli("predict", house_model, path, "--allow-missing-columns")
    assert "1 column that the model knows is absent ('area')" in allowed.err
    assert all(float(row["gap_share"]) > 0.0 for row in allowed.rows)
    whole = cli("evaluate", house_model, houses, "--json").json
    less = cli("evaluate", house_model, path, "--allow-missing-columns", "--json").json
    widths = [told["metrics"]["model"]["width_90"] for told in (whole, less)]
    assert widths[1] > widths[0]
    page = tmp_path / "r.html"
    report = cli("report", house_model, path, "--allow-missing-columns", "--out", page)
    assert report.code == 0
    assert "rows have gaps, whose missing values make" in page.read_text()

"""Tables with gaps through the command line: what a missing value costs, and columns left out."""

from __future__ import annotations

from house_table import as_csv, house_rows


def test_columns_may_be_absent_where_that_is_allowed(cli, house_model, houses, tmp_path):
    rows = [{k: v for k, v in row.items() if k != "area"} for row in house_rows()]
    path = tmp_path / "no-area.csv"
    path.write_text(as_csv(rows))
    complete = cli("predict", house_model, "-", stdin="area,rooms,town\n80,3,Ulm\n").rows
    assert "gap_share" not in complete[0]
    whole = cli("evaluate", house_model, houses, "--json").json
    less = cli("evaluate", house_model, path, "--allow-missing-columns", "--json").json
    widths = [told["metrics"]["model"]["width_90"] for told in (whole, less)]
    assert widths[1] > widths[0]
    page = tmp_path / "r.html"
    report = cli("report", house_model, path, "--allow-missing-columns", "--out", page)
    assert report.code == 0
    assert "rows have gaps, whose missing values make" in page.read_text()

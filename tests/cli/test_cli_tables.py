"""Tables by name."""

from bayesprop.cli.tables import read_source


def test_data_sets_are_tables_by_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "diabetes").mkdir()  # a folder of that name is not in the way
    frame = read_source("diabetes")
    assert frame.shape == (442, 11)
    assert frame.columns[-1] == "progression"

"""One model that several commands let learn at once."""

import shutil
import subprocess
import sys

import numpy as np

from bayesprop.cli import update
from bayesprop.store import load_model
from bayesprop.table_model.model import open_model


def rows_of_a_line(n, seed):
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return "\n".join(["x,y", *(f"{a},{2.0 * a + e}" for a, e in x)]) + "\n"


def test_updates_at_once_are_all_learnt(fitted, tmp_path):
    _, model, _ = fitted(rows_of_a_line(60, 0), "--method", "linear", "--test-fraction", "0.1")
    tables = [tmp_path / f"new{k}.csv" for k in range(3)]
    for k, table in enumerate(tables):
        table.write_text(rows_of_a_line(20, 1 + k))
    words = [sys.executable, "-m", "bayesprop", "update", model]
    running = [subprocess.Popen([*words, table, "--quiet"]) for table in tables]
    assert [one.wait() for one in running] == [0, 0, 0]
    assert load_model(model).metadata["rows"]["train"] == 54 + 60
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]


def test_a_model_that_another_program_replaced_is_kept(cli, fitted, tmp_path, monkeypatch):
    table, model, _ = fitted(rows_of_a_line(60, 0), "--method", "linear")
    theirs = tmp_path / "theirs"
    shutil.copy(model, theirs)

    def replaced(path):
        shutil.copyfile(theirs, model)
        return open_model(path)

    monkeypatch.setattr(update, "open_model", replaced)
    result = cli("update", model, table)
    assert result.code != 0
    assert "another program replaced it" in result.err
    assert model.read_bytes() == theirs.read_bytes()

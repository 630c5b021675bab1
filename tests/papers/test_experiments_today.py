"""Where the field stands: cells, rows, text and picture."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from bayesprop.catalogue import METHODS
from papers import protocol, uci, uci_today
from papers.number_peers import PEERS

UCI = uci_today.ARENA


def test_every_regressor_and_set_is_in_it():
    assert {name for name, method in METHODS.items() if method.home} == set(UCI.methods)
    assert len(UCI.sets) == 9
    assert UCI.is_too_slow("mcmc", "protein")
    assert not UCI.is_too_slow("default", "protein")


def test_cells(monkeypatch):
    monkeypatch.setattr(uci, "loaded", lambda dataset: None)
    peer = PEERS["NGBoost"].__class__
    monkeypatch.setattr(peer, "missing", None)
    experiment = uci_today.EXPERIMENT

    def listed(*only: str, quick: bool = False) -> list[dict]:
        config = experiment.settings()
        asked = experiment.select(config, only or None, quick=quick)
        return [cell.key for cell in experiment.cells(config, asked)]

    few = listed("yacht", "kin8nm", "pbp")
    assert [key["split"] for key in few if key["dataset"] == "kin8nm"] == list(range(5))
    assert [key["split"] for key in few if key["dataset"] == "yacht"] == list(range(20))
    assert [key["split"] for key in few] == sorted(key["split"] for key in few)
    quick = listed(quick=True)
    assert {key["split"] for key in quick} == {0, 1}
    assert "mcmc" not in {key["method"] for key in quick}
    assert "protein" not in {key["dataset"] for key in quick}
    monkeypatch.setattr(peer, "missing", "pip install ngboost")
    with pytest.warns(UserWarning, match="left out: NGBoost: pip install"):
        assert listed("NGBoost", "yacht", "pbp") == listed("yacht", "pbp")
    with pytest.raises(protocol.NothingToRun, match="pip install ngboost"):
        listed("NGBoost")


@pytest.mark.usefixtures("uci_data")
def test_rows_text_and_picture(reproduce, tmp_path):
    rows = reproduce("uci-today", "yacht", "linear", "pbp")
    data = uci.train_test("yacht", 1)
    mine = next(r for r in rows if r.cell == {"dataset": "yacht", "method": "linear", "split": 1})
    off = LinearRegression().fit(data.X_train, data.y_train).predict(data.X_test) - data.y_test
    assert mine.result is not None
    assert mine.result["rmse"] == pytest.approx(np.sqrt(np.mean(off**2)), rel=0.02)
    assert mine.result["is_first"] is False
    assert (tmp_path / "uci-today.md").read_text().count("| linear |") == 7

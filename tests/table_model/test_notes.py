"""Notes of a model file: whatever is not of the expected kind counts as not noted."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesprop
from altered_values import altered
from bayesprop.cli import main
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.request import Notes


@cache
def fitted():
    """A model that decides between two classes, its rows, and what may stand for its notes."""
    x = np.random.default_rng(0).standard_normal((200, 2))
    kind = np.where(x[:, 0] > 0.5, "bad", "paid")
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "kind": kind})
    how = {"method": "logistic", "cost": "fn=3,fp=1", "test_fraction": 0.3}
    model = bayesprop.fit(frame, target="kind", **how)
    notes = json.loads(json.dumps(model.saved.metadata))
    return model, frame, [one for one in altered(notes) if isinstance(one, dict)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(place=st.integers(0, 10**4), as_json=st.booleans())
def test_altered_notes_break_nothing(place, as_json, monkeypatch, capsys):
    model, frame, notes = fitted()
    saved = replace(model.saved, metadata=notes[place % len(notes)])
    again = TableModel(saved, model.encoding, Notes(saved))
    assert str(again).startswith("target")
    assert ("decision" in again.predict(frame[:2])) == (again.notes.rule is not None)
    assert again.positive.label in ("bad", "paid")
    assert again.notes.learning("t").table == "t"
    monkeypatch.setattr("bayesprop.cli.inspect.load_model", lambda _: saved)
    capsys.readouterr()
    assert main(["inspect", "m", *(["--json"] if as_json else [])]) == 0
    if as_json:
        json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


@pytest.mark.parametrize("said", [{}, {"positive": 7, "decision": {"threshold": 9}}])
def test_of_files_that_do_not_say_the_rarer_class_is_positive(said):
    model, *_ = fitted()
    others = {k: v for k, v in model.saved.metadata.items() if k not in ("positive", "decision")}
    notes = Notes(replace(model.saved, metadata=others | said))
    assert (notes.positive.label, notes.rule) == ("bad", None)

"""A model file opened for the tables that it knows, and what `fit` noted in it.

The notes may come from anybody: whatever is not of the expected kind counts as not noted.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any, TypeGuard, TypeVar

from bayesprop import codec
from bayesprop.codec import Json, JsonObject
from bayesprop.evaluation.baselines import Baselines
from bayesprop.evaluation.thresholds import Rule
from bayesprop.store import SavedModel
from bayesprop.table.division import Factors
from bayesprop.table.errors import Message, Said
from bayesprop.table_model.answers import stored_positive
from bayesprop.table_model.listener import Scores
from bayesprop.table_model.request import RowRequest

_Kind = TypeVar("_Kind")


class Notes:
    """The notes of a fit; empty or None where a model was saved from Python.

    rows
        Counts of rows: "train" and "held_out".
    missing
        Share of the training rows that lack a value, of the columns that have such rows.
    updates
        What was noted of every table that the model has learnt since.
    held_out, errors, judged_by
        The metrics of the fit on rows that it had not learnt, the standard errors of the model's,
        and which rows these are.
    positive, rule
        Of two classes: the positive one (the rarer, in files that do not say), and how to decide.
    base_rate
        What the weights of the fit did to the shares of the classes, in a sentence.
    """

    def __init__(self, saved: SavedModel) -> None:
        notes, self.versions = saved.metadata, saved.header["versions"]

        def noted(key: str, kind: type[_Kind]) -> _Kind:
            return notes[key] if isinstance(notes.get(key), kind) else kind()

        rows, self.config = noted("rows", dict), noted("config", dict)
        self.command: str = noted("command", str)
        self.source: str = noted("source", str)
        self.unit: str = noted("unit", str)
        self.seed: int = noted("seed", int)
        self.target_sha256: str = noted("target_sha256", str)
        self.updates = [one for one in noted("updates", list) if isinstance(one, dict)]
        self.rows = {k: rows[k] for k in ("train", "held_out") if isinstance(rows.get(k), int)}
        gaps = noted("missing", dict)
        self.missing = {name: one for name, one in gaps.items() if _is_figure(one) and 0 <= one < 1}
        self.held_out = _scores(noted("held_out", dict))
        self.baselines = _stored(Baselines.from_dict, notes.get("baselines"))
        constant = self.baselines and self.baselines.models["constant"]
        shares = getattr(constant, "share", None)
        classes = () if saved.table is None else saved.table.classes
        self.positive = stored_positive(classes, notes.get("positive"), shares)
        self.rule = (
            _stored(partial(codec.from_json, Rule), notes.get("decision"))
            if self.positive
            else None
        )
        errors = noted("standard_errors", dict)
        self.errors = {name: one for name, one in errors.items() if _is_figure(one)}
        self.judged_by: str = noted("judged_by", str)
        stored = (_stored_said(one) for one in noted("warnings", list))
        self.warnings = [one for one in stored if one is not None]
        self.base_rate: str = noted("base_rate", str)

    def for_report(self) -> JsonObject:
        """Return the notes that the report page shows, dated today."""
        return {
            "created": datetime.date.today().isoformat(),
            "versions": self.versions,
            "source": self.source,
            "unit": self.unit,
            "seed": self.seed,
            "rule": self.rule,
            "base_rate": self.base_rate,
        }

    def learning(self, table: Any) -> RowRequest:
        """Return what the fit was asked, for another table."""
        drop, share = self.config.get("drop"), self.config.get("test_fraction")
        return RowRequest(
            table=table,
            weights=self._named("weights"),
            group=self.group,
            time=self._named("time"),
            drop=tuple(str(name) for name in drop) if isinstance(drop, list) else (),
            kinds=kinds if isinstance(kinds := self.config.get("kinds"), dict) else None,
            test_fraction=float(share) if _is_figure(share) else 0.0,
            seed=self.seed,
        )

    @property
    def n_fitted(self) -> int:
        """Rows of the last fit from scratch, without those that were learnt row by row since."""
        fits = [k for k, one in enumerate(self.updates, 1) if one.get("refitted")]
        streamed = (one.get("learnt") for one in self.updates[max(fits, default=0) :])
        return self.rows.get("train", 0) - sum(n for n in streamed if isinstance(n, int))

    @property
    def group(self) -> Factors | None:
        """The columns of what belongs together, None where the fit was given none."""
        factors = _stored(partial(codec.from_json, Factors), self.config.get("group"))
        return factors if factors and all(factors) else None

    def _named(self, key: str) -> str | None:
        """Return the column that the fit was given for something."""
        name = self.config.get(key)
        return name if isinstance(name, str) else None


def _stored(read: Callable[..., _Kind], stored: Json) -> _Kind | None:
    """Rebuild what was stored; None where it is not one."""
    try:
        return read(stored)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None


def _stored_said(stored: Json) -> Said | None:
    """Read a remark; None where it is none."""
    if isinstance(stored, str):
        return stored
    return _stored(partial(codec.from_json, Message), stored)


def _scores(stored: JsonObject) -> Scores | None:
    if "model" not in stored or not all(isinstance(one, dict) for one in stored.values()):
        return None
    figures = [figure for one in stored.values() for figure in one.values()]
    return stored if all(f is None or _is_figure(f) for f in figures) else None


def _is_figure(value: Json) -> TypeGuard[float]:
    """Whether a value is a number that a float can be."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**53)

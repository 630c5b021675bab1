"""Rows that a model is too unsure of: their predictions are emptied, and counted."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from bayesprop.decisions.abstention import scores_for, uncertainty_of
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.table.errors import did_you_mean, one_line
from bayesprop.table_model.listener import Listener
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.refusals import InputError

ABSTAINED = "abstained"


class Abstaining:
    """A rule for when not to answer: `above` which uncertainty; and how often it was met."""

    def __init__(self, by: str, above: float) -> None:
        self.by = by
        self.above = above
        self.n_rows = 0
        self.n_abstained = 0
        self.most = 0.0

    @classmethod
    def asked_for(cls, above: Any, by: Any, *, classes: bool) -> Abstaining | None:
        """Check what the user asked for; None where it was nothing."""
        if above is None:
            if by is not None:
                raise InputError("--by says what --abstain-above is about; give that as well")
            return None
        if not (isinstance(above, Real) and 0.0 <= float(above) < math.inf):
            got = one_line(str(above))
            raise InputError(f"--abstain-above must be a number of at least 0, got {got}")
        known = scores_for(classes=classes)
        if by is not None and by not in known:
            kind, name = "classes" if classes else "numbers", one_line(str(by))
            raise InputError(
                f"--by {name} is not known for a model of {kind}"
                f"{did_you_mean(name, known) or ';'} choose from {', '.join(known)}"
            )
        return cls(next(iter(known)) if by is None else by, float(above))

    def applied(
        self,
        predicted: pl.DataFrame,
        predictive: Predictive | ClassPredictive,
        doubts: tuple[str, ...],
    ) -> pl.DataFrame:
        """Empty the predictions of the rows beyond, save their doubts; add the reasons."""
        uncertainty = uncertainty_of(predictive, self.by)
        beyond = ~(uncertainty <= self.above)
        self.n_rows += len(beyond)
        self.n_abstained += int(np.sum(beyond))
        self.most = max(self.most, float(np.max(uncertainty, initial=0.0)))
        answers = [name for name in predicted.columns if name not in doubts]
        reasons = [
            f"{self.by} {value:.6g} > {self.above:g}" if is_beyond else None
            for value, is_beyond in zip(uncertainty, beyond, strict=True)
        ]
        emptied = [
            pl.when(pl.lit(pl.Series(~beyond))).then(pl.col(name)).alias(name) for name in answers
        ]
        return predicted.with_columns(*emptied, pl.Series(ABSTAINED, reasons, dtype=pl.String))

    def sum_up(self, listener: Listener) -> None:
        """Say how many rows have no prediction."""
        if self.most == 0.0 and self.n_rows:
            listener.warn([f"the {self.by} of every row is 0, so that --abstain-above never holds"])
        share = self.n_abstained / max(self.n_rows, 1)
        listener.note(
            f"abstained on {self.n_abstained} of {self.n_rows} rows ({100.0 * share:.3g} %): "
            f"{self.by} above {figure(self.above)}; the largest is {figure(self.most)}"
        )

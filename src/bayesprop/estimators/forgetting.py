"""Forgetting: a posterior tempered toward its prior, and rows that count less with age."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from bayesprop.model.method import Learned, Merges
from bayesprop.numerics.rows import Rows


def _check(estimator: Any, half_life: Any) -> None:
    if not issubclass(estimator.method_class, Merges):
        raise ValueError(
            f"half_life must be None for {type(estimator).__name__}, whose posterior cannot be "
            f"tempered toward its prior, got {half_life!r}: linear, logistic and pbp forget"
        )
    if isinstance(half_life, bool) or not isinstance(half_life, Real) or not float(half_life) > 0.0:
        raise ValueError(f"half_life must be a number of rows > 0, got {half_life!r}")


def forgetting(
    estimator: Any, rows: Rows, before: Learned | None, half_life: float
) -> tuple[Rows, Learned | None]:
    """Let each row count 2^(-rows since then / half_life), those learnt before as well.

    What was learnt before is the prior times (posterior / prior) to that power, a power prior
    (Ibrahim & Chen 2000): where posteriors are exact, that of weighted rows.
    """
    _check(estimator, half_life)
    n = len(rows.x)
    ages = np.arange(n - 1.0, -1.0, -1.0)
    weight = 2.0 ** (-ages / half_life)
    recent = rows._replace(weight=weight if rows.weight is None else weight * rows.weight)
    if before is None:
        return recent, None
    method = estimator.build_method(estimator.task_, rows.x.shape[1])
    share = 2.0 ** (-n / half_life)
    parts, powers = [before, method.without_rows(before)], [share, 1.0 - share]
    return recent, method.combined(parts, powers)._replace(n_iter=before.n_iter)

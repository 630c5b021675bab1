"""Who is ahead of whom: methods on the same splits of several sets, compared in pairs, and ranked.

A field is what came of all methods on one set; a method's scores are compared on the splits that
the whole field has finished.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from papers.compare import Estimate
from papers.rows import Row

_LEAST_SHARE = 0.5
"""A method with no more than this share of the splits that others finished is not compared yet."""


@dataclass(frozen=True)
class Score:
    """A figure by which methods are compared.

    key
        Its name in a row's result.
    sign
        1 where more is better, -1 where less is.
    meaning
        A sentence for who reads it.
    """

    key: str
    title: str
    sign: int
    meaning: str = ""


@dataclass(frozen=True)
class Field:
    """What came of all methods on one set.

    splits
        Those that every method compared has finished.
    results
        By method, in the order asked for: what was measured on each of the splits.
    unfinished
        Methods that have too few splits to be compared: how many.
    """

    splits: tuple[int, ...]
    results: dict[str, list[dict[str, float | None]]]
    unfinished: dict[str, int]

    @classmethod
    def of(cls, rows: Iterable[Row], order: Sequence[str]) -> Field:
        """Gather the finished rows of one set; keys hold `method` and `split`."""
        found: dict[str, dict[int, dict[str, float | None]]] = {}
        for row in rows:
            if row.result is not None:
                found.setdefault(row.cell["method"], {})[row.cell["split"]] = row.result
        most = max((len(by_split) for by_split in found.values()), default=0)
        able = [m for m in order if m in found and len(found[m]) > _LEAST_SHARE * most]
        shared = set.intersection(*(set(found[m]) for m in able)) if able else set()
        splits = tuple(sorted(shared))
        return cls(
            splits,
            {m: [found[m][split] for split in splits] for m in able} if splits else {},
            {m: len(found[m]) for m in order if m in found and (m not in able or not splits)},
        )

    def values(self, key: str) -> dict[str, Float[np.ndarray, " s"]]:
        """Return a figure of every method that has it on all splits."""
        found = {m: [result.get(key) for result in self.results[m]] for m in self.results}
        return {
            m: np.array(figures, dtype=float)
            for m, figures in found.items()
            if all(figure is not None for figure in figures)
        }

    def leaders(self, score: Score) -> set[str]:
        """Name the best mean, and those behind it by at most one standard error of the difference.

        The difference is taken split by split; with one split there is no standard error.
        """
        values = {m: score.sign * v for m, v in self.values(score.key).items()}
        if not values:
            return set()
        best = max(values, key=lambda method: values[method].mean())
        gaps = {m: Estimate.of((values[best] - v).tolist()) for m, v in values.items()}
        return {m for m, gap in gaps.items() if m == best or gap.mean <= (gap.se or 0.0)}

    def ranks(self, score: Score) -> dict[str, float]:
        """Rank the means, 1 the best; equal means share the average of their ranks."""
        values = self.values(score.key)
        ranks = stats.rankdata([-score.sign * float(v.mean()) for v in values.values()])
        return dict(zip(values, ranks.tolist(), strict=True))


@dataclass(frozen=True)
class Standing:
    """Ranks of one method over sets, by one score.

    ranks
        By set, among the methods compared there.
    is_complete
        Whether it was compared on every set.
    """

    ranks: dict[str, float]
    is_complete: bool

    @property
    def mean(self) -> float:
        """Average rank over the sets on which it was compared."""
        return float(np.mean(list(self.ranks.values())))


def standings(fields: Mapping[str, Field], score: Score) -> dict[str, Standing]:
    """Rank every method that has the score on some set; best average rank first."""
    by_set = {name: ranks for name, f in fields.items() if (ranks := f.ranks(score))}
    methods = dict.fromkeys(method for ranks in by_set.values() for method in ranks)
    found = {
        method: Standing(
            ranks := {name: ranks[method] for name, ranks in by_set.items() if method in ranks},
            is_complete=len(ranks) == len(by_set),
        )
        for method in methods
    }
    return dict(sorted(found.items(), key=lambda item: item[1].mean))


def critical_difference(n_methods: int, n_sets: int) -> float:
    """Difference of average ranks that chance exceeds once in 20, of all pairs (Nemenyi 1963).

    n_methods
        All that were ranked together on some set: with fewer on another it is a bound from above.

    NaN for fewer than two methods.
    """
    if n_methods < 2:
        return math.nan
    spread = stats.studentized_range.ppf(0.95, n_methods, math.inf) / math.sqrt(2.0)
    return float(spread) * math.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets))


def undominated(quality: Mapping[str, float], seconds: Mapping[str, float]) -> list[str]:
    """Name the methods that no other beats in quality at no more time, fastest first.

    quality
        Lower is better.
    """
    kept: list[str] = []
    for method in sorted(quality, key=lambda m: (seconds[m], quality[m])):
        if not kept or quality[method] < quality[kept[-1]]:
            kept.append(method)
    return kept

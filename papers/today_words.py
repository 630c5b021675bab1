"""Which method when, in words, from the rows of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from papers.arena import Arena
from papers.standing import Field, Score, Standing, undominated

Places = Mapping[str, Mapping[str, Standing]]
_NAMED = 3
_LEVEL = 0.9
_TOO_NARROW, _TOO_WIDE = 0.85, 0.95


def choice(arena: Arena, by_set: Mapping[str, Field], places: Places) -> str:
    """Write one line a question that a user may have."""
    lead = places[arena.lead.key]
    whole = [method for method, place in lead.items() if place.is_complete]
    lines = [
        _best(whole, places, arena.scores),
        _won(by_set, arena),
        _against(by_set, next((m for m in whole if m in arena.methods), None), arena),
        _pace(by_set, whole, arena, lead),
        _intervals(by_set, whole) if arena.has_intervals else "",
        *(_partial(m, by_set, arena.lead, place) for m, place in lead.items() if m not in whole),
    ]
    return "\n".join(f"- {line}" for line in lines if line)


class Seconds(NamedTuple):
    """Processor seconds, median over splits: of the first call in a process, and of later ones.

    None where there was none.
    """

    first: float | None
    later: float | None

    @classmethod
    def of(cls, field: Field, method: str, key: str) -> Seconds:
        """Read them from the rows."""
        by_place: dict[bool, list[float]] = {True: [], False: []}
        for result in field.results[method]:
            seconds = result[key]
            if seconds is not None:
                by_place[bool(result["is_first"])].append(seconds)
        first, later = (float(np.median(s)) if s else None for s in by_place.values())
        return cls(first, later)

    @property
    def usual(self) -> float:
        """Those of later calls, where there are any."""
        usual = self.later if self.later is not None else self.first
        return math.nan if usual is None else usual


def _fit(field: Field, method: str) -> float:
    return Seconds.of(field, method, "fit_cpu_seconds").usual


def _listed(items: Iterable[str]) -> str:
    items = list(items)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _best(whole: Sequence[str], places: Places, scores: Sequence[Score]) -> str:
    def leading(score: Score) -> str:
        place = {m: p for m, p in places[score.key].items() if m in whole}
        named = list(place)[:_NAMED]
        return f"by {score.title} {_listed(f'{m} ({place[m].mean:.1f})' for m in named)}"

    return f"**Best forecasts**, average rank: {'; '.join(leading(score) for score in scores)}."


def _won(by_set: Mapping[str, Field], arena: Arena) -> str:
    """Count the sets on which a method leads, or lies within a standard error of who does."""

    def counted(score: Score) -> str:
        leaders = [field.leaders(score) for field in by_set.values()]
        counts = {m: sum(m in led for led in leaders) for m in sorted(set().union(*leaders))}
        named = sorted(counts, key=lambda m: -counts[m])[:_NAMED]
        ours = sum(bool(led & set(arena.methods)) for led in leaders)
        return (
            f"by {score.title} {_listed(f'{m} on {counts[m]}' for m in named)}, "
            f"some method of this library on {ours}"
        )

    return (
        f"**Sets led** of {len(by_set)}, or led but for a standard error: "
        f"{'; '.join(map(counted, arena.scores))}."
    )


def _against(by_set: Mapping[str, Field], method: str | None, arena: Arena) -> str:
    """Compare a method with the best of the other libraries on every set, by the leading score."""
    ratios = {}
    for name, field in by_set.items():
        means = {m: float(v.mean()) for m, v in field.values(arena.lead.key).items()}
        others = [mean for m, mean in means.items() if m in arena.peers]
        if method in means and others:
            ratios[name] = means[method] / min(others)
    if not ratios:
        return ""
    mean = math.exp(np.mean(np.log(list(ratios.values()))))
    worst = max(ratios, key=lambda name: ratios[name])
    return (
        f"**{method} against the best of the other libraries on each set**: its {arena.lead.title} "
        f"is {mean:.2f} times theirs in the geometric mean, lower on "
        f"{sum(ratio < 1.0 for ratio in ratios.values())} of {len(ratios)} sets, {worst} the worst "
        f"for it ({ratios[worst]:.2f})."
    )


def _pace(
    by_set: Mapping[str, Field], whole: Sequence[str], arena: Arena, lead: Mapping[str, Standing]
) -> str:
    seconds = {m: sum(_fit(field, m) for field in by_set.values()) for m in whole}
    rank = {m: lead[m].mean for m in whole}
    named = undominated(rank, seconds)
    steps = (f"{m} ({rounded(seconds[m])} s; {rank[m]:.1f})" for m in named)
    return (
        "**Better for more time** (processor seconds of one fit of every set together, without "
        f"compiling; average rank by {arena.lead.title}): {_listed(steps)}. Every other method is "
        "both slower than one of these and no better."
    )


def rounded(seconds: float) -> str:
    """Set two digits, or all before the point."""
    return f"{seconds:.0f}" if seconds >= 10.0 else f"{seconds:.2g}"


def _intervals(by_set: Mapping[str, Field], whole: Sequence[str]) -> str:
    coverage = {
        m: np.array([field.values("coverage_90")[m].mean() for field in by_set.values()])
        for m in whole
    }
    off = {m: float(np.mean(np.abs(values - _LEVEL))) for m, values in coverage.items()}
    named = sorted(off, key=lambda m: off[m])[:_NAMED]
    text = (
        "**Intervals that hold what they promise**: the mean distance of the coverage of 90 % "
        f"intervals from 90 % is least for {_listed(f'{m} ({off[m]:.1%})' for m in named)}"
    )
    for words, sign, limit in (
        ("too narrow (under", -1.0, _TOO_NARROW),
        ("too wide (over", 1.0, _TOO_WIDE),
    ):  # on at least half of the sets
        counts = {m: int((sign * (v - limit) > 0.0).sum()) for m, v in coverage.items()}
        often = [f"{m} on {n}" for m, n in counts.items() if n >= 0.5 * len(coverage[m])]
        text += f"; {words} {limit:.0%} of the rows inside): {_listed(often)}" if often else ""
    return text + "."


def _partial(method: str, by_set: Mapping[str, Field], lead: Score, place: Standing) -> str:
    """Say how a method does that is too slow for some sets."""
    sets = list(place.ranks)
    n = max(len(by_set[name].ranks(lead)) for name in sets)
    slowest = rounded(max(_fit(by_set[name], method) for name in sets))
    return (
        f"**{method}** was fitted on {_listed(sets)} only: average rank {place.mean:.1f} by "
        f"{lead.title} of up to {n} there, {slowest} processor seconds a fit on the slowest."
    )

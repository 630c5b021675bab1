"""The page of a comparison on many sets: a table a score, the ranks, and which method when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from papers import markdown, today_words
from papers.arena import BUDGET, Arena
from papers.compare import Estimate
from papers.figures import rank_figure
from papers.rows import Row
from papers.standing import Field, Score, Standing, critical_difference, standings
from papers.today_words import Seconds

_NO_SCORE, _TOO_SLOW, _NOT_RUN = "none", "too slow", "–"


def fields(arena: Arena, rows: Sequence[Row]) -> dict[str, Field]:
    """Gather the finished rows by set, in the order of the sets."""
    by_set = {
        name: Field.of([row for row in rows if row.cell["dataset"] == name], arena.contestants)
        for name in arena.sets
    }
    return {name: field for name, field in by_set.items() if field.results}


def section(arena: Arena, rows: Sequence[Row]) -> str:
    """Write which method when, ranks, and a table a score."""
    finished = markdown.latest(rows)
    by_set = fields(arena, finished)
    if not by_set:
        return markdown.section(arena.name, rows, [])
    page = _Page(arena, by_set)
    places = {score.key: standings(by_set, score) for score in arena.scores}
    parts = {
        "budget": f"{BUDGET:.0f}",
        "sets": page.sets(),
        "choice": today_words.choice(arena, by_set, places),
        "ranks": page.ranks(places),
        "picture": f"![Average ranks]({arena.name}.svg)",
        "scores": "\n\n".join(map(page.score, arena.scores)),
        "calibration": page.calibration(),
        "fit_seconds": page.table(_fit_seconds),
        "milliseconds": page.table(_predict_milliseconds),
        "who": page.who(),
    }
    shared = "\n\n".join(text.format(**parts) for text in markdown.paragraphs("today"))
    return markdown.section(arena.name, rows, finished, shared=shared)


class _Page:
    """Tables of what came of the methods of an arena."""

    def __init__(self, arena: Arena, by_set: Mapping[str, Field]) -> None:
        self.arena, self.by_set = arena, by_set
        self.methods = [
            m for m in arena.contestants if any(m in field.results for field in by_set.values())
        ]

    def sets(self) -> str:
        """Say how large the sets are, and how many splits are compared."""
        sizes = [self.arena.size(name) for name in self.by_set]
        splits = [
            f"{len(field.splits)} of {self.arena.n_splits(name, quick=False)}"
            for name, field in self.by_set.items()
        ]
        lines = (
            ["rows", *(str(one.n) for one in sizes)],
            ["inputs", *(str(one.d) for one in sizes)],
            ["splits compared", *splits],
        )
        return markdown.table(("set", *self.by_set), lines)

    def ranks(self, places: Mapping[str, Mapping[str, Standing]]) -> str:
        """Set the average ranks, best first by the leading score."""
        scores, lead = self.arena.scores, places[self.arena.lead.key]
        header = ("method", *(score.title for score in scores), "sets")
        lines = [
            [
                self._styled(method),
                *(
                    f"{place.mean:.1f}" if (place := places[s.key].get(method)) else _NO_SCORE
                    for s in scores
                ),
                f"{sum(method in field.results for field in self.by_set.values())} "
                f"of {len(self.by_set)}",
            ]
            for method in sorted(self.methods, key=lambda m: lead[m].mean)
        ]
        about = (
            "Rank among the methods compared on a set, 1 the best, averaged over "
            f"{len(self.by_set)} sets. A method that is too slow for some sets is ranked on the "
            "others."
        )
        gap = critical_difference(len(lead), len(self.by_set))
        if np.isfinite(gap):
            about += (
                f" By sets alone, average ranks of {len(lead)} methods would have to differ by "
                f"{gap:.1f} to tell a pair apart (Nemenyi 1963, 5 %); the differences within sets, "
                "in the tables below, are sharper."
            )
        return f"{about}\n\n{markdown.table(header, lines)}"

    def score(self, score: Score) -> str:
        """Set a score under its heading, leaders in bold."""

        def cell(field: Field, method: str) -> str:
            values = field.values(score.key).get(method)
            if values is None:
                return _NO_SCORE
            text = markdown.estimate(Estimate.of(values.tolist()))
            return f"**{text}**" if method in field.leaders(score) else text

        return f"### {score.title}\n\n{score.meaning}\n\n{self.table(cell)}"

    def calibration(self) -> str:
        """Set what 90 % intervals hold, or the calibration error of classes."""
        if self.arena.has_intervals:
            return f"### Coverage of 90 % intervals\n\n{self.table(_coverage)}"
        about = (
            "Expected calibration error of the top label, fifteen bins of equally many rows: also "
            "of probabilities that are right it is above 0, the more so the fewer the test rows."
        )
        return f"### Calibration error\n\n{about}\n\n{self.table(_calibration_error)}"

    def table(self, cell: Callable[[Field, str], str]) -> str:
        """Set one line a method and one column a set."""
        lines = [
            [self._styled(m), *(self._cell(name, m, cell) for name in self.by_set)]
            for m in self.methods
        ]
        return markdown.table(("method", *self.by_set), lines)

    def who(self) -> str:
        """Say what was compared, how it was set, and what is missing."""
        mine = [m for m in self.arena.methods if m in self.methods]
        peers = self.arena.peers
        begun = {m for field in self.by_set.values() for m in field.unfinished}
        absent = [
            f"{m}: {'too few splits' if m in begun else 'not run'}"
            for m in self.arena.contestants
            if m not in self.methods
        ]
        lines = [
            f"- this library: {', '.join(mine)} (`bayesprop methods`)",
            *(f"- {name}: {peer.how}" for name, peer in peers.items() if name in self.methods),
            *(f"- left out, {line}" for line in absent),
            "- left out, TabPFN: its package installs, its weights are a download that asks for a "
            "signed licence",
        ]
        return "\n".join(lines)

    def _styled(self, method: str) -> str:
        return f"*{method}*" if method in self.arena.peers else method

    def _cell(self, name: str, method: str, cell: Callable[[Field, str], str]) -> str:
        field = self.by_set[name]
        if method in field.results:
            return cell(field, method)
        if method in field.unfinished:
            return f"{field.unfinished[method]} splits"
        return _TOO_SLOW if self.arena.is_too_slow(method, name) else _NOT_RUN


def _coverage(field: Field, method: str) -> str:
    return f"{np.mean(field.values('coverage_90')[method]):.1%}"


def _calibration_error(field: Field, method: str) -> str:
    return f"{np.mean(field.values('calibration_error')[method]):.3f}"


def _fit_seconds(field: Field, method: str) -> str:
    return _time(Seconds.of(field, method, "fit_cpu_seconds"), unit=1.0)


def _predict_milliseconds(field: Field, method: str) -> str:
    return _time(Seconds.of(field, method, "predict_cpu_seconds"), unit=0.001)


def _time(seconds: Seconds, *, unit: float) -> str:
    """Set what later calls took, and the first in brackets."""
    first, later = (None if s is None else today_words.rounded(s / unit) for s in seconds)
    return " ".join(filter(None, (later, first and f"({first})")))


def draw(arena: Arena, rows: Sequence[Row], stem: Path) -> None:
    """Draw the ranks by every score, methods in the order of their average rank by the lead."""
    by_set = fields(arena, rows)
    if not by_set:
        return
    places = {score.key: standings(by_set, score) for score in arena.scores}
    panels = [
        rank_figure.Panel(
            title=score.title,
            ranks={m: list(standing.ranks.values()) for m, standing in place.items()},
            partial=frozenset(m for m, standing in place.items() if not standing.is_complete),
            critical=critical_difference(len(place), len(by_set)),
        )
        for score, place in zip(arena.scores, places.values(), strict=True)
    ]
    rank_figure.draw(stem, panels, order=list(places[arena.lead.key]), ours=set(arena.methods))

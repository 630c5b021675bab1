"""The section of `uci-today`: a table a score, the ranks, and which method when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bayesprop.datasets import registry
from papers import markdown, uci_today_words
from papers.compare import Estimate
from papers.contestants import BUDGET, CONTESTANTS, DATASETS, OURS, is_too_slow
from papers.figures import rank_figure
from papers.peers import PEERS
from papers.rows import Row
from papers.standing import Field, Score, Standing, critical_difference, standings
from papers.uci_today_words import Seconds

NAME = "uci-today"
SCORES = (
    Score("log_likelihood", "log-likelihood", 1),
    Score("crps", "CRPS", -1),
    Score("rmse", "RMSE", -1),
)
_NO_DENSITY, _TOO_SLOW, _NOT_RUN = "no density", "too slow", "–"


def fields(rows: Sequence[Row]) -> dict[str, Field]:
    """Gather the finished rows by set, in the order of the sets."""
    found = {
        dataset: Field.of([row for row in rows if row.cell["dataset"] == dataset], CONTESTANTS)
        for dataset in DATASETS
    }
    return {dataset: field for dataset, field in found.items() if field.results}


def section(rows: Sequence[Row]) -> str:
    """Write which method when, ranks, and a table a score."""
    finished = markdown.latest(rows)
    found = fields(finished)
    methods = [m for m in CONTESTANTS if any(m in field.results for field in found.values())]
    places = {score.key: standings(found, score) for score in SCORES}
    if not found:
        return markdown.section(NAME, rows, [])
    return markdown.section(
        NAME,
        rows,
        finished,
        budget=BUDGET,
        sets=_sets(found),
        choice=uci_today_words.choice(found, places, SCORES),
        ranks=_ranks(found, methods, places),
        **{score.key: _scores(found, methods, score) for score in SCORES},
        coverage=_table(found, methods, _coverage),
        fit_seconds=_table(found, methods, _fit_seconds),
        milliseconds=_table(found, methods, _predict_milliseconds),
        who=_who(methods),
    )


def _sets(found: Mapping[str, Field]) -> str:
    """Say how large the sets are, and how many splits are compared."""
    about = [registry.describe(name) for name in found]
    lines = (
        ["rows", *(str(data.n) for data in about)],
        ["inputs", *(str(data.d) for data in about)],
        ["splits compared", *(str(len(field.splits)) for field in found.values())],
    )
    return markdown.table(("set", *found), lines)


def _ranks(
    found: Mapping[str, Field], methods: Sequence[str], places: Mapping[str, Mapping[str, Standing]]
) -> str:
    """Set the average ranks, best first by CRPS."""
    header = ("method", *(score.title for score in SCORES), "sets")
    lines = [
        [
            _styled(method),
            *(
                f"{place.mean:.1f}" if (place := places[s.key].get(method)) else _NO_DENSITY
                for s in SCORES
            ),
            f"{sum(method in field.results for field in found.values())} of {len(found)}",
        ]
        for method in sorted(methods, key=lambda m: places["crps"][m].mean)
    ]
    n_ranked = len(places["crps"])
    about = (
        f"Rank among the methods compared on a set, 1 the best, averaged over {len(found)} sets. "
        "A method that is too slow for some sets is ranked on the others."
    )
    gap = critical_difference(n_ranked, len(found))
    if np.isfinite(gap):
        about += (
            f" By sets alone, average ranks of {n_ranked} methods would have to differ by "
            f"{gap:.1f} to tell a pair apart (Nemenyi 1963, 5 %); the differences within sets, in "
            "the tables below, are sharper."
        )
    return f"{about}\n\n{markdown.table(header, lines)}"


def _styled(method: str) -> str:
    return f"*{method}*" if method in PEERS else method


def _table(
    found: Mapping[str, Field], methods: Sequence[str], cell: Callable[[Field, str], str]
) -> str:
    """Set one line a method and one column a set."""
    lines = [
        [_styled(method), *(_cell(name, field, method, cell) for name, field in found.items())]
        for method in methods
    ]
    return markdown.table(("method", *found), lines)


def _cell(dataset: str, field: Field, method: str, cell: Callable[[Field, str], str]) -> str:
    if method in field.results:
        return cell(field, method)
    if method in field.unfinished:
        return f"{field.unfinished[method]} splits"
    return _TOO_SLOW if is_too_slow(method, dataset) else _NOT_RUN


def _scores(found: Mapping[str, Field], methods: Sequence[str], score: Score) -> str:
    def cell(field: Field, method: str) -> str:
        values = field.values(score.key).get(method)
        if values is None:
            return _NO_DENSITY
        text = markdown.estimate(Estimate.of(values.tolist()))
        return f"**{text}**" if method in field.leaders(score) else text

    return _table(found, methods, cell)


def _coverage(field: Field, method: str) -> str:
    return f"{np.mean(field.values('coverage_90')[method]):.1%}"


def _fit_seconds(field: Field, method: str) -> str:
    return _time(Seconds.of(field, method, "fit_cpu_seconds"), unit=1.0)


def _predict_milliseconds(field: Field, method: str) -> str:
    return _time(Seconds.of(field, method, "predict_cpu_seconds"), unit=0.001)


def _time(seconds: Seconds, *, unit: float) -> str:
    """Set what later calls took, and the first in brackets."""
    first, later = (None if s is None else uci_today_words.rounded(s / unit) for s in seconds)
    return " ".join(filter(None, (later, first and f"({first})")))


def _who(methods: Sequence[str]) -> str:
    """Say what was compared, how it was set, and what is missing."""
    absent = [f"{m}: not run" for m in OURS if m not in methods]
    absent += [PEERS[m].missing or f"{m}: not run" for m in PEERS if m not in methods]
    lines = [
        f"- this library: {', '.join(m for m in methods if m in OURS)} (`bayesprop methods`)",
        *(f"- {name}: {peer.how}" for name, peer in PEERS.items() if name in methods),
        *(f"- left out, {line}" for line in absent),
        "- left out, TabPFN: its package installs, its weights are a download that asks for a "
        "signed licence",
    ]
    return "\n".join(lines)


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the ranks by three scores, methods in the order of their average rank by CRPS."""
    found = fields(rows)
    if not found:
        return
    panels, order = [], []
    for score in SCORES:
        place = standings(found, score)
        partial = frozenset(m for m, standing in place.items() if not standing.is_complete)
        panels.append(
            rank_figure.Panel(
                title=score.title,
                ranks={m: list(standing.ranks.values()) for m, standing in place.items()},
                partial=partial,
                critical=critical_difference(len(place), len(found)),
            )
        )
        order = list(place) if score.key == "crps" else order
    rank_figure.draw(stem, panels, order=order, ours=set(OURS))

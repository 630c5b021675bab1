"""The Markdown of a results section: tables, and the line that says where the figures come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from papers.compare import Difference, Estimate, Published, difference
from papers.rows import Row, done, failed, results

_ROUNDING = 1e-6
"""Share of a mean below which its standard error is that of float32 numbers that are alike."""


def table(header: str | Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Set a table; all columns but the first are flush right.

    header
        Names of the columns, as a sequence or between " | ".
    """
    header = header.split(" | ") if isinstance(header, str) else header
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *lines))


def section(name: str, rows: Sequence[Row], finished: Sequence[Row], **fields: Any) -> str:
    """Fill the words of an experiment; the end says what was run, and what failed.

    fields
        What stands in braces in `words/NAME.md`; a paragraph that comes out empty is left out.
    """
    heading, *others = paragraphs(name)
    if not finished:
        return f"{heading}\n\nNothing has been run." + failures(rows)
    parts = (paragraph.format(**fields) for paragraph in others)
    return "\n\n".join([heading, *filter(None, parts), origin(finished)]) + failures(rows)


def paragraphs(name: str) -> list[str]:
    """Read `words/NAME.md`, every paragraph in one line."""
    text = Path(__file__).with_name("words").joinpath(f"{name}.md").read_text("utf-8")
    return [" ".join(paragraph.split("\n")) for paragraph in text.strip().split("\n\n")]


def estimate(value: Estimate) -> str:
    """Set mean ± standard error, two digits of the error, three decimals at least."""
    if value.n == 0:
        return "–"
    if not value.se or value.se < _ROUNDING * abs(value.mean):
        return f"{value.mean:.4g}"
    digits = max(3, 1 - floor(log10(value.se)))
    return f"{value.mean:.{digits}f} ± {value.se:.{digits}f}"


def means(results: Sequence[dict[str, Any]], names: Iterable[str]) -> list[str]:
    """Set the mean of every figure over the results."""
    return [estimate(Estimate.of([result[name] for result in results])) for name in names]


def section_by_method(
    name: str, methods: Mapping[str, str], figures: Mapping[str, str], rows: Sequence[Row]
) -> str:
    """Write figures, averaged over draws of the data, a line each and a column a method."""
    finished = latest(rows)
    found = [results(finished, method=method) for method in methods]
    lines = [
        (label, *(means(of_method, [name])[0] for of_method in found))
        for name, label in figures.items()
    ]
    header = f"mean ± s.e. over {max(map(len, found))} draws of the data"
    return section(name, rows, finished, table=table((header, *methods.values()), lines))


def gap(value: Difference) -> str:
    """Set a difference in combined standard errors: as printed, and with the rounding."""
    return f"{_signed(value.plain)} / {_signed(value.rounded)}"


class Beside(NamedTuple):
    """The columns "paper", "ours" and "apart" of a figure, and the difference."""

    columns: list[str]
    apart: Difference


def beside(results: Sequence[dict[str, Any]], score: str, printed: str) -> Beside:
    """Set the mean of a figure beside the one that a paper prints."""
    ours = Estimate.of([result[score] for result in results])
    published = Published.parse(printed)
    apart = difference(ours, published)
    return Beside([published.text, estimate(ours), gap(apart)], apart)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1f}"


def latest(rows: Sequence[Row]) -> list[Row]:
    """Keep the finished rows that share the settings of the one that finished last."""
    finished = done(rows)
    if not finished:
        return []
    settings = max(finished.values(), key=lambda row: row.finished_at).config
    return [row for row in finished.values() if row.config == settings]


def failures(rows: Sequence[Row]) -> str:
    """Say which cells have failed and not succeeded since."""
    lines = [f"- {row.cell}: {row.error}" for row in failed(rows).values()]
    if not lines:
        return ""
    return f"\n\n**{len(lines)} cells failed:**\n\n" + "\n".join(lines)


def origin(rows: Sequence[Row]) -> str:
    """Say what command, versions and time stand behind the figures."""
    newest = max(rows, key=lambda row: row.finished_at)
    seeds = sorted({row.config.get("seed", 1) for row in rows})
    command = f"python -m papers {newest.experiment}"
    each = [command if seed == 1 else f"{command} --seed {seed}" for seed in seeds]
    commands = ", ".join(f"`{one}`" for one in each)
    commit = f", commit {newest.commit}" if newest.commit else ""
    return (
        f"{commands}; {len(rows)} cells, the last on {newest.finished_at[:10]}; "
        f"bayesprop {newest.version}{commit}, Python {newest.python}, NumPy {newest.numpy}; "
        f"{sum(row.seconds for row in rows):.0f} s summed over cells "
        f"({fmean(row.seconds for row in rows):.2g} s a cell), "
        f"at most {max(row.peak_mib for row in rows):.0f} MiB resident."
    )

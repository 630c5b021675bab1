"""From contents and figures to one HTML page that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bayesprop import __version__
from bayesprop.report import prose, words
from bayesprop.report.contents import ReportContents
from bayesprop.report.scoring import Score

_ARROWS = {
    "lower": ("↓", "lower is better"),
    "higher": ("↑", "higher is better"),
    "nominal": ("→", "nearest to nominal is best"),
    "": ("", "narrower is better only at equal coverage"),
}
_MODELS = {"model": "This model", "linear": "Bayesian linear", "constant": "Training mean"}


def render(contents: ReportContents, figures: Mapping[str, str]) -> str:
    """Fill the template. Everything is escaped but `figures`, which are SVG elements already."""
    environment = Environment(
        loader=PackageLoader("bayesprop.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "label": words.label,
        "number": words.number,
        "percent": words.percent,
        "plural": words.plural,
    }
    style = environment.get_template("style.css").render()
    return environment.get_template("report.html").render(
        c=contents,
        figures={name: Markup(svg) for name, svg in figures.items()},
        style=Markup(style),
        prose=prose,
        arrows=_ARROWS,
        models=_MODELS,
        cell=_cell,
        unsure=_unsure(contents),
        version=__version__,
    )


def _cell(score: Score, at: int) -> str:
    value = score.values[at]
    if score.unit == "share":
        return words.percent(value, 1)
    error = score.errors[at]
    scale = error if error else abs(value) / 10.0
    return words.alike([value], scale)[0] if score.unit == "nats" else words.number(value)


def _unsure(contents: ReportContents) -> list[dict[str, object]]:
    """Rows of the table, numbers with as many decimals as their interval deserves."""
    found = []
    for row in contents.unsure:
        numbers = words.alike([row.mean, row.low, row.high, row.actual], (row.high - row.low) / 3)
        mean, low, high, actual = numbers
        found.append(
            {
                "name": words.label(row.row_id, 40),
                "mean": mean,
                "low": low,
                "high": high,
                "actual": actual,
                "missed": not row.low <= row.actual <= row.high,
                "share": words.percent(row.epistemic_share),
                "unusual": row.unusual,
            }
        )
    return found

"""From contents and figures to one HTML page that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bayesprop import __version__
from bayesprop.report import chain_figures, page_prose, words
from bayesprop.report.page_contents import PageContents
from bayesprop.report.scoring import Score

_ARROWS = {
    "lower": ("↓", "lower is better"),
    "higher": ("↑", "higher is better"),
    "nominal": ("→", "nearest to nominal is best"),
    "": ("", "narrower is better only at equal coverage"),
}


def fill(
    template: str,
    contents: PageContents,
    figures: Mapping[str, str],
    *,
    prose: Any,
    models: Mapping[str, str],
    **more: Any,
) -> str:
    """Fill a template. Everything is escaped but `figures`, which are SVG elements already.

    prose
        The module of the task's own sentences.
    models
        What the page calls each model.
    """
    templates = environment()
    templates.globals |= {
        "c": contents,
        "figures": {name: Markup(svg) for name, svg in figures.items()},
        "shared": page_prose,
        "chains": chain_figures,
        "prose": prose,
        "arrows": _ARROWS,
        "models": models,
        "cell": _cell,
        "spread": _spread,
    }
    return templates.get_template(template).render(**more)


def environment() -> Environment:
    """Return what fills templates: everything is escaped, style and version are known."""
    templates = Environment(
        loader=PackageLoader("bayesprop.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "label": words.label,
        "number": words.number,
        "percent": words.percent,
        "plural": words.plural,
    }
    style = templates.get_template("style.css").render()
    templates.globals |= {"style": Markup(style), "version": __version__}
    return templates


def _cell(score: Score, at: int) -> str:
    value = score.values[at]
    if score.unit == "share":
        return words.percent(value, 1)
    error = score.errors[at]
    scale = error if error else abs(value) / 10.0
    return words.alike([value], scale)[0] if score.unit == "nats" else words.number(value)


def _spread(score: Score, at: int) -> str:
    error = score.errors[at] or 0.0
    return words.percent(error, 1) if score.unit == "share" else words.number(error, 2)

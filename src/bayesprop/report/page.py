"""From contents and figures to one HTML page that needs nothing else, not even a network."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context

from bayesprop import __version__
from bayesprop.report import fit_figures, fit_prose, prose, words
from bayesprop.report.contents import Contents
from bayesprop.report.effect_figures import draw_effects
from bayesprop.report.figures import MAX_BALANCED
from bayesprop.report.fit_figures import draw_fit
from bayesprop.report.scoring import Score
from bayesprop.report.svg import STYLE
from bayesprop.report.tasks import Task

_ARROWS = {
    "lower": ("↓", "lower is better"),
    "higher": ("↑", "higher is better"),
    "nominal": ("→", "nearest to nominal is best"),
    "": ("", "narrower is better only at equal coverage"),
}


def fill(task: Task, contents: Contents[Any]) -> str:
    """Draw the figures and fill the page. Everything is escaped but the figures, SVG already."""
    with rc_context(STYLE):
        figures = task.figures(contents) | draw_effects(contents) | draw_fit(contents)
    templates = environment()
    templates.globals |= {
        "c": contents,
        "d": contents.details,
        "task": task,
        "figures": {name: Markup(svg) for name, svg in figures.items()},
        "prose": prose,
        "fit_prose": fit_prose,
        "fit_figures": fit_figures,
        "arrows": _ARROWS,
        "max_balanced": MAX_BALANCED,
        "cell": _cell,
        "spread": _spread,
    }
    return templates.get_template(task.template).render()


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

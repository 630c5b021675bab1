"""The report of a fitted model: one HTML file to read, print or forward, that needs nothing else.

Not even a network. Everything in it is escaped but the figures, which are SVG already.
"""

from __future__ import annotations

import base64
import hashlib
from os import PathLike
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import rc_context

from bayesprop import __version__
from bayesprop.atomic import write_atomically
from bayesprop.evaluation import words
from bayesprop.evaluation.calibration import MIN_ROWS
from bayesprop.evaluation.scores import Score, compare_in_words
from bayesprop.model.progress import current
from bayesprop.report import fit_course
from bayesprop.report.contents import EveryContents
from bayesprop.report.figures import MAX_BALANCED, draw
from bayesprop.report.of_classes import LEFT_OUT, MAX_MATRIX
from bayesprop.report.svg import STYLE


def write_report(path: str | PathLike[str], contents: EveryContents) -> None:
    """Draw the contents and write the page, which appears whole or not at all.

    Raises OSError if the file cannot be written.
    """
    current().report(0.0, 1.0, "pictures")
    with rc_context(STYLE):
        figures = draw(contents) | fit_course.draw_fit(contents)
    templates = environment()
    templates.globals |= {
        "c": contents,
        "d": contents.details,
        "figures": figures,
        "fit": fit_course,
        "min_rows": MIN_ROWS,
        "max_balanced": MAX_BALANCED,
        "max_matrix": MAX_MATRIX,
        "compare_in_words": compare_in_words,
        "left_out": LEFT_OUT,
        "cell": _cell,
        "spread": _spread,
    }
    page = templates.get_template(contents.details.template).render()
    content = page.encode("utf-8", errors="replace")
    write_atomically(Path(path), lambda file: file.write(content))


def environment() -> Environment:
    """Return what fills the templates of one page: everything is escaped, the style is known."""
    templates = Environment(
        loader=PackageLoader("bayesprop.report"),
        autoescape=lambda name: name is None or name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("label", "number", "percent", "plural", "with_unit", "alike")
    templates.filters |= {name: getattr(words, name) for name in names} | {"listed": words.join}
    style, script = (templates.get_template(name).render() for name in ("style.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    templates.globals |= {
        "style": style,
        "script": script,
        "script_digest": f"sha256-{digest}",
        "sections": [],
        "version": __version__,
    }
    return templates


def _cell(score: Score, at: int) -> str:
    value = score.values[at]
    if score.metric.unit == "share":
        return words.percent(value, 1)
    error = score.errors[at]
    scale = error if error else abs(value) / 10.0
    return words.alike([value], scale)[0] if score.metric.unit == "nats" else words.number(value)


def _spread(score: Score, at: int) -> str:
    error = score.errors[at] or 0.0
    return words.percent(error, 1) if score.metric.unit == "share" else words.number(error, 2)

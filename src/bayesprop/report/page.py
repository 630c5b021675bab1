"""The report of a fitted model: one HTML file to read, print or forward, that needs nothing else.

Not even a network. Everything in it is escaped but the figures, which are SVG already.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context

from bayesprop import __version__
from bayesprop.atomic import write_atomically
from bayesprop.model.progress import current, following
from bayesprop.report import fit_course, words
from bayesprop.report.calibration import MIN_ROWS
from bayesprop.report.contents import collect
from bayesprop.report.figures import MAX_BALANCED, draw
from bayesprop.report.of_classes import LEFT_OUT, MAX_MATRIX
from bayesprop.report.rivals import verdict_in_words
from bayesprop.report.scores import Score
from bayesprop.report.svg import STYLE

if TYPE_CHECKING:
    from bayesprop.table.encoding import Rows, TableEncoding

_COLLECTED = 0.5


def write_report(
    path: str | PathLike[str],
    *,
    estimator: Any,
    encoding: TableEncoding,
    train: Rows | None,
    test: Rows | None,
    metadata: Mapping[str, Any],
    models: Mapping[str, Any] | None = None,
) -> None:
    """Judge a fitted regressor of one output, or a classifier, and write the page.

    The page appears whole or not at all.

    estimator
        Fitted: `predict_dist`, `fit_report_`, `x_scaler_` and `get_params` are used, and
        `classes_`, which makes it a classifier.
    encoding
        How the table became numbers; it groups encoded columns and names them.
    train
        The rows it was fitted to: what the baselines are fitted to and the effects averaged over.
        None for a model whose training rows are gone; then the effects are those over `test`.
    test
        The rows to judge it on. None if there are no others: then it is judged on `train`, and
        the page says how little that means.
    metadata
        Text: "unit", "source" (name of the table), "command", "created". "seed", which also draws
        the rows of the figures; "versions", a dict of library versions; "baselines" as noted at
        the fit, or None. "positive", the place of the positive one of two classes (default: the
        second), and "rule", the `Rule` by which it is decided (default: none); "base_rate", what
        the weights of the fit did to the shares of the classes (default: nothing). Where its rows
        are pictures, "image_shape" is [height, width], and "image_pixels" says which value
        of the picture each column is. "remarks", where there are any, are sentences on how it was
        judged, "peer_notes" on how the peers among `models` were fitted.
    models
        Predictions of the rows to judge on: "model", its baselines and peers. None: those of the
        estimator and of the baselines alone.

    Raises ValueError if a prediction is not finite; OSError if the file cannot be written.
    """
    progress = current()
    progress.report(0.0, 1.0, "predictions")
    with following(progress.part(0.0, _COLLECTED)):
        contents = collect(
            estimator=estimator,
            encoding=encoding,
            train=train,
            test=test,
            metadata=metadata,
            models=models,
        )
    progress.report(_COLLECTED, 1.0, "pictures")
    with rc_context(STYLE):
        figures = draw(contents) | fit_course.draw_fit(contents)
    templates = environment()
    templates.globals |= {
        "c": contents,
        "d": contents.details,
        "figures": {name: Markup(svg) for name, svg in figures.items()},
        "fit": fit_course,
        "min_rows": MIN_ROWS,
        "max_balanced": MAX_BALANCED,
        "max_matrix": MAX_MATRIX,
        "verdict_in_words": verdict_in_words,
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
        "style": Markup(style),
        "script": Markup(script),
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

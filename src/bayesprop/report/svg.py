"""A matplotlib figure as an SVG element that can stand in a page beside others, or as a file."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bayesprop.atomic import write_atomically

INK, MUTED, LINE = "#1c2127", "#5c6670", "#d9dee4"
BLUE, ORANGE, PAPER = "#2466a8", "#c4560a", "#fefefe"

STYLE: dict[Any, Any] = {
    "font.size": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": MUTED,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "axes.titlepad": 8.0,
    "axes.labelsize": 11.5,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 11.0,
    "ytick.labelsize": 11.0,
    "lines.solid_capstyle": "round",
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "bayesprop",
}

# The page redefines these for dark screens; the hex value is what any other viewer shows.
_VARIABLES = {
    INK: f"var(--ink, {INK})",
    MUTED: f"var(--muted, {MUTED})",
    LINE: f"var(--line, {LINE})",
    BLUE: f"var(--blue, {BLUE})",
    ORANGE: f"var(--orange, {ORANGE})",
    PAPER: f"var(--paper, {PAPER})",
}
_METADATA = {".png": {"Software": None}, ".svg": {"Date": None}}
_DROPPED = {"metadata", "style"}
_VALUES = "values:"
_COLOUR = re.compile("|".join(_VARIABLES))
_LONG_DECIMAL = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"#([\w.-]+)")


def with_values(artist: Artist, texts: Sequence[str]) -> None:
    """Set the tooltip of each mark of an artist, in order."""
    artist.set_gid(_VALUES + json.dumps(list(texts)))


def inline_svg(figure: Figure, name: str, labels: str = "") -> str:
    """Draw a figure; `name` makes its ids unique on the page.

    To the blind are read the elements NAME-title and NAME-caption of the page, or those of
    another name, `labels`.

    What is left has no namespace, no style sheet (it would apply to the whole page) and no id that
    nothing refers to.
    """
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # Text is left to the browser, so the glyphs of matplotlib's own font do not matter.
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from font", category=UserWarning
        )
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    _name_marks(root)
    values = (value for element in root.iter() for value in element.attrib.values())
    references = " ".join(value for value in values if value.startswith("#") or "url(#" in value)
    referred = set(_REFERENCE.findall(references))
    _clean(root, name, referred)
    size = root.attrib["viewBox"].split()
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{labels or name}-title {labels or name}-caption",
        "style": f"max-width: {1.5 * float(size[2]):.0f}px",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _name_marks(root: ElementTree.Element) -> None:
    """Put the texts of `with_values` into the marks that they are of."""
    for group in list(root.iter()):
        if not group.get("id", "").startswith(_VALUES):
            continue
        texts = json.loads(group.attrib.pop("id").removeprefix(_VALUES))
        marks = [mark for mark in group.iter() if mark.tag.endswith("}use")]
        marks = marks or [mark for mark in group.iter() if mark.tag.endswith("}path")]
        # Marks outside the figure are not drawn: then none can be told from another.
        for mark, text in zip(marks, texts if len(marks) == len(texts) else (), strict=False):
            ElementTree.SubElement(mark, "title").text = text


def _clean(element: ElementTree.Element, name: str, referred: set[str]) -> None:
    element.tag = element.tag.partition("}")[2] or element.tag
    kept = {
        key.partition("}")[2] or key: _value(key, value, name)
        for key, value in element.attrib.items()
        if key != "id" or value in referred
    }
    element.attrib = {key: value for key, value in kept.items() if value}
    element.tail = None
    if element.tag not in ("text", "title"):
        element.text = None
    for child in list(element):
        if child.tag.partition("}")[2] in _DROPPED:
            element.remove(child)
        else:
            _clean(child, name, referred)
    # A group without attributes says nothing.
    for child in list(element):
        if child.tag in ("g", "defs") and not child.attrib and not len(child):
            element.remove(child)


def _value(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if value.startswith("#") or "url(#" in value:
        return _REFERENCE.sub(rf"#{name}-\1", value)
    if key == "style":
        value = re.sub(r" ?font-family: [^;]*;?", "", value)
        return _COLOUR.sub(lambda colour: _VARIABLES[colour.group()], value)
    if key == "transform":
        value = re.sub(r"rotate\(-0 [^)]*\)", "", value).strip()
    return _LONG_DECIMAL.sub(
        lambda decimal: f"{float(decimal.group()):.2f}", " ".join(value.split())
    )


def write(figure: Figure, path: Path) -> None:
    """Write a picture, .png or .svg as its suffix says; the same figure gives the same bytes."""
    with rc_context({"svg.hashsalt": path.stem}):
        write_atomically(
            path,
            lambda file: figure.savefig(
                file, format=path.suffix[1:], dpi=150, metadata=_METADATA[path.suffix]
            ),
        )

"""Turns the LaTeX of the pages into MathML, which browsers show without a script.

Brackets grow and sums have their limits where a font has a table for mathematics; not every
machine has one, so STIX Two Math, as `ziamath` brings it, becomes a part of the site.
"""

from __future__ import annotations

import re
from html import unescape
from importlib.util import find_spec
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
OPERATOR = re.compile(r"(\\partial|\\log|\\exp)\s+(?=[A-Za-z]|\\(?!left|,))")
"""TeX sets a thin space between an operator and its argument; the converter does not."""
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the font of the equations."""
    package = find_spec("ziamath")  # found, not imported: only its font is needed
    if package is None or package.origin is None:
        raise PluginError("the font of the equations is missing: pip install ziamath")
    font = Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
    files.append(File.generated(config, "assets/stix-two-math.ttf", abs_src_path=str(font)))
    return files


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Replace what `pymdownx.arithmatex` found."""

    def replaced(match: re.Match[str], display: str) -> str:
        latex = OPERATOR.sub(r"\1\\,", unescape(match[1]).strip())
        try:
            return convert(latex, display=display)
        except Exception as error:
            raise PluginError(f"{page.file.src_uri}: {latex}: {error!r}") from error

    html = DISPLAY.sub(
        lambda match: f'<div class="equation">{replaced(match, "block")}</div>', html
    )
    return INLINE.sub(lambda match: replaced(match, "inline"), html)

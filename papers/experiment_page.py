"""The page of an experiment: its Markdown summary and its pictures in one HTML file."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import ChoiceLoader, PackageLoader
from markdown_it import MarkdownIt
from markdown_it.token import Token

from bayesprop.report.page import environment

_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
_TABLE = '<div class="scroll" role="region" aria-label="Table" tabindex="0">\n<table>\n'


def page(name: str, text: str, pictures: Mapping[str, bytes], facts: Mapping[str, str]) -> str:
    """Set a summary as a page that needs nothing else.

    text
        Markdown, from a heading on.
    pictures
        File name, as the Markdown has it, to its bytes; others are left out.
    facts
        What to say at the end of where the figures come from, by name.
    """
    tokens = _reader().parse(text)
    title = name
    if tokens and tokens[0].type == "heading_open":
        title, tokens = tokens[1].content, tokens[3:]
    for token in tokens:
        token.children = _offline(token.children)
    body = _reader().renderer.render(tokens, _reader().options, {"pictures": pictures})
    templates = environment()
    templates.loader = ChoiceLoader([PackageLoader("papers"), PackageLoader("bayesprop.report")])
    return templates.get_template("experiment.html").render(
        title=title, name=name, body=body, facts=facts
    )


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    reader.add_render_rule("table_open", lambda *_: _TABLE)
    reader.add_render_rule("table_close", lambda *_: "</table>\n</div>\n")
    reader.add_render_rule("image", _image)
    return reader


def _offline(children: Sequence[Token] | None) -> list[Token] | None:
    """Keep the words of links that lead to a page beside the original, not the links."""
    if children is None:
        return None
    kept, is_kept = [], True
    for token in children:
        if token.type == "link_open":
            is_kept = "://" in str(token.attrGet("href"))
        if is_kept or token.type not in ("link_open", "link_close"):
            kept.append(token)
    return kept


def _image(_renderer: Any, tokens: Sequence[Token], at: int, _options: Any, given: Any) -> str:
    source, text = str(tokens[at].attrGet("src")), html.escape(tokens[at].content)
    content = given["pictures"].get(source)
    kind = _KINDS.get(source[source.rfind(".") :])
    if content is None or kind is None:
        return f'<span class="empty">No picture: {text}</span>'
    data = base64.b64encode(content).decode()
    return f'<img class="plot" src="data:{kind};base64,{data}" alt="{text}">'

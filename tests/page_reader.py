"""Reads a report as a browser would, and the hostile text that it must survive."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></svg></title>",
    "$\\frac{a}{b}^_",
    "{{ 7 * 7 }}{% raw %}",
    "]]>&amp;<!--",
    "中文 \u202eevil\x07\x00",
    "url(#x) #fff var(--ink) id='a'",
]
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Element counts, ids, references, attributes, scripts, text; raises on a tag left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.references: set[str] = set()
        self.attributes: set[str] = set()
        self.text, self.scripts = "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        for key, value in attrs:
            self.attributes.add(key)
            if key == "id":
                self.ids.append(value)
            if key in ("href", "clip-path", "aria-labelledby"):
                self.references |= set(re.findall(r"#([^)]+)", value)) or set(value.split())

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.text += data


def plain(text: str) -> str:
    return " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())

"""Banned words in what people read: `python docs/hooks/words.py`, part of `make lint`.

It reads README, the pages of `docs/` (records apart, which commands write), help texts, messages,
the report's templates, and the first lines of docstrings. It prints each banned word with a
replacement, and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BANNED = {
    r"honest\w*|dishonest": "calibrated",
    r"judg(?:e|es|ed|ing|ement|ment)s?": "evaluate, assess",
    r"(?:is|are|was|were|be|been|being) said": "is reported, is printed",
    r"(?:is|are|was|were|be|been|being) told": "is given, is reported",
    r"said": "predicted, reported, printed",
    r"told": "given, reported",
    r"of which": "whose, or a sentence of its own",
    r"(?:that|those) which": "the noun",
    r"unasked|without being asked": "automatically",
    r"speaks?": "prints, has the unit",
    r"hears?": "receives",
    r"nearby": "near, neighbouring",
    r"whoever": "the noun",
    r"knows? of": "has",
}
"""Words that no text may have, as regular expressions, and the words to write instead."""
ON_PAGES = {
    r"what (?:is|was|it|its|they|are|were|he|she|we|a|the|one)": "the noun",
    r"(?:to|by|from|with|of|for|than|and) what": "the noun",
    r"beside": "next to, in addition to",
    r"doubts?": "uncertainty",
    r"promis(?:e|es|ed|ing)": "nominal coverage, predicted probability",
    r"likeliest": "most probable",
}
"""More of them, for pages and for the report."""
INVERTED = re.compile(r"(?<=[.;:] )Of (?!course)[a-z]")
"""A sentence that begins with "Of ...", with its noun far away."""


def pattern(words: dict[str, str]) -> re.Pattern[str]:
    """Return what finds any of some words, whole and in any case."""
    return re.compile("|".join(rf"(\b(?:{one})\b)" for one in words), re.IGNORECASE)


def complaints(text: str, words: dict[str, str], *, line: int = 1) -> Iterator[tuple[int, str]]:
    """Return the line and the sentence of every banned word of a text."""
    for match in pattern(words).finditer(text):
        better = list(words.values())[(match.lastindex or 1) - 1]
        at = line + text.count("\n", 0, match.start())
        yield at, f"{' '.join(match[0].split())!r}: write {better}"
    if words is not BANNED:
        for match in INVERTED.finditer(text):
            yield line + text.count("\n", 0, match.start()), f"{match[0]!r}: begin with the subject"


def prose(page: str) -> str:
    """Return the sentences of a page, in their lines: no headings, blocks, code or formulas."""
    blank = re.compile(
        r"^```.*?^```|^#.*?$|^:::.*?$|`[^`]*`|\]\([^)]*\)|<!--.*?-->|\$\$.*?\$\$|\$[^$\n]*\$|\{%.*?%\}|\{\{.*?\}\}"
        r"|<[^>]*>|\*[^*\n]+\([0-9]{4}\)[^*]*\*",
        re.S | re.M,
    )
    return blank.sub(lambda one: "\n" * one[0].count("\n") + " ", page)


def texts_of(code: str) -> Iterator[tuple[int, str]]:
    """Return the first lines of the docstrings of a module, and its sentences, with their lines."""
    tree = ast.parse(code)
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    docstrings = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                docstrings.add(id(one.value))
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, re.sub(r"`[^`]*`", " ", text.split("\n")[0])
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, re.sub(r"`[^`]*`", " ", node.value)


def found() -> Iterator[str]:
    """Return a line for every banned word."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [page for page in pages if page.parent.name != "records"]
    source = ROOT / "src/bayesprop"
    for path in [*pages, *sorted(source.rglob("*.html"))]:
        text = prose(path.read_text(encoding="utf-8"))
        for line, complaint in complaints(text, BANNED | ON_PAGES):
            yield f"{path.relative_to(ROOT)}:{line}: {complaint}"
    for path in sorted(source.rglob("*.toml")):
        text = re.sub(r"^.* = |^\[.*", "", path.read_text(encoding="utf-8"), flags=re.M)
        for line, complaint in complaints(text, BANNED):
            yield f"{path.relative_to(ROOT)}:{line}: {complaint}"
    for path in sorted(source.rglob("*.py")):
        for start, text in texts_of(path.read_text(encoding="utf-8")):
            for line, complaint in complaints(text, BANNED, line=start):
                yield f"{path.relative_to(ROOT)}:{line}: {complaint}"


if __name__ == "__main__":
    lines = list(found())
    print(*lines, sep="\n", end="\n" * bool(lines))
    sys.exit(bool(lines))

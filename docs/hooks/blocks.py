"""The fenced blocks of a page: which there are, and how they are run.

`python` and `sh` blocks of a page run in order, in one folder, and the Python ones share their
names. Above a block that cannot run stands `<!-- not run: why -->`. A `text` block right after a
block that runs shows what that one prints; numbers may differ in their digits. What a comment
behind a `print` says it printed has to be near.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S
)
NOT_RUN = re.compile(r"<!-- not run: (?P<why>[^>]+) -->\s*\Z")
NUMBER = re.compile(r"[-+−]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|[-+−]?\.\d+|\binf\b|\bnan\b")

TOLD = re.compile(r"\s*print\(.*\)\s+# (?P<numbers>[-+−]?\d[\d.]*(?: [-+−]?\d[\d.]*)*)")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is the line of its first line of code, from 1."""

    language: str
    code: str
    line: int
    not_run: str | None
    shows: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it is run."""
        return self.language in ("python", "sh") and self.not_run is None


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        reason = NOT_RUN.search(text, 0, match.start())
        indent = match["indent"]
        code = re.sub(f"^{indent}", "", match["code"], flags=re.M)
        line = text.count("\n", 0, match.start()) + 2
        follows = found and found[-1].runs and not text[end : match.start()].strip()
        if match["language"] == "text" and follows:
            found[-1] = Block(found[-1].language, found[-1].code, found[-1].line, None, code)
        found.append(Block(match["language"], code, line, reason and reason["why"].strip()))
        end = match.end()
    return found


def run_page(page: Path, folder: Path) -> None:
    """Run the blocks of a page in a folder; an exception names the page and its line."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with _inside(folder):
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if not block.runs:
                continue
            try:
                printed = _run(block, names, page)
                if block.shows is not None:
                    _compare(block.shows, printed)
            except Exception as error:
                raise RuntimeError(f"{page.name}:{block.line}: {error}") from error


def _run(block: Block, names: dict[str, Any], page: Path) -> str:
    printed = io.StringIO()
    if block.language == "python":
        _run_python(block, names, page, printed)
    elif all(words[0] == "bayesprop" for words in _commands(block.code)):
        for words in _commands(block.code):
            printed.write(_bayesprop(words[1:]))
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.code],
            env=os.environ | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        printed.write(done.stdout)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stdout}")
    return printed.getvalue()


def _run_python(block: Block, names: dict[str, Any], page: Path, out: io.StringIO) -> None:
    """Run Python code, and compare what a `print(...)  # 0.25 12` printed with what it says."""
    printed: dict[int, list[str]] = {}

    def recording(*args: Any, **settings: Any) -> None:
        text = io.StringIO()
        print(*args, **settings, file=text)
        printed.setdefault(sys._getframe(1).f_lineno, []).append(text.getvalue())
        out.write(text.getvalue())

    code = "\n" * (block.line - 1) + block.code
    names["print"] = recording
    with contextlib.redirect_stdout(out):
        exec(compile(code, page, "exec", dont_inherit=True), names)
    for number, line in enumerate(block.code.splitlines(), start=block.line):
        told = TOLD.match(line)
        if told and not any(_agree(told["numbers"], text) for text in printed.get(number, [])):
            raise AssertionError(f"line {number} says {told['numbers']}, got {printed.get(number)}")


def _agree(told: str, printed: str) -> bool:
    """Whether numbers agree to a fifth, or to a unit of the last digit that is told."""
    got = [float(number.replace(",", "")) for number in NUMBER.findall(printed)]
    claims = NUMBER.findall(told)
    if len(claims) > len(got):
        return False
    for claim, value in zip(claims, got, strict=False):
        digits = len(claim.partition(".")[2])
        claimed = float(claim.replace("−", "-"))
        if not abs(value - claimed) <= max(0.2 * abs(claimed), 1.01 * 10.0**-digits):
            return False
    return True


def _commands(code: str) -> Iterator[list[str]]:
    """Split shell code into the words of its lines."""
    for line in code.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a quotation over several lines: not for us
            words = ["bash"]
        if words:
            yield ["bash"] if {"|", ">", "<", "&&", "&", ";"} & set(words) else words


def _bayesprop(words: list[str]) -> str:
    """Run the command line in this process, which has imported and compiled already."""
    from bayesprop.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(words)
    if code:
        raise RuntimeError(f"bayesprop {shlex.join(words)}: exit code {code}: {out.getvalue()}")
    return out.getvalue()


def _compare(shown: str, printed: str) -> None:
    """Raise unless every line that is shown was printed, up to blanks and the digits of numbers."""
    lines = {_without_numbers(line) for line in printed.splitlines()}
    for line in shown.splitlines():
        if line.strip() not in ("", "…") and _without_numbers(line) not in lines:
            raise AssertionError(f"the page shows {line!r}, which was not printed in\n{printed}")


def _without_numbers(line: str) -> str:
    return "".join(NUMBER.sub("#", line).split())


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))

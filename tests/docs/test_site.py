"""The site builds without a warning, leads nowhere that is not there, and needs no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from doc_pages import REPOSITORY, text_of

import headless

WIDTHS = """<!doctype html><pre id="found"></pre>
<iframe id="frame" style="border:0; width:390px; height:800px"></iframe><script>
const names = {names}, found = {{}}, frame = document.getElementById("frame");
let name = names.shift();
frame.onload = () => {{
  found[name] = frame.contentDocument.documentElement.scrollWidth;
  name = names.shift();
  if (name) frame.src = name;
  else document.getElementById("found").textContent = JSON.stringify(found);
}};
frame.src = name;
</script>"""


class Page(HTMLParser):
    """Where a page leads, what it loads, and where it may be entered."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """All pages; building them runs the blocks of those with pictures."""
    folder = tmp_path_factory.mktemp("site").resolve()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return {path: Page(path) for path in folder.rglob("*.html")}


@pytest.mark.exhaustive
def test_every_link_leads_somewhere(site: dict[Path, Page]):
    dead = []
    for path, page in site.items():
        if path.name == "404.html":  # its links are those of a server's root
            continue
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            entries = site[target].anchors | {""} if target in site else {parts.fragment}
            if not target.exists() or unquote(parts.fragment) not in entries:
                dead.append(f"{path.name}: {link}")
    assert not dead


@pytest.mark.exhaustive
def test_reading_needs_no_network(site: dict[Path, Page]):
    assert [load for page in site.values() for load in page.loads if urlsplit(load).netloc] == []
    folder = next(path.parent for path in site if path.name == "index.html")
    for sheet in folder.rglob("*.css"):
        remote = re.findall(r"(?:url\(|@import)\s*['\"]?https?:", sheet.read_text("utf-8"))
        assert not remote, sheet


@pytest.mark.exhaustive
def test_equations_are_mathml(site: dict[Path, Page]):
    """The converter leaves a command that it does not know as it is."""
    n_equations = 0
    for path in site:
        text = path.read_text(encoding="utf-8")
        assert 'class="arithmatex"' not in text, path.name
        for equation in re.findall(r"<math.*?</math>", text, re.S):
            shown = unescape(re.sub(r"<[^>]+>", "", equation))
            assert not set("\\&") & set(shown), f"{path.name}: {shown}"
            n_equations += 1
    assert n_equations > 50


def test_links_of_the_repository_point_to_files():
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", text_of(page)):
            assert (REPOSITORY / target).exists(), f"{page}: {target}"


@pytest.fixture(scope="module")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A browser without a network, which returns a page as it is after its scripts have run."""
    profile = tmp_path_factory.mktemp("profile")
    headless.browser()

    def dump(url: str) -> str:
        return headless.opened(url, profile, seconds=20.0)[0]

    return dump


@pytest.mark.exhaustive
@pytest.mark.browser
def test_search_works_from_the_file_system(site: dict[Path, Page], browse: Callable[[str], str]):
    start = next(path for path in site if path.name == "index.html")
    found = re.search(r"(\d+) matching documents", browse(f"{start.as_uri()}?q=laplace"))
    assert found is not None
    assert int(found[1]) > 5


@pytest.mark.exhaustive
@pytest.mark.browser
def test_nothing_is_wider_than_a_phone(site: dict[Path, Page], browse: Callable[[str], str]):
    start = next(path for path in site if path.name == "index.html")
    shelves = {"use": ["gallery", "glossary", "which-method"], "understand": ["pbp"]}
    names = [f"{shelf}/{name}.html" for shelf in shelves for name in shelves[shelf]]
    names.append("index.html")
    probe = start.with_name("probe.html")
    probe.write_text(WIDTHS.format(names=json.dumps(names)))
    found = re.search(r'<pre id="found">(.*?)</pre>', browse(probe.as_uri()))
    assert found is not None
    widths = json.loads(unescape(found[1]))
    assert set(widths) == set(names)
    assert {name: width for name, width in widths.items() if width > 390} == {}

"""The page in a real browser: no console errors, nothing cut, nothing too small, on any width."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from report_fakes import METADATA, regressor, rows

from bayesprop.report.regression import write_report

pytestmark = pytest.mark.browser
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--hide-scrollbars",
    "--v=0",
    "--dump-dom",
]
# Runs outside the page, whose own policy forbids scripts.
PROBE = """<!doctype html><iframe id="page" style="border:0;width:{width}px;height:900px"
src="{page}"></iframe><pre id="found">nothing</pre><script>
document.getElementById("page").onload = event => {{
  const inside = event.target.contentDocument, found = {{cut: [], small: []}};
  found.width = inside.documentElement.scrollWidth;
  for (const svg of inside.querySelectorAll("svg")) {{
    const box = svg.getBoundingClientRect(), zoom = svg.getScreenCTM().a;
    for (const text of svg.querySelectorAll("text")) {{
      const at = text.getBoundingClientRect();
      if (at.left < box.left - 2 || at.right > box.right + 2 || at.bottom > box.bottom + 2
          || at.top < box.top - 2) found.cut.push(text.textContent);
      if (parseFloat(inside.defaultView.getComputedStyle(text).fontSize) * zoom < 9.5)
        found.small.push(text.textContent);
    }}
  }}
  document.getElementById("found").textContent = JSON.stringify(found);
}};</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("browser") / "r.html"
    write_report(
        path,
        estimator=regressor(),
        encoding=None,
        train=rows(300, seed=1),
        test=rows(120, seed=2),
        metadata=METADATA,
    )
    return path


def opened(browser: str, path: Path, profile: Path) -> tuple[str, list[str]]:
    """The rendered document, and what the console said."""
    done = subprocess.run(
        [
            browser,
            *FLAGS,
            "--virtual-time-budget=4000",
            f"--user-data-dir={profile}",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_it_renders_without_console_errors(browser, page, tmp_path):
    dom, console = opened(browser, page, tmp_path)
    assert dom.count("<svg") == 10
    assert "Predicting strength" in dom
    assert console == []


def test_console_errors_would_be_seen(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><script>console.error('seen'); missing()</script>")
    _, console = opened(browser, bad, tmp_path / "profile")
    assert len(console) == 2


@pytest.mark.parametrize("width", [360, 700, 1000])
def test_nothing_is_cut_or_tiny_and_the_page_does_not_scroll_sideways(
    browser, page, tmp_path, width
):
    probe = page.with_name(f"probe{width}.html")
    probe.write_text(PROBE.format(width=width, page=page.name))
    dom, _ = opened(browser, probe, tmp_path)
    text = re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)
    assert text is not None
    found = json.loads(unescape(text.group(1)))
    assert found["width"] <= width
    assert found["cut"] == []
    assert found["small"] == []

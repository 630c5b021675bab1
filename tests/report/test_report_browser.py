"""The page in a real browser: no console errors, nothing cut, nothing too small, on any width."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from report_fakes import DIGITS, FRAUD, METADATA, NUMBERS, given, halves

from bayesprop.report.page import write_report
from headless import opened

pytestmark = pytest.mark.browser
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


def many_classes() -> tuple:
    x = np.random.default_rng(0).standard_normal((900, 3))
    return halves(x, np.array([f"class number {k % 28}" for k in range(900)]))


SHAPES = {"image_shape": [8, 8], "image_pixels": list(range(64))}
MADE = {
    "regression": (NUMBERS, {}, 10),
    "two classes": (FRAUD, {}, 12),
    "pictures": (DIGITS, SHAPES, 8),
    "many classes": (many_classes(), {}, 11),
}


@pytest.fixture(scope="module", params=MADE)
def page(request, tmp_path_factory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("browser") / "r.html"
    task, shapes, n_figures = MADE[request.param]
    write_report(path, **given(*task, metadata=METADATA | shapes))
    return path, n_figures


def test_it_renders_without_console_errors(page, tmp_path):
    path, n_figures = page
    dom, console = opened(path.as_uri(), tmp_path, seconds=4.0)
    assert dom.count("<svg") == n_figures
    assert "Predicting strength" in dom
    assert console == []


def test_console_errors_would_be_seen(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><script>console.error('seen'); missing()</script>")
    _, console = opened(bad.as_uri(), tmp_path / "profile", seconds=4.0)
    assert len(console) == 2


@pytest.mark.parametrize("width", [360, 700, 1000])
def test_nothing_is_cut_or_tiny_and_the_page_does_not_scroll_sideways(page, tmp_path, width):
    path, _ = page
    probe = path.with_name(f"probe{width}.html")
    probe.write_text(PROBE.format(width=width, page=path.name))
    dom, _ = opened(probe.as_uri(), tmp_path, seconds=4.0)
    text = re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)
    assert text is not None
    found = json.loads(unescape(text.group(1)))
    assert found["width"] <= width
    assert found["cut"] == []
    assert found["small"] == []

"""The page in a real browser: no console errors, nothing cut, nothing too small, on any width."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from bayesprop.report.contents import collect
from bayesprop.report.page import write_report
from headless import opened, printed
from report_fakes import FRAUD, NUMBERS, given, halves

pytestmark = pytest.mark.browser
# Runs outside the page, whose own policy forbids all scripts but its own.
PROBE = r"""<!doctype html><iframe id="page" style="border:0;width:{width}px;height:900px"
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
  const root = inside.documentElement, look = event.target.contentWindow.getComputedStyle;
  const shade = colour =>
    colour.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0) / 3;
  for (const theme of ["light", "dark"]) {{
    while (root.dataset.theme !== theme) inside.querySelector(".theme").click();
    found[theme] = [inside.body, inside.querySelector("svg text")].map(
      (one, k) => shade(look(one)[k ? "fill" : "backgroundColor"]));
  }}
  found.nav = look(inside.querySelector("nav")).position;
  found.dead = [...inside.querySelectorAll("nav a")].filter(
    link => !inside.querySelector(link.getAttribute("href"))).length;
  const table = [...inside.querySelectorAll("table.sortable")].pop();
  table.querySelector("button.sort").click();
  table.querySelector("button.sort").click();
  found.sorted = [...table.tBodies[0].rows].map(row => +row.cells[0].textContent);
  found.order = table.querySelector("th").getAttribute("aria-sort");
  const field = table.parentElement.previousElementSibling.firstElementChild;
  field.value = "no such text";
  field.dispatchEvent(new Event("input"));
  found.left = [...table.tBodies[0].rows].filter(row => !row.hidden).length;
  document.getElementById("found").textContent = JSON.stringify(found);
}};</script>"""


def many_classes() -> tuple:
    x = np.random.default_rng(0).standard_normal((900, 3))
    return halves(x, np.array([f"class number {k % 28}" for k in range(900)]))


MADE = {
    "regression": (NUMBERS, 10),
    "two classes": (FRAUD, 14),
    "many classes": (many_classes(), 11),
}


@pytest.fixture(scope="module", params=MADE)
def page(request, tmp_path_factory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("browser") / "r.html"
    task, n_figures = MADE[request.param]
    write_report(path, collect(**given(*task)))
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


@pytest.mark.parametrize("width", [360, 700, 1000, 1400])
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
    (paper, ink), (dark_paper, light_ink) = found["light"], found["dark"]
    assert paper - ink > 100
    assert light_ink - dark_paper > 100
    assert dark_paper < 60
    assert found["nav"] == ("sticky" if width >= 1240 else "static")
    assert found["dead"] == 0
    assert found["order"] == "descending"
    assert found["sorted"] == sorted(found["sorted"], reverse=True)
    assert found["left"] == 0


def test_it_prints_on_few_pages(page, tmp_path):
    path, _ = page
    pdf = printed(path.as_uri(), tmp_path)
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 25

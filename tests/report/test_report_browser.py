"""The page in a real browser: no console errors, nothing cut, nothing too small, on any width."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from report_class_fakes import classifier, halves, imbalanced
from report_fakes import METADATA, regressor, rows
from sklearn.datasets import load_digits

from bayesprop.report.write import write_report
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


def regression() -> dict:
    return {"estimator": regressor(), "train": rows(300, seed=1), "test": rows(120, seed=2)}


def classification(x: np.ndarray, y: np.ndarray, **metadata) -> dict:
    train, test = halves(x, y)
    made = {"estimator": classifier(train, n_members=2), "train": train, "test": test}
    return made | {"metadata": METADATA | metadata}


def many_classes() -> dict:
    x = np.random.default_rng(0).standard_normal((900, 3))
    return classification(x, np.array([f"class number {k % 28}" for k in range(900)]))


MADE = {
    "regression": (regression, 10),
    "two classes": (lambda: classification(*imbalanced()), 12),
    "pictures": (lambda: classification(*load_digits(return_X_y=True), image_shape=[8, 8]), 8),
    "many classes": (many_classes, 11),
}


@pytest.fixture(scope="module", params=MADE)
def page(request, tmp_path_factory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("browser") / "r.html"
    make, n_figures = MADE[request.param]
    write_report(path, **({"encoding": None, "metadata": METADATA} | make()))
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

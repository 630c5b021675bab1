"""What the pages of regressors and classifiers promise alike."""

from __future__ import annotations

import re

import pytest
from page_reader import Page, plain
from report_class_fakes import TRACE, classifier, halves, imbalanced
from report_fakes import METADATA, regressor, rows

from bayesprop.report.rows import Rows
from bayesprop.report.write import write_report

NUMBERS = (rows(300, seed=1), rows(120, seed=2))
CLASSES = halves(*imbalanced())
TASKS = {"numbers": NUMBERS, "classes": CLASSES}
N_FIGURES = {"numbers": 4 + 3 + 3, "classes": 4 + 4 + len(TRACE)}


@pytest.fixture(params=TASKS)
def task(request) -> str:
    return request.param


def written(path, task, **changes) -> str:
    train, test = TASKS[task]
    estimator = regressor() if task == "numbers" else classifier(train)
    settings = {"encoding": None, "train": train, "test": test, "metadata": METADATA}
    write_report(path / "r.html", estimator=estimator, **(settings | changes))
    return (path / "r.html").read_text(encoding="utf-8")


def said(path, task, **changes) -> str:
    return plain(Page(written(path, task, **changes)).said)


def test_a_page_is_well_formed_alone_and_the_same_each_time(tmp_path, task):
    page = written(tmp_path, task)
    parsed = Page(page)
    assert parsed.tags["svg"] == parsed.tags["desc"] == N_FIGURES[task]
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert parsed.references <= set(parsed.ids)
    assert "http://" not in page
    assert "https://" not in page
    assert not {"script", "link", "img", "iframe", "image"} & set(parsed.tags)
    assert not {"src", "xmlns", "onload"} & parsed.attributes
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert written(tmp_path, task) == page


@pytest.mark.parametrize("n", [1, 2, 19])
def test_few_rows_are_said(tmp_path, task, n):
    _, test = TASKS[task]
    page = said(tmp_path, task, test=Rows(test.X[:n], test.y[:n], test.row_ids[:n]))
    assert f"On {n} held-out row{'s' if n > 1 else ''}," in page
    assert re.search(f"Too few rows to judge .*: {n} of the 20 that it needs.", page)
    assert f"This picture needs at least 20 rows; there are {n}." in page
    assert "nan" not in page


def test_no_held_out_rows_is_said(tmp_path, task):
    page = said(tmp_path, task, test=None)
    assert "No rows were held out" in page
    assert "more than chance explains" not in page


def test_a_table_given_later_is_said(tmp_path, task):
    metadata = {**METADATA, "remarks": ["120 of these rows are new."]}
    page = said(tmp_path, task, train=None, metadata=metadata)
    assert "120 of these rows are new." in page
    assert "measured on the table given" in page
    assert "which need the training rows" in page

"""Pictures are made by the block that saves them, once, and anew when it changes."""

from __future__ import annotations

from pathlib import Path

import pictures
import pytest

PAGE = """```python
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(1, 1))
axes.plot([0, {}])
figure.savefig("line.svg")
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pictures, "CACHE", tmp_path / "cache")
    return tmp_path / "page.md"


def test_pictures_are_kept_until_their_block_changes(page: Path):
    page.write_text(PAGE.format(1))
    (first,) = pictures.drawn(page)
    made = first.stat().st_mtime_ns
    page.write_text("Words are no code.\n\n" + PAGE.format(1))
    assert pictures.drawn(page) == [first]
    assert first.stat().st_mtime_ns == made
    page.write_text(PAGE.format(2))
    (second,) = pictures.drawn(page)
    assert second.read_bytes().startswith(b"<?xml")
    assert not first.exists()


def test_a_block_that_fails_fails_the_build(page: Path):
    page.write_text(PAGE.format("nothing"))
    with pytest.raises(pictures.PluginError, match=r"page\.md:2: name 'nothing'"):
        pictures.drawn(page)

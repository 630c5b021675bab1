"""The README's Python block runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def test_python_block_runs():
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["interval"].shape == (92, 2)
    assert names["functions"].shape == (92, 5)

"""The hooks that build the site are importable, as `blocks` and `pictures`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "docs" / "hooks"))

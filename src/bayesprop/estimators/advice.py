"""Warnings of a fit, shown at the line that asked for it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from bayesprop.model.fit_report import CONSTANT_TARGET as CONSTANT_TARGET


def warn(sentences: Iterable[str]) -> None:
    """Issue a UserWarning for each sentence, placed at the nearest line outside this package.

    Python shows a warning of one place once: at a line of ours, the second fit would be silent.
    """
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("bayesprop."):
        level, frame = level + 1, frame.f_back
    for sentence in sentences:
        warnings.warn(sentence, stacklevel=level)

"""Pictures as files: PNG for the eye, SVG for the documentation."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from bayesprop.atomic import write_atomically

_METADATA = {".png": {"Software": None}, ".svg": {"Date": None}}


def write(figure: Figure, path: Path) -> None:
    """Write a picture, of the kind that its suffix says; the same figure gives the same bytes."""
    with matplotlib.rc_context({"svg.hashsalt": path.stem}):
        write_atomically(
            path,
            lambda file: figure.savefig(
                file, format=path.suffix[1:], dpi=150, metadata=_METADATA[path.suffix]
            ),
        )

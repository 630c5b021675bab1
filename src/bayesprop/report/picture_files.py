"""Pictures of experiments as files: PNG for the eye, SVG for the documentation."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from bayesprop.atomic import write_atomically

_METADATA = {".png": {"Software": None}, ".svg": {"Date": None}}


def save(figure: Figure, stem: Path) -> None:
    """Write `<stem>.png` and `<stem>.svg`; the same figure gives the same bytes."""
    for suffix in _METADATA:
        write(figure, stem.with_name(stem.name + suffix))


def write(figure: Figure, path: Path) -> None:
    """Write one picture, of the kind that its suffix says."""
    with matplotlib.rc_context({"svg.hashsalt": path.stem}):
        write_atomically(
            path,
            lambda file: figure.savefig(
                file, format=path.suffix[1:], dpi=150, metadata=_METADATA[path.suffix]
            ),
        )

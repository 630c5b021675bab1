"""Pictures of experiments as files: PNG for the eye, SVG for the documentation."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from bayesprop.data.atomic import write_atomically


def save(figure: Figure, stem: Path) -> None:
    """Write `<stem>.png` and `<stem>.svg`; the same figure gives the same bytes."""
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            write_atomically(
                stem.with_name(f"{stem.name}.{suffix}"),
                lambda file, suffix=suffix, metadata=metadata: figure.savefig(
                    file, format=suffix, dpi=150, metadata=metadata
                ),
            )

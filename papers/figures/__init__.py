"""The pictures of the experiments, a module a kind: PNG for the eye, SVG for the documentation."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from bayesprop.report.svg import write


def save(figure: Figure, stem: Path) -> None:
    """Write `<stem>.png` and `<stem>.svg`; the same figure gives the same bytes."""
    for suffix in (".png", ".svg"):
        write(figure, stem.with_name(stem.name + suffix))

"""Which files of the package a call opens: those in which something is called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import bayesprop

SOURCE = Path(bayesprop.__file__).parent


def opened(act: Callable[[], Any]) -> list[str]:
    """Files below the package in the order in which `act` comes to them, imports apart."""
    files: dict[Path, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.setdefault(Path(frame.f_code.co_filename))

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    ours = (file for file in files if file.is_relative_to(SOURCE))
    return [file.relative_to(SOURCE).as_posix() for file in ours]

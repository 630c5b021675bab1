"""Chromium without a window, for the tests that look at pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--hide-scrollbars",
    "--v=0",
)


def browser() -> str:
    """Path of the program; the test is skipped without one."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    return found


def opened(url: str, profile: Path, *, seconds: float) -> tuple[str, list[str]]:
    """The document after its scripts ran for so long, and what the console said."""
    flags = [
        *FLAGS,
        "--dump-dom",
        f"--virtual-time-budget={round(1000 * seconds)}",
        f"--user-data-dir={profile}",
    ]
    done = subprocess.run(
        [browser(), *flags, url], capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def printed(url: str, folder: Path) -> bytes:
    """The document as it is printed, a PDF file."""
    pdf = folder / "printed.pdf"
    flags = [*FLAGS, "--no-pdf-header-footer", f"--print-to-pdf={pdf}"]
    profile = f"--user-data-dir={folder / 'profile'}"
    subprocess.run([browser(), *flags, profile, url], capture_output=True, timeout=300, check=False)
    return pdf.read_bytes()

"""The command line: one file a sub-command, imported when it runs, so that help stays instant."""

from __future__ import annotations

from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one line on stderr."""
    from bayesprop.cli import app

    return app.main(args)

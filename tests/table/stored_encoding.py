"""An encoding as a model file gives it back."""

from __future__ import annotations

import json

import pytest

from bayesprop.table.columns import column_from_dict
from bayesprop.table.encoding import TableEncoding


def stored_and_back(encoding: TableEncoding) -> TableEncoding:
    return TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict())))


def assert_refused(encoding: TableEncoding, kind: type, change: dict) -> None:
    """Change the second column, of that kind, in its file: it loads before, not after."""
    stored = encoding.to_dict()["columns"][1]
    assert isinstance(column_from_dict(dict(stored)), kind)
    with pytest.raises((ValueError, TypeError)):
        column_from_dict(stored | change)

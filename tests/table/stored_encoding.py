"""An encoding as a model file gives it back."""

from __future__ import annotations

import json

from bayesprop.table.encoding import TableEncoding


def stored_and_back(encoding: TableEncoding) -> TableEncoding:
    return TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict())))

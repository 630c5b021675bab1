"""An encoding as a model file gives it back."""

from __future__ import annotations

import json
from typing import Any

from bayesprop import codec
from bayesprop.table.encoding import TableEncoding


def stored(encoding: TableEncoding) -> Any:
    return codec.to_json(encoding, TableEncoding)


def stored_and_back(encoding: TableEncoding) -> TableEncoding:
    return codec.from_json(TableEncoding, json.loads(json.dumps(stored(encoding))))

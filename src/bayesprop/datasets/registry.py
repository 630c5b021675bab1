"""The data sets that can be named: where each one is, its checksum, columns, licence, splits.

A new data set is one entry of `sets.toml`. Places are tried in this order: the folder that the
environment variable BAYESPROP_DATA names, the sets that come with scikit-learn, openml.org.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from bayesprop.datasets.places import FOLDER_VARIABLE, PLACES, DataSet, Loaded, NotThereError
from bayesprop.table.errors import TableError, quoted


def _read_sets() -> dict[str, DataSet]:
    content = resources.files("bayesprop.datasets").joinpath("sets.toml").read_text("utf-8")
    return {name: _data_set(name, fields) for name, fields in tomllib.loads(content).items()}


def _data_set(name: str, fields: dict[str, Any]) -> DataSet:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return DataSet(name=name, **values)


_TABLE = _read_sets()


def names() -> list[str]:
    """Return the names that `load` knows."""
    return list(_TABLE)


def find(name: str) -> DataSet | None:
    """Return what is known about a data set; None where it is none."""
    return _TABLE.get(name)


def describe(name: str) -> DataSet:
    """Return what is known about a data set; TableError names those that exist."""
    if name not in _TABLE:
        raise TableError(f"no data set {quoted(name)}; there are {', '.join(_TABLE)}")
    return _TABLE[name]


def load(name: str) -> Loaded:
    """Read a data set from the first place that has it, and check it.

    Raises TableError, in one line, when no place has it or a copy is not what it should be.
    """
    data = describe(name)
    tried: list[str] = []
    for field, read in PLACES.items():
        if (where := getattr(data, field)) is not None:
            try:
                return read(data, where)
            except NotThereError as error:
                tried.append(str(error))
    remedy = f"; {data.note}" if data.sha256 is None and data.file else ""
    raise TableError(
        f"data set {quoted(name)} was not found ({'; '.join(tried)}): set {FOLDER_VARIABLE} to a"
        f" folder that holds {data.file or 'it'}{remedy}"
    )

"""The SQLite file of a `DurableBandit`: a bandit as it was, and the calls that came after.

Each record is a call with its arguments, in JSON; the bandit is sealed as in a file of its own.
Nothing in it is run: a record can only make the calls that `repeat` knows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesprop.decisions import bandit_files
from bayesprop.decisions.bandit import Bandit
from bayesprop.decisions.offline import Log
from bayesprop.store import ModelFileError, seal, unseal

_APPLICATION, _SCHEMA = 0x62707264, 1
_TABLES = (
    """CREATE TABLE records (number INTEGER PRIMARY KEY, call TEXT NOT NULL, decision INTEGER,
    probability REAL, arguments TEXT NOT NULL)""",
    "CREATE TABLE snapshot (n_records INTEGER NOT NULL, content BLOB NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA}",
)
_ABOUT = """
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
FROM pragma_application_id, pragma_user_version"""
_SETTLED = """
SELECT chosen.decision, chosen.probability, chosen.arguments, settled.arguments
FROM records AS settled JOIN records AS chosen ON chosen.decision = settled.decision
WHERE settled.call = 'settle' AND chosen.call = 'select' AND chosen.decision >= ?
ORDER BY settled.number"""


class Snapshot(NamedTuple):
    """A bandit as it was after so many records: a header and arrays, as `bandit_files` has them."""

    n_records: int
    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Record(NamedTuple):
    """A call; `decision` is the id of the decision that it took or settled, if any."""

    number: int
    call: str
    decision: int | None
    probability: float | None
    arguments: str


def name_of(path: str | Path) -> str:
    """Return what messages call the file."""
    return f"bandit file {str(path)[:200]!r}"


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turn what SQLite refuses into a ModelFileError."""
    try:
        yield
    except sqlite3.Error as error:
        raise ModelFileError(f"{name_of(path)} cannot be read or written: {error}") from error


def connect(path: Path, *, may_create: bool) -> sqlite3.Connection:
    """Open a file, for any thread; ModelFileError, with nothing touched, if it is none of ours."""
    if path.is_dir():
        raise ModelFileError(
            f"{str(path)[:200]!r} is a folder: a bandit is kept in a file. To go on with that of a "
            "folder, take a new file and make=lambda: Bandit.load(folder + '/snapshot.bandit')"
        )
    if not may_create and not path.exists():
        raise ModelFileError(f"there is no {name_of(path)}: give make")
    with refusals(path):
        file = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        try:
            _check(file, path)
        except BaseException:
            file.close()
            raise
    return file


def has_begun(file: sqlite3.Connection) -> bool:
    """Whether there is a bandit in it."""
    return file.execute("PRAGMA user_version").fetchone() == (_SCHEMA,)


def begin(file: sqlite3.Connection, bandit: Bandit) -> None:
    """Make the tables, and write the first bandit."""
    for statement in _TABLES:
        file.execute(statement)
    write_snapshot(file, bandit, 0)


def n_in_snapshot(file: sqlite3.Connection) -> int:
    """Count the records that the bandit of the file contains."""
    return file.execute("SELECT coalesce(max(n_records), 0) FROM snapshot").fetchone()[0]


def read_snapshot(file: sqlite3.Connection, path: Path) -> Snapshot:
    """Read the bandit; ModelFileError if it is damaged."""
    row = file.execute("SELECT n_records, content FROM snapshot").fetchone()
    if row is None or not isinstance(row[1], bytes):
        raise ModelFileError(f"{name_of(path)} is damaged: it holds no bandit")
    return Snapshot(row[0], *unseal(row[1], name_of(path)))


def write_snapshot(file: sqlite3.Connection, bandit: Bandit, n_records: int) -> None:
    """Write the bandit in the place of the older one."""
    file.execute("DELETE FROM snapshot")
    content = seal(*bandit_files.to_stored(bandit))
    file.execute("INSERT INTO snapshot VALUES (?, ?)", (n_records, content))


def records_from(file: sqlite3.Connection, number: int) -> Iterator[Record]:
    """Read records in their order."""
    query = "SELECT * FROM records WHERE number >= ? ORDER BY number"
    return map(Record._make, file.execute(query, (number,)))


def add_record(file: sqlite3.Connection, record: Record) -> None:
    """Append a record."""
    file.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", record)


def as_json(arguments: Any) -> str:
    """Write numbers, names and arrays of an argument list; what a bandit has taken is finite."""
    return json.dumps(
        arguments,
        allow_nan=False,
        separators=(",", ":"),
        default=lambda value: np.asarray(value).tolist(),
    )


def repeat(bandit: Bandit, record: Record, path: Path) -> None:
    """Do again what a record says; decisions are those of the record."""
    try:
        arguments = json.loads(record.arguments)
        if record.call in ("select", "note"):
            if bandit.note(*arguments).id != record.decision:
                raise ValueError(f"decision {record.decision!r} is not the next one")
        elif record.call in ("settle", "update", "teach", "add_arm", "remove_arm"):
            getattr(bandit, record.call)(*arguments)
        else:
            raise ValueError(f"unknown call {record.call[:40]!r}")
    except Exception as error:  # contents chosen by a stranger can fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ModelFileError(
            f"record {record.number} of {name_of(path)} does not fit the bandit ({reason})"
        ) from error


def policy_log(path: str | Path, *, first: int = 0) -> Log:
    """Return the settled decisions of a file with their propensities, in the order of rewards.

    For `bayesprop.decisions.offline`, at any time: a bandit that uses the file is not disturbed.
    Arms that came or went on the way are all listed; decisions of others (`note`) are not.

    first
        Id of the decision to begin with; earlier ones are left out.

    ValueError where a decision's probability is not known: it needs `propensity_draws`.
    """
    path = Path(path)
    file = connect(path, may_create=False)
    with refusals(path):
        try:
            file.execute("BEGIN")
            header = read_snapshot(file, path).header
            added = file.execute("SELECT arguments FROM records WHERE call = 'add_arm'").fetchall()
            rows = file.execute(_SETTLED, (first,)).fetchall()
        finally:
            file.close()
    unknown = [decision for decision, probability, *_ in rows if probability is None]
    if unknown:
        raise ValueError(
            f"of {len(unknown)} decisions, the last of them {max(unknown)}, the probability is not "
            "known: set propensity_draws of DurableBandit, and begin with a later decision (first)"
        )
    chosen = [json.loads(arguments) for _, _, arguments, _ in rows]
    added_names = [json.loads(arguments)[0] for (arguments,) in added]
    return Log(
        action=[action for _, action in chosen],
        reward=np.array([json.loads(arguments)[1] for *_, arguments in rows]),
        propensity=np.array([probability for _, probability, *_ in rows]),
        arms=list(dict.fromkeys([*header["arms"]["names"], *added_names])),
        context=np.array([context for context, _ in chosen]),
    )


def _check(file: sqlite3.Connection, path: Path) -> None:
    # In one statement: another process may be about to begin the file.
    application, schema, n_tables = file.execute(_ABOUT).fetchone()
    if n_tables and application != _APPLICATION:
        raise ModelFileError(f"{name_of(path)} is of another program: take another one")
    if schema > _SCHEMA:
        raise ModelFileError(
            f"{name_of(path)} has schema {schema}, this bayesprop reads {_SCHEMA}: upgrade it"
        )
    (finding,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise ModelFileError(f"{name_of(path)} is damaged: {' '.join(finding.split())}")

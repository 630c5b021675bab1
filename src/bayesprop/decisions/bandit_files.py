"""A bandit in a file: sealed whole, or in SQLite with the calls that came after.

Checked before it is believed, and never run. In SQLite each record is a call with its arguments, in
JSON, beside the bandit as it was, sealed as in a file of its own; a record can only make the calls
that `repeat` knows.
"""

from __future__ import annotations

import importlib.metadata
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesprop.decisions.arms import Arms
from bayesprop.decisions.offline import Log
from bayesprop.decisions.reward_models import kind_class, kind_of
from bayesprop.decisions.rewards import below
from bayesprop.estimators.params import check_int
from bayesprop.store import ModelFileError, Stored, read_sealed, seal, unseal, write_sealed

if TYPE_CHECKING:
    from bayesprop.decisions.bandit import Bandit

SCHEMA = 1
_REWARDS = "rewards."
_APPLICATION, _SCHEMA = 0x62707264, 1  # of SQLite
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


def save(path: str | Path, bandit: Bandit) -> None:
    """Write a bandit; TypeError for a policy or reward model that is not of this library."""
    write_sealed(path, *to_stored(bandit))


def load(path: str | Path, kind: type) -> Any:
    """Read a bandit of a kind; ModelFileError, in one line, if the file is not one."""
    return from_stored(read_sealed(path), kind, name_of(path))


def to_stored(bandit: Bandit) -> Stored:
    """Return everything that a bandit is: a header for JSON and named arrays."""
    policy = type(bandit).__name__
    if policy not in _policies() or type(bandit) is not _policies()[policy]:
        raise TypeError(f"only bandits of bayesprop can be saved, got {policy}")
    header: dict[str, Any] = {
        "bandit": SCHEMA,
        "version": importlib.metadata.version("bayesprop"),
        "policy": policy,
        "settings": bandit.settings(),
        "arms": bandit.arms.to_stored(),
        "random_state": bandit.random_state,
        "n_features": bandit.n_features_,
        "n_selected": bandit.n_selected_,
        "n_learnt": bandit.n_learnt_,
        "kind": kind_of(bandit.rewards),
    }
    if bandit.n_features_ is None:
        raise ValueError("there is nothing to save before the first context: call begin(n) first")
    learnt, arrays = bandit.rewards.to_stored()
    arrays = {_REWARDS + name: array for name, array in arrays.items()}
    ids = sorted(bandit.pending_)
    width = bandit.n_features_
    arrays["pending.id"] = np.array(ids, np.int64)
    arrays["pending.arm"] = np.array([bandit.pending_[i][1] for i in ids], np.int64)
    contexts = [bandit.pending_[i][0] for i in ids]
    arrays["pending.context"] = np.array(contexts, np.float64).reshape(len(ids), width)
    return Stored(header | {"rewards": learnt}, arrays)


def from_stored(stored: Stored, kind: type, source: str) -> Any:
    """Rebuild a bandit; ModelFileError names the source and says what is wrong."""
    header = stored.header
    schema = header.get("bandit")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ModelFileError(f"{source} holds no bandit")
    if schema > SCHEMA:
        raise ModelFileError(
            f"{source} has schema {schema}, and this bayesprop reads up to {SCHEMA}: upgrade it"
        )
    policy = _policies().get(str(header.get("policy")))
    if policy is None or not issubclass(policy, kind):
        raise ModelFileError(f"{source} holds a {str(header.get('policy'))[:40]}")
    try:
        return _rebuilt(policy, *stored)
    except Exception as error:  # contents chosen by a stranger can fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ModelFileError(f"{source} does not describe a bandit ({reason})") from error


def _rebuilt(policy: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    arms = Arms.from_stored(header["arms"])
    check_int("n_features", header["n_features"])
    n_features = header["n_features"]
    learnt = Stored(header["rewards"], below(_REWARDS, arrays))
    rewards = kind_class(header["kind"]).from_stored(learnt, n_features, arms)
    bandit = policy(rewards, ["-"], random_state=header["random_state"], **header["settings"])
    bandit.arms, bandit.n_features_ = arms, n_features
    for name in ("n_selected", "n_learnt"):
        check_int(name, header[name], least=0)
    bandit.n_selected_, bandit.n_learnt_ = header["n_selected"], header["n_learnt"]
    ids, numbers, contexts = (arrays[f"pending.{name}"] for name in ("id", "arm", "context"))
    if ids.dtype != np.int64 or numbers.dtype != np.int64 or contexts.dtype != np.float64:
        raise ValueError("the pending decisions are of other types")
    if contexts.shape != (len(ids), n_features) or not np.isfinite(contexts).all():
        raise ValueError("the pending decisions have damaged contexts")
    if ((ids < 0) | (ids >= bandit.n_selected_)).any() or len(set(ids.tolist())) != len(ids):
        raise ValueError("there are pending decisions that were never taken")
    if numbers.shape != ids.shape or ((numbers < 0) | (numbers >= len(arms.names))).any():
        raise ValueError("there are pending decisions for unknown arms")
    for name, number, context in zip(ids.tolist(), numbers.tolist(), contexts, strict=True):
        bandit.pending_[name] = (context, number)
    return bandit


def _policies() -> dict[str, type]:
    from bayesprop.decisions import bandits

    kinds = (
        bandits.ThompsonSampler, bandits.Greedy, bandits.EpsilonGreedy, bandits.UpperConfidence,
    )  # fmt: skip
    return {kind.__name__: kind for kind in kinds}


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
        raise ModelFileError(f"{str(path)[:200]!r} is a folder: a bandit is kept in a file")
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


def read_snapshot(file: sqlite3.Connection, path: Path) -> tuple[Any, int]:
    """Read the bandit, and after how many records it was written; ModelFileError if damaged."""
    from bayesprop.decisions.bandit import Bandit

    row = file.execute("SELECT n_records, content FROM snapshot").fetchone()
    if row is None or not isinstance(row[1], bytes):
        raise ModelFileError(f"{name_of(path)} is damaged: it holds no bandit")
    return from_stored(unseal(row[1], name_of(path)), Bandit, name_of(path)), row[0]


def write_snapshot(file: sqlite3.Connection, bandit: Bandit, n_records: int) -> None:
    """Write the bandit in the place of the older one."""
    file.execute("DELETE FROM snapshot")
    content = seal(*to_stored(bandit))
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
            bandit, _ = read_snapshot(file, path)
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
        arms=list(dict.fromkeys([*bandit.arms.names, *added_names])),
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

"""A bandit in a file: sealed whole, or in SQLite with the calls that came after.

Checked before it is believed, and never run. In SQLite each record is a call with its arguments, in
JSON, beside the bandit as it was, sealed as in a file of its own.
"""

from __future__ import annotations

import importlib.metadata
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64

from bayesprop import codec
from bayesprop.bandits.arms import Arms
from bayesprop.bandits.policies import (
    Bandit,
    EpsilonGreedy,
    Greedy,
    ThompsonSampler,
    UpperConfidence,
)
from bayesprop.bandits.rewards import kind_class, kind_of
from bayesprop.codec import Stored, prefixed, unprefixed
from bayesprop.estimators.params import check_int
from bayesprop.store import ModelFileError, believing, seal, unseal

SCHEMA = 1
_POLICIES: dict[str, Any] = {
    kind.__name__: kind for kind in (ThompsonSampler, Greedy, EpsilonGreedy, UpperConfidence)
}
_APPLICATION, SQLITE_SCHEMA = 0x62707264, 1
TABLES = (
    """CREATE TABLE records (number INTEGER PRIMARY KEY, call TEXT NOT NULL, decision INTEGER,
    probability REAL, arguments TEXT NOT NULL)""",
    "CREATE TABLE snapshot (n_records INTEGER NOT NULL, content BLOB NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {SQLITE_SCHEMA}",
)
_ABOUT = """
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
FROM pragma_application_id, pragma_user_version"""
_SETTLED = """
SELECT chosen.decision, chosen.probability, chosen.arguments, settled.arguments
FROM records AS settled JOIN records AS chosen ON chosen.decision = settled.decision
WHERE settled.call = 'settle' AND chosen.call = 'select' AND chosen.decision >= ?
ORDER BY settled.number"""


class Pending(NamedTuple):
    """Decisions whose rewards have not come yet: their ids, arms and contexts."""

    id: Int64[np.ndarray, " n"]
    arm: Int64[np.ndarray, " n"]
    context: Float64[np.ndarray, "n d"]


def to_stored(bandit: Bandit) -> Stored:
    """Return everything that a bandit is, as a header for JSON and named arrays.

    TypeError for a policy or reward model that is not of this library.
    """
    policy = type(bandit).__name__
    if type(bandit) is not _POLICIES.get(policy):
        raise TypeError(f"only bandits of bayesprop can be saved, got {policy}")
    kind = kind_of(bandit.rewards)
    if bandit.n_features_ is None:
        raise ValueError("there is nothing to save before the first context: call begin(n) first")
    learnt, arrays = bandit.rewards.to_stored()
    settings = {one.name for one in fields(bandit)} - {one.name for one in fields(Bandit)}
    header = {
        "bandit": SCHEMA,
        "version": importlib.metadata.version("bayesprop"),
        "policy": policy,
        "settings": {name: np.asarray(getattr(bandit, name)).item() for name in settings},
        "arms": bandit.arms.to_stored(),
        "random_state": bandit.random_state,
        "n_features": bandit.n_features_,
        "n_selected": bandit.n_selected_,
        "n_learnt": bandit.n_learnt_,
        "kind": kind,
        "rewards": learnt,
    }
    ids = sorted(bandit.pending_)
    contexts = np.array([bandit.pending_[i][0] for i in ids], np.float64)
    pending = codec.write(
        Pending(
            np.array(ids, np.int64),
            np.array([bandit.pending_[i][1] for i in ids], np.int64),
            contexts.reshape(len(ids), bandit.n_features_),
        )
    )
    header["pending"] = pending.header
    return Stored(header, prefixed("rewards.", arrays) | prefixed("pending.", pending.arrays))


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
    policy = _POLICIES.get(str(header.get("policy")))
    if policy is None or not issubclass(policy, kind):
        raise ModelFileError(f"{source} holds a {str(header.get('policy'))[:40]!r}")
    with believing(f"{source} does not describe a bandit"):
        return _rebuilt(policy, stored)


def _rebuilt(policy: Any, stored: Stored) -> Any:
    header, arrays = stored
    arms, n_features = Arms.from_stored(header["arms"]), header["n_features"]
    for name in ("n_features", "n_selected", "n_learnt"):
        check_int(name, header[name], least=name == "n_features")
        np.int64(header[name])  # OverflowError: more than there can be
    pending = Stored(header["pending"], unprefixed("pending.", arrays))
    ids, numbers, contexts = codec.read(Pending, pending, d=n_features)
    seed, learnt = header["random_state"], Stored(header["rewards"], unprefixed("rewards.", arrays))
    rewards = kind_class(header["kind"]).from_stored(learnt, n_features, arms, seed)
    bandit = policy(rewards, ["-"], random_state=seed, **header["settings"])
    bandit.arms, bandit.n_features_ = arms, n_features
    bandit.n_selected_, bandit.n_learnt_ = header["n_selected"], header["n_learnt"]
    if len(np.unique(ids)) != len(ids):
        raise ValueError("the pending decisions have damaged ids")
    for of_ids, end in ((ids, bandit.n_selected_), (numbers, len(arms.names))):
        if not ((of_ids >= 0) & (of_ids < end)).all():
            raise ValueError("there are pending decisions that were never taken")
    pending = zip(contexts, numbers.tolist(), strict=True)
    bandit.pending_ = dict(zip(ids.tolist(), pending, strict=True))
    return bandit


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


def _check(file: sqlite3.Connection, path: Path) -> None:
    # In one statement: another process may be about to begin the file.
    application, schema, n_tables = file.execute(_ABOUT).fetchone()
    if n_tables and application != _APPLICATION:
        raise ModelFileError(f"{name_of(path)} is of another program: take another one")
    if schema > SQLITE_SCHEMA:
        raise ModelFileError(
            f"{name_of(path)} has schema {schema}, this bayesprop reads {SQLITE_SCHEMA}: upgrade it"
        )
    (finding,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise ModelFileError(f"{name_of(path)} is damaged: {' '.join(finding.split())}")


def read_snapshot(file: sqlite3.Connection, path: Path) -> tuple[Any, int]:
    """Read the bandit, and after how many records it was written; ModelFileError if damaged."""
    row = file.execute("SELECT n_records, content FROM snapshot").fetchone()
    if row is None or not isinstance(row[1], bytes):
        raise ModelFileError(f"{name_of(path)} is damaged: it holds no bandit")
    return from_stored(unseal(row[1], name_of(path)), Bandit, name_of(path)), row[0]


def write_snapshot(file: sqlite3.Connection, bandit: Bandit, n_records: int) -> None:
    """Write the bandit in the place of the older one."""
    content = seal(*to_stored(bandit))
    file.execute("DELETE FROM snapshot")
    file.execute("INSERT INTO snapshot VALUES (?, ?)", (n_records, content))


class PolicyLog(NamedTuple):
    """Settled decisions of a bandit, n of them, in the order of rewards.

    action
        Names of the arms chosen.
    reward, propensity
        What each paid, and the probability with which it was chosen.
    arms
        Names of all arms that could be chosen.
    context
        What was known before each choice.
    """

    action: list[Any]
    reward: Float[np.ndarray, " n"]
    propensity: Float[np.ndarray, " n"]
    arms: tuple[Any, ...]
    context: Float[np.ndarray, "n d"]


def policy_log(path: str | Path, *, first: int = 0) -> PolicyLog:
    """Return the settled decisions of a file with their propensities, in the order of rewards.

    At any time: a bandit that uses the file is not disturbed. Arms that came or went on the way
    are all listed; decisions of others (`note`) are not.

    first
        Id of the decision to begin with; earlier ones are left out.

    ValueError where a decision's probability is not known: it needs `propensity_draws`.
    """
    path = Path(path)
    with refusals(path), closing(connect(path, may_create=False)) as file:
        file.execute("BEGIN")
        bandit, _ = read_snapshot(file, path)
        added = file.execute("SELECT arguments FROM records WHERE call = 'add_arm'").fetchall()
        rows = file.execute(_SETTLED, (first,)).fetchall()
    unknown = [decision for decision, probability, *_ in rows if probability is None]
    if unknown:
        raise ValueError(
            f"of {len(unknown)} decisions, the last of them {max(unknown)}, the probability is not "
            "known: set propensity_draws of DurableBandit, and begin with a later decision (first)"
        )
    chosen = [json.loads(arguments) for _, _, arguments, _ in rows]
    added_names = [json.loads(arguments)[0] for (arguments,) in added]
    return PolicyLog(
        action=[action for _, action in chosen],
        reward=np.array([json.loads(arguments)[1] for *_, arguments in rows]),
        propensity=np.array([probability for _, probability, *_ in rows]),
        arms=tuple(dict.fromkeys([*bandit.arms.names, *added_names])),
        context=np.array([context for context, _ in chosen]),
    )

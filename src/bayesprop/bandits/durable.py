"""A bandit in a file of SQLite: killed at any moment, it goes on with nothing lost or doubled.

What changes the bandit is a record, which is committed before the call returns; now and then the
whole bandit is written beside the records. Opening reads the bandit and repeats the records that
came after it; so does every call with those of other processes, which may use the file as well.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesprop.bandits.arms import Name
from bayesprop.bandits.policies import (
    Bandit,
    Decision,
    decision_id,
    from_stored,
    name_of,
    to_stored,
)
from bayesprop.estimators.params import check_int, finite
from bayesprop.sealed import ModelFileError, believing, seal, unseal

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
_REWARD = "SELECT arguments FROM records WHERE call = 'settle' AND decision = ?"
_IN_SNAPSHOT = "SELECT coalesce(max(n_records), 0) FROM snapshot"
_LATER = """
SELECT number, call, decision, arguments FROM records WHERE number >= ? ORDER BY number"""

T = TypeVar("T")


class DurableBandit:
    """A bandit in a file. What a call has returned is kept, whatever happens to the process.

    It has the calls of `Bandit`, which see, and any number of threads and processes of one machine
    may use them: they take turns with one bandit. A caller that does not know whether its last
    `settle` came through, because the process ended or was interrupted before it returned, says it
    again: a reward is never counted twice. A call that ends with an exception, whichever and at
    whatever moment (an interrupt, a time-out), has changed nothing or has come through whole. A
    decision of which nobody heard stays pending and teaches nothing.

    Parameters
    ----------
    path : path
        A new file, or one that this class has written; on a local disk. SQLite keeps two more
        beside it while it is open, whose names begin with its own.
    make : function or None
        Called without arguments where there is no bandit yet: returns one that has begun
        (`bandit.begin(n_features)`). Later on what lies in the file counts. None: a file that is
        not there is refused.
    snapshot_every : int
        Records between two times that the bandit is written whole. Opening takes as long as that
        many calls of `settle` at most.
    sync : bool
        Whether every record is on the disk before a call returns, so that not even a power cut
        loses it. Without it a kill or a crash of the process loses nothing.
    keep_records : bool
        Whether records that the bandit in the file contains are kept, for `policy_log`.
    propensity_draws : int
        Where the policy does not know the probability of its choice, as with Thompson sampling:
        draws by which it is estimated and then recorded; 0 for none. With K of S draws choosing the
        same arm the estimate is (K + 1) / (S + 1), the inverse of which is unbiased but for a share
        of (1 - probability)^(S + 1).

    Attributes
    ----------
    bandit : Bandit
        To look at. What is changed in it directly is not recorded.
    n_records : int
        Changes that are recorded: one a call of select, note, settle, update, teach, ...

    Examples
    --------
    >>> import tempfile
    >>> from bayesprop import DurableBandit, ThompsonSampler
    >>> def make():
    ...     return ThompsonSampler("linear", ["blue", "green"]).begin(3)
    >>> path = tempfile.mkdtemp() + "/shop.sqlite"
    >>> with DurableBandit(path, make) as shop:
    ...     decision = shop.select([0.2, 1.0, -0.5])
    >>> with DurableBandit(path, make) as shop:  # another process, another day
    ...     _ = shop.settle(decision, 1.0)
    ...     _ = shop.settle(decision, 1.0)  # had the first one come through?
    ...     shop.is_pending(decision), shop.bandit.n_learnt_
    (False, 1)
    """

    bandit: Bandit
    n_records: int = 0

    def __init__(
        self,
        path: str | Path,
        make: Callable[[], Bandit] | None = None,
        *,
        snapshot_every: int = 1000,
        sync: bool = False,
        keep_records: bool = True,
        propensity_draws: int = 0,
    ) -> None:
        check_int("snapshot_every", snapshot_every)
        check_int("propensity_draws", propensity_draws, least=0)
        self.path, self.snapshot_every = Path(path), int(snapshot_every)
        self.keep_records, self.propensity_draws = bool(keep_records), int(propensity_draws)
        self._mutex, self._process = threading.RLock(), os.getpid()
        self._is_open, self._is_current = True, False
        self._file = _connect(self.path, may_create=make is not None)
        try:
            with _refusals(self.path):
                # Busy where another process makes the file: until then rollback journals do.
                with suppress(sqlite3.OperationalError):
                    self._file.execute("PRAGMA journal_mode = WAL")
                self._file.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
                self._begin(make)
            self._in_turn(lambda: None)
        except BaseException:
            self.close()
            raise

    def select(self, context: ArrayLike) -> Decision:
        """Choose an arm in a context, as `Bandit.select` does."""
        return self._in_turn(lambda: self._change("select", context))

    def note(self, context: ArrayLike, action: Hashable) -> Decision:
        """Record a choice of an arm, made by any policy, to be settled with its reward."""
        return self._in_turn(lambda: self._change("note", context, action))

    def settle(self, decision: Decision | int, reward: float) -> Self:
        """Learn the reward of a decision once, as `Bandit.settle` does.

        A reward that is said again changes nothing. ValueError if it is another than the recorded
        one, or if its record is no longer kept (`keep_records`).
        """
        self._in_turn(lambda: self._settle(decision_id(decision), reward))
        return self

    def update(self, context: ArrayLike, action: Hashable, reward: float) -> Self:
        """Learn what an arm paid in a context; see `n_records` for what came through."""
        self._in_turn(lambda: self._change("update", context, action, reward))
        return self

    def teach(self, contexts: ArrayLike, actions: Sequence[Hashable], rewards: ArrayLike) -> Self:
        """Learn rows of a log, all or none of them; see `n_records` for what came through."""
        self._in_turn(lambda: self._change("teach", contexts, list(actions), rewards))
        return self

    def add_arm(self, name: Hashable, features: ArrayLike | None = None) -> Self:
        """Add an arm, with its features if the others have some."""
        self._in_turn(lambda: self._change("add_arm", name, features))
        return self

    def remove_arm(self, name: Hashable) -> Self:
        """Choose an arm no more; rewards that are on their way are still learnt."""
        self._in_turn(lambda: self._change("remove_arm", name))
        return self

    def is_pending(self, decision: Decision | int) -> bool:
        """Whether a decision waits for its reward, so that `settle` would take it."""
        return self._in_turn(lambda: self.bandit.is_pending(decision))

    def action_probabilities(
        self, context: ArrayLike, n_draws: int = 1000
    ) -> Float[np.ndarray, " k"]:
        """Probability with which each of `actions` would be chosen now."""
        return self._in_turn(lambda: self.bandit.action_probabilities(context, n_draws))

    @property
    def actions(self) -> list[Name]:
        """Names of the arms that can be chosen."""
        return self._in_turn(lambda: self.bandit.actions)

    def snapshot(self) -> None:
        """Write the bandit whole, so that the next opening has nothing to repeat."""
        self._in_turn(self._write_snapshot)

    def close(self) -> None:
        """Use the file no more."""
        with self._mutex:
            self._is_open = False
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, make: Callable[[], Bandit] | None) -> None:
        """Write the first bandit, unless there is one."""
        with self._file:
            self._file.execute("BEGIN IMMEDIATE")
            (schema,) = self._file.execute("PRAGMA user_version").fetchone()
            if schema == _SCHEMA:
                return
            if make is None:
                raise ModelFileError(f"{name_of(self.path)} is empty: give make")
            bandit = make()
            if not isinstance(bandit, Bandit) or bandit.n_features_ is None:
                raise ValueError(
                    "make must return a bandit that has begun, such as "
                    f"ThompsonSampler(...).begin(n_features); got {bandit!r}"
                )
            for statement in _TABLES:
                self._file.execute(statement)
            self.bandit = bandit
            self._write_snapshot()

    def _settle(self, name: int, reward: float) -> None:
        """Learn a reward, unless it is recorded."""
        recorded = None
        if not self.bandit.is_pending(name):
            recorded = self._file.execute(_REWARD, (name,)).fetchone()
        if recorded is None:
            self._change("settle", name, reward)
        elif (known := json.loads(recorded[0])[1]) != finite("reward", reward, ()):
            raise ValueError(
                f"decision {name} has the reward {known:g} already: {reward!r} was not learnt"
            )

    def _change(self, call: str, *arguments: Any) -> Any:
        """Change the bandit and record it."""
        self._is_current = False
        try:
            result = getattr(self.bandit, call)(*arguments)
        except ValueError as error:
            self._is_current = _is_refusal(error)
            raise
        if call == "select":
            result = self._with_probability(arguments[0], result)
            arguments = *arguments, result.action
        self._add_record(call, result, arguments)
        if self.n_records - self._n_in_snapshot >= self.snapshot_every:
            self._write_snapshot()
        return result

    def _add_record(self, call: str, result: Decision | Bandit, arguments: tuple) -> None:
        decision = arguments[0] if call == "settle" else getattr(result, "id", None)
        probability = getattr(result, "probability", None)
        record = self.n_records, call, decision, probability, _as_json(arguments)
        self._file.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", record)
        self.n_records += 1

    def _with_probability(self, context: ArrayLike, chosen: Decision) -> Decision:
        """Estimate the probability of a choice where the policy does not know it."""
        if chosen.probability is not None or not self.propensity_draws:
            return chosen
        shares = self.bandit.action_probabilities(context, self.propensity_draws)
        hits = self.propensity_draws * float(shares[self.bandit.actions.index(chosen.action)])
        return chosen._replace(probability=(hits + 1.0) / (self.propensity_draws + 1.0))

    def _in_turn(self, work: Callable[[], T]) -> T:
        """Work with file and bandit alone, all records repeated; commit all of it, or nothing.

        Only what is committed makes the bandit in memory that of the file again. A generator, as
        `contextmanager` needs one, would not do: an interrupt that leaves it waiting ends its
        transaction in the midst of a later one.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this bandit was opened by process {self._process}, and this is {os.getpid()}: "
                "open the file in the process that uses it"
            )
        with self._mutex:
            if not self._is_open:
                raise RuntimeError(f"{name_of(self.path)} is closed: open it again")
            try:
                self._undo()  # what an interrupted undoing has left
                self._file.execute("BEGIN IMMEDIATE")
                self._catch_up()
                result = work()
                self._file.execute("COMMIT")
            except sqlite3.Error as error:
                self._undo()
                raise _refusal(self.path, error) from error
            except BaseException:
                self._undo()
                raise
            self._is_current = True
            return result

    def _undo(self) -> None:
        """Take back what is not committed."""
        if self._file.in_transaction:
            self._file.execute("ROLLBACK")

    def _catch_up(self) -> None:
        """Repeat the records of others, after their snapshot if need be."""
        (n_there,) = self._file.execute(_IN_SNAPSHOT).fetchone()
        if not self._is_current or n_there > self.n_records:
            self.bandit, self.n_records = _read_snapshot(self._file, self.path)
            self._n_in_snapshot = self.n_records
        self._is_current = False
        for number, call, decision, arguments in self._file.execute(_LATER, (self.n_records,)):
            if number != self.n_records:
                raise ModelFileError(f"{name_of(self.path)} lacks the record {self.n_records}")
            with believing(f"record {number} of {name_of(self.path)} does not fit the bandit"):
                _repeat(self.bandit, call, decision, json.loads(arguments))
            self.n_records += 1
        self._is_current = True

    def _write_snapshot(self) -> None:
        """Write the bandit in the place of the older one."""
        content = seal(*to_stored(self.bandit))
        self._file.execute("DELETE FROM snapshot")
        self._file.execute("INSERT INTO snapshot VALUES (?, ?)", (self.n_records, content))
        if not self.keep_records:
            self._file.execute("DELETE FROM records")
        self._n_in_snapshot = self.n_records


def _as_json(arguments: tuple) -> str:
    """Write numbers, names and arrays of an argument list; what a bandit has taken is finite."""
    return json.dumps(
        arguments,
        allow_nan=False,
        separators=(",", ":"),
        default=lambda value: np.asarray(value).tolist(),
    )


def _repeat(bandit: Bandit, call: str, decision: int | None, arguments: list) -> None:
    """Do again what a record says, which can be no other call; decisions are those recorded."""
    if call in ("select", "note"):
        if bandit.note(*arguments).id != decision:
            raise ValueError(f"decision {decision!r} is not the next one")
    elif call in ("settle", "update", "teach", "add_arm", "remove_arm"):
        getattr(bandit, call)(*arguments)
    else:
        raise ValueError(f"unknown call {call[:40]!r}")


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turn what SQLite refuses into a ModelFileError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(path, error) from error


def _refusal(path: Path, error: sqlite3.Error) -> ModelFileError:
    return ModelFileError(f"{name_of(path)} cannot be read or written: {error}")


def _is_refusal(error: ValueError) -> bool:
    """Whether the bandit itself refused, which changes nothing: not the handler of a signal."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return bool(trace) and trace.tb_frame.f_globals["__name__"].startswith("bayesprop.")


def _connect(path: Path, *, may_create: bool) -> sqlite3.Connection:
    """Open a file, for any thread; ModelFileError, with nothing touched, if it is none of ours."""
    if path.is_dir():
        raise ModelFileError(f"{str(path)[:200]!r} is a folder: a bandit is kept in a file")
    if not may_create and not path.exists():
        raise ModelFileError(f"there is no {name_of(path)}: give make")
    with _refusals(path):
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
    if schema > _SCHEMA:
        raise ModelFileError(
            f"{name_of(path)} has schema {schema}, this bayesprop reads {_SCHEMA}: upgrade it"
        )
    (finding,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise ModelFileError(f"{name_of(path)} is damaged: {' '.join(finding.split())}")


def _read_snapshot(file: sqlite3.Connection, path: Path) -> tuple[Bandit, int]:
    """Read the bandit, and after how many records it was written; ModelFileError if damaged."""
    row = file.execute("SELECT n_records, content FROM snapshot").fetchone()
    if row is None or not isinstance(row[1], bytes):
        raise ModelFileError(f"{name_of(path)} is damaged: it holds no bandit")
    return from_stored(unseal(row[1], name_of(path)), name_of(path)), row[0]


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

    action: list[Name]
    reward: Float[np.ndarray, " n"]
    propensity: Float[np.ndarray, " n"]
    arms: tuple[Name, ...]
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
    with _refusals(path), closing(_connect(path, may_create=False)) as file:
        file.execute("BEGIN")
        bandit, _ = _read_snapshot(file, path)
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

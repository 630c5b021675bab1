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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from bayesprop.bandits import files as bandit_files
from bayesprop.bandits.files import name_of, refusals
from bayesprop.bandits.policies import Bandit, Decision, decision_id
from bayesprop.estimators.params import check_int
from bayesprop.store import ModelFileError, believing

_IN_SNAPSHOT = "SELECT coalesce(max(n_records), 0) FROM snapshot"
_LATER = """
SELECT number, call, decision, arguments FROM records WHERE number >= ? ORDER BY number"""


class DurableBandit:
    """A bandit in a file. What a call has returned is kept, whatever happens to the process.

    It has the calls of `Bandit`, which see, and any number of threads and processes of one machine
    may use them: they take turns with one bandit. A caller that does not know whether its last
    `settle` came through, because the process ended before it returned, asks `is_pending`: a reward
    is never counted twice. A decision of which nobody heard stays pending and teaches nothing.

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
    ...     if shop.is_pending(decision):
    ...         _ = shop.settle(decision, 1.0)
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
        self._file = bandit_files.connect(self.path, may_create=make is not None)
        try:
            with refusals(self.path):
                self._file.execute("PRAGMA journal_mode = WAL")
                self._file.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
                self._begin(make)
            with self._turn():
                pass
        except BaseException:
            self.close()
            raise

    def select(self, context: Float[Any, " d"]) -> Decision:
        """Choose an arm in a context, as `Bandit.select` does."""
        return self._changed("select", context)

    def note(self, context: Float[Any, " d"], action: Hashable) -> Decision:
        """Take down that an arm was chosen, by whoever, to be settled when its reward comes."""
        return self._changed("note", context, action)

    def settle(self, decision: Decision | int, reward: float) -> Self:
        """Learn the reward of a decision once, as `Bandit.settle` does."""
        self._changed("settle", decision_id(decision), reward)
        return self

    def update(self, context: Float[Any, " d"], action: Hashable, reward: float) -> Self:
        """Learn what an arm paid in a context; see `n_records` for what came through."""
        self._changed("update", context, action, reward)
        return self

    def teach(self, contexts: Any, actions: Sequence[Hashable], rewards: Any) -> Self:
        """Learn rows of a log, all or none of them; see `n_records` for what came through."""
        self._changed("teach", contexts, list(actions), rewards)
        return self

    def add_arm(self, name: Hashable, features: Any = None) -> Self:
        """Add an arm, with its features if the others have some."""
        self._changed("add_arm", name, features)
        return self

    def remove_arm(self, name: Hashable) -> Self:
        """Choose an arm no more; rewards that are on their way are still learnt."""
        self._changed("remove_arm", name)
        return self

    def is_pending(self, decision: Decision | int) -> bool:
        """Whether a decision waits for its reward, so that `settle` would take it."""
        with self._turn():
            return self.bandit.is_pending(decision)

    def action_probabilities(
        self, context: Float[Any, " d"], n_draws: int = 1000
    ) -> Float[np.ndarray, " k"]:
        """Probability with which each of `actions` would be chosen now."""
        with self._turn():
            return self.bandit.action_probabilities(context, n_draws)

    @property
    def actions(self) -> list[Any]:
        """Names of the arms that can be chosen."""
        with self._turn():
            return self.bandit.actions

    def snapshot(self) -> None:
        """Write the bandit whole, so that the next opening has nothing to repeat."""
        with self._turn():
            self._write_snapshot()

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
            if schema == bandit_files.SQLITE_SCHEMA:
                return
            if make is None:
                raise ModelFileError(f"{name_of(self.path)} is empty: give make")
            bandit = make()
            if not isinstance(bandit, Bandit) or bandit.n_features_ is None:
                raise ValueError(
                    "make must return a bandit that has begun, such as "
                    f"ThompsonSampler(...).begin(n_features); got {bandit!r}"
                )
            for statement in bandit_files.TABLES:
                self._file.execute(statement)
            bandit_files.write_snapshot(self._file, bandit, 0)

    def _changed(self, call: str, *arguments: Any) -> Any:
        """Change the bandit and record it; if that fails, it is read anew by the next call."""
        with self._turn():
            self._is_current = False
            try:
                result = getattr(self.bandit, call)(*arguments)
            except ValueError:  # a bandit that refuses has changed nothing
                self._is_current = True
                raise
            if call == "select":
                result = self._with_probability(arguments[0], result)
                arguments = *arguments, result.action
            self._add_record(call, result, arguments)
            if self.n_records - self._n_in_snapshot >= self.snapshot_every:
                self._write_snapshot()
            self._is_current = True
            return result

    def _add_record(self, call: str, result: Any, arguments: tuple[Any, ...]) -> None:
        decision = arguments[0] if call == "settle" else getattr(result, "id", None)
        probability = getattr(result, "probability", None)
        record = self.n_records, call, decision, probability, _as_json(arguments)
        self._file.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", record)
        self.n_records += 1

    def _with_probability(self, context: Any, chosen: Decision) -> Decision:
        """Estimate the probability of a choice where the policy does not know it."""
        if chosen.probability is not None or not self.propensity_draws:
            return chosen
        shares = self.bandit.action_probabilities(context, self.propensity_draws)
        hits = self.propensity_draws * float(shares[self.bandit.actions.index(chosen.action)])
        return chosen._replace(probability=(hits + 1.0) / (self.propensity_draws + 1.0))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have file and bandit for oneself, with all records repeated; commit all, or nothing."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this bandit was opened by process {self._process}, and this is {os.getpid()}: "
                "open the file in the process that uses it"
            )
        with self._mutex, refusals(self.path):
            if not self._is_open:
                raise RuntimeError(f"{name_of(self.path)} is closed: open it again")
            try:
                with self._file:
                    self._file.execute("BEGIN IMMEDIATE")
                    self._catch_up()
                    yield
            except sqlite3.Error:
                self._is_current = False
                raise

    def _catch_up(self) -> None:
        """Repeat the records of others, after their snapshot if need be."""
        (n_there,) = self._file.execute(_IN_SNAPSHOT).fetchone()
        if not self._is_current or n_there > self.n_records:
            self.bandit, self.n_records = bandit_files.read_snapshot(self._file, self.path)
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
        bandit_files.write_snapshot(self._file, self.bandit, self.n_records)
        if not self.keep_records:
            self._file.execute("DELETE FROM records")
        self._n_in_snapshot = self.n_records


def _as_json(arguments: Any) -> str:
    """Write numbers, names and arrays of an argument list; what a bandit has taken is finite."""
    return json.dumps(
        arguments,
        allow_nan=False,
        separators=(",", ":"),
        default=lambda value: np.asarray(value).tolist(),
    )


def _repeat(bandit: Bandit, call: str, decision: int | None, arguments: list[Any]) -> None:
    """Do again what a record says, which can be no other call; decisions are those recorded."""
    if call in ("select", "note"):
        if bandit.note(*arguments).id != decision:
            raise ValueError(f"decision {decision!r} is not the next one")
    elif call in ("settle", "update", "teach", "add_arm", "remove_arm"):
        getattr(bandit, call)(*arguments)
    else:
        raise ValueError(f"unknown call {call[:40]!r}")

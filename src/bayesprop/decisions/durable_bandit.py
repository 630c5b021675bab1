"""A bandit that lives in a folder: killed at any moment, it goes on with nothing lost or doubled.

What changes the bandit is added to a journal before the call returns; now and then the whole bandit
is written beside it, and the journal begins anew. Opening reads the bandit and repeats the records
that came after it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from jaxtyping import Float

from bayesprop.decisions import bandit_files, journal
from bayesprop.decisions.bandit import Bandit, Decision
from bayesprop.decisions.bandit_records import NOTES, SNAPSHOT, notes_of, plain, repeat
from bayesprop.decisions.journal import Journal, Lock
from bayesprop.estimators.checks import check_int
from bayesprop.store import ModelFileError, read_sealed, write_sealed

T = TypeVar("T")


class DurableBandit:
    """A bandit in a folder. What a call has returned is kept, whatever happens to the process.

    It has the calls of `Bandit`, which see, and any number of threads of one process may use them.
    A caller that does not know whether its last `settle` came through, because the process ended
    before it returned, asks `is_pending`: a reward is never counted twice. A decision of which
    nobody heard stays pending and teaches nothing.

    Parameters
    ----------
    folder : path
        New or empty, or one that this class has written; of a local disk. One process at a time
        may use it.
    make : function or None
        Called without arguments where the folder holds no bandit yet: returns one that has begun
        (`bandit.begin(n_features)`). Later on what lies in the folder counts. None: an empty
        folder is refused.
    snapshot_every : int
        Records between two times that the bandit is written whole. Opening takes as long as that
        many calls of `settle` at most.
    sync : bool
        Whether every record is on the disk before a call returns, so that not even a power cut
        loses it. Without it a kill or a crash of the process loses nothing.
    keep_records : bool
        Whether records that the bandit in the folder contains are kept, for
        `bandit_records.policy_log`.
    propensity_draws : int
        Where the policy does not know the probability of its choice, as with Thompson sampling:
        draws by which it is estimated and then recorded; 0 for none. With K of S draws choosing the
        same arm the estimate is (K + 1) / (S + 1), the inverse of which is unbiased but for a share
        of (1 - probability)^(S + 1).

    Attributes
    ----------
    bandit : Bandit
        To look at. What is changed in it directly is not recorded.

    Examples
    --------
    >>> import tempfile
    >>> from bayesprop import DurableBandit, ThompsonSampler
    >>> def make():
    ...     return ThompsonSampler("linear", ["blue", "green"]).begin(3)
    >>> folder = tempfile.mkdtemp()
    >>> with DurableBandit(folder, make) as shop:
    ...     decision = shop.select([0.2, 1.0, -0.5])
    >>> with DurableBandit(folder, make) as shop:  # another process, another day
    ...     if shop.is_pending(decision):
    ...         _ = shop.settle(decision, 1.0)
    ...     shop.is_pending(decision), shop.bandit.n_learnt_
    (False, 1)
    """

    def __init__(
        self,
        folder: str | Path,
        make: Callable[[], Bandit] | None = None,
        *,
        snapshot_every: int = 1000,
        sync: bool = False,
        keep_records: bool = True,
        propensity_draws: int = 0,
    ) -> None:
        check_int("snapshot_every", snapshot_every)
        check_int("propensity_draws", propensity_draws, least=0)
        self.folder, self.snapshot_every = Path(folder), int(snapshot_every)
        self.sync, self.keep_records = bool(sync), bool(keep_records)
        self.propensity_draws = int(propensity_draws)
        self._mutex, self._is_sound = threading.RLock(), True
        self._lock = self._locked_folder(may_create=make is not None)
        try:
            for draft in (*self.folder.glob(f".{SNAPSHOT}.*.tmp"), *journal.drafts(self.folder)):
                draft.unlink()
            if (self.folder / SNAPSHOT).exists():
                self._resume()
            else:
                self._start(make)
        except BaseException:
            self._lock.release()
            raise

    def select(self, context: Float[Any, " d"]) -> Decision:
        """Choose an arm in a context, as `Bandit.select` does."""

        def choose() -> Decision:
            decision = self.bandit.select(context)
            if decision.probability is not None or not self.propensity_draws:
                return decision
            return decision._replace(probability=self._propensity(context, decision.action))

        return self._changed(choose, lambda decision: self._recorded("select", decision))

    def note(self, context: Float[Any, " d"], action: Hashable) -> Decision:
        """Take down that an arm was chosen, by whoever, to be settled when its reward comes."""
        return self._changed(
            lambda: self.bandit.note(context, action),
            lambda decision: self._recorded("note", decision),
        )

    def settle(self, decision: Decision | int, reward: float) -> Self:
        """Learn the reward of a decision once, as `Bandit.settle` does."""
        name = decision.id if isinstance(decision, Decision) else decision
        self._changed(
            lambda: self.bandit.settle(decision, reward),
            lambda _: {"do": "settle", "id": int(name), "reward": float(reward)},
        )
        return self

    def update(self, context: Float[Any, " d"], action: Hashable, reward: float) -> Self:
        """Learn what an arm paid in a context; see `n_records` for what came through."""
        self._changed(
            lambda: self.bandit.update(context, action, reward),
            lambda _: {
                "do": "update", "context": plain(context), "action": plain(action),
                "reward": float(reward),
            },
        )  # fmt: skip
        return self

    def teach(self, contexts: Any, actions: Sequence[Hashable], rewards: Any) -> Self:
        """Learn rows of a log, all or none of them; see `n_records` for what came through."""
        names = list(actions)
        self._changed(
            lambda: self.bandit.teach(contexts, names, rewards),
            lambda _: {
                "do": "teach", "contexts": plain(contexts), "rewards": plain(rewards),
                "actions": [plain(name) for name in names],
            },
        )  # fmt: skip
        return self

    def add_arm(self, name: Hashable, features: Any = None) -> Self:
        """Add an arm, with its features if the others have some."""
        known = None if features is None else plain(features)
        self._changed(
            lambda: self.bandit.add_arm(name, features),
            lambda _: {"do": "add_arm", "action": plain(name), "features": known},
        )
        return self

    def remove_arm(self, name: Hashable) -> Self:
        """Choose an arm no more; rewards that are on their way are still learnt."""
        self._changed(
            lambda: self.bandit.remove_arm(name),
            lambda _: {"do": "remove_arm", "action": plain(name)},
        )
        return self

    def is_pending(self, decision: Decision | int) -> bool:
        """Whether a decision waits for its reward, so that `settle` would take it."""
        with self._mutex:
            return self.bandit.is_pending(decision)

    def action_probabilities(
        self, context: Float[Any, " d"], n_draws: int = 1000
    ) -> Float[np.ndarray, " k"]:
        """Probability with which each of `actions` would be chosen now."""
        with self._mutex:
            return self.bandit.action_probabilities(context, n_draws)

    @property
    def actions(self) -> list[Any]:
        """Names of the arms that can be chosen."""
        return self.bandit.actions

    @property
    def n_records(self) -> int:
        """Changes that are recorded: one a call of select, note, settle, update, teach, ..."""
        return self._journal.n_records

    def snapshot(self) -> None:
        """Write the bandit whole, so that the next opening has nothing to repeat."""
        with self._mutex:
            self._check_sound()
            self._journal.start_part()
            self._write_snapshot()
            if not self.keep_records:
                self._journal.forget_parts()

    def close(self) -> None:
        """Let another process have the folder."""
        with self._mutex:
            self._is_sound = False
            self._journal.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, make: Callable[[], Bandit] | None) -> None:
        if make is None:
            raise ModelFileError(f"folder {str(self.folder)!r} holds no bandit: give make")
        strange = sorted(
            path.name for path in self.folder.iterdir() if path.name != journal.LOCK
            and not path.name.startswith("records-")
        )  # fmt: skip
        if strange:
            raise ModelFileError(
                f"folder {str(self.folder)!r} holds no bandit, but {strange[0]!r}: take a new one"
            )
        self.bandit = make()
        if not isinstance(self.bandit, Bandit) or self.bandit.n_features_ is None:
            raise ValueError(
                "make must return a bandit that has begun, such as "
                f"ThompsonSampler(...).begin(n_features); got {self.bandit!r}"
            )
        bandit_files.to_stored(self.bandit)
        self._journal = Journal.create(self.folder, sync=self.sync)
        self._write_snapshot()

    def _resume(self) -> None:
        path = self.folder / SNAPSHOT
        header, arrays = read_sealed(path)
        identity, first = notes_of(header, path)
        self.bandit = bandit_files.from_stored(header, arrays, Bandit, f"bandit file {str(path)!r}")
        self._journal, records = Journal.open(self.folder, identity, first, sync=self.sync)
        self._n_in_snapshot, self._patience = first, self.snapshot_every
        for number, record in enumerate(records, first):
            try:
                repeat(self.bandit, record)
            except Exception as error:  # contents chosen by a stranger can fail in any way
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                raise ModelFileError(
                    f"record {number} in {str(self.folder)!r} does not fit the bandit ({reason})"
                ) from error

    def _changed(self, change: Callable[[], T], record: Callable[[T], dict[str, Any]]) -> T:
        """Change the bandit and record it; refused, the bandit is as it was."""
        with self._mutex:
            self._check_sound()
            self._is_sound = False
            try:
                result = change()
            except ValueError:
                self._is_sound = True
                raise
            self._journal.append(record(result))
            self._is_sound = True
            if self._journal.n_records - self._n_in_snapshot >= self._patience:
                self._try_snapshot()
            return result

    def _try_snapshot(self) -> None:
        """Write the bandit whole; if that fails, later: everything is in the records."""
        try:
            self.snapshot()
        except ModelFileError as error:
            self._patience += self.snapshot_every
            warnings.warn(f"{error}; nothing is lost, it is tried again later", stacklevel=4)

    def _write_snapshot(self) -> None:
        header, arrays = bandit_files.to_stored(self.bandit)
        notes = {"identity": self._journal.identity, "n_records": self._journal.n_records}
        write_sealed(self.folder / SNAPSHOT, header | {NOTES: notes}, arrays)
        self._n_in_snapshot, self._patience = self._journal.n_records, self.snapshot_every

    def _recorded(self, do: str, decision: Decision) -> dict[str, Any]:
        row, _ = self.bandit.pending_[decision.id]
        return {
            "do": do, "id": decision.id, "context": row.tolist(), "action": decision.action,
            "probability": decision.probability,
        }  # fmt: skip

    def _propensity(self, context: Any, action: Any) -> float:
        probabilities = self.bandit.action_probabilities(context, self.propensity_draws)
        hits = self.propensity_draws * float(probabilities[self.bandit.actions.index(action)])
        return (hits + 1.0) / (self.propensity_draws + 1.0)

    def _check_sound(self) -> None:
        self._lock.check()
        if not self._is_sound:
            raise RuntimeError(
                f"the bandit of {str(self.folder)!r} is closed, or a call failed half-way and it "
                "may differ from its records: close it and open the folder again"
            )

    def _locked_folder(self, *, may_create: bool) -> Lock:
        if not self.folder.is_dir():
            if not may_create:
                raise ModelFileError(f"there is no folder {str(self.folder)!r}: give make")
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ModelFileError(
                    f"cannot make folder {str(self.folder)!r}: {error.strerror or error}"
                ) from error
        return Lock(self.folder)

"""What the journal of a bandit says: to repeat it, or to read it as the log of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bayesprop.decisions import journal
from bayesprop.decisions.bandit import Bandit
from bayesprop.decisions.policy_log import Log
from bayesprop.store import ModelFileError, read_sealed

SNAPSHOT, NOTES = "snapshot.bandit", "journal"


def repeat(bandit: Bandit, record: dict[str, Any]) -> None:
    """Do again what a record says; decisions are those of the record. Any error if it says more."""
    do = record["do"]
    if do in ("select", "note"):
        decision = bandit.note(record["context"], record["action"])
        if decision.id != record["id"]:
            raise ValueError(f"decision {record['id']!r} is not the next one, {decision.id}")
    elif do == "settle":
        bandit.settle(record["id"], record["reward"])
    elif do == "update":
        bandit.update(record["context"], record["action"], record["reward"])
    elif do == "teach":
        bandit.teach(record["contexts"], record["actions"], record["rewards"])
    elif do == "add_arm":
        bandit.add_arm(record["action"], record["features"])
    elif do == "remove_arm":
        bandit.remove_arm(record["action"])
    else:
        raise ValueError(f"unknown record {str(do)[:40]!r}")


def policy_log(folder: str | Path, *, first: int = 0) -> Log:
    """Return the settled decisions of a folder with their propensities, in the order of rewards.

    For `bayesprop.decisions.offline`, at any time: a bandit that uses the folder is not disturbed.
    Arms that came or went on the way are all listed; decisions of others (`note`) are not.

    first
        Id of the decision to begin with; earlier ones are left out.

    ValueError where a decision's probability is not known: it needs `propensity_draws`.
    """
    path = Path(folder) / SNAPSHOT
    header, _ = read_sealed(path)
    identity, _ = notes_of(header, path)
    names, rows = list(header["arms"]["names"]), []
    taken: dict[int, dict[str, Any]] = {}
    for part in journal.parts(Path(folder), None, identity):
        for record in part.records:
            if record["do"] == "select" and record["id"] >= first:
                taken[record["id"]] = record
            elif record["do"] == "settle" and record["id"] in taken:
                rows.append((taken.pop(record["id"]), record["reward"]))
            elif record["do"] == "add_arm" and record["action"] not in names:
                names.append(record["action"])
    unknown = [one["id"] for one, _ in rows if one["probability"] is None]
    if unknown:
        raise ValueError(
            f"of {len(unknown)} decisions, the last of them {max(unknown)}, the probability is not "
            "known: set propensity_draws of DurableBandit, and begin with a later decision (first)"
        )
    return Log(
        action=[one["action"] for one, _ in rows],
        reward=np.array([reward for _, reward in rows]),
        propensity=np.array([one["probability"] for one, _ in rows]),
        arms=names,
        context=np.array([one["context"] for one, _ in rows]),
    )


def notes_of(header: dict[str, Any], path: Path) -> tuple[str, int]:
    """Return the identity of the journal that a bandit file belongs to, and its records in it."""
    notes = header.get(NOTES)
    if isinstance(notes, dict):
        identity, n_records = notes.get("identity"), notes.get("n_records")
        if isinstance(identity, str) and isinstance(n_records, int) and n_records >= 0:
            return identity, n_records
    raise ModelFileError(f"bandit file {str(path)!r} belongs to no journal: Bandit.load reads it")


def plain(value: Any) -> Any:
    """Return numbers and names as JSON has them; what a bandit has taken is finite."""
    if isinstance(value, str | int | float) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return np.asarray(value, np.float64).tolist()

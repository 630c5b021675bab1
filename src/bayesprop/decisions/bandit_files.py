"""A bandit in one file: checked before it is believed, and never run."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop.decisions.arms import Arms
from bayesprop.decisions.reward_models import kind_class, kind_of
from bayesprop.estimators.checks import check_int
from bayesprop.store import ModelFileError, read_sealed, write_sealed

if TYPE_CHECKING:
    from bayesprop.decisions.bandit import Bandit

SCHEMA = 1
_REWARDS = "rewards."


def save(path: str | Path, bandit: Bandit) -> None:
    """Write a bandit; TypeError for a policy or reward model that is not of this library."""
    header, arrays = to_stored(bandit)
    write_sealed(path, header, arrays)


def load(path: str | Path, kind: type) -> Any:
    """Read a bandit of a kind; ModelFileError, in one line, if the file is not one."""
    header, arrays = read_sealed(path)
    return from_stored(header, arrays, kind, f"bandit file {str(path)[:200]!r}")


def to_stored(bandit: Bandit) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
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
    return header | {"rewards": learnt}, arrays


def from_stored(
    header: dict[str, Any], arrays: dict[str, np.ndarray], kind: type, source: str
) -> Any:
    """Rebuild a bandit; ModelFileError names the source and says what is wrong."""
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
        return _rebuilt(policy, header, arrays)
    except Exception as error:  # contents chosen by a stranger can fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ModelFileError(f"{source} does not describe a bandit ({reason})") from error


def _rebuilt(policy: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    arms = Arms.from_stored(header["arms"])
    check_int("n_features", header["n_features"])
    n_features = header["n_features"]
    learnt = {k[len(_REWARDS) :]: v for k, v in arrays.items() if k.startswith(_REWARDS)}
    rewards = kind_class(header["kind"]).from_stored(header["rewards"], learnt, n_features, arms)
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

"""One model from rows that lie in shards, each learnt where it lies: only posteriors travel.

All shards of a round begin from the same posterior, and what they return is joined in the order of
the shards: results depend on the shards and the seed alone, not on who works when.

Methods that condition on rows at once, as Laplace's does, take expectation propagation with one
site a shard: a worker gets the cavity, all that the other shards say, and what its posterior says
beyond that is its new site (Vehtari et al. 2020, "Expectation propagation as a way of life",
algorithm 1; as partitioned VI, Bui et al. 2018). At its fixed point Laplace's posterior is that of
all rows.

Of networks learnt in passes the product of sites from far apart is no good: each shard's hidden
units go their own way. There the sites are tied, each a share
1 / K of one average factor, as in stochastic EP (Li, Hernández-Lobato & Turner 2015; Dehaene &
Barthelmé 2018, "averaged EP"): a worker meets each of its rows as K, as if its shard were the whole
table, and the new posterior is the geometric mean of the workers'. Shards of other sizes have other
weights, in proportion to what they hold.

A checkpoint keeps where the rounds stand, so that a fit that died goes on from its last round: the
start as a model file has it, without pickles, then what every round leaves.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, check_random_state

from bayesprop import codec
from bayesprop.codec import JsonObject, Stored, prefixed, unprefixed
from bayesprop.estimators.fitting import checked_rows, standardise
from bayesprop.estimators.params import check_int
from bayesprop.estimators.shell import EstimatorBase
from bayesprop.estimators.stored import read_state, unfitted_to_stored, write_state
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Combines, Learned, Resumes, Streams
from bayesprop.model.progress import Progress, current
from bayesprop.numerics.rows import Rows
from bayesprop.scale.cluster import Job, Pool, Workers, results
from bayesprop.scale.merging import ReExpressed, is_linear_in_inputs, merge, with_learned
from bayesprop.sealed import ModelFileError, believing, read_sealed, write_sealed
from bayesprop.store import estimator_from_stored

_KIND = "rounds of shards"
_PLAIN = ("n_first", "seed", "digests", "n_done", "guards")
START_ROWS, START_SHARE, START_EPOCHS = 4000, 0.01, 40
"""Rows, a share of them in large tables, and passes at least of what all shards go on from: it sets
the scaling, and decides which hidden unit does what, in which the shards must agree."""


class Rounds(NamedTuple):
    """Where a fit stands.

    start, n_first
        What all shards went on from, and how many first rows of every shard it was fitted to.
    digests
        Of the rows of every shard.
    learned
        The posterior after `n_done` rounds, and the sites of the shards if they have some.
    """

    start: EstimatorBase
    n_first: int
    seed: int
    digests: list[str]
    n_done: int
    learned: list[Learned]
    guards: dict[str, int]


@dataclass(frozen=True)
class Checkpoint:
    """A file of rounds.

    settings
        Of the fit; a file of others is refused.
    """

    path: Path
    settings: JsonObject

    @classmethod
    def of(
        cls, path: str | Path, estimator: EstimatorBase, start: EstimatorBase | None, **others: int
    ) -> Checkpoint:
        """Return the settings that a fit depends on, in addition to its rows.

        start
            The fitted estimator that was given, or None.
        """
        method = unfitted_to_stored(estimator)
        params = {name: value for name, value in method.pop("params").items() if name != "verbose"}
        given = None if start is None else _digest(start.to_stored().arrays)
        settings = {**method, **params, **others, "start": given}
        return cls(Path(path), json.loads(json.dumps(settings, default=str)))

    def write(self, rounds: Rounds) -> None:
        """Put a round in the place of the one before; ModelFileError where that cannot be."""
        start, arrays = rounds.start.to_stored()
        method, parts = rounds.start.fitted_.method, []
        arrays = prefixed("start/", arrays)
        for k, one in enumerate(rounds.learned):
            stored = write_state(method, one.state)
            parts.append([stored.header, codec.to_json(one.report, FitReport), one.n_iter])
            arrays |= prefixed(f"{k}/", stored.arrays)
        header = {"settings": self.settings, "start": start, "parts": parts}
        plain = {name: getattr(rounds, name) for name in _PLAIN}
        write_sealed(self.path, {"kind": _KIND, **header, **plain}, arrays)

    def read(self) -> Rounds | None:
        """Return the last round, None where there was none; ValueError if not of these settings."""
        if not self.path.parent.is_dir():
            raise ValueError(
                f"checkpoint {self.path}: the folder {self.path.parent} does not exist; create it"
            )
        if not self.path.exists():
            return None
        try:
            stored = read_sealed(self.path)
        except ModelFileError as error:
            raise ValueError(
                f"checkpoint: {error}; or delete it, and the fit begins anew"
            ) from error
        if stored.header.get("kind") != _KIND:
            raise ValueError(f"checkpoint {self.path} is another file: name one of its own")
        with believing(f"checkpoint {self.path} is damaged: delete it"):
            theirs, rounds = dict(stored.header["settings"]), _rounds(stored)
        for name in sorted({*theirs, *self.settings}):
            if theirs.get(name) != self.settings.get(name):
                raise ValueError(
                    f"checkpoint {self.path} is of another fit: {name} was {theirs.get(name)!r}, "
                    f"not {self.settings.get(name)!r}; name another file, or delete it"
                )
        return rounds

    def check_rows(self, before: Rounds, digests: list[str]) -> None:
        """Raise ValueError where the rows are not those of the rounds before."""
        for number, (ours, theirs) in enumerate(zip(digests, before.digests, strict=True)):
            if ours != theirs:
                raise ValueError(
                    f"checkpoint {self.path} is of other rows: shard {number} has changed; name "
                    "another file, or delete it"
                )


def _rounds(stored: Stored) -> Rounds:
    header = stored.header
    start = estimator_from_stored(header["start"], unprefixed("start/", stored.arrays))
    method, learned = start.fitted_.method, []
    for k, (of_state, report, n_iter) in enumerate(header["parts"]):
        state = read_state(method, Stored(of_state, unprefixed(f"{k}/", stored.arrays)))
        learned.append(Learned(state, codec.from_json(FitReport, report), n_iter))
    plain = {name: header[name] for name in _PLAIN}
    return Rounds(start=start, learned=learned, **plain)


def digest_of_rows(rows: Rows) -> str:
    """Return a digest of the rows of a shard."""
    return _digest({"x": rows.x, "y": rows.y, "weight": rows.weights})


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Shard(NamedTuple):
    """Rows of one machine in the user's units; `weight` of the rows, None: one each."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None

    def part(self, rows: slice) -> Shard:
        """Return some of its rows."""
        return Shard(self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows])


class Look(NamedTuple):
    """Statistics of a shard from one pass; `labels` for classes only."""

    n_rows: int
    n_columns: int
    labels: ArrayLike = ()


class Account(NamedTuple):
    """Number and weight of the encoded rows of a shard, and their digest if requested."""

    n_rows: int
    weight: float
    digest: str = ""


def fit_shards(
    estimator: EstimatorBase,
    shards: Iterable[tuple | Job],
    *,
    rounds: int = 10,
    executor: Pool | None = None,
    start: EstimatorBase | None = None,
    checkpoint: str | Path | None = None,
) -> EstimatorBase:
    """Fit to rows in shards; return a fitted copy.

    Linear regression on its inputs takes one round, and is what one `fit` to all rows is, to
    rounding. Others begin with a fit to some rows of every shard (4000, or one in 100), which
    count once, and learn in rounds; `n_epochs` passes of networks are divided among these.

    Parameters
    ----------
    estimator : estimator
        Unfitted; linear, logistic, pbp or closed-form-vi. It is left as it is.
    shards : iterable of (X, y) or (X, y, sample_weight)
        Arrays; a shard may be empty, or hold one class. With Dask also futures of such tuples,
        as `client.submit(read, path)` or `client.compute(delayed)` give them.
    rounds : int
        Times that every shard is learnt.
    executor : object with `submit`, or None
        Of `concurrent.futures`, whose workers get their rows in every round, or a client of
        `dask.distributed`, whose workers hold them; None: one shard after another.
    start : fitted estimator or None
        Scaling and first posterior, from rows that are in no shard; closed-form-vi forgets them.
        None: from the shards.
    checkpoint : path or None
        File that holds the last round: the same call goes on from there. Linear regression, in its
        one round, needs none.

    Raises
    ------
    ValueError
        For an estimator whose posteriors do not multiply, no shards, rows that cannot be used, or a
        checkpoint of another fit.
    """
    check_int("rounds", rounds)
    check_combines(estimator)
    shards = list(shards)
    workers, numbers = Workers(executor), range(len(shards))
    parts = [workers.beside_rows(_shard, shard) for shard in shards]
    has_labels = hasattr(estimator, "predict_proba")
    looks = results([workers.beside_rows(_look, part, has_labels) for part in parts], numbers)
    _check_alike(looks)
    if start is None and issubclass(estimator.method_class, ReExpressed):
        full = [k for k in numbers if looks[k].n_rows]
        jobs = [workers.submit(_fitted_alone, estimator, parts[k]) for k in full]
        alone = results(jobs, full)
        if all(map(is_linear_in_inputs, alone)):
            return merge(alone)
    file = None
    if checkpoint is not None:
        about = {"rounds": rounds, "n_shards": len(shards)}
        file = Checkpoint.of(checkpoint, estimator, start, **about)
    before = None if file is None else file.read()
    if before is None:
        before = _begun(estimator, start, parts, looks, workers)
    return _in_rounds(before, rounds, parts, looks, workers, file)


def check_combines(estimator: EstimatorBase) -> None:
    """Raise ValueError for an estimator whose posteriors do not multiply."""
    if not issubclass(getattr(estimator, "method_class", object), Combines):
        raise ValueError(
            "shards are learnt by linear, logistic, pbp and closed-form-vi, whose posteriors "
            f"multiply, got {type(estimator).__name__}"
        )


def remembers_start(estimator: EstimatorBase) -> bool:
    """Whether the rows of a start count; else it is where to begin, and its rows are learnt again.

    A method that streams keeps what it has learnt; others have a posterior of the last rows alone.
    """
    return issubclass(estimator.method_class, Streams)


def _shard(shard: tuple) -> Shard:
    if not isinstance(shard, tuple | list) or len(shard) not in (2, 3):
        raise ValueError(f"must be (X, y) or (X, y, sample_weight), got {type(shard).__name__}")
    part = Shard(*shard)
    lengths = {len(column) for column in part if column is not None}
    if len(lengths) > 1:
        raise ValueError(f"must have as many rows in all its arrays, got {sorted(lengths)}")
    return part


def _look(shard: Shard, has_labels: bool) -> Look:
    assert_all_finite(shard.X, allow_nan=True, input_name="X")
    assert_all_finite(shard.y, input_name="y")
    labels = np.unique(shard.y) if has_labels and len(shard.y) else ()
    return Look(len(shard.y), np.shape(shard.X)[-1], labels)


def _check_alike(looks: list[Look]) -> None:
    if not any(one.n_rows for one in looks):
        raise ValueError("shards must hold rows, got none")
    for number, one in enumerate(looks):
        if one.n_columns != looks[0].n_columns:
            raise ValueError(
                f"shards must have the same columns, got {looks[0].n_columns} in shard 0 and "
                f"{one.n_columns} in shard {number}"
            )


def _fitted_alone(estimator: EstimatorBase, shard: Shard) -> EstimatorBase:
    return copy.deepcopy(estimator).fit(shard.X, shard.y, shard.weight)


def _begun(
    estimator: EstimatorBase,
    start: EstimatorBase | None,
    parts: list[Job],
    looks: list[Look],
    workers: Workers,
) -> Rounds:
    """Fit to the first rows of every shard, where no start is given."""
    n_first = 0
    if start is None:
        n_start = max(START_ROWS, START_SHARE * sum(look.n_rows for look in looks))
        n_first = math.ceil(n_start / len(parts))
        full = [k for k, look in enumerate(looks) if look.n_rows]
        first = [workers.beside_rows(Shard.part, parts[k], slice(n_first)) for k in full]
        labels = [looks[k].labels for k in full]
        start = _started(estimator, results(first, full), labels, n_first)
    if not remembers_start(estimator):
        n_first = 0
    seed = int(check_random_state(start.random_state).randint(2**31))
    guards = dict(start.fit_report_.guards)
    return Rounds(start, n_first, seed, [], 0, [start.learned_], guards)


def _started(
    estimator: Any, first: list[Shard], labels: list[ArrayLike], n_first: int
) -> EstimatorBase:
    X, y = (np.concatenate([np.asarray(one[k]) for one in first]) for k in (0, 1))
    weight = None
    if any(one.weight is not None for one in first):
        weight = np.concatenate(
            [np.ones(len(one.y)) if one.weight is None else one.weight for one in first]
        )
    if hasattr(estimator, "predict_proba"):
        n_classes = len(np.unique(np.concatenate(labels)))
        if len(np.unique(y)) < n_classes:
            raise ValueError(
                f"the first {n_first} rows of the shards must hold all {n_classes} classes: "
                "shuffle every shard's rows, or give a start"
            )
    begun: Any = copy.deepcopy(estimator)
    if hasattr(estimator, "n_epochs"):
        begun.n_epochs = max(estimator.n_epochs, START_EPOCHS)
    return begun.fit(X, y, weight).set_params(**estimator.get_params(deep=False))


def _in_rounds(
    before: Rounds,
    rounds: int,
    parts: list[Job],
    looks: list[Look],
    workers: Workers,
    file: Checkpoint | None,
) -> EstimatorBase:
    """Learn all shards in every round, from a start, whose rows count once."""
    started, start, seed, n_first = time.perf_counter(), before.start, before.seed, before.n_first
    numbers = [k for k, look in enumerate(looks) if look.n_rows > n_first]
    rows = [workers.beside_rows(_encoded, start, parts[k], n_first) for k in numbers]
    jobs = [workers.beside_rows(_account, one, file is not None) for one in rows]
    accounts = dict(zip(numbers, results(jobs, numbers), strict=True))
    digests = [accounts[k].digest if k in accounts else "" for k in range(len(parts))]
    if file is not None and before.n_done:
        file.check_rows(before, digests)
    going: Any = copy.copy(start)
    if passes := getattr(start, "n_epochs", 0):
        going.n_epochs = -(-passes // rounds)
    posterior, *sites = before.learned
    n_before = start.fit_report_.n_rows if remembers_start(start) else 0
    join = _join(
        cast(Combines, going.fitted_.method), start.learned_, sites, list(accounts.values())
    )
    guards, n_done, cuts = Counter(before.guards), before.n_done, []
    while numbers and n_done < rounds and not cuts:
        begun = join.cavities(posterior)
        jobs = [
            workers.submit(learnt, with_learned(going, cavity), one, factor, (seed, n_done, k))
            for cavity, one, factor, k in zip(begun, rows, join.factors, numbers, strict=True)
        ]
        learned = results(jobs, numbers)
        posterior = join.joined(posterior, begun, learned)
        for one in (posterior, *learned):
            guards.update(one.report.guards)
        n_done += 1
        if file is not None:
            state = [posterior, *join.sites]
            file.write(Rounds(start, n_first, seed, digests, n_done, state, dict(guards)))
        current().report(n_done, rounds, f"round {n_done}")
        if current().is_cut(n_done, rounds, "rounds"):
            cuts = current().cuts
    report = replace(
        posterior.report,
        guards=dict(guards),
        n_rows=n_before + sum(one.n_rows for one in accounts.values()),
        n_epochs=n_done,
        seconds=start.fit_report_.seconds + time.perf_counter() - started,
        warnings=[*posterior.report.warnings, *cuts],
    )
    return with_learned(start, Learned(posterior.state, report, n_done))


class _Sites:
    """Expectation propagation, one site a shard; each is kept times the start, as a posterior."""

    def __init__(self, method: Combines, origin: Learned, sites: list[Learned]) -> None:
        self.method, self.origin, self.sites = method, origin, sites
        self.factors = [1.0] * len(sites)

    def cavities(self, posterior: Learned) -> list[Learned]:
        """Return what all but each shard say."""
        powers = [1.0, -1.0, 1.0]
        return [self.method.combined([posterior, one, self.origin], powers) for one in self.sites]

    def joined(
        self, posterior: Learned, cavities: list[Learned], results: list[Learned]
    ) -> Learned:
        """Return the product of the new sites; where it is none, the posterior before."""
        pairs = zip(results, cavities, strict=True)
        self.sites = [
            self.method.combined([self.origin, *pair], [1.0, 1.0, -1.0]) for pair in pairs
        ]
        powers = [0.0, 1.0 - len(self.sites), *[1.0] * len(self.sites)]
        return self.method.combined([posterior, self.origin, *self.sites], powers)


class _Averaged:
    """Tied sites: each worker's rows stand for those of all, and posteriors are averaged.

    factors
        Of the weights of each shard's rows.
    """

    sites: tuple[Learned, ...] = ()

    def __init__(self, method: Combines, mass: np.ndarray) -> None:
        self.method, self.shares = method, mass / np.sum(mass)
        self.factors = 1.0 / np.maximum(self.shares, np.finfo(float).tiny)

    def cavities(self, posterior: Learned) -> list[Learned]:
        """Return where each shard begins: all that is learnt, every pass being new data."""
        return [posterior] * len(self.shares)

    def joined(
        self, posterior: Learned, cavities: list[Learned], results: list[Learned]
    ) -> Learned:
        """Return the geometric mean of the posteriors."""
        del cavities
        return self.method.combined([posterior, *results], [0.0, *self.shares])


def _join(
    method: Combines, origin: Learned, sites: list[Learned], accounts: list[Account]
) -> _Sites | _Averaged:
    if isinstance(method, Resumes):
        return _Averaged(method, np.array([one.weight for one in accounts]))
    return _Sites(method, origin, sites or [origin] * len(accounts))


def learnt(cavity: EstimatorBase, rows: Rows, factor: float, seed: tuple[int, ...]) -> Learned:
    """Learn a shard's rows: what a worker does.

    cavity
        An estimator that has learnt what the worker begins from.
    factor
        Of the rows' weights.
    """
    rng = np.random.RandomState(np.random.SeedSequence(seed).generate_state(4))
    method = cavity.fitted_.method
    learn = method.resume if isinstance(method, Resumes) else cast(Streams, method).absorb
    if factor != 1.0:
        rows = rows._replace(weight=rows.weights * factor)
    return learn(rows, cavity.learned_, rng, Progress())


def _encoded(start: EstimatorBase, shard: Shard, n_first: int) -> Rows:
    """Return a shard's rows, but the first ones, as the method sees them."""
    fitted = start.fitted_
    _, rows, _ = checked_rows(start, *shard.part(slice(n_first, None)), fitted)
    return standardise(fitted, rows, check_random_state(start.random_state))


def _account(rows: Rows, has_digest: bool) -> Account:
    digest = digest_of_rows(rows) if has_digest else ""
    return Account(len(rows.x), float(np.sum(rows.weights)), digest)

"""`python -m benchmarks.ablation TABLES`: what every part of the default is worth.

TABLES is a .csv of name, file (from its folder), target, task, drop (names, parted by ;). Of each
table and split at most `--rows` rows learn and `--test` judge, divided by a permutation of
`default_rng(split)`. The default, then the default without a part, all else learnt anew; what a
removal does not touch (networks that are trained alike, processes of the same targets) is taken
from memory, with the seconds that it took. `--parts` are measured alone, `--together` removed at
once; few rows: `--rows 100`. Nats and CRPS are what a removal costs, seconds what it saves. What
was measured and removed so far: docs/records/ablation.md.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import importlib
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import bayesprop
from bayesprop import tabular_default
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.console import print_table
from bayesprop.table.errors import TableError
from bayesprop.table.read import read_table
from benchmarks.tables import rows_of, run_missing

WHOLE = "whole"
WORTH, MOST_LOSS = 0.005, 0.05
"""Nats that a part must be worth in the mean to stay, or else to a table beyond two errors."""
_SURE = -1e9  # nats that no row loses
SETTINGS, WEIGHTS = "tabular_default.method:settings_for", "stack:mixture_weights"
_NO_WIDTH = -5.0  # log width of a kink, next to nothing

Replace = Callable[[Any], Any]


def constantly(value: Any) -> Replace:
    """Replace a function by one that always gives the same."""
    return lambda _: lambda *_given, **_named: value


def set_to(value: Any) -> Replace:
    """Replace a number."""
    return lambda _: value


def settings(**changed: Any) -> Replace:
    """Replace what chooses settings by the size of a table."""
    return lambda old: lambda *a, **named: dataclasses.replace(old(*a, **named), **changed)


def without(*families: int) -> Replace:
    """Give some families of classes no share. Numbers mix two predictions."""

    def replace(shares: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def of_others(likelihood: np.ndarray, weight: np.ndarray) -> np.ndarray:
            n = len(likelihood)
            kept = [f for f in range(n) if n < 3 or f % 4 not in families]
            share = np.zeros(n)
            share[kept] = shares(likelihood[kept], weight)
            return share

        return of_others

    return replace


def no_ramps(of: Any) -> Callable[..., Any]:
    """Place none."""

    def ramps(x: np.ndarray, _weight: np.ndarray) -> Any:
        n, nothing = x.shape[1], np.zeros(0)
        return of.__self__(np.ones(n), nothing, np.zeros(n, np.int64), nothing)

    return ramps


def at_quantiles(knots: Any) -> Callable[..., np.ndarray]:
    """Put knots at quantiles of all rows."""

    def of_column(column: np.ndarray, weight: np.ndarray) -> np.ndarray:
        if not len(knots(column, weight)):
            return np.zeros(0)
        levels = np.linspace(0.0, 1.0, valued("piecewise_linear:N_QUANTILES"))
        values = np.unique(np.quantile(column, levels, weights=weight, method="inverted_cdf"))
        return values if len(values) > 1 else np.zeros(0)

    return of_column


def no_process(_fit: Any) -> Any:
    """Know nothing of the targets, at once."""

    def fit(_rng: Any, known: Any, _limits: Any) -> Any:
        nothing = SimpleNamespace(log_density=lambda y, _m, _v: np.zeros(len(y)))
        return SimpleNamespace(process=nothing, m=np.zeros(len(known.y)), v=np.zeros(len(known.y)))

    return fit


def no_weight(_stacked: Any) -> Any:
    """Give a process none, and no row a gain."""
    return lambda _networks, _factor, measured, _log_p: (
        0.0,
        np.full(len(np.unique(measured.group)), _SURE),
    )


def as_learnt(_factor: Any) -> Any:
    """Leave the noise as it was learnt."""
    scores = valued("tabular_default.stack:scores")
    return lambda components, measured, _errors=1.0: (
        0.0,
        scores(measured, components.predictive(0.0).log_prob(measured.y)),
    )


def rectifiers(begin: Callable[..., None]) -> Callable[..., None]:
    """Hold the widths of all kinks at next to nothing, step by step."""

    def begin_held(self: Any, job: Any, *given: Any, **named: Any) -> None:
        narrow = tuple(np.full_like(w, _NO_WIDTH) for w in job.member.log_widths)
        begin(self, job._replace(member=job.member._replace(log_widths=narrow)), *given, **named)
        advance, at = self.loop.advance, self.plan.leaves[-sum(map(len, narrow)) :]

        def by_step(work: Any, *given: Any) -> None:
            *rows, order, size, first, losses = given
            for s in range(len(losses)):
                some = order[s * size : (s + 1) * size]
                advance(work, *rows, some, size, first + s, losses[s : s + 1])
                work.theta[at] = _NO_WIDTH

        self.loop = self.loop._replace(advance=by_step)

    return begin_held


def in_folds(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Leave every input out of one member's training."""

    def fit_groups(seed: int, rows: Any, *given: Any, **named: Any) -> Any:
        if rows.group is None:
            groups = np.unique(np.float32(rows.x), axis=0, return_inverse=True)[1].ravel()
            rows = rows._replace(group=groups)
        return fit(seed, rows, *given, **named)

    return fit_groups


class Part(NamedTuple):
    """How a part is removed: "module:name" and its replacement, of one task or None: of both."""

    task: str | None
    changes: Mapping[str, Replace]


PARTS = {
    WHOLE: Part(None, {}),
    "networks with ramps": Part(REGRESSION, {"piecewise_linear:Ramps.of": no_ramps}),
    "process on targets": Part(
        REGRESSION,
        {
            "gaussian_process:GaussianProcess.fit": no_process,
            "tabular_default.fit:_stacked": no_weight,
        },
    ),
    "residual process": Part(
        REGRESSION, {"residual_process:ResidualProcess.fit": constantly(None)}
    ),
    "density of neighbours": Part(
        REGRESSION,
        {
            "fit:_densities": lambda _: (
                lambda _rng, distinct, *_, **__: (None,) * distinct.table.y.shape[1]
            )
        },
    ),
    "noise factor": Part(REGRESSION, {"tabular_default.stack:noise_factor": as_learnt}),
    "tails": Part(REGRESSION, {"tabular_default.stack:tail": constantly((0.0, 0.0))}),
    "knots of common values": Part(None, {"piecewise_linear:_knots": at_quantiles}),
    "halves": Part(
        CLASSIFICATION,
        {"piecewise_linear:Ramps.with_halves": lambda _: lambda self, _x, _weight: self},
    ),
    "constant's share, numbers": Part(
        REGRESSION, {"distributions.mixture:BROAD_SHARE": set_to(1e-12)}
    ),
    "count heaps": Part(
        REGRESSION, {"targets.kinds:_Tally.with_heaps": lambda _: lambda self, k: self.through(k)}
    ),
    "second tails": Part(REGRESSION, {SETTINGS: settings(mean_least_dofs=(3.0,))}),
    "second share beta": Part(REGRESSION, {SETTINGS: settings(noise_shares=(0.5,))}),
    "few-row priors": Part(
        REGRESSION,
        {
            "tabular_default.method:FEW_ROWS_PRIORS": lambda _: valued(
                "tabular_default.settings:PRIORS"
            )
        },
    ),
    "few-row priors, linear path": Part(REGRESSION, {"tabular_default.method:FEW_ROWS": set_to(0)}),
    "joint covariance": Part(REGRESSION, {"held_out:MOST_WEIGHTS": set_to(0), "fit:fit": in_folds}),
    "learnt kinks": Part(None, {"tabular_default.training:_Training.__init__": rectifiers}),
    "label neighbours": Part(CLASSIFICATION, {"neighbours:LocalLogits.fit": constantly(None)}),
    "twins": Part(CLASSIFICATION, {"twins:Twins.fit": constantly(None)}),
    "rows counted eight times": Part(CLASSIFICATION, {WEIGHTS: without(1, 3)}),
    "ramps, classes": Part(CLASSIFICATION, {WEIGHTS: without(2, 3)}),
    "power": Part(CLASSIFICATION, {"tabular_default.stack:power": constantly(1.0)}),
    "surprise": Part(
        CLASSIFICATION,
        {"experts:ClassState.predict": lambda old: lambda s, x: old(s._replace(surprise=0.0), x)},
    ),
}
_REMEMBERED = (
    "held_out:hold_out", "gaussian_process:GaussianProcess.fit",
    "residual_process:ResidualProcess.fit", "neighbours:KernelDensity.fit",
    "neighbours:LocalLogits.fit",
)  # fmt: skip
_SALTS = {  # parts that change a function beside its arguments
    "train_jobs": ("learnt kinks",),
    "held_out:hold_out": ("joint covariance",),
}


def found(place: str) -> tuple[Any, str]:
    """Return the owner of a name, and the name within it; AttributeError where it is gone."""
    module, path = place.split(":")
    owner: Any = next((m for n, m in sys.modules.items() if _ends(n, module)), None)
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    getattr(owner, name)
    return owner, name


def _ends(name: str, module: str) -> bool:
    return name.startswith("bayesprop.") and name.endswith(f".{module}")


def is_there(part: str) -> bool:
    """Whether the library still has a part."""
    try:
        return bool([found(place) for place in PARTS[part].changes] or part == WHOLE)
    except AttributeError:
        print(f"{part}: gone", file=sys.stderr)
        return False


def valued(place: str) -> Any:
    """Return what is in a place."""
    return getattr(*found(place))


@contextmanager
def replaced(place: str, replace: Replace) -> Iterator[None]:
    """Replace what is in a place, a function wherever it was imported to as well."""
    owner, name = found(place)
    old, holders = vars(owner)[name], [(owner, name)]
    if callable(old) and not isinstance(owner, type):
        modules = [m for n, m in sys.modules.items() if n.startswith("bayesprop.")]
        holders = [(m, k) for m in modules for k, v in vars(m).items() if v is old]
    new = replace(getattr(owner, name))
    for where, key in holders:
        setattr(where, key, new)
    try:
        yield
    finally:
        for where, key in holders:
            setattr(where, key, old)


def digest(value: Any) -> str:
    """Tell values apart."""
    if isinstance(value, np.ndarray):
        parts = [f"{value.dtype}{value.shape}".encode(), np.ascontiguousarray(value).tobytes()]
    elif isinstance(value, (tuple, list)):
        parts = [digest(one).encode() for one in value]
    elif dataclasses.is_dataclass(value):
        parts = [digest(getattr(value, f.name)).encode() for f in dataclasses.fields(value)]
    else:
        parts = [str(getattr(value, "__qualname__", value)).encode()]
    return hashlib.sha256(type(value).__name__.encode() + b"|".join(parts)).hexdigest()


class Memory:
    """What was computed of a table and split, and the seconds that it took."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[Any, float]] = {}
        self.saved, self.part = 0.0, ""

    def recalled(self, name: str, key: Any, compute: Callable[[str], Any]) -> Any:
        """Compute what is not known, given its key, and count the seconds of what is."""
        salts = [part for part in _SALTS.get(name, ()) if part in self.part]
        key = digest((name, salts, key))
        if key in self.known:
            value, seconds = self.known[key]
            self.saved += seconds
            return value
        started, before = time.process_time(), self.saved
        value = compute(key)
        self.known[key] = value, time.process_time() - started + self.saved - before
        return value

    def trained(self, train_jobs: Callable[..., Any]) -> Callable[..., Any]:
        """Remember networks one by one."""

        def train(jobs: Any, *, seed: int, log_floor: Any, loop: Any, **_: Any) -> list[Any]:
            def trained(job: Any) -> Any:
                own, number = job.settings, job.number
                rules = own.noise_share(number), own.mean_least_dof(number), own.n_steps
                key = seed, log_floor, job[:4], rules, own.batch_size, own.priors
                compute = lambda _: train_jobs([job], seed=seed, log_floor=log_floor, loop=loop)[0]  # noqa: E731
                return self.recalled("train_jobs", key, compute)

            return list(map(trained, jobs))

        return train

    def remembered(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Remember what a function gives; its generator, if any, is made of what it is given."""

        def recall(*given: Any) -> Any:
            n = isinstance(given[0], np.random.Generator)
            rng = lambda key: [np.random.default_rng(int(key[:15], 16))] * n  # noqa: E731
            return self.recalled(place, given[n:], lambda key: function(*rng(key), *given[n:]))

        return recall

    def used(self, stack: ExitStack) -> None:
        """Let functions remember, on one core."""
        stack.enter_context(replaced("numerics.machine:n_cores", constantly(1)))
        stack.enter_context(replaced("training:train_jobs", self.trained))
        for place in _REMEMBERED:
            stack.enter_context(replaced(place, partial(self.remembered, place)))


class Case(NamedTuple):
    """Training and test rows of a table, and what was computed of them."""

    task: str
    target: str
    train: pl.DataFrame
    test: pl.DataFrame
    memory: Memory

    @classmethod
    def of(cls, about: Mapping[str, str], split: int, n_rows: int, n_test: int) -> Case:
        """Divide a table; classes that are not learnt are not judged."""
        table, target = read_table(about["file"]), about["target"]
        table = table.drop(filter(None, about["drop"].split(";")))
        table = table.filter(pl.col(target).is_not_null())
        order = np.random.default_rng(split).permutation(len(table))
        n_test = min(n_test, max(len(table) // 5, len(table) - n_rows))
        train, test = table[order[n_test : n_test + n_rows]], table[order[:n_test]]
        if about["task"] == CLASSIFICATION:
            test = test.filter(pl.col(target).is_in(train[target].unique().to_list()))
        return cls(about["task"], target, train, test, Memory())

    def scores(self, name: str, part: Part) -> tuple[np.ndarray, float, float]:
        """Return what test rows lose without a part, nats; mean CRPS of numbers; seconds."""
        started, self.memory.saved, self.memory.part = time.process_time(), 0.0, name
        with ExitStack() as stack:
            for place, replace in part.changes.items():
                stack.enter_context(replaced(place, replace))
            about = {"target": self.target, "task": self.task, "seed": 0, "test_fraction": 0.0}
            model = bayesprop.fit(self.train, **about)
            seconds = time.process_time() - started + self.memory.saved
            predicted, y = model.predict_dist(self.test.drop(self.target)), self.test[self.target]
            crps = np.mean(predicted.crps(y.to_numpy())) if self.task == REGRESSION else 1.0
            return -predicted.log_prob(y.to_numpy()), float(crps), seconds


def measure(about: Mapping[str, str], split: int, parts: Mapping[str, Part], asked: Any) -> None:
    """Measure what is missing of a table and split."""
    names = ("table", "split", "rows", "part")
    parts = {n: part for n, part in parts.items() if part.task in (None, about["task"])}
    cases = [(about["name"], split, asked.rows, name) for name in parts]
    if set(cases) <= {tuple(row[n] for n in names) for row in rows_of(asked.out)}:
        return
    case = Case.of(about, split, asked.rows, asked.test)
    with ExitStack() as stack:
        case.memory.used(stack)
        case.scores(WHOLE, PARTS[WHOLE])  # twice: what is done but once takes time, too
        nats, crps, seconds = case.scores(WHOLE, PARTS[WHOLE])

        def score(_table: str, _split: int, _rows: int, name: str) -> dict[str, Any]:
            row = {"task": case.task, "nats": float(nats.mean()), "crps": crps, "seconds": seconds}
            if name == WHOLE:
                return row
            own, own_crps, own_seconds = case.scores(name, parts[name])
            lost = own - nats
            error = float(lost.std() / np.sqrt(len(lost)))
            saved, more = seconds - own_seconds, own_crps / max(crps, 1e-12) - 1.0
            return row | {
                "nats": float(lost.mean()), "nats_error": error, "crps": more, "seconds": saved
            }  # fmt: skip

        run_missing(asked.out, names, cases, score)


def summary(rows: list[dict[str, Any]]) -> None:
    """Print a line for every part: means over tables, and seconds of the median table."""
    lines = []
    for name in dict.fromkeys(row["part"] for row in rows if not row["part"].startswith(WHOLE)):
        of_part = [row for row in rows if row["part"] == name]
        of_table = [[r for r in of_part if r["table"] == t] for t in {r["table"] for r in of_part}]
        nats, crps, seconds, squares = (
            np.array([np.mean([value(row) for row in some]) for some in of_table])
            for value in (
                lambda row: row["nats"],
                lambda row: 100.0 * row["crps"],
                lambda row: row["seconds"],
                lambda row: row["nats_error"] ** 2,
            )
        )
        least = nats - 2.0 * np.sqrt(squares / list(map(len, of_table)))
        worst = max(range(len(least)), key=least.__getitem__)
        highest = nats.mean() + 1.96 * _error(nats)
        goes = highest < WORTH and least[worst] <= MOST_LOSS
        lines.append((
            name, str(len(nats)), str(np.count_nonzero(nats)),
            f"{nats.mean():+.4f} ± {_error(nats):.4f}", f"{highest:+.4f}",
            f"{crps.mean():+.2f} ± {_error(crps):.2f}" if crps.any() else "",
            f"{np.median(seconds):.1f}", f"{least[worst]:+.2f} {of_table[worst][0]['table']}",
            "goes" if goes else "stays",
        ))  # fmt: skip
    headers = ("part", "tables", "moved", "nats", "95 %", "CRPS, %", "s", "loses most", "verdict")
    print_table("what parts are worth", headers, lines, right=range(1, 7))


def _error(values: np.ndarray) -> float:
    return values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan


def main() -> None:
    """Measure what is missing, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--parts", nargs="*", default=[*PARTS][1:], choices=[*PARTS][1:])
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results/ablation.jsonl"))
    asked = parser.parse_args()
    for module in pkgutil.walk_packages(tabular_default.__path__, f"{tabular_default.__name__}."):
        importlib.import_module(module.name)
    parts = {name: PARTS[name] for name in (WHOLE, *asked.parts) if is_there(name)}
    if asked.together:
        every = {k: v for part in parts.values() for k, v in part.changes.items()}
        parts = {WHOLE: PARTS[WHOLE], " and ".join(asked.parts): Part(None, every)}
    with asked.tables.open() as file:
        tables = [
            row | {"file": str(asked.tables.parent / row["file"])} for row in csv.DictReader(file)
        ]
    for split in range(asked.splits):
        for about in tables:
            try:
                measure(about, split, parts, asked)
            except (TableError, ValueError) as error:
                print(f"{about['name']}: {error}", file=sys.stderr)
    summary(rows_of(asked.out))


if __name__ == "__main__":
    main()

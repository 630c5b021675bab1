"""Files that a stranger changed: refused in one line or sound; never run, nor waited for."""

from __future__ import annotations

import copy
import hashlib
import json
import signal
import struct
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesprop
import golden_cases
from bayesprop import ActiveLearner, BayesianLinearRegressor, PBPRegressor
from bayesprop.active_learning.stopping import BudgetSpent, EnoughRows, LittleToLearn
from bayesprop.bandits.policies import Bandit, EpsilonGreedy
from bayesprop.bandits.refitted_rewards import RefittedRewards
from bayesprop.bandits.streamed_rewards import StreamedRewards
from bayesprop.conformal import ConformalRegressor
from bayesprop.sealed import ModelFileError, read_sealed, seal

GOLDEN = Path(__file__).parent / "golden" / "methods-v1"
TRAP = "trap:Class"
"""Of a module that ends the process when it is imported."""
HOSTILE = (None, True, -1, 0, 1, 0.5, 2, 2**24, 2**70, -1e30, 1e-9, float("nan"), float("inf"),
           "", TRAP, "x\n" * 999, "__import__('trap')", [], {}, [0], [[1.0]], {"kind": TRAP},
           *("numbers", "count", "share", "classes", "pbp"))  # fmt: skip
ENTRIES = (np.nan, np.inf, -1.0, 0.0, 9.0, -9.0, 1e-9)
ARRAYS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda a: a[None],
    lambda a: a[..., None],
    lambda a: a.T.copy(),
    lambda a: a.ravel()[:-1],
    lambda a: np.zeros((0, 2**24), a.dtype),
    lambda a: np.concatenate([np.atleast_1d(a)] * 2),
    lambda a: -a if a.dtype.kind != "u" else ~a,
    lambda a: a * 0,
    lambda a: a + 3,
    lambda a: a.astype(np.float32 if a.dtype == np.float64 else np.float64),
    lambda a: a.astype(np.int64),
    lambda a: np.full((9, 9), 1, np.uint8),
)
MOST_BYTES, SECONDS = 2**26, 20
"""What a small file may cost, whatever it says: well above what any does."""
N_EXAMPLES = settings().max_examples


class Contents(NamedTuple):
    """What a file holds, and what reads and uses it."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    read: Callable[[Path], Any]
    use: Callable[[Any], None]


def finite(predicted: Any) -> None:
    assert np.isfinite(np.asarray(predicted, float)).all()


def predict_rows(model: Any) -> None:
    x = np.linspace(-1.0, 1.0, 2 * model.n_features_in_).reshape(2, -1)
    for values in golden_cases.predictions(model, x).values():
        finite(values)


def predict_table(model: Any) -> None:
    if isinstance(model, bayesprop.TableModel):
        finite(model.predict(frame()[:2]).select(pl.selectors.float()).to_numpy())


def decide(bandit: Any) -> None:
    for _ in range(3):
        bandit.settle(bandit.select(np.ones(bandit.n_features_)), 1.0)


def query(learner: ActiveLearner) -> None:
    finite(learner.scores(np.eye(2)))
    learner.teach(np.eye(2), [0.0, 1.0]).stop_reason()


@cache
def golden(_: Path) -> dict[str, Contents]:
    """A small file of every method and task; those that compile for seconds predict when asked."""
    quick = ("linear", "logistic", "pbp") if N_EXAMPLES <= 100 else ""
    files = {p.stem: read_sealed(p) for p in sorted(GOLDEN.glob("*.bayesprop"))}
    uses = {name: predict_rows if name.startswith(quick) else lambda _: None for name in files}
    return {name: Contents(*one, bayesprop.load, uses[name]) for name, one in files.items()}


@cache
def frame(n: int = 60) -> pl.DataFrame:
    """Return a table of every kind of column, with gaps."""
    rng, k = np.random.default_rng(2), np.arange(n)
    return pl.DataFrame({
        "number": np.where(k % 7 == 0, np.nan, rng.normal(size=n)),
        "level": np.array(["a", "b", "<c>"])[k % 3],
        "when": np.datetime64("2024-01-01") + 7 * k.astype("timedelta64[D]"),
        "long": [f"{h:02}:{h * 7 % 60:02}:00" for h in k],
        "money": [f"€ {value:,}" for value in rng.integers(1000, 99_999, n)],
    })  # fmt: skip


TARGETS: dict[str, Callable[[np.ndarray], Any]] = {
    "numbers": lambda z: z,
    "positive": np.exp,
    "count": lambda z: np.floor(np.exp(z + 1.0)),
    "nonnegative": lambda z: np.maximum(z, 0.0),
    "share": lambda z: np.clip(z + 0.5, 0.0, 1.0),
    "censored": lambda z: np.clip(z, -0.5, 0.5),
    "classes": lambda z: np.where(z < 0.0, "low", "high"),
    "ordered": lambda z: np.digitize(z, [-0.5, 0.5]),
}


@cache
def tables(path: Path) -> dict[str, Contents]:
    """A model of a table for each kind of target."""
    found, z = {}, frame()["number"].to_numpy()
    z = np.where(np.isnan(z), 0.1, z) + 0.3 * np.sin(np.arange(len(z)))
    for kind, target in TARGETS.items():
        about: dict[str, Any] = {"target_kind": kind, "test_fraction": 0, "method": "linear"}
        if kind in ("classes", "ordered"):
            about |= {"method": "logistic", "task": "classification"}
            about |= {"order": [0, 1, 2]} if kind == "ordered" else {}
        with warnings.catch_warnings(action="ignore"):
            bayesprop.fit(frame().with_columns(y=target(z)), target="y", **about).save(path)
        found[kind] = Contents(*read_sealed(path), bayesprop.load, predict_table)
    return found


@cache
def decisions(path: Path) -> dict[str, Contents]:
    """Bandits, a learner and a conformal model in files."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    rules = EnoughRows(99), LittleToLearn(1e-9, 2), BudgetSpent(1e6)
    learner = ActiveLearner(BayesianLinearRegressor(), stop=rules, n_draws=8).teach(x, y)
    learner.query(x)
    sure = ConformalRegressor(BayesianLinearRegressor().fit(x, y), coverage=0.8).calibrate(x, y)
    kept: dict[str, Any] = {"learner": learner, "conformal": sure}
    bandits: Any = (
        ("rooms", "linear", {"room": 4}),
        ("arms", "linear", {"arm_features": np.eye(3)}),
        ("streamed", StreamedRewards(PBPRegressor((3,)), n_recalled=3), {"room": 4}),
        ("refitted", RefittedRewards(BayesianLinearRegressor(), first=6), {"room": 4}),
    )
    for name, rewards, about in bandits:
        bandit = EpsilonGreedy(rewards, ["a", "b", "c"], epsilon=0.5, random_state=3, **about)
        for k in range(12):
            chosen = bandit.select([np.sin(k), 0.5])
            if k % 3:
                bandit.settle(chosen, np.cos(k))
        kept[name] = bandit.remove_arm("c")
    uses = {
        ActiveLearner: query,
        ConformalRegressor: lambda model: finite(model.predict_interval(x)),
        EpsilonGreedy: decide,
    }
    found = {}
    for name, one in kept.items():
        one.save(path)
        kind: Any = Bandit if isinstance(one, Bandit) else type(one)
        found[name] = Contents(*read_sealed(path), kind.load, uses[type(one)])
    return found


@st.composite
def changed(draw, header, arrays=None):
    """Return a header and arrays of which one to three things are not what they were."""
    header, arrays = json.loads(json.dumps(header)), dict(arrays or {})
    for _ in range(draw(st.integers(1, 3))):
        in_arrays = arrays and draw(st.booleans())
        (change_array if in_arrays else change_value)(draw, arrays if in_arrays else header)
    return header, arrays


def change_value(draw, inside):
    """Change something in a tree of lists and maps, as often near its root as near its leaves."""
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if not (isinstance(inside[key], dict | list) and inside[key] and draw(st.integers(0, 3))):
            break
        inside = inside[key]
    way = draw(st.sampled_from(("replace", "replace", "drop", "swap", "more")))
    if way == "drop":
        del inside[key]
    elif way == "swap":
        other = draw(st.sampled_from(keys))
        inside[key], inside[other] = inside[other], inside[key]
    elif way == "more" and isinstance(inside, list):
        inside.append(inside[key])
    else:
        name = draw(st.sampled_from(("", TRAP, "__class__"))) if way == "more" else key
        inside[name] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))


def change_array(draw, arrays):
    name = draw(st.sampled_from(sorted(arrays)))
    way = draw(st.sampled_from(("whole", "whole", "entry", "entry", "drop", "rename", "swap")))
    if way == "drop":
        del arrays[name]
    elif way == "rename":
        arrays[draw(st.sampled_from(("", TRAP, "0.0")))] = arrays.pop(name)
    elif way == "swap":
        other = draw(st.sampled_from(sorted(arrays)))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif way == "entry" and arrays[name].size:
        arrays[name] = arrays[name].copy()
        entry = draw(st.sampled_from(ENTRIES if arrays[name].dtype.kind == "f" else (0, 3, 127)))
        arrays[name].flat[draw(st.integers(0, arrays[name].size - 1))] = entry
    else:
        arrays[name] = draw(st.sampled_from(ARRAYS))(arrays[name])


class TooLong(BaseException):
    """Reading or using a small file took seconds."""


@contextmanager
def bounded():
    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_refused(contents, path):
    """Whether a file is refused; if not, what comes of it is finite, or asks for other rows."""
    refusal = found = None
    with bounded():
        tracemalloc.start()
        try:
            found = contents.read(path)
        except ModelFileError as error:
            refusal = str(error)
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        try:
            if refusal is None:
                contents.use(found)
        except ValueError as error:
            if " must " not in str(error):  # the documented sentence about rows or settings
                raise
    assert peak < MOST_BYTES
    assert refusal is None or ("\n" not in refusal and len(refusal) < 800)
    return refusal is not None


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Where the file lies; beside it a trap, where an import would find it."""
    folder = tmp_path_factory.mktemp("forged")
    (folder / "trap.py").write_text("raise SystemExit('imported')")
    sys.path.insert(0, str(folder))
    yield folder / "m"
    sys.path.remove(str(folder))
    assert "trap" not in sys.modules


@pytest.mark.parametrize("files", [golden, tables, decisions])
@settings(max_examples=2 * N_EXAMPLES)
@given(data=st.data())
def test_changed_contents_are_refused_or_sound(files, path, data):
    name = data.draw(st.sampled_from(sorted(files(path))))
    one = files(path)[name]
    path.write_bytes(seal(*data.draw(changed(one.header, one.arrays))))
    is_refused(one, path)


@pytest.mark.parametrize("files", [golden, tables, decisions])
def test_unchanged_contents_are_sound(files, path):
    for one in files(path).values():
        path.write_bytes(seal(one.header, one.arrays))
        assert not is_refused(one, path)


@given(data=st.data())
def test_a_changed_layout_is_refused_or_sound(path, data):
    """What the format itself states: types, shapes and places of arrays, sealed again."""
    one = golden(path)["pbp-regression"]
    whole = seal(one.header, one.arrays)
    start = 8 + struct.unpack("<Q", whole[:8])[0]
    layout = json.loads(whole[8:start])
    layout["__metadata__"]["sha256"] = "0" * 64
    head = json.dumps(data.draw(changed(layout))[0]).encode()
    content = struct.pack("<Q", len(head)) + head + whole[start:]
    right = hashlib.sha256(content).hexdigest().encode()
    path.write_bytes(content.replace(b"0" * 64, right, 1))
    is_refused(one, path)


LENGTHS = st.sampled_from([0, 7, 99_000_000, 2**31, 2**63]).map(partial(struct.pack, "<Q"))
STARTS = LENGTHS | st.sampled_from([b"", b"\0", b"PK\x03\x04", b"\x80\x04", b"x,y\n", b'{"'])


@given(data=st.data())
def test_a_file_of_other_bytes_is_refused(path, data):
    one = data.draw(st.sampled_from(list(golden(path).values())))
    whole = seal(one.header, one.arrays)
    wrong, n = bytearray(whole), len(whole)
    way = data.draw(st.sampled_from(("cut", "flip", "flip", "start", "more", "deep")))
    if way == "cut":
        del wrong[data.draw(st.integers(0, n - 1)) :]
    elif way == "flip":
        for place in data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True)):
            wrong[place] ^= data.draw(st.integers(1, 255))
    elif way == "start":
        start = data.draw(STARTS)
        wrong[: data.draw(st.sampled_from((len(start), n)))] = start
    elif way == "more":
        wrong += data.draw(st.binary(min_size=1))
    else:
        deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        wrong[:] = struct.pack("<Q", len(deep)) + deep
    path.write_bytes(wrong)
    assert wrong == whole or is_refused(one, path)

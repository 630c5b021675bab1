"""A model in every situation: fitted once a process, brought to its stage, and asked."""

from __future__ import annotations

import contextlib
import copy
import io
import multiprocessing
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from situations import TASKS_OF_CLASSES, has, task_of

import bayesprop
from bayesprop.cli import main
from bayesprop.model.method import Streams
from method_settings import SETTINGS, silently
from method_settings import unfitted as of_method
from tables import LABELS, rows_to_learn, target_of, typed

KINDS = {"numbers": "numbers", "several outputs": "numbers", "ordered classes": "ordered"}
KINDS |= dict.fromkeys(("two classes", "many classes"), "classes")
AT_FIT: tuple[str, ...] = ("method", "task", "face", "dtype", "missing", "weights", "groups")
N_NEW = 8


def n_rows(method: str) -> int:
    """Rows of a fit: as many as the default needs for its neighbours, few for slow methods."""
    return 32 if method == "batch-ep" else 120


def kind_of(task: str) -> str:
    return KINDS.get(task, task)


def unfitted(method: str, task: str) -> Any:
    order = {"order": tuple(LABELS[task])} if kind_of(task) == "ordered" else {}
    return of_method(method, task_of(task), target_kind=kind_of(task), **order)


class Data:
    """Rows to learn in a situation: X in its dtype, y, weights, groups."""

    def __init__(self, s: Mapping[str, str], n: int, seed: int = 3) -> None:
        self.x, self.seed, self.s = rows_to_learn(s, n, seed), seed, s
        self.y = target_of(s["task"], np.nan_to_num(self.x), seed + 1)
        self.weight = np.where(np.arange(n) % 5 == 0, 0.0, 1.5) if s["weights"] != "none" else None
        self.group = np.arange(n) // 4 if s["groups"] != "none" else None

    @property
    def arrays(self) -> tuple[Any, ...]:
        return typed(self.s, self.x, {}), self.y

    @property
    def frame(self) -> Any:
        """Everything in one table; a whole column is absent from later ones only."""
        beside = {"y": self.y, "weight": self.weight, "group": self.group}
        return typed(self.s, self.x, {k: v for k, v in beside.items() if v is not None})

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns that are set aside, as arguments of a fit."""
        named = {"weights": self.weight, "group": self.group}
        kept = {"weights": "weight", "group": "group"}
        return {name: kept[name] for name, values in named.items() if values is not None}


def model_of(s: Mapping[str, str], folder: Path) -> Any:
    """Return the model at its stage: an estimator, a TableModel, or the path of a file."""
    if s["face"] == "command line":
        return _by_commands(s, folder)
    if s["face"] == "estimator" and s["stage"] == "merged":
        return _merged(s)
    model = _fitted(*(s[name] for name in AT_FIT))
    if s["stage"] == "updated":
        model = copy.copy(model)
        silently(model.partial_fit, *Data(s, N_NEW, seed=8).arrays)
    elif s["stage"] == "merged":
        return bayesprop.merge([model, model], model)
    elif s["stage"] == "saved and loaded":
        model.save(folder / "m.bayesprop")
        return bayesprop.load(folder / "m.bayesprop")
    return model


@cache
def _fitted(*values: str) -> Any:
    """Fit, once a process: stages and predictions do not change a model."""
    s = dict(zip(AT_FIT, values, strict=True))
    data = Data(s, n_rows(s["method"]))
    if s["face"] == "estimator":
        aside = {"sample_weight": data.weight}
        groups = {} if data.group is None else {"groups": data.group}
        return silently(unfitted(s["method"], s["task"]).fit, *data.arrays, **aside, **groups)
    order = list(LABELS[s["task"]]) if kind_of(s["task"]) == "ordered" else None
    asked = {"target": "y", "method": s["method"], "task": task_of(s["task"]), "order": order}
    asked |= {"target_kind": kind_of(s["task"]), "test_fraction": 0} | data.columns
    frame = data.frame if s["task"] != "several outputs" else data.arrays[0]
    if s["task"] == "several outputs":
        return bayesprop.fit(frame, data.y, **{k: v for k, v in asked.items() if k == "method"})
    return bayesprop.fit(frame, **asked, **SETTINGS[s["method"]])


def _merged(s: Mapping[str, str]) -> Any:
    """Two models that went on from one, on rows of their own."""
    start = unfitted(s["method"], s["task"])
    if not has(s["method"], s["task"], Streams):
        return bayesprop.merge([_fitted(*(s[name] for name in AT_FIT))])
    labels = {"classes": LABELS[s["task"]]} if s["task"] in TASKS_OF_CLASSES else {}
    data = Data(s, n_rows(s["method"]))
    silently(start.partial_fit, *data.arrays, sample_weight=data.weight, **labels)
    further = (Data(s, N_NEW, seed=seed) for seed in (8, 9))
    return bayesprop.merge(
        [silently(copy.copy(start).partial_fit, *one.arrays) for one in further], start
    )


def command(*words: Any) -> None:
    """Run a command; ValueError of its one line where it refuses."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main([str(word) for word in words])
    if code:
        assert code == 2, said.getvalue()
        lines = [line for line in said.getvalue().splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, said.getvalue()
        raise ValueError(lines[0])


def file_of(s: Mapping[str, str], frame: Any, path: Path) -> Path:
    """Write a table: as CSV where its cells have no dtype, else as Parquet."""
    if s["dtype"] == "float64":
        path = path.with_suffix(".csv")
        frame.to_csv(path, index=False)
    elif isinstance(frame, pl.DataFrame):
        frame.write_parquet(path := path.with_suffix(".parquet"))
    else:
        frame.to_parquet(path := path.with_suffix(".parquet"), index=False)
    return path


def _by_commands(s: Mapping[str, str], folder: Path) -> Path:
    """Fit, update and merge by commands."""
    data, model = Data(s, n_rows(s["method"])), folder / "m.bayesprop"
    table = file_of(s, data.frame, folder / "learnt")
    words = ["fit", table, "--target", "y", "--out", model, "--method", s["method"], "--quiet"]
    words += ["--task", task_of(s["task"]), "--test-fraction", 0]
    words += ["--target-kind", kind_of(s["task"])]
    if kind_of(s["task"]) == "ordered":
        words += ["--order", ",".join(LABELS[s["task"]])]
    for name, column in data.columns.items():
        words += [f"--{name}", column]
    for name, value in SETTINGS[s["method"]].items():
        flags = {"hidden_layer_sizes": "--hidden", "n_epochs": "--epochs"}
        value = value[0] if isinstance(value, tuple) else value
        words += [flags[name], value] if name in flags else ["--set", f"{name}={value}"]
    command(*words)
    if s["stage"] == "saved and loaded":
        return model
    updated = []
    for seed in (8,) if s["stage"] == "updated" else (8, 9):
        later = file_of(s, Data(s, N_NEW, seed).frame, folder / f"later{seed}")
        streams = has(s["method"], s["task"], Streams) and s["groups"] == "none"
        known = [] if streams or s["stage"] == "merged" else ["--with", table]
        out = folder / f"u{seed}.bayesprop"
        if s["stage"] == "merged" and not has(s["method"], s["task"], Streams):
            updated.append(model)
            break
        command("update", model, later, "--out", out, "--quiet", *known)
        updated.append(out)
    if s["stage"] == "updated":
        return updated[0]
    start = ["--start", model] if len(updated) == 2 else []
    command("merge", *updated, *start, "--out", folder / "both.bayesprop", "--quiet")
    return folder / "both.bayesprop"


def predict(s: Mapping[str, str], model: Any, rows: Any) -> Any:
    """Return the predictive distribution of rows, asked for where the stage asks for it."""
    absent = {} if s["face"] == "estimator" else {"allow_missing_columns": True}
    ask = partial(model.predict_dist, rows, **absent)
    if s["stage"] == "in threads":
        return silently(in_threads, ask)
    return silently(in_a_fork, ask) if s["stage"] == "in a fork" else silently(ask)


def in_threads(ask: Callable[[], Any]) -> Any:
    """What several threads at a time answer, which is the same."""
    with ThreadPoolExecutor(4) as pool:
        first, *others = [one.result() for one in [pool.submit(ask) for _ in range(4)]]
    for one in others:
        np.testing.assert_array_equal(figures(one), figures(first))
    return first


def in_a_fork(ask: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What a forked child answers; an error that it raises is raised here."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def answer() -> None:
        try:
            theirs.send(ask())
        except Exception as error:
            theirs.send(error)

    child = multiprocessing.get_context("fork").Process(target=answer)
    with warnings.catch_warnings(action="ignore"):  # JAX warns of every fork
        child.start()
    try:
        assert ours.poll(seconds), "a forked child hangs"
        answered = ours.recv()
    finally:
        child.kill()
        child.join()
    if isinstance(answered, Exception):
        raise answered
    return answered


def figures(predictive: Any) -> np.ndarray:
    """What of a prediction is compared: probabilities, or means, std and quantiles."""
    if hasattr(predictive, "proba"):
        parts = predictive.proba, predictive.expected_entropy
    else:
        parts = predictive.mean, predictive.std, predictive.epistemic_var, predictive.interval(0.8)
    gap_share = getattr(predictive, "gap_share", np.zeros(parts[0].shape))
    return np.column_stack(
        [np.reshape(part, (len(predictive), -1)) for part in (*parts, gap_share)]
    )

"""What can come together when a person fits and predicts, and what of it is refused: the table.

A situation is one value of every factor. `covering.py` chooses those that are tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from bayesprop.catalogue import CLASSIFICATION, METHODS, REGRESSION, estimator_class
from bayesprop.model.method import KnowsGroups, Merges, Streams

BLOCK = 4
"""Rows of a block at prediction in these tests, so that few rows are several blocks."""

FACTORS: dict[str, tuple[str, ...]] = {
    "method": tuple(METHODS),
    "task": (
        *("numbers", "several outputs", "positive", "nonnegative", "share", "count", "censored"),
        *("two classes", "many classes", "ordered classes"),
    ),
    "face": ("estimator", "bayesprop.fit", "command line"),
    "stage": ("fresh", "saved and loaded", "updated", "merged", "in threads", "in a fork"),
    "dtype": (
        *("float64", "float32", "ints", "pandas, index shuffled", "polars"),
        *("pandas, nullable", "categorical"),
    ),
    "missing": ("nowhere", "at fit", "at predict", "at both", "a whole column", "unseen level"),
    "gap in": ("no block", "first block", "last block", "every block"),
    "size": ("0", "1", "block - 1", "block", "block + 1", "3 blocks"),
    "weights": ("none", "some zero"),
    "groups": ("none", "of four rows"),
}
SIZES = {"0": 0, "1": 1, "3 blocks": 3 * BLOCK}
SIZES |= {"block - 1": BLOCK - 1, "block": BLOCK, "block + 1": BLOCK + 1}
STAGES_OF_FILES = ("saved and loaded", "updated", "merged")
TASKS_OF_CLASSES = ("two classes", "many classes", "ordered classes")
WITH_LEVELS = ("pandas, index shuffled", "polars", "pandas, nullable", "categorical")
"""Kinds of tables that can hold a column of words."""
FAMILIES = ("closed-form-vi", "ebp", "bayes-by-backprop")
"""One method of each family of those with JAX."""
CHAOTIC = ("mcmc",)
"""Whose steps grow the last bit: other units give another chain of the same distribution."""
WITHOUT_JAX = ("default", "linear", "logistic", "pbp")
"""Whose predictions a forked process can make, from arrays; `make test` tries no others."""


def task_of(task: str) -> str:
    return CLASSIFICATION if task in TASKS_OF_CLASSES else REGRESSION


@cache
def has(method: str, task: str, ability: type) -> bool:
    """Whether the catalogue has the ability for this method and task."""
    kind = task_of(task)
    able = kind in METHODS[method].homes
    return able and issubclass(estimator_class(method, kind).method_class, ability)


class Rule:
    """Situations that are refused, by the values of the factors that `when` takes.

    says
        A part of the one sentence of the refusal; None: the situation has no meaning.
    """

    def __init__(self, when: Callable[..., bool], says: str | None = None) -> None:
        self.when, self.says = cache(when), says
        self.names = [name.replace("_", " ") for name in inspect.signature(when).parameters]
        self.needed = frozenset(self.names)

    def holds(self, values: Mapping[str, str]) -> bool:
        """Whether it holds of values; not where one that it depends on is open."""
        return self.needed <= values.keys() and self.when(*map(values.get, self.names))


MEANINGLESS = [
    # What is missing at prediction is missing somewhere, and in every row if it is a column.
    Rule(lambda missing, gap_in: (missing in ("nowhere", "at fit")) != (gap_in == "no block")),
    Rule(lambda missing, gap_in: missing == "a whole column" and gap_in != "every block"),
    # Whole numbers of NumPy have no mark for a missing one.
    Rule(lambda dtype, missing: dtype == "ints" and missing not in ("nowhere", "a whole column")),
    # Arrays of numbers have no levels, and an estimator takes nothing else.
    Rule(lambda dtype, missing: missing == "unseen level" and dtype not in WITH_LEVELS),
    Rule(lambda face, missing: face == "estimator" and missing == "unseen level"),
    # A frame's model has no verb to update it; a command reads its model from a file.
    Rule(lambda face, stage: face == "bayesprop.fit" and stage == "updated"),
    Rule(
        lambda face, stage: face == "command line" and stage in ("fresh", "in threads", "in a fork")
    ),
    Rule(lambda face, task: face == "command line" and task == "several outputs"),
]
REFUSED = [
    Rule(lambda method, task: task_of(task) not in METHODS[method].homes, "(does|supports) .*only"),
    Rule(lambda size: size == "0", "0 sample|no rows"),
    Rule(lambda face, task: face == "bayesprop.fit" and task == "several outputs", "one column"),
    Rule(lambda face, dtype: face == "estimator" and dtype == "categorical", "holds text, categor"),
    Rule(lambda face, missing: face == "estimator" and missing == "a whole column", "feature"),
    Rule(
        lambda face, groups, method, task: (
            (face == "estimator" and groups != "none") and not has(method, task, KnowsGroups)
        ),
        "groups must be None for",
    ),
    Rule(
        lambda face, stage, method, task: (
            face == "estimator" and stage == "updated" and not has(method, task, Streams)
        ),
        "has no attribute 'partial_fit'",
    ),
    Rule(
        lambda stage, method, task: stage == "merged" and not has(method, task, Merges),
        "must be linear, logistic or pbp",
    ),
    Rule(lambda face, stage: face == "bayesprop.fit" and stage == "merged", "`bayesprop merge`"),
    Rule(
        lambda face, stage, dtype: (
            stage == "in a fork" and (face == "bayesprop.fit" or dtype == "polars")
        ),
        "Polars cannot be used here",
    ),
    Rule(
        lambda face, stage, method: (
            face == "estimator" and stage == "in a fork" and method not in WITHOUT_JAX
        ),
        "JAX cannot be used here",
    ),
]


def reasons(values: Mapping[str, str], rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules that hold of values, some of which may be open."""
    return [rule for rule in rules if rule.holds(values)]


def is_good(values: Mapping[str, str]) -> bool:
    """Whether values have a meaning together, and nothing is refused."""
    return not any(rule.holds(values) for rule in (*MEANINGLESS, *REFUSED))


def is_refused_once(values: Mapping[str, str]) -> bool:
    """Whether values have a meaning together, and are refused for one reason."""
    if reasons(values, MEANINGLESS):
        return False
    n, is_whole = len(reasons(values, REFUSED)), len(values) == len(FACTORS)
    return n == 1 if is_whole else n <= 1

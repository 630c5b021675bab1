"""Hyper-parameters are fields of a dataclass; an estimator's docstring describes all of them.

What many estimators share is written once, in the docstrings of the classes above them.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform

_HEADING = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")
T = TypeVar("T")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def hyper_parameters(cls: type[T]) -> type[T]:
    """Turn annotated fields into keyword-only hyper-parameters; an estimator describes them.

    Estimators are compared by identity, and shown as scikit-learn shows its own.
    """
    made = dataclass(eq=False, repr=False, kw_only=True)(cls)
    if hasattr(made, "target_kind") and not inspect.isabstract(made):
        _describe(made)
    return made


def _describe(cls: type) -> None:
    """Complete an estimator's docstring: `Parameters` in their order, `Attributes`, `Examples`.

    What the class does not say, the classes above it do.
    """
    chain = [_sections(inspect.cleandoc(one.__doc__ or "")) for one in cls.__mro__]
    words = _entries(chain, "Parameters")
    # In the order of the signature: what can be given without its name comes first.
    names = [one.name for one in sorted(fields(cast(Any, cls)), key=lambda one: bool(one.kw_only))]
    whole = chain[0] | {
        "Parameters": "\n".join(dict.fromkeys(words[name] for name in names)),
        "Attributes": "\n".join(dict.fromkeys(_entries(chain, "Attributes").values())),
        "Examples": _example(cls, [one["Examples"] for one in chain if "Examples" in one]),
    }
    order = ("Parameters", "Attributes", "Examples")
    titled = [f"{name}\n{'-' * len(name)}\n{whole[name]}" for name in order]
    cls.__doc__ = "\n\n".join([whole[""], *titled, ""])


def _example(cls: type, examples: list[str]) -> str:
    """Return the first example; of one line, how the estimator of the next one is made."""
    first = examples[0]
    if "\n" in first and first is not examples[-1]:
        return first
    made = first if "\n" not in first else f">>> model = {cls.__name__}(random_state=0)"
    shared = re.sub(r"(?<=bayesprop import )\w+", cls.__name__, examples[-1])
    return re.sub(r">>> model = .*", lambda _: made, shared)


def _sections(text: str) -> dict[str, str]:
    """Split a docstring at its headings; what stands before the first is named ""."""
    first, *rest = _HEADING.split(text)
    sections = zip(rest[::2], rest[1::2], strict=True)
    return {"": first.strip()} | {name: words.strip() for name, words in sections}


def _entries(chain: list[dict[str, str]], section: str) -> dict[str, str]:
    """Return the entry of every name that a section describes; of several, the first text's."""
    entries: dict[str, str] = {}
    for sections in chain:
        for entry in filter(None, _ENTRY.split(sections.get(section, ""))):
            for name in entry.partition(" : ")[0].split(", "):
                entries.setdefault(name, entry)
    return entries

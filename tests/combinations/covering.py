"""A covering array: few situations that hold every allowed combination of two values, or three.

One situation at a time, greedily (AETG: Cohen et al. 1997): it begins with a combination that none
holds yet, and every further value is the one that adds most new combinations. Ties go to the value
that comes first, so that the array is the same on every day.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, product

Partial = Mapping[str, str]
Combination = frozenset[tuple[str, str]]


def combinations_of(factors: Mapping[str, Sequence[str]], n: int) -> Iterator[Combination]:
    """Every choice of n factors, and of a value of each."""
    for names in combinations(factors, n):
        for values in product(*(factors[name] for name in names)):
            yield frozenset(zip(names, values, strict=True))


def completed(
    factors: Mapping[str, Sequence[str]],
    partial: Partial,
    is_allowed: Callable[[Partial], bool],
    gain: Callable[[Partial, str, str], int] = lambda *_: 0,
) -> dict[str, str] | None:
    """Choose the values that are open, those of most gain first; None: nothing is allowed.

    is_allowed
        Whether the values that are chosen may stand together; others may still be open.
    """
    if not is_allowed(partial):
        return None
    name = next((name for name in factors if name not in partial), None)
    if name is None:
        return {name: partial[name] for name in factors}
    for value in sorted(factors[name], key=lambda value: -gain(partial, name, value)):
        whole = completed(factors, {**partial, name: value}, is_allowed, gain)
        if whole is not None:
            return whole
    return None


def allowed_combinations(
    factors: Mapping[str, Sequence[str]], is_allowed: Callable[[Partial], bool], n: int = 2
) -> list[Combination]:
    """List the combinations that some allowed situation holds."""
    every = combinations_of(factors, n)
    return [one for one in every if completed(factors, dict(sorted(one)), is_allowed)]


def covering_array(
    factors: Mapping[str, Sequence[str]],
    is_allowed: Callable[[Partial], bool],
    n: int = 2,
    but: Collection[Combination] = (),
) -> list[dict[str, str]]:
    """Return allowed situations that hold every allowed combination of n values, `but` some."""
    every = allowed_combinations(factors, is_allowed, n)
    missing = dict.fromkeys(one for one in every if one not in but)

    def gain(partial: Partial, name: str, value: str) -> int:
        others = combinations(partial.items(), n - 1)
        return sum(frozenset([*some, (name, value)]) in missing for some in others)

    array = []
    while missing:
        whole = completed(factors, dict(sorted(next(iter(missing)))), is_allowed, gain)
        assert whole is not None
        array.append(whole)
        for one in combinations(whole.items(), n):
            missing.pop(frozenset(one), None)
    return array

"""`--target-kind`: what a target of numbers can be, as asked for or as its column looks."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from bayesprop.catalogue import CLASSIFICATION
from bayesprop.model.kind_guess import guessed_kind
from bayesprop.model.target_maps import COUNT, NUMBERS, POSITIVE, SHARE
from bayesprop.model.task import Standardiser
from bayesprop.table.errors import one_line
from bayesprop.table_model.listener import Listener
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import RowRequest

if TYPE_CHECKING:
    from bayesprop.table.encoding import Rows

WORDS = {
    POSITIVE: "numbers above 0",
    SHARE: "numbers between 0 and 1",
    COUNT: "whole numbers from 0 on",
}
"""What targets of a kind are, in words."""


def kind_of(
    request: RowRequest,
    target: str,
    task: str,
    train: Rows,
    listener: Listener,
    *,
    noise: Any = None,
) -> str | None:
    """Return the kind of a target of numbers, and say where it was guessed; None for classes.

    noise
        What the fit was told of the noise: a variance goes with numbers as they are only.
    """
    name = one_line(target)
    if task == CLASSIFICATION:
        if request.target_kind is not None:
            raise InputError(f"--target-kind is for numbers, and {name} holds classes")
        return None
    if request.target_kind is not None:
        return request.target_kind
    if isinstance(noise, Real):
        return NUMBERS
    x = train.filled
    kind = guessed_kind(Standardiser.fit(x).transform(x), train.y, train.weight)
    if kind != NUMBERS:
        what = f"{name} is taken for {WORDS[kind]}, and no prediction leaves them"
        listener.note(f"{what}; --target-kind numbers overrides")
    return kind

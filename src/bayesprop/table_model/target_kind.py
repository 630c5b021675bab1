"""`--target-kind`: what a target of numbers can be, as asked for or as its column looks."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from bayesprop.catalogue import CLASSIFICATION
from bayesprop.model.target_kinds import guessed_kind
from bayesprop.model.target_maps import COUNT, NUMBERS, POSITIVE, SHARE
from bayesprop.model.task import Standardiser
from bayesprop.table.errors import listing, one_line
from bayesprop.table_model.listener import Listener
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import RowRequest

if TYPE_CHECKING:
    from bayesprop.table.encoding import Rows, TableEncoding

WORDS = {
    POSITIVE: "numbers above 0",
    SHARE: "numbers between 0 and 1",
    COUNT: "whole numbers from 0 on",
}
"""What targets of a kind are, in words."""


def settings_of_kind(
    request: RowRequest,
    encoding: TableEncoding,
    train: Rows,
    listener: Listener,
    *,
    noise: Any = None,
) -> dict[str, Any]:
    """Return the hyper-parameters that say what a target can be; none for classes.

    noise
        What the fit was told of the noise: a variance goes with numbers as they are only.
    """
    kind = _kind_of(request, encoding.target_name, encoding.task, train, listener, noise)
    if request.exposure is None:
        return {} if kind is None else {"target_kind": kind}
    if kind is None or request.target_kind not in (None, COUNT):
        raise InputError("--exposure is for counts: it takes a target of numbers, of kind count")
    names = encoding.feature_names
    if request.exposure not in names:
        raise InputError(
            f"--exposure must be a column of numbers that the fit may use, got "
            f"{one_line(request.exposure)!r}; inputs: {one_line(listing(names))}"
        )
    return {"target_kind": COUNT, "exposure": names.index(request.exposure)}


def _kind_of(
    request: RowRequest,
    target: str,
    task: str,
    train: Rows,
    listener: Listener,
    noise: Any,
) -> str | None:
    """Return the kind of a target of numbers, and say where it was guessed; None for classes."""
    name = one_line(target)
    if task == CLASSIFICATION:
        if request.target_kind is not None:
            raise InputError(f"--target-kind is for numbers, and {name} holds classes")
        return None
    if request.target_kind is not None or request.exposure is not None:
        return request.target_kind or COUNT
    if isinstance(noise, Real):
        return NUMBERS
    x = train.filled
    kind = guessed_kind(Standardiser.fit(x).transform(x), train.y, train.weight)
    if kind != NUMBERS:
        listener.note(f"{name} is taken for {WORDS[kind]} (--target-kind numbers overrides)")
    return kind

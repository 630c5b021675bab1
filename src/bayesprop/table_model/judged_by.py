"""Which rows judge a fit, and the fits that are made for no other end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from bayesprop.model.progress import NothingLearntError
from bayesprop.table.division import Division
from bayesprop.table.encoding import Rows, TableEncoding
from bayesprop.table.errors import one_line
from bayesprop.table_model.frames import read_any
from bayesprop.table_model.judging import (
    UNJUDGED,
    Judged,
    NewGroups,
    cross_validated,
    of_new_groups,
)
from bayesprop.table_model.listener import Listener
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import FitRequest
from bayesprop.table_model.sources import column, fingerprint, table_name

FEW_ROWS, N_FOLDS = 300, 5
"""Rows below which a tenth of them judges nothing, and folds that judge instead."""
_FOLDS_TIME = 0.8
"""Share of the time left after the fit that folds may take."""


def is_judged_in_folds(request: FitRequest, parts: Division) -> bool:
    """Whether a tenth of the rows would judge nothing, and nothing else was asked for."""
    asked = request.test_fraction, request.test, request.time, request.shards
    is_asked = any(a is not None for a in asked)
    return not is_asked and len(parts.frame) < FEW_ROWS


def own_rows(table: Any, encoding: TableEncoding, train: Rows) -> Rows:
    """Read rows to judge by; InputError where there are none, or they are those learnt."""
    frame = read_any(table, encoding.text_columns)
    column(frame, encoding.target_name, table)
    rows = encoding.rows(frame)
    if not len(rows.y):
        raise InputError(f"--test {table_name(table)}: no row has a value of the target")
    if fingerprint(rows.y) == fingerprint(train.y):
        raise InputError(f"--test {table_name(table)} holds the rows that are learnt: name others")
    return rows


def title_of(request: FitRequest, judged: Judged, *, in_folds: bool) -> str:
    """Say which rows judge a fit."""
    rows = judged.rows
    if rows is None:
        return ""
    if in_folds:
        whole = f", divided by {one_line(request.group)}" if request.group else ""
        return f"{len(rows.y)} rows, each judged by a fit to other folds{whole}"
    if request.test is not None:
        return f"{len(rows.y)} rows of {table_name(request.test)}"
    if rows.group is not None:
        n = len(np.unique(rows.group))
        return f"{len(rows.y)} held-out rows, of {n} new values of {one_line(str(request.group))}"
    late = f", the latest by {one_line(request.time)}" if request.time else ""
    return f"{len(rows.y)} held-out rows{late}"


def judged_in_folds(
    request: FitRequest,
    parts: Division,
    make: Callable[[], Any],
    positive: int | None,
    listener: Listener,
) -> Judged:
    """Judge all rows in folds; not at all where the time is too short for one of them."""
    text = f"judging {len(parts.frame)} rows in {N_FOLDS} folds"
    with listener.doing(text, time_share=_FOLDS_TIME) as going:
        try:
            judged = cross_validated(
                parts, N_FOLDS, request.seed, make, positive, with_peers=request.with_peers
            )
        except NothingLearntError as error:
            return UNJUDGED._replace(remarks=(f"the fit is not judged: {error}",))
    if not going.cuts:
        return judged
    remark = f"judged by fits of less time than the one that is saved: {going.cuts[0]}"
    return judged._replace(remarks=(*judged.remarks, remark))


def judged_on_new_groups(
    request: FitRequest,
    parts: Division,
    judged: Judged,
    make: Callable[[], Any],
    listener: Listener,
    nominal: Collection[str] = (),
) -> NewGroups | None:
    """Judge once more on groups that were not learnt, where rows seem to have some.

    nominal
        Columns whose numbers name things.
    """
    asked = (request.group, request.time, request.test, request.shards)
    if any(a is not None for a in asked) or judged.rows is None:
        return None
    with listener.doing("looking for rows that belong together"):
        return of_new_groups(parts, request.seed, judged, make, nominal)

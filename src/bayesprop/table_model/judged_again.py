"""A fit judged again on rows of new groups, or on the latest, where a column looks as if it had to.

Nobody named a column for it: rows at random are then like those learnt, and later ones are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from bayesprop.evaluation.scores import Comparison
from bayesprop.table.column_checks import likely_group
from bayesprop.table.dates import YEARS, DateColumn
from bayesprop.table.division import Division, groups_of, latest, moments_of, whole_groups
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message, for_terminal, quoted
from bayesprop.table_model.judging import Judged, judge, learn
from bayesprop.table_model.plain_values import Scores, figure
from bayesprop.table_model.request import RowRequest

_LEAST_MOMENTS = 20


class JudgedAgain(NamedTuple):
    """How a fit does on rows of groups that it has not seen, or on later ones.

    option
        What names the column for it: "group" or "time".
    n_groups
        Of the rows judged; 0 of later ones.
    remark
        A sentence; `is_worse` where it is a warning.
    """

    column: str
    option: str
    n_groups: int
    n_rows: int
    scores: Scores
    is_worse: bool
    remark: Message

    @property
    def facts(self) -> dict[str, Any]:
        """The fields as JSON has them, the remark in words."""
        return {**self._asdict(), "remark": for_terminal(self.remark)}


class _Suspect(NamedTuple):
    """A column that rows should be held out by, and a sentence on what it seems to be.

    labels
        Group of every row; None: its moments order them.
    """

    column: str
    option: str
    seems: str
    labels: Shaped[np.ndarray, " n"] | None


def judged_again(
    request: RowRequest,
    division: Division,
    judged: Judged,
    make: Callable[[], Any],
    encoding: TableEncoding,
) -> list[JudgedAgain]:
    """Fit again without some groups, and without the latest rows, of columns that look like it."""
    choices = (request.group, request.time, request.test)
    if any(a is not None for a in choices) or judged.rows is None or judged.scores is None:
        return []
    suspects = _suspects(division, encoding)
    again = (_judged(suspect, request, division, judged, make) for suspect in suspects)
    return [one for one in again if one is not None]


def _suspects(division: Division, encoding: TableEncoding) -> Iterator[_Suspect]:
    frame, nominal = division.frame, encoding.nominal_columns
    likely = likely_group(frame, division.target.columns[0], nominal)
    if likely is not None:
        seems = f"rows of one {quoted(likely.column)} seem to belong together ({likely.why})"
        yield _Suspect(likely.column, "group", seems, groups_of(frame[likely.column]))
    dates = (one for one in encoding.columns if isinstance(one, DateColumn) and YEARS in one.parts)
    date = next((one for one in dates if not one.missing), None)
    if date is not None and frame[date.name].n_unique() >= _LEAST_MOMENTS:
        yield _Suspect(date.name, "time", f"{quoted(date.name)} says when rows came", None)


def _judged(
    suspect: _Suspect,
    request: RowRequest,
    division: Division,
    before: Judged,
    make: Callable[[], Any],
) -> JudgedAgain | None:
    if before.rows is None or before.scores is None:
        return None
    (name, option, seems, labels), n = suspect, len(before.rows.y)
    try:
        if labels is None:
            is_test = latest(moments_of(division.frame[name]), n, name)
        else:
            is_test = whole_groups(labels, n, request.seed, name)
        again = division._replace(is_test=is_test)
        encoding, estimator = again.encoding(), make()
        train, test = again.encoded(encoding)
        learn(estimator, train)
        new = judge(estimator, encoding, train, test)
    except ValueError as error:  # what can be learnt of all groups may not of some
        which = "new ones" if labels is not None else "later rows"
        reason = for_terminal(error)
        remark = Message.of("again.unjudged", name, seems=seems, which=which, reason=reason)
        return JudgedAgain(name, option, 0, 0, {}, is_worse=False, remark=remark)
    if new.scores is None:
        return None
    unsure = [one.errors.get("log_likelihood", np.inf) for one in (before, new)]
    worse = before.scores["model"]["log_likelihood"] - new.scores["model"]["log_likelihood"]
    is_worse = worse > 0.0 and Comparison(worse, float(np.linalg.norm(unsure))).is_clear
    n_groups = 0 if labels is None else len(np.unique(labels[is_test]))
    remark = _remark(suspect, n_groups, len(test.y), before.scores, new.scores, is_worse)
    return JudgedAgain(name, option, n_groups, len(test.y), new.scores, is_worse, remark)


def _remark(
    suspect: _Suspect, n_groups: int, n_rows: int, before: Scores, new: Scores, is_worse: bool
) -> Message:
    key, what = "accuracy", "accuracy"
    if "coverage_90" in new["model"]:
        key, what = "coverage_90", "share inside 90 % intervals"
    figures = ", ".join(
        f"{label} {figure(new['model'][one])} (rows at random: {figure(before['model'][one])})"
        for one, label in ((key, what), ("log_likelihood", "log-likelihood"))
    )
    if not is_worse:
        none = "are predicted no worse than rows at random, as far as their log-likelihood can tell"
        kind = "later rows, by" if suspect.labels is None else "rows of new"
        text = f"{kind} {quoted(suspect.column)} {none}: {figures}"
        return Message.of("said", suspect.column, text=text)
    which, those = f"{n_rows} rows of {n_groups} that were not learnt", "of new ones"
    if suspect.labels is None:
        which, those = f"the {n_rows} latest rows, by a fit to those before", "later ones"
    own = {"seems": suspect.seems, "which": which, "figures": figures, "those": those}
    return Message.of(f"again.{suspect.option}", suspect.column, **own)

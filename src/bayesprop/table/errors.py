"""What is said of a table, a data file or a data set: errors, each in one line, and remarks.

What is to be remarked on several columns is said once.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import polars as pl

MOST_PROBLEMS = 20
"""That one error lists; of more it says how many."""
OPTIONS = {
    "hidden_layer_sizes": "--hidden",
    "n_epochs": "--epochs",
    "batch_size": "--batch-size",
    "inference": "--inference",
    "target_kind": "--target-kind",
    "exposure": "--exposure",
    "order": "--order",
    "random_state": "--seed",
}
"""Options of hyper-parameters, by which messages name them."""
_ARGUMENTS = {flag: name for name, flag in OPTIONS.items()} | {
    "--seed": "seed",
    "--kind": "kinds",
    "--with": "known",
}
CORRECT_IT = "correct it, or leave it empty if it is missing"
_SHOWN_VALUES, _SHOWN_ROWS = 3, 5
_MOST_NAMES = 8


_ROW_NAME: ContextVar[Callable[[int], str]] = ContextVar("row_name", default=lambda k: str(k + 1))


@contextmanager
def rows_called(name: Callable[[int], str]) -> Iterator[None]:
    """Let messages call rows, by their places from 0, as they are in the table of a sample."""
    token = _ROW_NAME.set(name)
    try:
        yield
    finally:
        _ROW_NAME.reset(token)


def row_name(place: int) -> str:
    """Return what messages call the row at a place, from 0: its number, unless it is a sample's."""
    return _ROW_NAME.get()(place)


class Worded(Exception):
    """An error or warning whose sentence names options of the command line.

    `str` names arguments of Python instead, `sentence_of` has it for the terminal.
    """

    def __str__(self) -> str:
        return python_words(super().__str__())


def python_words(text: str) -> str:
    """Name arguments instead of options: "--test-fraction" is `test_fraction`."""
    text = text.replace("--set ", "")
    text = re.sub(r"--kind ('[^']*')=(\w+)", r"kinds={\1: '\2'}", text)
    return re.sub(
        r"--[a-z][a-z-]*", lambda m: _ARGUMENTS.get(m[0], m[0][2:].replace("-", "_")), text
    )


def sentence_of(error: BaseException) -> str:
    """Return the text of an error or warning for the terminal."""
    return Exception.__str__(error) if isinstance(error, Worded) else str(error)


class TableError(Worded, ValueError):
    """A table or data set that cannot be used: where, the rule, what was found, the remedy.

    problems
        All that is wrong, a line each.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The first problems, and how many more there are."""
        n_more = len(self.problems) - MOST_PROBLEMS
        shown = self.problems[:MOST_PROBLEMS]
        return (*shown, f"and {counted(n_more, 'more problem')}") if n_more > 0 else shown


class TableWarning(Worded, UserWarning):
    """Something was decided about a table that its owner should know."""


def warn(sentence: str) -> None:
    """Say a sentence as a TableWarning of whoever called the caller."""
    warnings.warn(sentence, TableWarning, stacklevel=3)


def together(*steps: Callable[[], Any], first: Iterable[str] = ()) -> list[Any]:
    """Return the results of all steps, or raise one TableError with the problems of all.

    first
        Problems that are known before.
    """
    results, problems = [], list(first)
    for step in steps:
        try:
            results.append(step())
        except TableError as error:
            problems += error.problems
    if problems:
        raise TableError(*problems)
    return results


def quoted(name: object, at_most: int = 60) -> str:
    """Return text from the data fit for a one-line message: quoted, escaped, shortened."""
    text = str(name)
    return repr(text if len(text) <= at_most else text[: at_most - 3] + "...")


def listed(names: Sequence[str], at_most: int = 5) -> str:
    """Join a few names for a message, quoted, and count the others."""
    return some_of([*map(quoted, names)], at_most)


def some_of(words: Sequence[str], at_most: int) -> str:
    """Join a few words and count the others."""
    shown, n_more = ", ".join(words[:at_most]), len(words) - at_most
    return f"{shown} and {n_more} more" if n_more > 0 else shown


def at_rows(values: pl.Series, wrong: pl.Series) -> str:
    """Return "'x' in data row 3, 'y' in data rows 5, 8 and 2 more" of the values that are wrong."""
    rows: dict[str, list[int]] = {}
    places = wrong.fill_null(False).arg_true()
    for place, value in zip(places.to_list(), values.gather(places).to_list(), strict=True):
        number = f"{value:g}" if isinstance(value, float) else quoted(value)
        text = "no value" if value is None else number
        rows.setdefault(text, []).append(place)
    shown = [f"{text} in data {_numbered(at)}" for text, at in rows.items()]
    n_more = sum(map(len, list(rows.values())[_SHOWN_VALUES:]))
    more = [f"other values in {counted(n_more, 'row')}"] if n_more else []
    return ", ".join([*shown[:_SHOWN_VALUES], *more])


def _numbered(places: Sequence[int]) -> str:
    """Return "row 3", "rows 3, 5 and 8 more"."""
    rows = "row" if len(places) == 1 else "rows"
    return f"{rows} {some_of([*map(row_name, places)], _SHOWN_ROWS)}"


def counted(n: int, singular: str) -> str:
    """Return "1 row", "3 rows"."""
    return f"{n} {singular if n == 1 else singular + 's'}"


def one_line(text: str) -> str:
    """Join lines and make control characters visible: a file's text cannot drive a terminal."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in joined)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'price'?" for a word close to a known one, in whatever case."""
    words = {one.casefold(): one for one in reversed([*known])}
    close = difflib.get_close_matches(word.casefold(), words, n=1, cutoff=0.6)
    return f"; did you mean {words[close[0]]!r}?" if close else ""


def listing(words: Sequence[str], at_most: int = 12) -> str:
    """Join words for a message, leaving most of a long list out."""
    shown = ", ".join(words[:at_most])
    return f"{shown}, ... ({len(words)} in all)" if len(words) > at_most else shown


class Remark(str):
    """A sentence on one column, which others may share.

    shared
        What stands before the names where it is said of several columns.
    name
        The column as it is listed there, perhaps with a detail: "'age' 3".
    """

    shared: str
    name: str

    def __new__(cls, sentence: str, shared: str, column: str, detail: object = "") -> Self:
        """Make a sentence that begins "column 'age'" from what comes then."""
        text, name = f"column {quoted(column)}{sentence}", f"{quoted(column)} {detail}".rstrip()
        return cls._made(text, shared, name)

    @classmethod
    def _made(cls, text: str, shared: str, name: str) -> Self:
        made = super().__new__(cls, text)
        made.shared, made.name = shared, name
        return made

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[str, str, str]]:
        """Copy and pickle it with its parts."""
        return self._made, (str(self), self.shared, self.name)


class StrayError(TableError):
    """Values of one column that are not what the column holds, such as words among numbers.

    holds
        What the others are: numbers, dates or times.
    stray
        Which values these are, a mask.
    remark
        What is said where they are taken for missing instead.
    """

    def __init__(self, series: pl.Series, holds: str, stray: pl.Series, remedy: str) -> None:
        where = at_rows(series, stray)
        self.holds, self.stray = holds, stray.fill_null(value=False)
        self.remark = Remark(
            f" holds {holds}, but {where}: taken for missing",
            "with values that are not understood, taken for missing",
            series.name,
            f"({where})",
        )
        super().__init__(f"column {quoted(series.name)} must hold {holds}, got {where}: {remedy}")


def joined(sentences: Iterable[str]) -> list[str]:
    """Return sentences in their order, and one for all remarks of several columns that share it."""
    groups: dict[str, list[str]] = {}
    for sentence in sentences:
        key = sentence.shared if isinstance(sentence, Remark) else sentence
        groups.setdefault(key, []).append(sentence)
    return [_of_all(shared, group) for shared, group in groups.items()]


def _of_all(shared: str, group: list[str]) -> str:
    if len(group) == 1 or not all(isinstance(one, Remark) for one in group):
        return group[0]
    names = [one.name for one in group if isinstance(one, Remark)]
    return f"{len(group)} columns {shared}: {some_of(names, _MOST_NAMES)}"


def left_out_rows(n: int, target: str, n_limits: int = 0) -> list[str]:
    """Return sentences on rows without a target, and on those of a wider limit, if any."""
    reasons = {"no value of": n, "a wider limit than the one that counts, of": n_limits}
    return [
        f"{counted(rows, 'row')} left out: {reason} the target {quoted(target)}"
        for reason, rows in reasons.items()
        if rows
    ]

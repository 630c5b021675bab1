"""Messages on a table, a data file or a data set: remarks, and errors of one line a problem.

A message is data; `messages.toml` words it. The remarks of several columns that share one become
one.
"""

from __future__ import annotations

import difflib
import math
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    import numpy as np
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
_OPTIONS = {
    **OPTIONS,
    "kinds": "--kind",
    "known": "--with",
    "goal": "--maximise or --minimise",
    "ranges": "--range",
    "requires": "--require",
}
"""Options whose names are not those of their arguments."""
_LISTS = ("drop", "missing", "order", "known")
"""Arguments that take a list."""
_SHOWN_VALUES, _SHOWN_ROWS = 3, 5
_MOST_NAMES = 8
_EACH = "of each"
"""Value of a message on several columns: their names, with what is said of each."""
_COLUMNS = ("target", "group", "time", "weights", "exposure", "drop")
"""Arguments that name columns."""


_ROW_NAME: ContextVar[Callable[[int], str]] = ContextVar("row_name", default=lambda k: str(k + 1))


@contextmanager
def rows_called(name: Callable[[int], str]) -> Iterator[None]:
    """Let messages call rows, by their places from 0, as they are in the table of a sample."""
    token = _ROW_NAME.set(name)
    try:
        yield
    finally:
        _ROW_NAME.reset(token)


def rows_of(places: np.ndarray) -> AbstractContextManager[None]:
    """Let messages call rows of a part, by their places in the whole, as they would call those."""
    whole = _ROW_NAME.get()
    return rows_called(lambda row: whole(int(places[row])))


def row_name(place: int) -> str:
    """Return what messages call the row at a place, from 0: its number, unless it is a sample's."""
    return _ROW_NAME.get()(place)


@dataclass(frozen=True)
class Message:
    """A remark or a problem, as data: `str` words it for Python, `terminal` for the command line.

    code
        Of its words, in `messages.toml`. In those, {column} and {columns} are quoted and
        {n:row} counts rows; {text:q} quotes a text, and {meant:meant} asks whether it was meant.
        {arg.drop:age} is an argument of the user: drop=['age'], or --drop age.
    columns
        That it is about.
    values
        Whatever else its words name.
    """

    code: str
    columns: tuple[str, ...] = ()
    values: dict[str, str | int | float | bool] = field(default_factory=dict)

    @classmethod
    def of(cls, code: str, *columns: str, **values: Any) -> Message:
        """Make one; values that are neither text, numbers nor truth values are written as text."""
        plain = (str, int, float, bool)
        values = {k: getattr(one, "item", lambda one=one: one)() for k, one in values.items()}
        values = {k: one if type(one) in plain else str(one) for k, one in values.items()}
        return cls(code, tuple(map(str, columns)), values)

    def __hash__(self) -> int:
        return hash((self.code, self.columns))

    def __str__(self) -> str:
        return self.words()

    @property
    def terminal(self) -> str:
        """The words for the command line."""
        return self.words(is_terminal=True)

    def words(self, form: str = "one", is_terminal: bool = False) -> str:
        """Fill in the words of a form: "one", or of several columns "several" and "each"."""
        fields: dict[str, Any] = {name: _Value(value) for name, value in self.values.items()}
        fields |= {"column": _Columns(self.columns[:1]), "columns": _Columns(self.columns)}
        fields["arg"] = _Arguments(is_terminal)
        if "settings" in self.values:
            settings = str(self.values["settings"]).split(", ")
            words = [f"{_Argument(name, is_terminal)}" for name in settings]
            fields["settings"] = ", ".join(words)
        forms = _texts()[self.code]
        is_of_several = _EACH in self.values and "several" in forms
        if "problem" in self.values:
            own = {k: v for k, v in self.values.items() if k != "problem"}
            if is_of_several:
                del own[_EACH]
            text = Message(str(self.values["problem"]), self.columns, own).words("one", is_terminal)
            is_said = forms["one"].startswith("column {column} ")
            before = f"column {quoted(self.columns[0])} " if is_said else ""
            fields["problem"] = text.removeprefix(before)
        text = forms["several" if is_of_several else form].format_map(fields)
        if is_of_several:
            return f"{len(self.columns)} columns {text}: {self.values[_EACH]}"
        return text

    def within(self, code: str, **values: Any) -> Message:
        """Return a message in whose words these are {problem}."""
        return Message.of(code, *self.columns, **self.values, **values, problem=self.code)

    def validate(self) -> None:
        """Raise ValueError unless there are words for it and values, finite, for these."""
        try:
            numbers = (one for one in self.values.values() if not isinstance(one, str))
            if not all(-math.inf < one < math.inf for one in numbers):
                raise ValueError(f"a message {self.code!r} must have finite values")
            self.words()
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"no message {self.code!r} has values {[*self.values]}") from error


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Read the words of every code, by form."""
    import tomllib
    from importlib import resources

    content = resources.files("bayesprop.table").joinpath("messages.toml").read_text("utf-8")
    return {
        code: {"one": text} if isinstance(text, str) else {"each": "", **text}
        for code, text in tomllib.loads(content).items()
    }


@dataclass(frozen=True)
class _Value:
    """A value that words name."""

    value: str | float

    def __format__(self, how: str) -> str:
        value = self.value
        if how == "meant":
            return f"; did you mean {value!r}?" if value else ";"
        if how == "q":
            return quoted(value)
        if isinstance(value, int) and how.replace(" ", "").isalpha() and len(how) > 1:
            return counted(value, how)
        return value if isinstance(value, str) else format(value, how)


@dataclass(frozen=True)
class _Columns:
    """Names of columns, of many only a few; or the first name unquoted."""

    names: tuple[str, ...]

    def __format__(self, how: str) -> str:
        return self.names[0] if how == "raw" else listed(self.names, int(how or 5))


@dataclass(frozen=True)
class _Arguments:
    """What a user says to a verb, by the names of arguments."""

    is_terminal: bool

    def __getattr__(self, name: str) -> _Argument:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Argument(name, self.is_terminal)


class _Argument(NamedTuple):
    """An argument; with a value after ":", as it is to be typed."""

    name: str
    is_terminal: bool

    def __format__(self, value: str) -> str:
        name = self.name
        if self.is_terminal:
            option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
            return f"{option} {shlex.quote(value)}" if value else option
        if not value:
            return name
        if name == "set":
            return value
        if name in ("kinds", "std_of"):
            column, _, own = value.rpartition("=")
            return f"{name}={ {column: 0 if own == '0' else own} }"
        if name in _LISTS:
            return f"{name}={value.split(',')}" if name == "order" else f"{name}={[value]}"
        is_number = name not in _COLUMNS and _is_number(value)
        return f"{name}={value if is_number else repr(value)}"


def _is_number(text: str) -> bool:
    try:
        return bool(float(text) or True)
    except ValueError:
        return False


Said = Message | str
"""A message; or a sentence of a method or a library, which names no argument."""


def for_terminal(said: Said | BaseException) -> str:
    """Return the text of a message, an error or a warning for the terminal."""
    if isinstance(said, TableError):
        return "\n".join(said.terminal_lines)
    if isinstance(said, TableWarning):
        said = said.args[0]
    if isinstance(said, BaseException):
        said = Exception.__str__(cast(Exception, said))
    return said.terminal if isinstance(said, Message) else said


class TableError(ValueError):
    """A table or data set that cannot be used: where, the rule, what was found, the remedy.

    problems
        All that is wrong, a line each.
    """

    def __init__(self, *problems: Said) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(*self.problems)

    def __str__(self) -> str:
        return "\n".join(self._first(str))

    @property
    def first(self) -> Message:
        """The first problem, as a message."""
        first = self.problems[0]
        return first if isinstance(first, Message) else Message.of("said", text=first)

    @property
    def terminal_lines(self) -> list[str]:
        """The lines for the command line."""
        return self._first(for_terminal)

    def _first(self, words: Callable[[Said], str]) -> list[str]:
        """Return the first problems, and how many more there are."""
        shown = [*map(words, self.problems[:MOST_PROBLEMS])]
        n_more = len(self.problems) - MOST_PROBLEMS
        return [*shown, f"and {counted(n_more, 'more problem')}"] if n_more > 0 else shown


class TableWarning(UserWarning):
    """Something was decided about a table that its owner should know: a message."""


def warn(message: Message) -> None:
    """Issue a message as a TableWarning at the caller of the caller."""
    warnings.warn(TableWarning(message), stacklevel=3)


def together(*steps: Callable, first: Iterable[Said] = ()) -> list:
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


def close_to(word: str, known: Iterable[str]) -> str:
    """Return the known word that is closest to one, in whatever case; empty where none is close."""
    words = {one.casefold(): one for one in reversed([*known])}
    close = difflib.get_close_matches(word.casefold(), words, n=1, cutoff=0.6)
    return words[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'price'?" for a word close to a known one."""
    close = close_to(word, known)
    return f"; did you mean {close!r}?" if close else ""


def listing(words: Sequence[str], at_most: int = 12) -> str:
    """Join words for a message, leaving most of a long list out."""
    shown = ", ".join(words[:at_most])
    return f"{shown}, ... ({len(words)} in all)" if len(words) > at_most else shown


class StrayError(TableError):
    """Values of one column that are not what the column holds, such as words among numbers.

    stray
        Which values these are, a mask.
    remark
        What is said where they are taken for missing instead.
    """

    def __init__(
        self, series: pl.Series, holds: str, stray: pl.Series, code: str = "stray"
    ) -> None:
        self.holds, self.stray = holds, stray.fill_null(value=False)
        own = {"holds": holds, "where": at_rows(series, stray)}
        self.remark = Message.of("stray.missing", series.name, **own)
        super().__init__(Message.of(code, series.name, **own))


def joined(messages: Iterable[Message]) -> list[Message]:
    """Return messages in their order, and one for all remarks of several columns that share it."""
    groups: dict[str, list[Message]] = {}
    for one in messages:
        is_shared = "several" in _texts()[one.code] and len(one.columns) == 1
        key = one.words("several") if is_shared else str(one)
        groups.setdefault(f"{one.code} {key}", []).append(one)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: list[Message]) -> Message:
    first = group[0]
    if len(group) == 1 or len(first.columns) != 1 or "several" not in _texts()[first.code]:
        return first
    names = [f"{quoted(one.columns[0])} {one.words('each')}".rstrip() for one in group]
    values = {**first.values, _EACH: some_of(names, _MOST_NAMES)}
    return Message(first.code, tuple(one.columns[0] for one in group), values)


def left_out_rows(n: int, target: str, n_limits: int = 0) -> list[Message]:
    """Return remarks on rows without a target, and on those of a wider limit, if any."""
    counts = {"left_out.no_target": n, "left_out.wider_limit": n_limits}
    return [Message.of(code, target, n=rows) for code, rows in counts.items() if rows]


class InputError(TableError):
    """What the user asked for or gave cannot be used; the message is one line."""


@contextmanager
def refusals_of_estimator(*kinds: type[Exception]) -> Iterator[None]:
    """Tell the refusals of an estimator (a bad hyper-parameter) from failures of the program."""
    try:
        yield
    except TableError:
        raise
    except kinds as error:
        raise InputError(one_line(str(error))) from error

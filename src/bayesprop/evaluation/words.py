"""Numbers and names as a person reads them: few digits, real minus signs, nothing hostile."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

_NBSP = "\N{NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with so many significant digits.

    >>> print(number(53.987), number(-0.00123), number(1234567.0), number(0.0), sep=" | ")
    54.0 | −0.00123 | 1,230,000 | 0
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    if value == 0.0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 <= power < 7:
        return fixed(value, digits - 1 - power)
    return f"{mantissa} {times_ten(power)}".replace(" ", _NBSP).replace("-", _MINUS)


def times_ten(power: int) -> str:
    """Write a factor: "× 10³"."""
    return f"× 10{str(power).translate(_SUPERSCRIPT)}"


def value(data: float) -> str:
    """Write a number of the user's own: four digits or all before the point, and no idle zeros.

    >>> value(286.0), value(0.12345), value(-2.0), value(149850.3)
    ('286', '0.1235', '−2', '149,850')
    """
    if 1e4 <= abs(data) < 1e7:
        return fixed(data, 0)
    text = number(data, 4)
    if "." in text and "10" not in text.partition("×")[2]:
        text = text.rstrip("0").rstrip(".")
    return text


def fixed(exact: float, decimals: int) -> str:
    """Write a number with thousands separators, and so many decimals; −2 rounds to hundreds.

    >>> fixed(-1234.56, 1), fixed(1234.56, -2)
    ('−1,234.6', '1,200')
    """
    rounded = round(exact, decimals)
    text = f"{abs(rounded):,.{max(decimals, 0)}f}"
    return f"{_MINUS}{text}" if rounded < 0 else text


def alike(values: Sequence[float], scale: float, digits: int = 2) -> list[str]:
    """Write numbers with one count of decimals: so many significant digits of `scale`.

    >>> alike([151.23, 66.01, 7.2], scale=54.0), alike([151230.0, 66010.0], scale=54000.0)
    (['151', '66', '7'], ['151,000', '66,000'])
    """
    largest = max((abs(v) for v in (*values, scale) if math.isfinite(v)), default=0.0)
    if not (math.isfinite(scale) and scale >= 1e-4 and largest < 1e7):
        return [number(v, digits + 1) for v in values]
    decimals = digits - 1 - math.floor(math.log10(scale))
    return [fixed(v, decimals) if math.isfinite(v) else number(v) for v in values]


def percent(share: float, decimals: int = 0) -> str:
    """Write a share as a percentage; a positive one never reads as zero, nor one below 1 as 100.

    >>> [percent(share).replace(_NBSP, " ") for share in (0.894, 0.0004, 0.9999)]
    ['89 %', '< 1 %', '> 99 %']
    """
    if math.isnan(share):
        return "–"
    least = 10.0**-decimals / 100.0
    if 0.0 < share < least / 2.0:
        return f"< {fixed(100.0 * least, decimals)} %".replace(" ", _NBSP)
    if 1.0 - least / 2.0 < share < 1.0:
        return f"> {fixed(100.0 * (1.0 - least), decimals)} %".replace(" ", _NBSP)
    return f"{fixed(100.0 * share, decimals)}{_NBSP}%"


def label(text: object, width: int = 60) -> str:
    r"""Make text from data fit to print: one line, nothing invisible, at most `width` characters.

    Control and formatting characters (which can reverse a line or end a document) become spaces.

    >>> label("age\n(years)"), label("a" * 9, width=6)
    ('age (years)', 'aaaaa…')
    """
    clean = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in str(text))
    clean = " ".join(clean.split()) or "(blank)"
    return clean if len(clean) <= width else clean[: width - 1].rstrip() + "…"


def with_unit(text: str, unit: str | None) -> str:
    """Append a unit, where there is one short enough to stand in a sentence."""
    return f"{text}{_NBSP}{unit}" if unit and len(unit) <= 20 else text


def join(items: Sequence[str]) -> str:
    """List items in a sentence.

    >>> join(["a", "b", "c"])
    'a, b and c'
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def plural(count: int, noun: str) -> str:
    """Count things.

    >>> [plural(count, "row").replace(_NBSP, " ") for count in (1, 2500)]
    ['1 row', '2,500 rows']
    """
    return f"{count:,}{_NBSP}{noun}{'' if count == 1 else 's'}"

"""A number as people read it on a terminal. Light, because `--help` imports it."""

from __future__ import annotations

_MANY = 1e6


def few_digits(value: float, digits: int = 4) -> str:
    """Write a number with so many significant digits, below a million without powers of ten.

    >>> few_digits(38321.7), few_digits(-1234.0), few_digits(0.5, 2), few_digits(2.5e6)
    ('38,320', '-1,234', '0.50', '2.500e+06')
    """
    text = f"{value:#,.{digits}g}".rstrip(".")
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < _MANY else text

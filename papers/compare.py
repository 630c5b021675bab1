"""Our means beside the paper's: standard errors, rounding of what was printed, differences."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

_PRINTED = re.compile(r"(?P<mean>-?\d+\.?(?P<mean_digits>\d*))±(?P<se>NA|\d+\.?(?P<se_digits>\d*))")
FLAG_AT = 2.0


@dataclass(frozen=True)
class Estimate:
    """A mean over splits.

    se
        Its standard error, sd (ddof 1) / sqrt(n); None for one split.
    n
        Splits with a finite value.
    """

    mean: float
    se: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Estimate:
        """Average the finite values; NaN where there is none."""
        finite = [v for v in values if v is not None]
        if not finite:
            return cls(math.nan, None, 0)
        se = stdev(finite) / math.sqrt(len(finite)) if len(finite) > 1 else None
        return cls(fmean(finite), se, len(finite))


@dataclass(frozen=True)
class Published:
    """A mean as a paper prints it.

    text
        "0.098±0.0007"; the standard error may be NA.
    mean, se
        The numbers; se is None for NA.
    mean_rounding, se_rounding
        Half a unit of the last digit printed.
    """

    text: str
    mean: float
    se: float | None
    mean_rounding: float
    se_rounding: float

    @classmethod
    def parse(cls, text: str) -> Published:
        """Read "mean±se"."""
        found = _PRINTED.fullmatch(text)
        if found is None:
            raise ValueError(f"a published mean must read mean±se, got {text!r}")
        is_known = found["se"] != "NA"
        return cls(
            text=text,
            mean=float(found["mean"]),
            se=float(found["se"]) if is_known else None,
            mean_rounding=_half_unit(found["mean_digits"]),
            se_rounding=_half_unit(found["se_digits"]) if is_known else 0.0,
        )


@dataclass(frozen=True)
class Difference:
    """Ours minus the paper's, in combined standard errors; None where a standard error is unknown.

    plain
        Over sqrt(se_ours² + se_paper²), the printed figures taken as exact.
    rounded
        Half a unit of the last printed digit of the mean and of the standard error added to that
        root as two more independent errors. A standard error printed as 0.0000 makes `plain`
        meaningless.
    """

    plain: float | None
    rounded: float | None

    @property
    def is_flagged(self) -> bool:
        """Whether the figures differ by more than two combined standard errors."""
        return self.rounded is not None and not abs(self.rounded) <= FLAG_AT


def difference(ours: Estimate, paper: Published) -> Difference:
    """Compare a mean of ours with a printed one."""
    if ours.se is None or paper.se is None:
        return Difference(None, None)
    gap = ours.mean - paper.mean
    printed = math.hypot(ours.se, paper.se)
    widened = math.hypot(printed, paper.mean_rounding, paper.se_rounding)
    return Difference(_ratio(gap, printed), _ratio(gap, widened))


def anchors(file: str) -> dict[str, dict[str, str]]:
    """Read a file of published figures: for each data set, column name to printed text."""
    text = (Path(__file__).with_name("anchors") / file).read_text("utf-8")
    return {record.pop("dataset"): record for record in csv.DictReader(text.splitlines())}


def _half_unit(digits: str) -> float:
    return 0.5 * 10.0 ** -len(digits)


def _ratio(gap: float, error: float) -> float:
    return gap / error if error > 0.0 else math.copysign(math.inf, gap) if gap else 0.0

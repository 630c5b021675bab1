"""What simpler models say of a fit: one rule, from all paired differences of scores at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bayesprop.report.scores import Lead

CONSTANT_BETTER, CONSTANT_LEVEL = "a constant is better", "a constant is as good"
LINE_BETTER, LINE_LEVEL = "a line is better", "a line is as good"


class Advice(NamedTuple):
    """What is said of one model beside the fit.

    evidence
        The difference that the sentence cites.
    columns_tell
        Whether any model is ahead of the constant.
    """

    code: str
    name: str
    evidence: Lead
    columns_tell: bool = False


def side(leads: Sequence[Lead]) -> str:
    """Return who is better by several scores: "ahead", "behind", "level", or "" where they differ.

    A score decides beyond two standard errors.
    """
    signs = {by.gain > 0.0 for _, _, by in leads if by.is_clear}
    if len(signs) != 1:
        return "" if signs or not leads else "level"
    return "ahead" if True in signs else "behind"


def advise(
    over: Mapping[str, Sequence[Lead]],
    over_constant: Mapping[str, Sequence[Lead]],
    lines: Sequence[str],
) -> Advice | None:
    """Choose what is said of the constant, or of a line; None for nothing.

    A constant is as good as the model only where no line is ahead of it. A line that is level with
    the model is advised within one standard error (Breiman et al. 1984, section 3.4.3), where it is
    no worse than the constant.

    over
        Leads of the model over every other one, by name.
    over_constant
        Leads of the others over the constant.
    lines
        Those that may be advised.
    """
    constant = side(over.get("constant", ()))
    useful = [n for n in lines if n in over and "ahead" in (constant, side(over_constant[n]))]
    tell = "ahead" in (constant, *map(side, over_constant.values()))
    for name in useful:
        if side(over[name]) == "behind":
            return Advice(LINE_BETTER, name, _evidence(over[name]), tell)
    if constant == "behind" or (constant == "level" and not useful):
        code = CONSTANT_BETTER if constant == "behind" else CONSTANT_LEVEL
        return Advice(code, "constant", _evidence(over["constant"]), tell)
    for name in useful:
        if side(over[name]) == "level" and all(by.gain <= by.error for _, _, by in over[name]):
            return Advice(LINE_LEVEL, name, _evidence(over[name]), tell)
    return None


def _evidence(leads: Sequence[Lead]) -> Lead:
    return next((lead for lead in leads if lead.by.is_clear), leads[0])

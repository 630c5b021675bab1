"""Compare two models in words, by one rule on all paired differences of their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.evaluation.baselines import SIMPLE
from bayesprop.evaluation.scores import Comparison, Lead, Rival, in_words, rivals
from bayesprop.evaluation.words import join, number
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import Message, Said, counted


def side(leads: Sequence[Lead]) -> str:
    """Return who is better by several scores: "ahead", "behind", "level", or "" where they differ.

    A score decides beyond two standard errors.
    """
    signs = {by.gain > 0.0 for _, _, by in leads if by.is_clear}
    if len(signs) != 1:
        return "" if signs or not leads else "level"
    return "ahead" if True in signs else "behind"


def compare_in_words(rival: Rival, name: str, unit: str = "", model: str = "this model") -> str:
    """Word which of a model and a rival is better, and by which scores."""
    clear = [lead for lead in rival.leads if lead.by.is_clear]
    better, worse = (
        join([in_words(lead, unit) for lead in clear if (lead.by.gain > 0.0) == is_ahead])
        for is_ahead in (True, False)
    )
    if better and worse:
        return f"{model} is better than {name} in {better}, and worse in {worse}"
    if better or worse:
        one, other = (model, name) if better else (name, model)
        who = f"{one} predicts these rows better than {other}"
        return f"{who}, beyond two standard errors: {better or worse}"
    return f"{model} and {name} do not differ significantly on these rows"


def advise(models: Mapping[str, Distribution], rows: EncodedRows, method: str) -> list[Said]:
    """Word which models are better than "model", or equal: constant, linear, reference models.

    A constant is as good as the model only where no line is ahead of it. A line that is level with
    the model is advised within one standard error (Breiman et al. 1984, section 3.4.3), where it is
    no worse than the constant; none is where the `method` of the model is one.
    """
    over = {one.name: one for one in rivals(models, rows.y, rows.group)}
    sides = {name: side(one.leads) for name, one in over.items()}
    pairs = {name: {"model": models[name], "constant": models["constant"]} for name in over}
    others = {name: rivals(pair, rows.y, rows.group) for name, pair in pairs.items()}
    ahead = {name for name, some in others.items() if any(side(x.leads) == "ahead" for x in some)}
    constant = sides.get("constant", "")
    lines = [n for n in SIMPLE[1:] if n in over and (constant == "ahead" or n in ahead)]
    lines = [] if method in SIMPLE else lines
    said: list[Said] = []
    if better := next((name for name in lines if sides[name] == "behind"), ""):
        said = [_line(over[better], "better")]
    elif constant == "behind" or (constant == "level" and not lines):
        said = [_constant(over["constant"], models["model"], rows, columns_tell=bool(ahead))]
    elif level := next((name for name in lines if _is_as_good(over[name])), ""):
        said = [_line(over[level], "as well on these rows")]
    reference = (one for one in over.values() if one.is_reference and sides[one.name] == "behind")
    return [*said, *(compare_in_words(one, one.title) for one in reference)]


def _is_as_good(line: Rival) -> bool:
    return side(line.leads) == "level" and all(by.gain <= by.error for _, _, by in line.leads)


def _line(line: Rival, how: str) -> Message:
    return Message.of("advice.line", name=line.name, how=how, gap=_gap(line))


def _gap(rival: Rival) -> str:
    """Cite the first score that decides, else the first."""
    lead = next((lead for lead in rival.leads if lead.by.is_clear), None)
    if lead is None:
        return f"they differ in {in_words(rival.leads[0])}"
    return f"the model is {'ahead' if lead.by.gain > 0.0 else 'behind'} in {in_words(lead)}"


def _constant(
    constant: Rival, model: Distribution, rows: EncodedRows, *, columns_tell: bool
) -> str:
    group, y = rows.group, rows.y
    one, n = ("row", len(y)) if group is None else ("group", len(np.unique(group)))
    is_better = side(constant.leads) == "behind"
    better = f"A CONSTANT PREDICTS BETTER THAN THE MODEL ({_gap(constant)})"
    level = f"on {counted(n, one)} ({_gap(constant)})"
    claim = better if is_better else f"A CONSTANT PREDICTS AS WELL AS THE MODEL, {level}"
    if (area := _area_above_chance(model, y)) is not None:
        return (
            f"{claim}: the columns do rank the rows (area under the ROC curve {number(area)}), but"
            " the probabilities are miscalibrated, for example because a class has few rows or"
            " because of weights"
        )
    if columns_tell:
        return f"{claim}: the columns are informative, because another model beats the constant"
    if is_better:
        return f"{claim}: the columns do not predict the target"
    if group is None:
        return f"{claim}: there are too few rows, or the columns do not predict the target"
    return (
        f"{claim}: there are too few groups, the columns do not predict the target in new groups,"
        " or error bars are too narrow there"
    )


def _area_above_chance(model: Distribution, y: np.ndarray) -> float | None:
    """Return the area under the curve of one of two classes; None where it may be chance."""
    if not isinstance(model, ClassPredictive) or len(model.classes) != 2:
        return None
    summary = metrics.summary(model, y)
    area, error = summary.values["roc_auc"], summary.errors.get("roc_auc", np.inf)
    return area if area > 0.5 and Comparison(area - 0.5, error).is_clear else None

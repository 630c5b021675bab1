"""Held-out metrics beside those of baselines and reference models, in all and row by row.

All losses are those of the same rows, so that what makes a row hard for all of them cancels; two
models are compared in words by one rule on the paired differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.predictive import Predictive
from bayesprop.evaluation.baselines import SIMPLE
from bayesprop.evaluation.words import alike, join, number, percent
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import Message, Said, counted

LEVELS = (0.5, 0.9, 0.95)
_MIN_ROWS = 10
_COVERAGE = 0.9
_TITLES: dict[str, str] = {
    "constant": "a constant",
    "linear": "a linear model",
    "logistic": "a logistic regression",
}


class Metric(NamedTuple):
    """Name, unit and direction of a metric.

    unit
        "y" (the unit of the target), "nats", "share" or "".
    better
        "lower", "higher", "nominal" (near `nominal`) or "" (not by itself).
    """

    key: str
    name: str
    unit: str
    better: str
    nominal: float = 0.0


_OF_NUMBERS = (
    Metric("rmse", "RMSE", "y", "lower"),
    Metric("mae", "MAE", "y", "lower"),
    Metric("crps", "CRPS", "y", "lower"),
    Metric("log_likelihood", "Mean log-likelihood", "nats", "higher"),
    *(
        Metric(f"inside_{at}", f"Coverage of {percent(at)} intervals", "share", "nominal", at)
        for at in LEVELS
    ),
    Metric("interval_score", f"Score of {percent(0.9)} intervals", "y", "lower"),
    *(Metric(f"mean_width_{at}", f"Width of {percent(at)} intervals", "y", "") for at in LEVELS),
)
_PROPER = (
    Metric("log_likelihood", "Mean log-likelihood", "nats", "higher"),
    Metric("rps", "Ranked probability score, in classes", "", "lower"),
    Metric("brier", "Brier score", "", "lower"),
)
_ACCURACY = Metric("accuracy", "Accuracy", "share", "higher")
_BALANCED = Metric("balanced_accuracy", "Balanced accuracy", "share", "higher")
_RANKS = (
    Metric("average_precision", "Average precision", "", "higher"),
    Metric("roc_auc", "Area under the ROC curve", "", "higher"),
)
_CALIBRATION = Metric("calibration_error", "Calibration error", "share", "lower")
_OF_CLASSES = (*_PROPER, _ACCURACY, _BALANCED, *_RANKS, _CALIBRATION)
_OF_A_RARE_CLASS = (*_RANKS, *_PROPER, _CALIBRATION, _BALANCED, _ACCURACY)


@dataclass(frozen=True)
class Score:
    """One metric of every model, the fitted one first, and its standard error if it has one."""

    metric: Metric
    values: tuple[float, ...]
    errors: tuple[float | None, ...]

    @property
    def best(self) -> tuple[bool, ...]:
        """Which model is best; none where the metric does not say, or alone, or among equals."""
        values, better = np.array(self.values), self.metric.better
        losses = {"higher": -values, "nominal": np.abs(values - self.metric.nominal)}
        loss = losses.get(better, values)
        if better == "" or np.isnan(values[0]) or np.nanmax(loss) == np.nanmin(loss):
            return (False,) * len(values)
        return tuple((loss == np.nanmin(loss)).tolist())


def scores(
    models: Mapping[str, Distribution], y: np.ndarray, group: Shaped[np.ndarray, " n"] | None = None
) -> tuple[Score, ...]:
    """Compute every metric of every model on the same rows.

    Of classes proper scores come first; accuracy comes last where it says little.

    group
        Labels of rows that belong together: standard errors are those over groups.
    """
    shown = _OF_NUMBERS
    if isinstance(models["model"], ClassPredictive):
        shown = _OF_A_RARE_CLASS if metrics.is_mostly_one_class(y) else _OF_CLASSES
    each = [
        _of_classes(one, y, group)
        if isinstance(one, ClassPredictive)
        else _of_numbers(one, y, group)
        for one in models.values()
    ]
    return tuple(
        Score(
            metric,
            tuple(one.values[metric.key] for one in each),
            tuple(one.errors.get(metric.key) for one in each),
        )
        for metric in shown
        if metric.key in each[0].values
    )


def _of_numbers(predicted: Predictive, y: np.ndarray, group: np.ndarray | None) -> metrics.Summary:
    values, errors = metrics.summary(predicted, y, group)
    each = {at: predicted.interval(at) for at in LEVELS}
    losses = interval_score(each[0.9], y, 0.9)
    for at, (low, high) in ((at, interval.T) for at, interval in each.items()):
        values[f"inside_{at}"] = float(np.mean((low <= y) & (y <= high)))
        values[f"mean_width_{at}"] = float(np.mean(high - low))
    values["interval_score"] = float(np.mean(losses))
    if not np.isnan(error := metrics.clustered_error(losses, group)):
        errors["interval_score"] = error
    return metrics.Summary(values, errors)


def _of_classes(
    predicted: ClassPredictive, y: np.ndarray, group: np.ndarray | None
) -> metrics.Summary:
    summary = metrics.summary(predicted, y, group)
    counts = metrics.confusion(predicted, y)
    rows = np.sum(counts, axis=1)
    # The mean over the classes that occur of the share of their rows that is found.
    shares = np.diag(counts)[rows > 0] / rows[rows > 0]
    summary.values["balanced_accuracy"] = float(np.mean(shares))
    return summary


class Comparison(NamedTuple):
    """Mean difference of a score from another model on the same rows, and its s.e."""

    gain: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds two standard errors."""
        return abs(self.gain) > 2.0 * self.error


class Loss(NamedTuple):
    """A loss of every row; lower is better.

    unit
        Of the mean loss: "y", "nats" or "".
    is_root
        Whether the loss is the root of the mean of the rows.
    """

    name: str
    unit: str
    rows: Float[np.ndarray, " n"]
    is_root: bool = False


class Lead(NamedTuple):
    """By how much the model's loss is below a rival's; negative where the rival is better."""

    loss: str
    unit: str
    by: Comparison


class Rival(NamedTuple):
    """A baseline or reference model; its first lead is that of a proper score."""

    name: str
    leads: tuple[Lead, ...]

    @property
    def is_reference(self) -> bool:
        """Whether it is more than what any model should beat."""
        return self.name not in SIMPLE

    @property
    def title(self) -> str:
        """Name of the rival in a sentence."""
        return f"{self.name} (scikit-learn)" if self.is_reference else _TITLES[self.name]


def rivals(
    models: Mapping[str, Distribution],
    y: np.ndarray,
    group: Shaped[np.ndarray, " n"] | None = None,
) -> tuple[Rival, ...]:
    """Compare "model" with every other prediction of the same rows; none below ten rows."""
    if len(y) < _MIN_ROWS:
        return ()
    own = losses(models["model"], y)
    compared = []
    for name, other in models.items():
        pairs = zip(own, losses(other, y), strict=True)
        leads = [lead for one, two in pairs if (lead := _lead(one, two, group)) is not None]
        if name != "model" and leads:
            compared.append(Rival(name, tuple(leads)))
    return tuple(compared)


def losses(predicted: Distribution, y: np.ndarray) -> tuple[Loss, ...]:
    """Return the losses of the task, that of the whole distribution first."""
    if isinstance(predicted, ClassPredictive):
        return (
            Loss("log loss", "nats", -predicted.log_prob(y)),
            Loss("Brier score", "", metrics.brier_of_rows(predicted, y)),
        )
    return (
        Loss("CRPS", "y", predicted.crps(y)),
        Loss("RMSE", "y", (y - predicted.mean) ** 2, is_root=True),
        Loss("interval score", "y", interval_score(predicted.interval(_COVERAGE), y, _COVERAGE)),
        Loss("log-likelihood", "nats", -predicted.log_prob(y)),
    )


def interval_score(
    interval: Float[np.ndarray, "n 2"], y: Float[np.ndarray, " n"], coverage: float
) -> Float[np.ndarray, " n"]:
    """Width, and 2 / (1 - coverage) times what a value is outside (Gneiting & Raftery 2007, 43)."""
    low, high = interval.T
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return high - low + 2.0 / (1.0 - coverage) * outside


def _lead(own: Loss, other: Loss, group: np.ndarray | None) -> Lead | None:
    """Subtract mean losses, with the standard error of the paired difference."""
    means = [float(np.mean(loss.rows)) for loss in (own, other)]
    each = [own.rows, other.rows]
    if own.is_root:
        means = [float(np.sqrt(mean)) for mean in means]
        # The delta method: a mean m of squares moves its root by 1 / (2 root m).
        each = [rows / (2.0 * mean or 1.0) for rows, mean in zip(each, means, strict=True)]
    with np.errstate(invalid="ignore"):  # infinite losses of both
        gap = each[1] - each[0]
    if not np.all(np.isfinite(gap)):
        return None
    error = metrics.clustered_error(gap, group)
    return Lead(
        own.name, own.unit, Comparison(means[1] - means[0], float(np.nan_to_num(error, nan=np.inf)))
    )


def in_words(lead: Lead, unit: str = "") -> str:
    """Word the size of a difference: "CRPS by 0.12 ± 0.05 MPa"."""
    gap, error = alike([abs(lead.by.gain), lead.by.error], lead.by.error, 1)
    suffix = {"nats": " nats a row", "y": f" {unit}" if unit else ""}.get(lead.unit, "")
    return f"{lead.loss} by {gap} ± {error}{suffix}"


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

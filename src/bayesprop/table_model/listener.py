"""What a verb reports: progress and warnings, to a listener; values and metrics, as people read.

Light, because `--help` imports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from bayesprop.distributions.few_digits import few_digits
from bayesprop.model.progress import Progress, begun, following
from bayesprop.table.errors import Said, TableWarning

Scores = dict[str, dict[str, float]]
LABELS = {
    "rmse": ("RMSE", "typical error; lower is better"),
    "mae": ("MAE", "mean absolute error"),
    "log_likelihood": ("log-likelihood, nats a row", "higher is better"),
    "crps": ("CRPS", "error of the whole distribution"),
    "coverage_50": ("share inside 50 % intervals", "target: 0.50"),
    "coverage_90": ("share inside 90 % intervals", "target: 0.90"),
    "width_90": ("width of 90 % intervals", "narrower is better, if calibrated"),
    "calibration_error": ("calibration error", "deviation from nominal; target: 0"),
    "epistemic_share": ("epistemic share", "of the uncertainty; more data would reduce it"),
    "accuracy": ("accuracy", "share of rows predicted correctly"),
    "average_precision": ("average precision", "of the positive class; by chance: its share"),
    "roc_auc": ("area under the ROC curve", "ranking of positives; by chance: 0.5"),
    "brier": ("Brier score", "squared error of the probabilities, 0 to 2; lower is better"),
    "rps": ("RPS, in classes", "error of the whole distribution; lower is better"),
    "mean_confidence": ("mean confidence", "target: the accuracy"),
    "mean_entropy": ("mean entropy, nats", "uncertainty of the class; 0 is certain"),
}
"""Every metric with its name in words and its meaning."""


class Listener:
    """A receiver of progress and warnings; this class issues Python warnings.

    command
        What was typed, which the model notes; empty: the call in Python.
    """

    command = ""

    def doing(
        self,
        text: str,  # noqa: ARG002
        *,
        time_share: float = 1.0,
    ) -> AbstractContextManager[Progress]:
        """Start a step that may take at most a share of the remaining time."""
        return following(begun(time_share))

    def stoppable(self, progress: Progress) -> AbstractContextManager[None]:  # noqa: ARG002
        """Start a step that an interrupt may end early."""
        return nullcontext()

    def offer(self, why: str) -> None:  # noqa: ARG002
        """Continue with a partial result after an interrupt, or raise KeyboardInterrupt."""
        raise KeyboardInterrupt

    def note(self, text: Said) -> None:
        """Receive information."""

    def remark(self, remarks: Iterable[Said]) -> None:
        """Receive warnings that the model stores as well."""

    def warn(self, remarks: Iterable[Said]) -> None:
        """Receive warnings."""
        from bayesprop.estimators.fitting import warn

        warn([*remarks], TableWarning)


_IN_PYTHON = Listener()
_CURRENT: ContextVar[Listener] = ContextVar("listener", default=_IN_PYTHON)


def current_listener() -> Listener:
    """Return the listener of this thread's verbs."""
    return _CURRENT.get()


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Use a listener for all verbs within the block."""
    token = _CURRENT.set(listener)
    try:
        yield listener
    finally:
        _CURRENT.reset(token)


def plain(value: Any) -> Any:
    """Turn arrays, tuples and numpy scalars into what JSON knows, non-finite numbers into None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def figure(value: float | None, digits: int = 4) -> str:
    """Format a number for a person: so many significant digits, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    return few_digits(value, digits)


def figure_beside(value: float, std: float) -> str:
    """Format a number for a person by its error bar, to the third significant digit of that."""
    if not (math.isfinite(value) and math.isfinite(std) and std > 0.0):
        return figure(value)
    n_decimals = 2 - math.floor(math.log10(std))
    return f"{round(value, n_decimals):,.{max(n_decimals, 0)}f}"

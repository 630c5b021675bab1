"""Rewards by a PBP network that absorbs each as it comes, in microseconds.

Hernández-Lobato & Adams (2015), section 3. Arms without features are outputs of one network, which
share what it sees in a context; only that of the chosen arm meets the reward. Drawn functions are
those of drawn weights, in distribution (`moments.pbp.stream`).

One visit to each row leaves the independent weights nearly where they were while the context has
many numbers, as the forty passes of a fit do not. Here each new row calls up the last ones, so that
every row is visited 1 + `n_recalled` times; the noise learns only from the first visit, when the
row was predicted without having been seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from bayesprop import codec
from bayesprop.bandits.arms import Arms, Belief, Choices, Draws, Rewards
from bayesprop.codec import Stored
from bayesprop.estimators.params import Count, Positive, Whole
from bayesprop.estimators.shell import RegressorBase
from bayesprop.model.task import Numbers, Standardiser
from bayesprop.targets.bijectors import NUMBERS

if TYPE_CHECKING:
    from bayesprop.estimators.any_estimator import Estimator
    from bayesprop.estimators.pbp import PBPRegressor

_GUARDS = ("weights_undone", "noise_kept", "prior_kept", "prior_uninformed")
_LARGEST = 1e30
_SCALED_BY = 20  # rows that settle the scale of the inputs


class StreamedContents(NamedTuple):
    """Stored state in addition to the stream: guards, mean square of the first inputs."""

    guards: dict[str, int]
    mean_square: float

    def validate(self) -> None:
        """Raise ValueError for what cannot be."""
        if not 0.0 <= self.mean_square < float("inf") or set(self.guards) != set(_GUARDS):
            raise ValueError(f"the scale of the inputs must be >= 0, and guards {_GUARDS}")


def can_stream(estimator: Estimator) -> bool:
    """Whether an estimator is a regressor whose posterior meets one row after another."""
    return isinstance(estimator, RegressorBase) and hasattr(estimator.method_class, "stream")


def _network() -> RegressorBase:  # so wide that no arm is given up after a few rewards
    from bayesprop.estimators.pbp import PBPRegressor

    return PBPRegressor(weight_prior=(6.0, 20.0))


@dataclass(eq=False, kw_only=True)
class StreamedRewards(Rewards):
    """Probabilistic backpropagation of every reward at once.

    The network's input is a context; with features of arms, those beside it, and one output. Inputs
    are divided by one number, their root mean square in the first rows: without it contexts of
    small numbers leave the prior so narrow that some runs give up an arm for good. Every row is
    counted 1 + n_recalled times, so that the belief is sharper than the posterior of the rows.

    Parameters
    ----------
    estimator : PBPRegressor
        Unfitted, of the compiled engine; its n_epochs, warm_start, random_state and verbose are not
        used. A wide weight_prior explores more.
    reward_scale : float
        Size of a typical reward, by which rewards are divided.
    n_recalled : int
        Rows absorbed again with each new one: the last ones. 0 is assumed density filtering of the
        stream, which explores for long.
    recall_weight : float
        How many times a row counts when it is recalled. Above 1 it learns sooner, and gives up an
        arm too early in more of the runs.
    refresh_every : int
        Rewards between two refreshes of the prior factors.
    """

    estimator: RegressorBase = field(default_factory=_network, kw_only=False)
    reward_scale: Positive = 1.0
    n_recalled: Whole = 20
    recall_weight: Positive = 1.0
    refresh_every: Count = 100

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Stand at the prior, its means drawn at random."""
        self.check()
        method = self._method(n_features, arms)
        start = method.stream_start(np.random.default_rng(seed), self.n_recalled)
        self.stream_ = method.stream(start, self.recall_weight)
        self.guards_: dict[str, int] = dict.fromkeys(_GUARDS, 0)
        self._square = 0.0

    def _method(self, n_features: int, arms: Arms) -> Any:
        """Return the network for inputs and rewards as they are."""
        is_named = arms.features is None
        n_inputs = n_features + (0 if is_named else arms.width)
        n_outputs = arms.width if is_named else 1
        task = Numbers(Standardiser.none(n_outputs), False)
        return self.estimator.build_method(task, n_inputs)

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Absorb rows one after another, in their order."""
        x = _inputs(choices)
        y = rewards / self.reward_scale
        if not np.vdot(x, x) + np.vdot(y, y) < _LARGEST**2:
            raise ValueError(
                f"contexts, and rewards over reward_scale, must stay below {_LARGEST:g}: nothing "
                "was learnt; divide them by something"
            )
        outputs = choices.numbers * (choices.arms.features is None)
        for row in range(len(x)):
            self._absorb(x[row], int(outputs[row]), y[row])

    def _absorb(self, x: np.ndarray, output: int, y: float) -> None:
        n_seen = self.stream_.n_seen
        if n_seen < _SCALED_BY:
            self._square += (float(x @ x) / len(x) - self._square) / (n_seen + 1)
        target = np.full(self.stream_.layer_sizes[-1], np.nan)
        target[output] = y
        info = self.stream_.absorb(self._scaled(x), target)
        if (n_seen + 1) % self.refresh_every == 0:
            info += self.stream_.refresh()
        for name in _GUARDS:
            self.guards_[name] += int(getattr(info, name))

    def believe(self, choices: Choices) -> Belief:
        """Moments of the network's outputs, by assumed density filtering."""
        moments = self.stream_.moments(self._network_inputs(choices))
        belief = Belief(*(_of_arms(part, choices) for part in moments))
        return belief.scaled(self.reward_scale)

    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Evaluate networks drawn from the posterior."""
        drawn = self.stream_.draw(rng, self._network_inputs(choices), n_draws)
        return self.reward_scale * _of_arms(drawn, choices)

    def to_stored(self) -> Stored:
        """Return the posterior, and the rows that will be recalled."""
        header, arrays = codec.write(self.stream_.state)
        about = codec.to_json(StreamedContents(self.guards_, self._square), StreamedContents)
        return Stored({"stream": header, "about": about}, arrays)

    def restore(self, stored: Stored, n_features: int, arms: Arms, seed: int) -> None:
        """Stand where `to_stored` was called."""
        del seed
        self.check()
        stream = Stored(stored.header["stream"], stored.arrays)
        method = self._method(n_features, arms)
        start = codec.read(method.stream_kind(self.n_recalled), stream)
        self.stream_ = method.stream(start, self.recall_weight)
        self.guards_, self._square = codec.from_json(StreamedContents, stored.header["about"])

    def _network_inputs(self, choices: Choices) -> np.ndarray:
        """Return the inputs of the network: one row with arms as outputs, or one row per arm."""
        x = _inputs(choices)
        return self._scaled(x[:1] if choices.arms.features is None else x)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        """Divide inputs by their scale; before the first row, by their own."""
        started = self.stream_.n_seen > 0 or self._square > 0.0
        square = self._square if started else float(np.vdot(x, x)) / x.size
        return x / math.sqrt(square) if square > 0.0 else x

    def check(self) -> None:
        """Raise ValueError for settings that cannot be, or a regressor that cannot be streamed."""
        estimator = self.estimator
        if not can_stream(estimator):
            raise ValueError(f"estimator must be a PBPRegressor, got {type(estimator).__name__}")
        estimator.check_params()
        engine = cast("PBPRegressor", estimator).chosen_engine()
        is_known = engine.is_compiled and engine.inference == "adf" and engine.guarded
        if not is_known or estimator.target_kind != NUMBERS:
            raise ValueError(
                "estimator must be a PBPRegressor of the compiled engine: activation='relu', "
                "batch_size=1, inference='adf', engine 'auto' or 'kernel', "
                f"guarded=True, target_kind='numbers'; got {estimator!r}"
            )
        super().check()


def _inputs(choices: Choices) -> Float[np.ndarray, "n d"]:
    return choices.contexts if choices.arms.features is None else choices.inputs


def _of_arms(values: np.ndarray, choices: Choices) -> Float[np.ndarray, "... k"]:
    """Choose from (..., rows, outputs) what belongs to the arms."""
    return values[..., 0, choices.numbers] if choices.arms.features is None else values[..., 0]

"""Which code runs a PBP fit: the compiled engine where it applies, the JAX form elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp.state import Inference, PBPInfo, PBPState, Targets


@dataclass(frozen=True)
class Engine:
    """The settings of a fit, and the code that honours them.

    activation
        A name in `model.layers.ACTIVATIONS`.
    inference
        "adf" or "sep", see `updates.data_pass`.
    batch_size
        Rows absorbed at once; 1 is the paper's algorithm.
    name
        "auto", "kernel" or "jax".
    targets
        What a row of y is; the compiled engine knows numbers and classes.
    """

    activation: str = "relu"
    inference: Inference = "adf"
    batch_size: int = 1
    name: str = "auto"
    targets: Targets = "numbers"

    def __post_init__(self) -> None:
        if self.name == "kernel" and not self._kernel_applies:
            raise ValueError(
                "engine='kernel' runs activation='relu' with batch_size=1, not counts, got "
                f"activation={self.activation!r}, batch_size={self.batch_size} and "
                f"{self.targets}; use engine='auto'"
            )

    @property
    def _kernel_applies(self) -> bool:
        is_single_row_relu = self.activation == "relu" and self.batch_size == 1
        return is_single_row_relu and self.targets != "counts"

    @property
    def is_compiled(self) -> bool:
        """Whether the numba engine runs this fit."""
        return self._kernel_applies and self.name != "jax"

    def epochs(
        self,
        state: PBPState,
        x: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n o"],
        orders: Iterable[Int[np.ndarray, " n"]],
        sample_weight: Float[np.ndarray, " n"] | None = None,
    ) -> Iterator[tuple[PBPState, PBPInfo]]:
        """Yield state and info after each epoch: one pass over the rows, one prior refresh."""
        rule: dict[str, Any] = {"inference": self.inference, "targets": self.targets}
        if self.is_compiled:
            from bayesprop.moments.pbp import engine

            run = engine.Run(state, x, y, sample_weight, **rule)
            yield from ((run.state, info) for info in run.epochs(orders))
            return
        from bayesprop.moments.pbp import updates

        rule |= {"activation": self.activation, "batch_size": self.batch_size}
        for order in orders:
            state, info = updates.data_pass(state, x, y, order, sample_weight, **rule)
            state, refreshed = updates.refresh_prior(state, targets=self.targets)
            yield state, info + refreshed

    def predict_moments(
        self, state: PBPState, x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
        """Mean and variance of the noise-free output at standardised rows."""
        if self.activation == "relu" and self.name != "jax":
            from bayesprop.moments.pbp import engine

            return engine.predict_moments(state, x)
        from bayesprop.moments.pbp import updates

        return updates.predict_moments(state, x, activation=self.activation)

    def sample_functions(
        self,
        rng: np.random.Generator | np.random.RandomState,
        state: PBPState,
        x: Float[np.ndarray, "n d"],
        n_samples: int,
    ) -> Float[np.ndarray, "s n o"]:
        """Draw weights from q; each draw is one function, evaluated at all rows of x."""
        from bayesprop.moments.pbp import updates

        return updates.sample_functions(rng, state, x, n_samples, activation=self.activation)

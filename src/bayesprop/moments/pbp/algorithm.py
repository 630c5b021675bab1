"""Which code runs a PBP fit: the compiled engine where it applies, the JAX form elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp.state import Inference, PBPInfo, PBPState, Targets


@dataclass(frozen=True)
class Engine:
    """The settings of a fit, and the code that honours them.

    activation
        A name in `model.layers.ACTIVATIONS`.
    inference
        "adf" or "sep", see `moments.pbp.data_pass`.
    batch_size
        Rows absorbed at once; 1 is the paper's algorithm.
    reference
        Behave as the authors' code does, without the guards that it lacks.
    name
        "auto", "kernel" or "jax".
    targets
        What a row of y is; the compiled engine knows numbers and classes.
    """

    activation: str = "relu"
    inference: Inference = "adf"
    batch_size: int = 1
    reference: bool = False
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
        is_online_relu = self.activation == "relu" and self.batch_size == 1
        return is_online_relu and self.targets != "counts"

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
        if self.is_compiled:
            from bayesprop.moments.pbp import engine as pbp_kernel

            yield from pbp_kernel.epochs(
                state,
                x,
                y,
                orders,
                sample_weight,
                inference=self.inference,
                reference=self.reference,
                targets=self.targets,
            )
            return
        from bayesprop.moments.pbp import updates as pbp

        for order in orders:
            state, info = pbp.data_pass(
                state,
                x,
                y,
                order,
                sample_weight,
                activation=self.activation,
                inference=self.inference,
                batch_size=self.batch_size,
                reference=self.reference,
                targets=self.targets,
            )
            state, refreshed = pbp.refresh_prior(
                state, reference=self.reference, targets=self.targets
            )
            yield state, info + refreshed

    def predict_moments(
        self, state: PBPState, x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
        """Mean and variance of the noise-free output at standardised rows."""
        if self.activation == "relu" and self.name != "jax":
            from bayesprop.moments.pbp import engine as pbp_kernel

            return pbp_kernel.predict_moments(state, x)
        from bayesprop.moments.pbp import updates as pbp

        return pbp.predict_moments(state, x, activation=self.activation)

    def sample_functions(
        self,
        rng: np.random.Generator | np.random.RandomState,
        state: PBPState,
        x: Float[np.ndarray, "n d"],
        n_samples: int,
    ) -> Float[np.ndarray, "s n o"]:
        """Draw weights from q; each draw is one function, evaluated at all rows of x."""
        from bayesprop.moments.pbp import drawn_weights as pbp_draws

        return pbp_draws.sample_functions(rng, state, x, n_samples, activation=self.activation)

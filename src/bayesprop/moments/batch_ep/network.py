"""Batch expectation propagation as a method: several starts, of which the best is kept."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import Float

from bayesprop import codec
from bayesprop.codec import Stored
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import FURTHEST_INPUT, MOST_ROWS, Drawn, Learned
from bayesprop.model.progress import Progress
from bayesprop.moments.batch_ep import sites as ep
from bayesprop.moments.batch_ep import sweeps as batch_ep
from bayesprop.numerics.filling import padded
from bayesprop.numerics.forks import random_key
from bayesprop.numerics.gaussian import Gaussian, Joint
from bayesprop.numerics.rows import Rows

_LEAST_ROWS = 16
_LARGEST_MEMORY = 4 << 30  # of the sites before and after a sweep, bytes


@dataclass(frozen=True)
class BatchEPNetwork:
    """A network of one hidden layer.

    sizes
        Inputs, hidden units, outputs.
    n_epochs
        Most sweeps.
    per_input
        A prior scale for every input, its relevance, not one for all.

    `moments/batch_ep/sweeps.py` says what the others are.
    """

    sizes: tuple[int, int, int]
    prior: ep.Prior
    n_epochs: int
    damping: float
    tol: float
    n_starts: int
    per_input: bool

    rows_at_once = MOST_ROWS
    furthest_input = FURTHEST_INPUT

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from every start; ValueError where the sites would not fit into memory."""
        self._check_memory(len(rows.x))
        started = time.perf_counter()
        x, y, weight = (padded(part, _LEAST_ROWS) for part in (*rows[:2], rows.weights[:, None]))

        def fitted(seed: int, progress: Progress) -> tuple[ep.Posterior, batch_ep.Sweeps]:
            start = ep.init(random_key(seed), self.prior, len(x), *self.sizes)
            rule = {"damping": self.damping, "tol": self.tol, "per_input": self.per_input}
            limits = {"max_sweeps": self.n_epochs, "progress": progress}
            return batch_ep.fit(start, self.prior, x, y, weight[:, 0], **rule, **limits)

        fits, n = [], self.n_starts
        for k in range(n):
            within = f"start {k + 1} of {n}" if n > 1 else ""
            fits.append(fitted(rng.randint(2**31), progress.part(k / n, (k + 1) / n, within)))
            if progress.is_cut(k + 1, n, "starts"):
                break
        q, sweeps = max(fits, key=lambda fit: fit[1].log_z[-1])
        report = self._report(sweeps, len(rows.x), time.perf_counter() - started)
        return Learned(jax.tree.map(np.asarray, q), report, report.n_epochs)

    def _check_memory(self, n_rows: int) -> None:
        _, n_units, n_outputs = self.sizes
        needed = 2 * 8 * n_rows * n_outputs * ((n_units + 1) ** 2 + 3 * n_units + 4)
        if needed > _LARGEST_MEMORY:
            raise ValueError(
                f"the sites of {n_rows} rows and {n_units} units need "
                f"{needed / 2**30:.1f} GiB, more than {_LARGEST_MEMORY >> 30}: take fewer units "
                "or rows, or PBPRegressor, which keeps none"
            )

    def _report(self, sweeps: batch_ep.Sweeps, n_rows: int, seconds: float) -> FitReport:
        n_sweeps = len(sweeps.change)
        n_updates = n_sweeps * n_rows * self.sizes[-1]
        is_settled = sweeps.change[-1] < self.tol and n_sweeps > batch_ep.N_START
        guards = {
            "sites_skipped": int(sweeps.skipped.sum()),
            "sweeps_shortened": int((sweeps.damping < self.damping).sum()),
            "not_converged": int(not is_settled),
        }
        return FitReport(
            n_rows=n_rows,
            n_epochs=n_sweeps,
            seconds=seconds,
            n_updates=n_updates,
            guards=guards,
            trace={"mean_log_z": sweeps.log_z.tolist(), "change": sweeps.change.tolist()},
            warnings=self._advice(guards, sweeps, n_updates),
            step="sweep",
        )

    def _advice(self, guards: dict[str, int], sweeps: batch_ep.Sweeps, n_updates: int) -> list[str]:
        advice, skipped = [], guards["sites_skipped"] / n_updates
        if guards["not_converged"]:
            advice.append(
                f"predictions still change by {sweeps.change[-1]:.2g} of their standard deviation "
                f"a sweep (tol {self.tol:g}) after {len(sweeps.change)}: raise n_epochs, or lower "
                "damping"
            )
        if skipped > 0.01:
            advice.append(
                f"{skipped:.0%} of the site updates had no proper cavity and were skipped: look "
                "for extreme values or weights in the table"
            )
        return advice

    def predict(self, state: ep.Posterior, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Mean and variance of the outputs, exact for this posterior, and the mean noise."""
        m, v = (np.asarray(part)[: len(x)] for part in ep.predict(state, padded(x)))
        return GaussianPredictive(m, v, np.broadcast_to(_noise_var(state), m.shape))

    def draw(
        self, state: ep.Posterior, x: Float[np.ndarray, "n d"], rng: np.random.RandomState, n: int
    ) -> Drawn:
        """Draw n networks from the posterior."""
        return Drawn.of(ep.sample_functions(rng, state, x, n), _noise_var(state), rng)

    def to_stored(self, state: ep.Posterior) -> Stored:
        """Return the moments of every part."""
        return codec.write(state)

    def from_stored(self, stored: Stored) -> ep.Posterior:
        """Rebuild what `to_stored` gave; ValueError where it does not fit this network."""
        n_inputs, k, o = self.sizes
        d, zeros = n_inputs + 1, cast(Any, np.zeros)
        scale = zeros((d,) if self.per_input else ())
        example = ep.Posterior(
            Joint(zeros((k, d)), zeros((k, d, d))),
            Joint(zeros((o, k + 1)), zeros((o, k + 1, k + 1))),
            Gaussian(zeros(o), zeros(o)),
            Gaussian(scale, scale),
        )
        return codec.read(example, stored)


def _noise_var(q: ep.Posterior) -> Float[np.ndarray, " o"]:
    return np.exp(q.noise.m + 0.5 * q.noise.v)

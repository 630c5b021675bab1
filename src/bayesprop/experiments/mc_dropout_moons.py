"""The lecture's classification by MC dropout: two moons, one network beside the average of many.

The lecture shows a picture only; points, noise and network are ours. Figures are averaged over
several draws of the data, the first of which is the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop import class_metrics
from bayesprop.estimators.mc_dropout import MCDropoutClassifier
from bayesprop.estimators.point_network import PointNetworkClassifier
from bayesprop.experiments import markdown, protocol, uci
from bayesprop.experiments.compare import Estimate
from bayesprop.experiments.protocol import Cell, Key, Progress
from bayesprop.experiments.rows import Row

NAME = "mc-dropout-moons"
METHODS = {"network": "one network", "mc-dropout": "MC dropout"}
_PICTURED = 0
_X1, _X2 = np.linspace(-3.0, 4.0, 57), np.linspace(-2.5, 3.0, 45)
_N_NEW = 2000
_FAR_RADIUS = 6.0
_CENTRE = np.array([0.5, 0.25])


class Moons(NamedTuple):
    """Points of the plane, and which moon each belongs to."""

    X: Float[np.ndarray, "n 2"]
    y: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the network is 2-100-100-2."""

    seed: int = 1
    n_points: int = 200
    noise_std: float = 0.2
    n_hidden: int = 100
    n_epochs: int = 200
    dropout: float = 0.2
    length_scale: float = 0.5


def moons(n: int, noise_std: float, *, random_state: int) -> Moons:
    """Draw two interleaved half circles of radius one, with Gaussian noise."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(0, 2, n)
    angle = np.pi * rng.uniform(size=n)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    X = np.where(y[:, None] == 0, upper, lower)
    return Moons(X + noise_std * rng.standard_normal((n, 2)), y)


def run(
    *,
    quick: bool,
    jobs: int,
    out: Path,
    only: list[str] | None,
    seed: int,
    progress: Progress,
) -> None:
    """Fit 20 draws of the data (quick: 2) and draw the first; the parts are the methods."""
    methods = protocol.chosen(only, METHODS)
    fits = [
        Cell({"method": method, "draw": draw})
        for draw in range(2 if quick else 20)
        for method in methods
    ]
    how = {"out": out, "jobs": jobs, "progress": progress}
    rows = protocol.run_cells(NAME, fit_cell, Config(seed=seed), fits, **how)
    finished = protocol.all_rows(out, NAME)
    protocol.write_section(out, NAME, section(finished))
    _draw(rows, out / NAME)
    protocol.check_all_done(rows)


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one method to one draw; score new points, and ask how sure it is far from all of them."""
    seeds = [uci.cell_seed(config.seed, key["draw"], k) for k in range(3)]
    train = moons(config.n_points, config.noise_std, random_state=seeds[0])
    model = _model(config, key["method"], seeds[1]).fit(train.X, train.y)
    new = moons(_N_NEW, config.noise_std, random_state=seeds[2])
    found = model.predict_dist(new.X)
    angle = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    far = model.predict_dist(_CENTRE + _FAR_RADIUS * circle)
    scores = class_metrics.summarise(found, new.y)
    return {
        "accuracy": scores["accuracy"],
        "log_likelihood": scores["log_likelihood"],
        "calibration_error": scores["calibration_error"],
        "entropy_at_data": np.mean(found.entropy),
        "entropy_far": np.mean(far.entropy),
        "information_at_data": np.round(np.mean(found.mutual_information), 6),
        "information_far": np.round(np.mean(far.mutual_information), 6),
        **(_field(model, train) if key["draw"] == _PICTURED else {}),
    }


def _model(config: Config, method: str, seed: int) -> Any:
    sizes = (config.n_hidden, config.n_hidden)
    if method == "network":
        return PointNetworkClassifier(sizes, config.n_epochs, weight_decay=0.1, random_state=seed)
    return MCDropoutClassifier(
        sizes,
        config.n_epochs,
        dropout=config.dropout,
        length_scale=config.length_scale,
        random_state=seed,
    )


def _field(model: Any, train: Moons) -> dict[str, Any]:
    plane = np.stack(np.meshgrid(_X1, _X2, indexing="ij"), axis=-1).reshape(-1, 2)
    dist = model.predict_dist(plane)
    shape = (len(_X1), len(_X2))
    return {
        "field": {
            "probability": np.round(dist.proba[:, 1], 4).reshape(shape),
            "entropy": np.round(dist.entropy, 4).reshape(shape),
            "X_train": train.X,
            "y_train": train.y,
        }
    }


def _draw(rows: Sequence[Row], stem: Path) -> None:
    from bayesprop.report import class_field_figure
    from bayesprop.report.class_field_figure import Field

    pictured = {
        METHODS[row.cell["method"]]: {k: np.asarray(v) for k, v in row.result["field"].items()}
        for row in rows
        if row.is_done and row.result and row.cell["draw"] == _PICTURED
    }
    if not pictured:
        return
    fields = {name: Field(f["probability"], f["entropy"]) for name, f in pictured.items()}
    first = next(iter(pictured.values()))
    class_field_figure.draw(
        stem,
        x1=_X1,
        x2=_X2,
        fields=fields,
        X_train=first["X_train"],
        positive=first["y_train"] == 1,
    )


def section(rows: Sequence[Row]) -> str:
    """Write the figures of the picture, averaged over draws of the data, a column a method."""
    finished = markdown.latest(rows)
    by_method = {
        name: [row.result or {} for row in finished if row.cell["method"] == name]
        for name in METHODS
    }
    lines = [
        (
            label,
            *(
                markdown.estimate(Estimate.of([result[figure] for result in results]))
                for results in by_method.values()
            ),
        )
        for figure, label in _FIGURES.items()
    ]
    n_draws = max(len(results) for results in by_method.values())
    header = (f"mean ± s.e. over {n_draws} draws of the data", *METHODS.values())
    return "\n\n".join(
        (
            "## MC dropout on two moons (lecture, MC dropout for classification)",
            "200 points, noise of standard deviation 0.2; two hidden layers of 100 units, 200 "
            "epochs. MC dropout leaves out a fifth of the hidden "
            "units, with length scale 0.5 and 100 draws.",
            f"![Probability and entropy over the plane]({NAME}.svg)",
            markdown.table(header, lines),
            "The lecture prints no figures, so the picture is what there is to compare: one "
            "network doubts only along a thin line, the average of many over a wedge that opens "
            "away from the points.",
            markdown.origin(finished) if finished else "Nothing has been run.",
        )
    ) + markdown.failures(rows)


_FIGURES = {
    "accuracy": "accuracy on new points",
    "log_likelihood": "log-likelihood, nats a point",
    "calibration_error": "expected calibration error",
    "entropy_at_data": "entropy at new points, nats",
    "entropy_far": "entropy on a circle of radius 6 around them, nats",
    "information_at_data": "its epistemic part at new points, nats",
    "information_far": "its epistemic part on the circle, nats",
}

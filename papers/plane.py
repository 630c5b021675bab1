"""What the pictures of two classes in the plane share: cells, figures averaged over draws, text.

An experiment brings its points and its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop import metrics
from papers import markdown, uci
from papers.protocol import Experiment, Key, draws
from papers.rows import Row

FAR_RADIUS = 6.0
_PICTURED = 0
_N_NEW = 2000


class Points(NamedTuple):
    """Points of the plane, and which class each belongs to."""

    X: Float[np.ndarray, "n 2"]
    y: Int[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Plane:
    """An experiment on points of the plane.

    labels
        Method -> its name in the picture.
    points, model
        (config, number, seed) -> Points; (config, method, seed) -> an unfitted classifier.
    x1, x2
        Where the picture is drawn.
    centre
        Of the circle of radius 6 on which doubt is measured.
    """

    name: str
    labels: Mapping[str, str]
    points: Callable[[Any, int, int], Points]
    model: Callable[[Any, str, int], Any]
    x1: Float[np.ndarray, " g1"]
    x2: Float[np.ndarray, " g2"]
    centre: tuple[float, float]


def experiment(plane: Plane, config: type, **quick: Any) -> Experiment:
    """Describe the experiment; its parts are the methods. `quick`: settings of the small form."""
    return Experiment(
        name=plane.name,
        config=config,
        parts=plane.labels,
        cells=draws(20, quick=2),
        work=partial(fit_cell, plane),
        section=partial(markdown.section_by_method, plane.name, plane.labels, _FIGURES),
        draw=partial(draw, plane),
        quick=quick,
    )


def fit_cell(plane: Plane, config: Any, key: Key) -> dict[str, Any]:
    """Fit one method to one draw; score new points, and ask how sure it is far from all of them.

    config
        Has a seed and n_points.
    """
    seeds = [uci.cell_seed(config.seed, key["draw"], k) for k in range(3)]
    train = plane.points(config, config.n_points, seeds[0])
    model = plane.model(config, key["method"], seeds[1]).fit(train.X, train.y)
    new = plane.points(config, _N_NEW, seeds[2])
    found = model.predict_dist(new.X)
    angle = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    far = model.predict_dist(np.asarray(plane.centre) + FAR_RADIUS * circle)
    scores = metrics.summarise(found, new.y)
    return {
        "accuracy": scores["accuracy"],
        "log_likelihood": scores["log_likelihood"],
        "calibration_error": scores["calibration_error"],
        "entropy_at_data": np.mean(found.entropy),
        "entropy_far": np.mean(far.entropy),
        "information_at_data": np.round(np.mean(found.mutual_information), 6),
        "information_far": np.round(np.mean(far.mutual_information), 6),
        **(_field(plane, model, train) if key["draw"] == _PICTURED else {}),
    }


def _field(plane: Plane, model: Any, train: Points) -> dict[str, Any]:
    at = np.stack(np.meshgrid(plane.x1, plane.x2, indexing="ij"), axis=-1).reshape(-1, 2)
    dist = model.predict_dist(at)
    shape = (len(plane.x1), len(plane.x2))
    return {
        "field": {
            "probability": np.round(dist.proba[:, 1], 4).reshape(shape),
            "entropy": np.round(dist.entropy, 4).reshape(shape),
            "X_train": train.X,
            "y_train": train.y,
        }
    }


def draw(plane: Plane, rows: Sequence[Row], stem: Path) -> None:
    """Draw probability and entropy of every method that the rows hold."""
    from papers.figures import class_field_figure
    from papers.figures.class_field_figure import Field

    pictured = {
        plane.labels[row.cell["method"]]: {k: np.asarray(v) for k, v in row.result["field"].items()}
        for row in rows
        if row.result and row.cell["draw"] == _PICTURED
    }
    if not pictured:
        return
    shown = ((name, pictured[name]) for name in plane.labels.values() if name in pictured)
    fields = {name: Field(f["probability"], f["entropy"]) for name, f in shown}
    first = next(iter(pictured.values()))
    class_field_figure.draw(
        stem,
        x1=plane.x1,
        x2=plane.x2,
        fields=fields,
        X_train=first["X_train"],
        positive=first["y_train"] == 1,
    )


_FIGURES = {
    "accuracy": "accuracy on new points",
    "log_likelihood": "log-likelihood, nats a point",
    "calibration_error": "expected calibration error",
    "entropy_at_data": "entropy at new points, nats",
    "entropy_far": "entropy on a circle of radius 6 around them, nats",
    "information_at_data": "its epistemic part at new points, nats",
    "information_far": "its epistemic part on the circle, nats",
}

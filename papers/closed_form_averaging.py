"""Figure 2b of Roth & Pernkopf (2016): errors of averages over drawn networks, and in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier
from bayesprop.moments import closed_form_vi
from bayesprop.networks.mlp import plain_apply
from papers import closed_form_mnist, markdown
from papers.protocol import Cell, Experiment, Key, Selection
from papers.rows import Row

NAME = "closed-form-averaging"
N_DRAWS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)


@dataclass(frozen=True)
class Config:
    """Settings of the figure; the network is one of Table 1's NN VI."""

    seed: int = 1
    dataset: str = "mnist"
    units: int = 400
    n_epochs: int = 60
    batch_size: int = 100
    learning_rate: float = 1e-3
    likelihood_weight: float = 10.0
    prior_scale: float = 1.0
    n_repeats: int = 25


def cells(_config: Config, _asked: Selection) -> list[Cell]:
    """List the one cell: train a network and average draws of it."""
    return [Cell({"part": "averaging"})]


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Train, predict in closed form, and average up to 100 networks, many times over."""
    del key
    data = closed_form_mnist.pictures(config.dataset, config.seed)
    model = ClosedFormVIClassifier(
        (config.units, config.units),
        config.n_epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        likelihood_weight=config.likelihood_weight,
        prior_scale=config.prior_scale,
        expectation="taylor",
        standardise=False,
        random_state=config.seed,
    ).fit(data.train_x, data.train_y)
    x = jnp.asarray(data.test_x)
    errors = [
        _errors_of_averages(model.state_.network, x, data.test_y, seed)
        for seed in range(config.n_repeats)
    ]
    mean_weights = model.set_params(prediction="mean").predict(data.test_x)
    expected = model.set_params(prediction="expected").predict(data.test_x)
    return {
        "closed_form_error": np.mean(expected != data.test_y),
        "mean_weights_error": np.mean(mean_weights != data.test_y),
        "n_draws": N_DRAWS,
        "errors": np.transpose(errors),
        **model.fit_report_.guards,
    }


def _errors_of_averages(state: Any, x: Any, y: np.ndarray, seed: int) -> list[float]:
    """Errors after 1, 2, ... networks, whose probabilities are summed up one by one."""
    total, errors = np.zeros(1), []
    for draw in range(1, max(N_DRAWS) + 1):
        key = jax.random.fold_in(jax.random.key(seed), draw)
        total = total + np.asarray(_probabilities(key, state, x))
        if draw in N_DRAWS:
            errors.append(float(np.mean(total.argmax(axis=1) != y)))
    return errors


@jax.jit
def _probabilities(key: Any, state: Any, x: Any) -> Any:
    weights = closed_form_vi.sample(key, state).weights
    return jax.nn.softmax(jax.vmap(partial(plain_apply, weights))(x))


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the errors of averages beside the closed form's."""
    from papers.figures import averaging_figure

    result = rows[-1].result or {}
    averaging_figure.draw(
        stem,
        n_draws=np.asarray(result["n_draws"]),
        errors=100.0 * np.asarray(result["errors"]),
        closed_form=100.0 * result["closed_form_error"],
    )


def section(rows: Sequence[Row]) -> str:
    """Write the errors of averages, and of the closed form."""
    finished = markdown.latest(rows)
    if not finished:
        return markdown.section(NAME, rows, finished)
    result, config = finished[-1].result or {}, finished[-1].config
    errors = 100.0 * np.asarray(result["errors"])
    lines = [
        [f"average of {n}", f"{e.mean():.3f}", f"{e.std(ddof=1):.3f}"]
        for n, e in zip(result["n_draws"], errors, strict=True)
    ]
    lines += [
        ["closed form, one pass", f"{100 * result['closed_form_error']:.3f}", "–"],
        ["mean weights", f"{100 * result['mean_weights_error']:.3f}", "–"],
    ]
    return markdown.section(
        NAME,
        rows,
        finished,
        units=config["units"],
        dataset=config["dataset"],
        n_epochs=config["n_epochs"],
        likelihood_weight=config["likelihood_weight"],
        n_repeats=config["n_repeats"],
        table=markdown.table(("prediction", "test error, %", "std over repeats"), lines),
        most=result["n_draws"][-1],
        gap=errors[-1].mean() - 100 * result["closed_form_error"],
    )


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=("averaging",),
    cells=cells,
    work=fit_cell,
    section=section,
    draw=draw,
    quick={"dataset": "digits", "units": 32, "n_epochs": 20},
)

"""The lecture's practical on two moons: a network by variational inference, beside MC dropout.

The lecture prints nothing of it; points, noise and network are those of `mc-dropout-moons`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bayesprop.estimators.bayes_by_backprop import BayesByBackpropClassifier
from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier
from papers import mc_dropout_moons, plane

NAME = "lecture-moons"


@dataclass(frozen=True)
class Config(mc_dropout_moons.Config):
    """Settings of the experiment; those of the prior are for the variational methods."""

    prior_std: float = 0.5
    n_vi_epochs: int = 1000


def model(config: Config, method: str, seed: int) -> Any:
    """Build a variational network, or one of those of `mc-dropout-moons`."""
    sizes = (config.n_hidden, config.n_hidden)
    if method == "bayes-by-backprop":
        return BayesByBackpropClassifier(
            sizes,
            config.n_vi_epochs,
            prior="normal",
            prior_std=config.prior_std,
            learning_rate=1e-2,
            random_state=seed,
        )
    if method == "closed-form-vi":
        return ClosedFormVIClassifier(sizes, config.n_vi_epochs, random_state=seed)
    return mc_dropout_moons.model(config, method, seed)


PLANE = replace(
    mc_dropout_moons.PLANE,
    name=NAME,
    labels={
        "network": "one network",
        "bayes-by-backprop": "VI: Bayes by Backprop",
        "closed-form-vi": "VI: closed form",
        "mc-dropout": "MC dropout",
    },
    model=model,
)


EXPERIMENT = plane.experiment(PLANE, Config, n_vi_epochs=200)

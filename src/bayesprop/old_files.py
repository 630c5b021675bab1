"""What model files of earlier versions say, in the words of this one."""

from __future__ import annotations

from typing import Any

_ADDED: dict[str, dict[str, Any]] = {
    "network": {"dropconnect_masks": "batch"},
    "pbp": {"refresh_every": None},
}
_PAPER = {
    "hidden_layer_sizes": [50],
    "n_epochs": 200,
    "batch_size": 32,
    "learning_rate": 1e-2,
    "activation": "relu",
    "prior": "normal",
    "prior_scale": "fan_in",
    "likelihood_weight": 1.0,
    "optimizer": "adam",
    "kl_warm_up": 100.0,
    "prediction": "expected",
    "n_draws": 100,
}
_ENSEMBLE = (
    "hidden_layer_sizes", "n_epochs", "n_members", "batch_size", "random_state", "verbose",
)  # fmt: skip
_ONLY_OF_THE_ENSEMBLE = ("n_members", "learn_residual")
_OF_CLASSES = _PAPER | {
    "kl_warm_up": 0.0,
    "expectation": "exact",
    "standardise": True,
    "warm_start": False,
}


def in_todays_words(header: dict[str, Any]) -> dict[str, Any]:
    """Return the header of a stored estimator as this version writes it.

    The method "closed-form-vi" had two regressors, whose parameters were None where they had not
    been set. One is `BayesianMLPRegressor` today, which then always learnt replicates. The method
    "mlp" had a classifier of few parameters that is `ClosedFormVIClassifier` today. DropConnect had
    one mask a batch, and PBP refreshed its prior after whole passes.
    """
    params = header["model"].get("params", {})
    if header["method"] in _ADDED:
        return _with_params(header, _ADDED[header["method"]] | params)
    if header["method"] == "mlp" and "likelihood_weight" in params:
        return _with_params({**header, "method": "closed-form-vi"}, _OF_CLASSES | params)
    if header["method"] != "closed-form-vi" or "n_members" not in params:
        return header
    if params["noise"] == "network":
        rate, residual = params["learning_rate"], params["learn_residual"] is not False
        return _with_params(
            {**header, "method": "mlp"},
            {
                **{name: params[name] for name in _ENSEMBLE},
                "learning_rate": 1e-2 if rate is None else rate,
                "learn_residual": residual,
                "learn_replicates": residual,
            },
        )
    defaults = _PAPER | ({"kl_warm_up": 0.0} if params["optimizer"] == "lbfgs" else {})
    kept = {name: value for name, value in params.items() if name not in _ONLY_OF_THE_ENSEMBLE}
    filled = {name: defaults.get(name) if v is None else v for name, v in kept.items()}
    return _with_params(header, filled)


def _with_params(header: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    return {**header, "model": {**header["model"], "params": params}}

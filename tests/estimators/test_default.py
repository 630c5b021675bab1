"""The default estimators as a user meets them; small networks, few epochs."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest

from bayesprop import BayesianClassifier, BayesianRegressor
from bayesprop.tabular_default import held_out
from method_settings import predicted, wave


@pytest.mark.parametrize("kind", [BayesianRegressor, BayesianClassifier])
def test_a_weight_is_a_number_of_copies(kind):
    """Up to rounding: a table of one batch, of too few inputs to be judged by leaving them out."""
    x, y = wave(9)
    y, copies = (y > 40.0).astype(float), np.array([2, 1, 0, 1, 3, 1, 1, 1, 2])
    weighted = kind(n_epochs=5, random_state=0).fit(x, y, sample_weight=copies)
    repeated = kind(n_epochs=5, random_state=0).fit(x.repeat(copies, axis=0), y.repeat(copies))
    np.testing.assert_allclose(
        *(getattr(m, "predict_proba", m.predict)(x) for m in (weighted, repeated)), rtol=1e-4
    )


@pytest.mark.parametrize("kind", [BayesianRegressor, BayesianClassifier])
def test_rows_of_weight_zero_are_rows_that_are_not_there(kind):
    x, y = wave(40)
    x[1], y, weight = x[0], (y > 40.0).astype(float), np.where(np.arange(40) % 3 == 1, 0.0, 2.0)
    groups = np.arange(40) // 3
    for labels in ({}, {"groups": groups}):
        there = kind(n_epochs=4, random_state=0).fit(x, y, sample_weight=weight, **labels)
        kept = weight > 0.0
        rest = {name: of[kept] for name, of in labels.items()}
        gone = kind(n_epochs=4, random_state=0).fit(x[kept], y[kept], weight[kept], **rest)
        np.testing.assert_array_equal(there.predict(x), gone.predict(x))


OTHER = {
    "hidden_layer_sizes": (3, 3),
    "n_epochs": 5,
    "n_members": 3,
    "learn_processes": False,
    "batch_size": 17,
    "learning_rate": 0.02,
    "random_state": 1,
    "target_kind": "positive",
}


def table_for(kind, *, is_field):
    """Return rows that networks of few steps do not learn all of, where a parameter wants them."""
    rng = np.random.default_rng(0)
    if kind is BayesianRegressor:  # errors that agree at the same inputs
        x = rng.uniform(-2.0, 2.0, (60, 1))
        y = np.sin(6.0 * x[:, 0]) + 0.5 * rng.standard_normal(60)
        return np.tile(x, (2, 1)), 10.0 + np.tile(y, 2) + 0.02 * rng.standard_normal(120)
    if is_field:  # of two classes, chequered
        x = rng.uniform(-1.0, 1.0, (400, 2))
        return x, np.floor(2.0 * x).sum(axis=1) % 2 > 0.0
    x, y = wave()
    return x, y > 40.0


LAST_LINES = {
    BayesianRegressor: ("network 1 of 4  step 16 of 16", "network 4 of 4  step 4 of 4"),
    BayesianClassifier: ("network 8 of 8  step 4 of 4",),
}


@cache
def of_few_steps(kind, *, is_field):
    """Return a model, to be changed in one parameter, and its rows."""
    x, y = table_for(kind, is_field=is_field)
    n_epochs = 8 if kind is BayesianRegressor else 4
    return kind((4,), n_epochs=n_epochs, n_members=2, random_state=0).fit(x, y), x, y


# The exposure of counts: test_kinds_of_targets.py; the order of classes: test_order_of_classes.py.
PARAMETERS = [
    (kind, name)
    for kind in (BayesianRegressor, BayesianClassifier)
    for name in inspect.signature(kind).parameters
    if name not in ("exposure", "order", *(["target_kind"] * (kind is BayesianClassifier)))
]


@pytest.mark.parametrize(("kind", "name"), PARAMETERS)
def test_every_parameter_changes_something(kind, name, capfd):
    plain, x, y = of_few_steps(kind, is_field=name == "learn_processes")
    assert not capfd.readouterr().err
    other = kind(**plain.get_params() | {name: OTHER.get(name, 1)}).fit(x, y)
    changed = not np.array_equal(predicted(other, x), predicted(plain, x))
    assert changed == (name != "verbose")
    if name == "verbose":
        lines = capfd.readouterr().err
        for line in LAST_LINES[kind]:
            assert f"\n{line}  loss " in lines


@pytest.mark.parametrize("kind", [BayesianRegressor, BayesianClassifier])
def test_a_network_without_layers_is_refused(kind):
    x, y = wave()
    with pytest.raises(ValueError, match="hidden_layer_sizes must hold at least one int"):
        kind(hidden_layer_sizes=()).fit(x, y > 40.0)


@pytest.mark.parametrize("unit", [0.1, 100.0])
def test_the_unit_of_weights_says_nothing_of_the_noise_of_a_process(unit: float):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (220, 2))
    y = np.sin(2.0 * x[:, 0]) * x[:, 1] + 0.1 * rng.standard_normal(220)
    model = BayesianRegressor((3,), 60, n_members=2, random_state=0)
    weight = np.full(120, unit)
    model.fit(x[:120], y[:120], sample_weight=weight)
    assert model.process_shares_[0] > 0.8
    assert model.fit_report_.guards["process_rows"] == 120
    noise_var = np.exp(model.state_.experts[1].processes[0].logarithms[3]) * np.var(y[:120])
    assert 0.01 / 3.0 < noise_var < 0.01 * 3.0
    assert model.score(x[120:], y[120:]) > 0.95


def test_weights_that_stay_independent_are_told(monkeypatch):
    x = np.random.default_rng(0).standard_normal((40, 2))
    settings = {"n_epochs": 5, "n_members": 2, "random_state": 0}
    model = BayesianRegressor((4,), **settings).fit(x, x[:, 0])
    assert model.fit_report_.warnings == []
    monkeypatch.setattr(held_out, "MOST_WEIGHTS", 10)
    with pytest.warns(UserWarning, match="stay independent"):
        model = BayesianRegressor((4,), **settings).fit(x, x[:, 0])
    (told,) = model.fit_report_.warnings
    assert told.startswith("The 19 weights of a network stay independent")
    assert (model.predict_dist(x).epistemic_var > 0.0).all()

"""Constructors and their documentation, over every estimator in the table of methods."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from typing import get_args

import pytest
from sklearn.base import clone

from bayesprop.catalogue import METHODS, estimator_class
from bayesprop.estimators import params
from bayesprop.networks.mlp import ACTIVATIONS

CLASSES = [estimator_class(name, task) for name, method in METHODS.items() for task in method.homes]
PAIRS = [
    tuple(estimator_class(name, task) for task in method.homes)
    for name, method in METHODS.items()
    if len(method.homes) == 2
]
NETWORKS = [cls for cls in CLASSES if "n_epochs" in inspect.signature(cls).parameters]
# Where the regressor's parameter is another one than the classifier's, and is described so.
DIFFER = {
    # None is a choice by the number of rows.
    "BayesianRegressor": {
        "hidden_layer_sizes", "n_epochs", "n_members", "batch_size", "random_state",
    },
}  # fmt: skip


def described(cls: type) -> dict[str, str]:
    """Parameter -> its type and words, in the order of the docstring."""
    text = inspect.cleandoc(cls.__doc__ or "")
    block = re.search(r"^Parameters\n-+\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    assert block, f"{cls.__name__} documents no parameters"
    found = {}
    for entry in re.split(r"\n(?=\S)", block.group(1)):
        names, _, words = entry.partition(" : ")
        found |= dict.fromkeys(names.split(", "), words)
    return found


@pytest.mark.parametrize("cls", CLASSES)
def test_the_docstring_lists_the_parameters_of_the_signature(cls):
    assert list(described(cls)) == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_regressor_and_classifier_describe_a_parameter_by_the_same_words(pair):
    regressor, classifier = map(described, pair)
    differ = {name for name in regressor.keys() & classifier if regressor[name] != classifier[name]}
    assert differ == {"target_kind"} | DIFFER.get(pair[0].__name__, set())


@pytest.mark.parametrize("cls", CLASSES)
def test_defaults_keep_their_rules_which_are_not_asked_of_them(cls):
    for name, (rule, default) in params.rules(cls).items():
        rule.check(name, default)


@pytest.mark.parametrize("cls", NETWORKS)
def test_only_layers_and_epochs_are_positional(cls):
    parameters = inspect.signature(cls).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["hidden_layer_sizes", "n_epochs"]
    assert all(left.kind <= right.kind for left, right in pairwise(parameters))
    model = cls((3,), 7)
    assert (model.hidden_layer_sizes, model.n_epochs) == ((3,), 7)


@pytest.mark.parametrize("cls", NETWORKS)
def test_a_network_is_compared_by_identity_and_shows_what_differs(cls):
    model = cls((3,), random_state=1)
    assert repr(model) == f"{cls.__name__}(hidden_layer_sizes=(3,), random_state=1)"
    assert model != cls((3,), random_state=1)
    assert hash(model) != hash(clone(model))
    with pytest.raises(TypeError, match="n_epoch"):
        cls(n_epoch=3)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("bad", ["nonsense", -1, float("nan")])
def test_a_value_that_breaks_the_rule_is_refused_by_name(cls, bad):
    for name in params.rules(cls):
        with pytest.raises(ValueError, match=rf"{name} must .*got {bad!r}"):
            cls(**{name: bad}).check_params()


GOOD_AND_BAD = {
    params.Count: ([1, 7], [0, 1.0, 2.5, True, "1", None]),
    params.Positive: ([1, 0.5], [0.0, -1.0, float("inf"), True, "1"]),
    params.NotNegative: ([0, 0.5], [-0.1, float("inf"), False]),
    params.Share: ([0.0, 0.5], [1.0, -0.1, "0.5", (0.1, 0.2)]),
    params.BelowOne: ([0.5], [0.0, 1.0, True]),
    bool: ([True, False], ["yes", None, 1]),
    params.Sizes: ([(), (3,), 3, [3, 4]], [(0,), (2.5,), "3"]),
    params.Noise: (["learned", "input", 4.0], ["network", 0.0, None]),
    params.GammaPrior: ([(1.1, 0.01)], [(1.0, 6.0), (0.5, 1.0), (2.0, 0.0), 3, (2.0, 1.0, 1.0)]),
}


@pytest.mark.parametrize("annotation", GOOD_AND_BAD)
def test_rules_at_their_ends(annotation):
    rule, (good, bad) = params.rule_of(annotation), GOOD_AND_BAD[annotation]
    assert rule is not None
    for value in good:
        rule.check("it", value)
    for value in bad:
        with pytest.raises(ValueError, match=r"it must .* got "):
            rule.check("it", value)


def test_every_activation_may_be_asked_for():
    assert set(ACTIVATIONS) == set(get_args(params.Activation))

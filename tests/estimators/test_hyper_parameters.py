"""Constructors and their documentation, over every estimator in the table of methods."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from itertools import pairwise

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
    for one in fields(cls):
        if "check" in one.metadata:
            one.metadata["check"](one.name, one.default)
        elif str(one.type).startswith("Literal"):
            assert repr(one.default) in str(one.type)


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
    for one in fields(cls):
        if not (one.metadata or str(one.type).startswith("Literal")):
            continue
        with pytest.raises(ValueError, match=rf"{one.name} must .*got {bad!r}"):
            cls(**{one.name: bad}).check_params()


GOOD_AND_BAD = {
    "COUNT": ([1, 7], [0, 1.0, 2.5, True, "1", None]),
    "POSITIVE": ([1, 0.5], [0.0, -1.0, float("inf"), True, "1"]),
    "NOT_NEGATIVE": ([0, 0.5], [-0.1, float("inf"), False]),
    "SHARE": ([0.0, 0.5], [1.0, -0.1, "0.5", (0.1, 0.2)]),
    "BELOW_ONE": ([0.5], [0.0, 1.0, True]),
    "FLAG": ([True, False], ["yes", None, 1]),
    "SIZES": ([(), (3,), 3, [3, 4]], [(0,), (2.5,), "3"]),
    "NOISE": (["learned", "input", 4.0], ["network", 0.0, None]),
    "GAMMA": ([(1.1, 0.01)], [(1.0, 6.0), (0.5, 1.0), (2.0, 0.0), 3, (2.0, 1.0, 1.0)]),
}


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_rules_at_their_ends(name):
    check, (good, bad) = getattr(params, name)["check"], GOOD_AND_BAD[name]
    for value in good:
        check("it", value)
    for value in bad:
        with pytest.raises(ValueError, match=r"it must .* got "):
            check("it", value)


def test_every_activation_may_be_asked_for():
    for name in ACTIVATIONS:
        params.ACTIVATION["check"]("activation", name)

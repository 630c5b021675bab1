"""Every classifier takes an order of its classes; the default learns by it."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

from bayesprop import BayesianClassifier, PBPClassifier
from bayesprop.catalogue import CLASSIFICATION
from bayesprop.store import estimator_from_stored
from method_settings import ALL, X, Y, silently, unfitted

CLASSIFIERS = [name for name, task in ALL if task == CLASSIFICATION]
WORDS = ("low", "mid", "high")
CODES = np.digitize(Y, [-0.5, 0.5])
LABELS = np.array(WORDS)[CODES]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_keeps_the_order(name):
    model = unfitted(name, CLASSIFICATION, target_kind="ordered", order=WORDS)
    with warnings.catch_warnings(record=True) as advice:  # so few rows let others advise too
        warnings.simplefilter("always")
        model.fit(X, LABELS)
    is_told = any("without their order" in str(one.message) for one in advice)
    assert is_told == (name != "default")
    if is_told:
        plain = silently(unfitted(name, CLASSIFICATION).fit, X, LABELS)
        np.testing.assert_array_equal(plain.predict_proba(X), model.predict_proba(X))


def test_words_in_order_are_learnt_as_their_numbers():
    settings = {"hidden_layer_sizes": (4,), "n_epochs": 20, "n_members": 2, "random_state": 0}
    numbers = BayesianClassifier(target_kind="ordered", **settings).fit(X, CODES)
    words = BayesianClassifier(target_kind="ordered", order=WORDS, **settings).fit(X, LABELS)
    places = [words.classes_.tolist().index(word) for word in WORDS]
    p = words.predict_proba(X)[:, places]
    np.testing.assert_allclose(p, numbers.predict_proba(X), rtol=1e-12)  # sums in another order
    assert sum(name.startswith("ordered") for name in numbers.shares_) == 4
    assert sum(numbers.shares_.values()) == pytest.approx(1.0)
    other = BayesianClassifier(target_kind="ordered", order=("mid", "low", "high"), **settings).fit(
        X, LABELS
    )
    assert np.abs(other.predict_proba(X) - words.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"order": None}, "order must name every class once"),
        ({"order": ("low", "high")}, "order must name every class once"),
        ({"order": ("low", "mid", "high", "low")}, "order must name every class once"),
        ({"target_kind": "classes"}, "target_kind must be 'ordered' with it"),
        ({"target_kind": "count"}, "target_kind must be one of classes, ordered"),
    ],
)
def test_orders_are_checked(change, rule):
    settings = {"target_kind": "ordered", "order": WORDS, "n_epochs": 2} | change
    with pytest.raises(ValueError, match=rule):
        BayesianClassifier(**settings).fit(X, LABELS)


def test_a_level_that_no_row_has_may_be_named():
    order = ("none", *WORDS)
    model = PBPClassifier(n_epochs=2, target_kind="ordered", order=order, random_state=0)
    with pytest.warns(UserWarning, match="without their order"):
        model.fit(X, LABELS)
    assert model.predict_dist(X).order == (1, 2, 0)


@pytest.mark.parametrize("change", [{"order": [0, 1, 1]}, {"order": [0, 1]}, {"target_kind": 0}])
def test_a_file_with_another_order_is_refused(change):
    model = unfitted("default", CLASSIFICATION, target_kind="ordered", order=WORDS).fit(X, LABELS)
    header, arrays = model.to_stored()
    header = copy.deepcopy(header)
    if "order" in change:
        header["model"]["fit"]["task"]["Classes"] |= change
    else:
        header["model"]["params"] |= {"target_kind": "classes", "order": None}
    with pytest.raises(ValueError, match="order"):
        estimator_from_stored(header, arrays)

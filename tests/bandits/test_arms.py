"""Arms by name and number, and the inputs that tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import codec
from bayesprop.bandits.arms import Arms, Choices

FEATURES = [[1.0, 0.5], [2.0, -0.5]]


def test_numbers_are_given_once_and_kept():
    arms = Arms(["x", 7, np.float64(0.5)], room=5)
    arms.add(np.str_("y"))
    arms.remove(7)
    assert arms.names == ["x", 7, 0.5, "y"]
    assert [type(name) for name in arms.names] == [str, int, float, str]
    assert arms.active.tolist() == [0, 2, 3]
    assert arms.number("y") == 3
    assert arms.number(7, removed_too=True) == 1
    with pytest.raises(ValueError, match=r"no arm 7; there are 'x', 0.5, 'y'"):
        arms.number(7)
    with pytest.raises(ValueError, match="arm 7 is there already, or was and keeps its name"):
        arms.add(7)


def test_inputs_are_the_context_beside_the_arm():
    rows, numbers = np.array([[3.0], [4.0]]), np.array([2, 0])
    plain = Choices(rows, Arms(["a", "b", "c"], room=4), numbers)
    np.testing.assert_array_equal(plain.inputs, [[3, 0, 0, 1, 0], [4, 1, 0, 0, 0]])
    known = Arms(["a", "b"], features=FEATURES)
    known.add("c", [9.0, 8.0])
    np.testing.assert_array_equal(Choices(rows, known, numbers).inputs, [[3, 9, 8], [4, 1, 0.5]])
    assert known.width == 2


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ([], {}, "must hold one name at least"),
        (["a", "a"], {}, "arm 'a' is there already"),
        ([1, 1.0], {}, "arm 1.0 is there already"),
        ([None], {}, "must be text or a finite number, got None"),
        ([True], {}, "must be text or a finite number, got True"),
        ([float("nan")], {}, "must be text or a finite number, got nan"),
        (["a", "b"], {"room": 1}, r"room for 1 arms, removed ones included: give room="),
        (["a"], {"room": 1.5}, "room must be an int >= 1, got 1.5"),
        (["a"], {"room": 2, "features": [[1.0]]}, "room is for arms without arm_features"),
        (["a"], {"features": [[1.0], [2.0]]}, r"arm_features must have the shape \(1, any\)"),
        (["a"], {"features": [[np.nan]]}, "arm_features must be finite"),
    ],
)
def test_what_cannot_be_arms_is_said(names, settings, message):
    with pytest.raises(ValueError, match=message):
        Arms(names, **settings)


def test_what_cannot_be_added_or_removed_changes_nothing():
    plain, known = Arms(["a", "b"]), Arms(["a", "b"], features=FEATURES)
    for arms, name, features, message in (
        (plain, "c", None, "room for 2 arms"),
        (plain, "c", [1.0], "this bandit has none: leave them out"),
        (known, "c", None, "this bandit needs them"),
        (known, "c", [1.0], r"features must have the shape \(2\)"),
        (known, "c", [1.0, np.inf], "features must be finite"),
    ):
        before = codec.to_json(arms, Arms)
        with pytest.raises(ValueError, match=message):
            arms.add(name, features)
        assert codec.to_json(arms, Arms) == before
    plain.remove("a")
    with pytest.raises(ValueError, match="arm 'b' is the last one: add another before"):
        plain.remove("b")
    with pytest.raises(ValueError, match="no arm 'a'"):
        plain.remove("a")
    assert plain.active.tolist() == [1]

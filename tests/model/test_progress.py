"""Where a computation says how far it is, and when it must end."""

from __future__ import annotations

import math
import time

import pytest

import bayesprop
from bayesprop.model.progress import NothingLearntError, Progress, current, following


def shares(progress):
    shown = []
    return shown, Progress(show=lambda *at: shown.append(at), **progress)


def test_parts_of_parts_are_places_in_the_whole():
    shown, whole = shares({})
    half = whole.part(0.5, 1.0, "round 2 of 2")
    half.part(0.5, 1.0, "fold 2 of 2").report(1, 4, "epoch 1")
    half.report(0, 4, "epoch 0")
    assert shown == [
        (pytest.approx(0.5 + 0.5 * (0.5 + 0.5 / 4)), "round 2 of 2, fold 2 of 2, epoch 1"),
        (0.5, "round 2 of 2, epoch 0"),
    ]


def test_a_part_has_its_share_of_the_time_that_is_left():
    assert math.isinf(Progress().part(0.0, 1.0, time_share=0.1).deadline)
    whole = Progress(deadline=time.monotonic() + 100.0)
    assert whole.part(0.0, 1.0, time_share=0.25).seconds_left == pytest.approx(25.0, abs=1.0)
    assert not whole.is_over
    whole.stop.set()
    assert whole.part(0.0, 1.0).is_over


def test_what_ends_early_is_noted_once_and_by_its_cause():
    over = Progress(deadline=-math.inf, within="round 1 of 2")
    assert not over.is_cut(3, 3, "epochs")
    assert over.is_cut(2, 3, "epochs")
    over.cut("nothing else")
    (note,) = over.cuts
    assert note.startswith("stopped by the time limit after ")
    assert note.endswith(" s: round 1 of 2, 2 of 3 epochs")
    with pytest.raises(NothingLearntError, match=r"stopped by the time limit after .*: no draws"):
        over.refuse("no draws")
    asked = Progress()
    asked.stop.set()
    asked.cut("1 of 3 epochs")
    assert asked.cuts[0].startswith("stopped by an interrupt after ")
    with pytest.raises(KeyboardInterrupt):
        asked.refuse("no draws")


def test_the_nearest_of_two_limits_counts():
    with bayesprop.time_limit(5.0):
        with bayesprop.time_limit(100.0):
            assert current().seconds_left < 6.0
        with following(Progress()):
            assert math.isinf(current().deadline)
        assert current().seconds_left < 6.0
    assert math.isinf(current().deadline)
    with pytest.raises(ValueError, match="seconds must be a number above 0, got '60s'"):
        bayesprop.time_limit("60s").__enter__()  # type: ignore[arg-type]

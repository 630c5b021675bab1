import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_encoding import stored_and_back

from bayesprop.table.division import HoldOut, divide
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message, TableError
from bayesprop.table.target import choose_task, class_codes, fit_classes

N = 40
X = pl.Series("x", np.arange(N) ** 2 / 7.0)


def target(values, dtype=None):
    return pl.Series("y", values, dtype, strict=False)


def fitted(values, task=None):
    frame = pl.DataFrame({"x": X[: len(values)], "y": values})
    return frame, TableEncoding.fit(frame, "y", task)


def divided(values, task=None):
    frame = pl.DataFrame({"x": X[: len(values)], "y": values})
    return divide(frame, "y", task, HoldOut(0.0))


def refusal_of(read, *given):
    """The one line in which something is refused."""
    with pytest.raises(TableError) as caught:
        read(*given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 20, "classification"),
        (["yes", None, "no"] * 13, "classification"),
        ([True, False] * 20, "classification"),
        ([True, None, False] * 13, "classification"),
        ([0, 1] * 20, "classification"),
        ([0.0, 1.0, None, float("nan")] * 10, "classification"),
        ([3, 7] * 20, "classification"),
        ([-1, 1] * 20, "classification"),
        (["0", "1"] * 20, "classification"),
        (["0", "1+"] * 20, "classification"),
        (["1", "2", "3 or more"] * 13, "classification"),
        (list(range(N)), "regression"),
        ([0, 1, 2] * 13, "regression"),
        ([0.5, 1.0] * 20, "regression"),
        ([0, 1], "regression"),
        ([7] * N, "regression"),
        (np.linspace(0.0, 1.0, N).tolist(), "regression"),
        ([f"{i / 7}" for i in range(N)], "regression"),
    ],
)
def test_the_target_says_what_it_asks_for(values, task):
    assert choose_task(target(values)).task == task
    assert divided(values).task == task


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["1", "2", "x"])])
def test_categories_are_classes_by_their_owners_word(kind):
    assert choose_task(target(["1", "2"] * 20, kind)).task == "classification"


def test_two_whole_numbers_are_two_classes_and_said_to_be():
    choice = choose_task(target([0.0, 1.0] * 20))
    assert choice.remark == Message.of("target.two_numbers", "y", low=0, high=1)
    few = choose_task(target([4, 5, 6, 7] * 10))
    assert few.task == "regression"
    assert few.remark == Message.of("target.few_numbers", "y", n=4)
    assert choose_task(target([0.5, 1.5, 2.5, 3.5] * 10)) == few
    marked = choose_task(target(["10 kg", "20 kg"] * 20))
    assert marked.task == "classification"
    assert marked.remark == Message.of("target.few_texts", "y", n=2, example="10 kg")
    for values in (["a", "b"] * 20, list(range(N)), [7] * N):
        assert choose_task(target(values)).remark is None


SEPARATED = [f"{k},{k:03d}" for k in range(3, 40)]


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["a", "b"] * 20, "regression", "'y' must be a number, got 'a'"),
        ([True, False] * 20, "regression", "'y' must be a number, got 'True'"),
        ([datetime.date(2024, 1, 1)] * N, None, "'y' holds dates or times"),
        (["2024-01-01", "2024-01-02"] * 20, None, "'y' holds dates or times: predict a number"),
        ([f"{i} {'kl'[i % 2]}g" for i in range(N)], None, "written as text, such as '0 kg'"),
        (["1.5", "2", "about 3", *["4"] * 37], None, "got 'about 3' in data row 3"),
        (["1,210", "7", "4 sq. km", *SEPARATED], None, "must hold numbers, got '4 sq. km' in data"),
        (["1,210", "7", "4 sq. km", *SEPARATED], "regression", "got '4 sq. km' in data row 3"),
        (
            [1.0, float("inf")] * 20,
            "regression",
            "must hold finite numbers, got inf in data rows 2, ",
        ),
    ],
)
def test_targets_that_ask_for_nothing_clear(values, task, message):
    assert message in refusal_of(divided, values, task)


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["b", "a ", None, "", "é", "NA"], ("NA", "a", "b", "é")),
        ([True, False, None], (False, True)),
        ([2.0, 1.0, None, 10.0], (1, 2, 10)),
        ([10, 9, 1], (1, 9, 10)),
        (["2", "10", "1"], (1, 2, 10)),
        ([0.5, 1.0, 10.0], ("0.5", "1", "10")),
        ([str(2**63), str(2**63 - 1)], (str(2**63 - 1), str(2**63))),
        (["true", "FALSE", "true"], (False, True)),
        (["1", "2", "3+"], ("1", "2", "3+")),
        (['a,"b', "c\nd", "日本", "<b>"], ("<b>", 'a,"b', "c\nd", "日本")),
        (["Nan", "Bob", "Nan"], ("Bob", "Nan")),
    ],
)
def test_classes_are_sorted_labels_of_one_kind(values, classes):
    found = fit_classes(target(values))
    assert found == classes
    assert len({type(label) for label in found}) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a"] * 9, "is 'a' in all 9 rows: a classifier requires at least two classes"),
        ([f"n{i}" for i in range(30)], "30 different values in 30 rows, which identify the rows"),
        (list(range(30)), "use task='regression', or group them"),
        ([i / 4 for i in range(20)] * 9, "20 different numbers, with fractions"),
        ([1.0, float("inf"), 2.0], "must hold finite numbers, got inf in data row 2"),
        (["1/2/24", "1/3/24"], "holds dates"),
    ],
)
def test_targets_without_classes(values, message):
    assert message in refusal_of(fit_classes, target(values))


@pytest.mark.parametrize(
    ("classes", "values", "codes"),
    [
        ((1, 2, 10), [10.0, None, 1.0], [2, None, 0]),
        ((1, 2, 10), ["10", "", " 1"], [2, None, 0]),
        (("1", "2", "3+"), [2, 1, 2], [1, 0, 1]),
        (("1", "2", "3+"), ["2", "3+"], [1, 2]),
        (("0.5", "1"), [1.0, 0.5, float("nan")], [1, 0, None]),
        ((False, True), ["TRUE", "false", None], [1, 0, None]),
        ((False, True), [1, 0, 1], [1, 0, 1]),
        (("True", "maybe"), [True, True], [0, 0]),
        (("1", "1.0", "x"), ["1.0", "1", "x"], [1, 0, 2]),
        (("a", "b"), [None, None], [None, None]),
        (("Bob", "Nan"), ["Nan", "Bob", "Nan"], [1, 0, 1]),
    ],
)
def test_a_later_table_may_spell_the_classes_otherwise(classes, values, codes):
    assert class_codes(target(values), classes).to_list() == codes


@pytest.mark.parametrize(
    ("classes", "values", "message"),
    [
        (("a", "b"), ["a", "c", "d", "c"], "the class 'c' in data row 2 (and 1 other like it)"),
        ((0, 1), [0, 1, 2], "the class '2' in data row 3, which is not in the model"),
        ((0, 1), ["0", "one"], "the class 'one' in data row 2"),
        ((False, True), ["true", "maybe"], "the class 'maybe' in data row 2"),
        (("a", "A"), ["a", "á"], "its classes are 'a', 'A'; leave such rows out, or fit again"),
    ],
)
def test_an_unknown_class_is_named_with_its_row(classes, values, message):
    assert message in refusal_of(class_codes, target(values), classes)


def test_the_task_can_be_asked_for_both_ways():
    frame, encoding = fitted([0, 1] * 20, "regression")
    assert encoding.task == "regression"
    assert encoding.target(frame).dtype == np.float64
    frame, encoding = fitted([4, 5, 6, 7] * 10, "classification")
    assert encoding.classes == (4, 5, 6, 7)
    assert encoding.report == []


def visible(cell):
    return "".join(c for c in str(cell).strip().lower() if c.isprintable()).strip()


def columns_of(cells):
    return st.lists(st.one_of(st.none(), cells), min_size=4, max_size=N)


TEXT = st.one_of(
    st.sampled_from(["", " a", "a", "NA", "1", "1.0", "true", "é"]), st.text(max_size=3)
)


@settings(deadline=None, max_examples=50)
@given(
    st.one_of(
        columns_of(TEXT),
        columns_of(st.integers(-3, 3)),
        columns_of(st.booleans()),
        columns_of(st.sampled_from([0.0, 1.0, 2.5, float("nan"), 1e300])),
    )
)
def test_any_target_is_refused_in_one_line_or_found_again(values):
    try:
        frame, encoding = fitted(values, "classification")
        known = stored_and_back(encoding).rows(frame)
    except TableError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    found = known.y.tolist()
    assert set(found) == set(encoding.classes)
    for place, label in zip(known.numbers - 1, found, strict=True):
        assert visible(label) == visible(values[place]) or float(label) == float(values[place])

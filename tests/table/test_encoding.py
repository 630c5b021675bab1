import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_encoding import stored_and_back

from bayesprop.table.division import HoldOut, divide
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message, TableError, did_you_mean

N = 30
Y = pl.Series("y", np.linspace(0.0, 1.0, N))
X = pl.Series("x", np.arange(N) ** 2 / 7.0)
CITY = pl.Series("city", ["Rome", "Oslo", "Bonn"] * (N // 3))


def table(*columns):
    return pl.DataFrame({column.name: column for column in (X, *columns, Y)})


def divided(frame):
    return divide(frame, "y", None, HoldOut(0.0))


def test_numbers_and_booleans_stay_and_text_becomes_one_column_a_level():
    frame = table(CITY, pl.Series("ok", [True, False, True] * 10))
    encoding = TableEncoding.fit(frame, "y")
    assert encoding.feature_names == ["x", "city=Bonn", "city=Oslo", "city=Rome", "ok"]
    assert encoding.report == []
    rows = encoding.encode(frame).X
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows[:, 0], X.to_numpy())
    np.testing.assert_array_equal(rows[:3, 1:4], np.eye(3)[::-1])
    np.testing.assert_array_equal(rows[:3, 4], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(encoding.target(frame), Y.to_numpy())


def test_a_column_that_the_model_needs_is_not_suggested_for_another():
    x = np.arange(40.0)
    frame = pl.DataFrame({"carat": x % 7, "clarity": x % 11, "carats": x % 13, "CARAT": x % 17})
    encoding = TableEncoding.fit(frame, "carats")
    with pytest.raises(TableError, match=r"'carat'; did you mean 'Carat'\?$"):
        encoding.encode(frame.drop("carat").with_columns(Carat=1.0))
    with pytest.raises(TableError, match="'carat'; allow_missing_columns treats them as missing"):
        encoding.encode(frame.drop("carat"))


def test_a_name_in_another_case_is_suggested():
    assert did_you_mean("Y", ["x", "y"]) == "; did you mean 'y'?"
    assert did_you_mean("PRISE", ["Price", "price", "PRICE"]) == "; did you mean 'Price'?"
    assert did_you_mean("y", ["x"]) == ""


def test_absent_columns_may_be_allowed_and_are_missing_in_every_row():
    encoding = TableEncoding.fit(table(CITY), "y")
    rows, warnings = encoding.encode(pl.DataFrame({"x": [1.0, 2.0]}), allow_absent=True)[:2]
    np.testing.assert_array_equal(rows, [[1.0] + 3 * [np.nan], [2.0] + 3 * [np.nan]])
    assert warnings == [Message.of("columns.absent", "city", n=1, are="is")]
    with pytest.raises(TableError, match="'city'; allow_missing_columns treats them as missing"):
        encoding.encode(pl.DataFrame({"x": [1.0, 2.0]}))
    with pytest.raises(TableError, match=r"lacks 2 columns that the model needs: 'x', 'city'$"):
        encoding.encode(pl.DataFrame({"other": [1.0]}), allow_absent=True)


@pytest.mark.parametrize(
    "name", ["name", "count", "level", "", "<script>alert(1)</script>", "a\nb"]
)
def test_free_text_is_dropped_and_hostile_names_are_plain_text(name):
    encoding = TableEncoding.fit(table(pl.Series(name, [f"p{i}" for i in range(N)])), "y")
    assert encoding.feature_names == ["x"]
    assert encoding.report == [Message.of("dropped.names", name, n=30, n_rows=30)]
    assert repr(name) in str(encoding.report[0])
    kept = TableEncoding.fit(table(pl.Series(name, ["a", "b"] * 15)), "y")
    assert kept.feature_names == ["x", f"{name}=a", f"{name}=b"]


def test_gaps_that_tell_of_a_number_are_marked():
    x = np.arange(40.0)
    frame = pl.DataFrame({"x": x, "z": [None if one < 12 else one for one in x], "y": x})
    encoding = TableEncoding.fit(frame, "y", "regression")
    assert encoding.feature_names == ["x", "z", "z is missing"]
    assert encoding.report == [Message.of("column.telling_gaps", "z", n=12)]
    np.testing.assert_array_equal(encoding.encode(frame).X[:, 2], x < 12)


def test_gaps_that_tell_of_a_class_are_marked():
    y = ["a", "b"] * 40
    words = [None if one == "a" and k % 3 else "u" for k, one in enumerate(y)]
    frame = pl.DataFrame({"x": np.arange(80.0), "z": words, "w": words[::-1], "y": y})
    encoding = TableEncoding.fit(frame, "y")
    # A column that is the same wherever it has a value is of use by its gaps, or not at all.
    assert encoding.feature_names == ["x", "z=u", "z is missing", "w=u", "w is missing"]
    frame = frame.with_columns(y=pl.Series(["a"] * 40 + ["b"] * 40))
    encoding = TableEncoding.fit(frame, "y")
    assert encoding.feature_names == ["x"]
    (both,) = encoding.report
    assert (both.code, both.columns) == ("dropped.constant_but_for_gaps", ("z", "w"))
    assert str(both) == "2 columns dropped, the same wherever it has a value: 'z', 'w'"


def test_gaps_that_training_did_not_have_are_counted():
    encoding = TableEncoding.fit(table(CITY), "y")
    new = pl.DataFrame({"x": [None, 1.0, None], "city": ["Rome", None, "Oslo"]})
    rows, warnings = encoding.encode(new)[:2]
    np.testing.assert_array_equal(rows[:, 0], [np.nan, 1.0, np.nan])
    np.testing.assert_array_equal(rows[1, 1:], np.full(3, np.nan))
    assert [*map(str, warnings)] == [
        "2 columns with missing values, and none in the training data, so that error bars are"
        " wider: 'x' 2, 'city' 1"
    ]
    _, warnings = encoding.encode(new.with_columns(city=pl.lit("Oslo")))[:2]
    assert warnings == [Message.of("column.new_gaps", "x", n=2)]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pl.Series("c", [3] * N), "it is 3 in every row"),
        (pl.Series("c", ["a"] * N), "it is 'a' in every row"),
        (pl.Series("c", [None] * N), "it has no values"),
        (pl.Series("c", [float("nan")] * N), "it has no values"),
        (pl.Series("c", [""] * N), "it has no values"),
        (pl.Series("id", range(N)), "it numbers the rows"),
        (pl.Series("unnamed_1", range(N)), "it numbers the rows"),
        (pl.Series("Customer ID", np.random.default_rng(0).permutation(N)), "it numbers the rows"),
        (pl.Series("rownames", range(1, N + 1)), "it numbers the rows"),
        (pl.Series("studyid", range(1000, 1000 + N)), "it numbers the rows"),
        (pl.Series("UserId", range(1000, 1000 + N)), "it numbers the rows"),
        (pl.Series("X", range(1, N + 1)), "it numbers the rows"),
        (pl.Series("case", range(N)), "it numbers the rows"),
    ],
)
def test_columns_without_use_are_dropped_with_a_sentence(column, reason):
    frame = table(column).with_columns(y=np.random.default_rng(1).standard_normal(N))
    encoding = TableEncoding.fit(frame, "y")
    assert encoding.feature_names == ["x"]
    (remark,) = encoding.report
    assert remark.columns == (column.name,)
    assert str(remark).startswith(f"column {column.name!r} dropped: {reason}")


def test_numbers_that_only_look_like_row_numbers_stay():
    frame = table(
        pl.Series("width", range(N)), pl.Series("id", np.arange(N) + 0.5),
        pl.Series("user_id", [i // 2 for i in range(N)]),
        pl.Series("paid", np.random.default_rng(1).permutation(N)),
        pl.Series("X", np.random.default_rng(2).permutation(N)),
    )  # fmt: skip
    encoding = TableEncoding.fit(frame, "y")
    assert encoding.feature_names == ["x", "width", "id", "user_id", "paid", "X"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series("d", ["10:30", "9:05:01"] * 15), "holds dates in several formats"),
        (pl.Series("d", [b"x"] * N), "must hold numbers, true/false or text, got Binary"),
    ],
)
def test_columns_without_one_meaning_are_left_out_with_advice(column, message):
    encoding = TableEncoding.fit(table(column), "y")
    assert [one.name for one in encoding.columns] == ["x"]
    (remark,) = encoding.report
    assert (remark.code, remark.columns) == ("column.left_out", ("d",))
    assert f"it {message}" in str(remark)
    assert encoding.encode(table()).X.shape == (N, 1)


def test_few_numbers_with_units_are_categories_and_said_to_be():
    encoding = TableEncoding.fit(table(pl.Series("size", ["2 doors", "4 seats"] * 15)), "y")
    assert encoding.feature_names == ["x", "size=2 doors", "size=4 seats"]
    assert encoding.report == [Message.of("column.like_numbers", "size", example="2 doors", n=2)]
    grades = pl.Series("rooms", ["1", "2", "3+"] * 10)
    encoding = TableEncoding.fit(table(grades), "y")
    assert encoding.feature_names == ["x", "rooms=1", "rooms=2", "rooms=3+"]
    only_numbers = table(pl.Series("rooms", [1, 2] * 15))
    assert encoding.encode(only_numbers).warnings == []
    assert encoding.encode(only_numbers.cast({"rooms": pl.Float64})).warnings == []


def test_dates_in_a_numeric_column_are_named_at_prediction():
    encoding = TableEncoding.fit(table(), "y")
    rows, (remark, _) = encoding.encode(pl.DataFrame({"x": [datetime.date(2024, 1, 1)]}))[:2]
    assert np.isnan(rows).all()
    assert remark == Message.of("column.times", "x", got="Date").within("column.all_missing")


def test_rows_without_a_target_are_left_out_and_counted():
    y = Y.to_list()
    y[3] = y[4] = None
    frame = pl.DataFrame({"x": X, "y": y})
    parts = divided(frame)
    assert parts.numbers.tolist() == [1, 2, 3, *range(6, N + 1)]
    assert parts.remarks == [Message.of("left_out.no_target", "y", n=2)]
    assert len(parts.encoding().target(frame)) == N - 2
    assert divided(table()).remarks == []


def test_infinite_numbers_are_missing_and_named_by_rows_of_the_whole_table():
    bad = table(pl.Series("z", [*map(float, range(N - 1)), float("inf")]))
    parts = divided(bad)
    own = {"holds": "finite numbers", "where": "inf in data row 30"}
    assert Message.of("stray.missing", "z", **own) in parts.remarks
    assert parts.frame["z"].null_count() == 1


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows(n):
    with pytest.raises(
        TableError, match=f"the table has {n} rows? with a target; a fit requires at least 2"
    ):
        divided(table().head(n))


def test_no_column_left():
    with pytest.raises(TableError) as caught:
        TableEncoding.fit(pl.DataFrame({"c": [1] * N, "y": Y}), "y")
    dropped = Message.of("dropped.constant", "c", value="1")
    assert caught.value.problems == (Message.of("columns.none", "y"), dropped)


def test_encoded_names_are_unique():
    frame = table(CITY.alias("c"), pl.Series("c=Rome", range(N)), pl.Series("c=Rome (2)", range(N)))
    names = TableEncoding.fit(frame, "y").feature_names
    assert len(set(names)) == len(names)


CELL = st.one_of(
    st.none(),
    st.sampled_from(["", "a", "b ", "é", "<b>", "NA", "12 kg", "<0.5", "> 2", "3"]),
    st.text(max_size=3),
)
NUMBER = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=False))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(NUMBER, CELL, st.one_of(st.none(), st.booleans())), min_size=4, max_size=30),
    st.text(max_size=5),
)
def test_any_table_is_refused_in_one_line_or_stored_and_applied_alike(rows, name):
    kinds = {"number": pl.Float64, f"text {name}": pl.String, "flag": pl.Boolean}
    frame = pl.DataFrame(rows, kinds, orient="row").with_columns(y=np.arange(float(len(rows))))
    try:
        encoding = TableEncoding.fit(frame, "y")
    except TableError as error:
        assert not any("\n" in str(one) for one in error.problems)  # noqa: PT017  (most are fine)
        return
    again = stored_and_back(encoding)
    assert again == encoding
    matrix, warnings = again.encode(frame)[:2]
    assert warnings == []  # nothing about the training rows themselves can be a surprise
    assert not np.isinf(matrix).any()
    assert matrix.shape == (len(rows), len(encoding.feature_names))
    np.testing.assert_array_equal(matrix, encoding.encode(frame).X)


def test_words_beside_limits_in_a_target_are_named():
    frame = pl.DataFrame({"x": X})
    words = pl.Series("y", ["<5", "5 ft", "6 ft", *map(str, range(3, N))])
    with pytest.raises(TableError, match=r"correct it, or leave it empty"):
        TableEncoding.fit(frame.with_columns(words), "y", "regression")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([*map(str, range(N - 1)), "x"], ("x",)),
        ([f"{k}.5 kg" if k % 3 else "PRESENT" for k in range(N)], ("PRESENT",)),
        ([f"{k}.5" if k % 2 else "AB"[k % 4 // 2] for k in range(N)], ("A", "B")),
        (["6,413", *(f"{k}" for k in range(1, N))], ()),
    ],
)
def test_words_among_numbers_are_missing_and_named(values, words):
    frame = table(pl.Series("d", values))
    encoding = TableEncoding.fit(frame, "y")
    column = encoding.columns[1]
    assert (column.words, column.missing) == (words, bool(words))
    again = stored_and_back(encoding)
    assert again == encoding
    d = again.encode(frame).X[:, 1]
    np.testing.assert_array_equal(np.isnan(d), [value in words for value in values])
    assert again.encode(frame[-1:].with_columns(d=pl.lit(values[-1]))).warnings == []
    if words:
        n = sum(value in words for value in values)
        shown = ", ".join(map(repr, words))
        rows = "1 row" if n == 1 else f"{n} rows"
        own = {"others": "numbers", "words": f"{shown} in {rows}"}
        assert encoding.questions == [Message.of("column.words", "d", **own)]
        assert Message.of("column.gaps", "d", n=n) in encoding.report
        stray = again.encode(frame[:2].with_columns(d=pl.Series([words[0], "other"])))
        assert np.isnan(stray.X[:, 1]).all()
        assert stray.warnings[0].values["where"] == "'other' in data row 2"


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ([*(f"${k}M" for k in range(1, N)), "$7K"], [1e6, 7e3]),
        ([*(f"{k}" for k in range(1, N)), "1,5"], [1.0, 1.5]),
        ([*(f"{k}" for k in range(1, N)), "x"], [1.0, np.nan]),
        ([*(f"{k % 5}/{k % 7 + 1}/2024" for k in range(1, N)), "13/2/2024"], None),
    ],
)
def test_a_part_of_a_column_is_read_as_the_whole(values, numbers):
    values = ["1/1/2024" if value.startswith("0/") else value for value in values]
    parts = divide(table(pl.Series("d", values)), "y", None, HoldOut(0.3))
    parts = parts._replace(is_test=np.arange(N) >= N - 1)
    encoding = parts.encoding()
    assert encoding.columns[1].kind == ("date" if numbers is None else "numeric")
    train, test = parts.encoded(encoding)
    if numbers is None:
        assert encoding.columns[1].form == "%d/%m/%Y"
    else:
        np.testing.assert_array_equal([train.X[0, 1], test.X[0, 1]], numbers)


def test_codes_and_numbers_in_several_units_are_levels():
    codes = [f"{k}" if k % 2 else f"A/{k} {k}" for k in range(N)] * 2
    units = [f"{k % 15} kg" if k % 3 else f"{k % 15} lb" for k in range(2 * N)]
    marks = [f"{k}-AB{k % 7}" for k in range(2 * N)]
    frame = pl.DataFrame({"code": codes, "weight": units, "id": marks, "x": range(2 * N)})
    frame = frame.with_columns(y=pl.col("x").shuffle(0))
    encoding = TableEncoding.fit(frame, "y", "regression")
    kinds = {column.name: column.kind for column in encoding.columns}
    assert kinds == {"code": "category", "weight": "category", "x": "numeric"}
    of_code = Message.of("column.words_among_numbers", "code", words="'A/0 0' in 30 rows", n=30)
    assert encoding.questions == [of_code]
    like_numbers = Message.of("column.like_numbers", "weight", example="0 lb", n=15)
    assert encoding.report[1] == like_numbers
    prices = pl.Series("d", [f"{'$€'[i % 2]}{i}.50" for i in range(N)])
    dropped = TableEncoding.fit(table(prices), "y")
    asked = Message.of("dropped.names_or_numbers", "d", example="$0.50")
    assert dropped.questions == [asked]


def test_columns_that_repeat_another_are_dropped_and_named():
    frame = table(CITY, CITY.alias("town"), X.alias("again"), (X + 0.0).reverse().alias("other"))
    encoding = TableEncoding.fit(frame, "y")
    assert [column.name for column in encoding.columns] == ["x", "city", "other"]
    (remark,) = encoding.report
    assert str(remark).endswith("the same as others: 'town' as 'city', 'again' as 'x'")
    encoding = TableEncoding.fit(frame.drop("again"), "y")
    assert encoding.report == [Message.of("dropped.double", "town", other="city")]
    code = CITY.str.reverse().alias("code")
    merged = code.replace("olsO", "emoR").alias("merged")
    gaps = code.replace("emoR", None).alias("gaps")
    encoding = TableEncoding.fit(table(CITY, code, merged, gaps), "y")
    assert [column.name for column in encoding.columns] == ["x", "city", "merged", "gaps"]
    assert Message.of("dropped.double_levels", "code", other="city") in encoding.report


def test_none_is_a_level_among_words_and_missing_among_numbers():
    words = ["None", "Some", "Marked"] * (N // 3)
    numbers = ["None", *map(str, range(1, N))]
    days = ["None", *(f"2024-01-{1 + k % 28:02d}" for k in range(1, N))]
    columns = {"w": words, "n": numbers, "d": days, "b": ["None", "true", "FALSE"] * (N // 3)}
    frame = table(*(pl.Series(name, column) for name, column in columns.items()))
    encoding = divided(frame.select("n", "w", "b", "d", "y")).encoding()
    assert encoding.feature_names[:6] == ["n", "w=Marked", "w=None", "w=Some", "b", "d (years)"]
    rows = encoding.encode(frame).X
    assert np.isnan(rows[0, [0, 4, 5]]).all()
    alone = pl.DataFrame([pl.Series(name, ["None"]) for name in columns])
    np.testing.assert_array_equal(encoding.encode(alone).X[0], rows[0])
    assert TableEncoding.fit(frame.select("w", "x"), "w").classes == ("Marked", "None", "Some")


def test_codes_among_words_are_categories():
    codes = ["A", *(f"0{k}.{j}" for k in range(3) for j in range(4))]
    frame = table(pl.Series("code", (codes * N)[:N]))
    assert "code=01.1" in TableEncoding.fit(frame, "y").feature_names
    numbers = frame.with_columns(pl.col("code").str.strip_chars_start("0."))
    assert "code" in TableEncoding.fit(numbers, "y").feature_names


def test_what_holds_of_several_columns_is_said_once():
    days = [f"2024-01-{1 + k % 28:02d}" for k in range(N)]
    answers = ["0_no", "1_yes", "1_yes"] * (N // 3)
    bands, older = ["24-", "25+"] * (N // 2), ["24-"] * (N // 2) + ["25+"] * (N // 2)
    columns = {"from": days, "to": days[::-1], "age": bands, "wife": older, "ill": answers}
    frame = table(*(pl.Series(name, column) for name, column in columns.items()))
    assert [*map(str, TableEncoding.fit(frame, "y").report)] == [
        "2 columns with dates or times, used as years, weekday: 'from' such as '2024-01-01',"
        f" 'to' such as {days[-1]!r}",
        "2 columns with text that begins like numbers, used as categories: 'age' such as '24-',"
        " 'wife' such as '24-'",
    ]


def test_of_many_columns_a_few_are_named():
    constant = (pl.Series(f"c{k}", [1] * N) for k in range(12))
    (sentence,) = TableEncoding.fit(table(*constant), "y").report
    assert str(sentence).startswith("12 columns dropped, the same in every row: 'c0', 'c1', ")
    assert str(sentence).endswith("'c7' and 4 more")

"""Text by its spelling: trigrams, their weights, and when they are used."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop.table.columns import understood
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message
from bayesprop.table.supervised import PULLS, Target, folds_of, least_error_of_levels
from bayesprop.table.target_encoded import FEWEST_ROWS, MOST_TRIGRAMS, TextColumn

N = 200
TITLES = {"Mr": 3.0, "Mrs": -2.0, "Miss": -4.0, "Dr": 6.0}


def word(rng):
    return "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 7)).capitalize()


@pytest.fixture(scope="module")
def frame():
    """People of whom nothing but a title tells."""
    rng = np.random.default_rng(0)
    titles = rng.choice(list(TITLES), N)
    return pl.DataFrame(
        {
            "x": rng.standard_normal(N),
            "name": [f"{word(rng)}, {title}  {word(rng)}" for title in titles],
            "y": [TITLES[title] for title in titles] + rng.standard_normal(N),
        }
    )


def trigrams_of(text):
    """Write down three characters after three, word by word."""
    return {
        (" " + word + " ")[at : at + 3] for word in text.lower().split() for at in range(len(word))
    }


def indicators(texts):
    """Trigrams of three texts or more but not of all, sorted, and which text has which."""
    held = [trigrams_of(text) for text in texts]
    counts = {one: sum(one in own for own in held) for one in set().union(*held)}
    kept = sorted(one for one, n in counts.items() if FEWEST_ROWS <= n < len(texts))
    return kept, np.array([[one in own for one in kept] for own in held], float)


def ridge(phi, y, penalty):
    """Hoerl & Kennard (1970), eq. 2.1, of centred columns."""
    mean, centred = phi.mean(axis=0), phi - phi.mean(axis=0)
    square = centred.T @ centred + penalty * np.eye(phi.shape[1])
    weights = np.linalg.solve(square, centred.T @ (y - y.mean()))
    return weights, y.mean() - mean @ weights


def test_text_is_the_sum_of_the_weights_of_its_trigrams(frame):
    encoding = TableEncoding.fit(frame, "y")
    column = encoding.columns[1]
    assert isinstance(column, TextColumn)
    assert encoding.feature_names == ["x", "name (mean y by spelling)"]
    own = {"n": N, "labels": "mean y"}
    assert encoding.report == [Message.of("column.spelling", "name", **own)]
    kept, phi = indicators(frame["name"].to_list())
    assert list(column.trigrams) == kept
    weights, intercept = ridge(phi, frame["y"].to_numpy(), column.penalty)
    np.testing.assert_allclose(np.ravel(column.weights), weights, atol=1e-5)
    later = ["Xqzw, Mrs Qxjv", "MISS", "ŽŽŽ", None, "Mr" + " Mr" * 2000]
    sums = [one @ weights for one in np.array([[t in trigrams_of(s or "") for t in kept]
                                               for s in later], float)]  # fmt: skip
    X, warnings = encoding.encode(pl.DataFrame({"x": 0.0, "name": later}))[:2]
    np.testing.assert_allclose(X[[0, 1, 2, 4], 1], np.array(sums)[[0, 1, 2, 4]] + intercept,
                               atol=1e-5)  # fmt: skip
    assert np.isnan(X[3, 1])
    assert len(warnings) == 1
    assert warnings == [Message.of("column.new_gaps", "name", n=1)]


def test_the_penalty_is_that_of_the_least_errors_at_rows_left_out(frame):
    some = frame[:60]
    column = TextColumn.fit(some["name"], some.select("y").to_numpy(), ["mean y"])
    _, phi = indicators(some["name"].to_list())
    y = some["y"].to_numpy()

    def error(penalty):
        total = 0.0
        for row in range(len(y)):
            others = np.arange(len(y)) != row
            weights, intercept = ridge(phi[others], y[others], penalty)
            total += (y[row] - phi[row] @ weights - intercept) ** 2
        return total

    penalties = 10.0 ** np.linspace(-1.0, 4.0, 11)
    assert column.penalty == pytest.approx(min(penalties, key=error))


def test_the_own_target_of_a_row_and_its_fold_never_reaches_it(frame):
    encoding = TableEncoding.fit(frame, "y")
    X = encoding.cross_fitted(encoding.encode(frame).X, frame, None)
    fold, y = folds_of(N, None), frame["y"].to_numpy()
    _, phi = indicators(frame["name"].to_list())
    for one in (0, 7):
        weights, intercept = ridge(phi[fold != one], y[fold != one], encoding.columns[1].penalty)
        expected = phi[fold == one] @ weights + intercept
        np.testing.assert_allclose(X[fold == one, 1], expected, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_have_a_share_each(frame, n_classes):
    cuts = np.quantile(frame["y"], np.linspace(0.0, 1.0, n_classes + 1)[1:-1])
    kind = np.array(list("abc"))[np.digitize(frame["y"], cuts)]
    encoding = TableEncoding.fit(frame.drop("y").with_columns(kind=kind), "kind")
    shares = [f"name (share of {one} by spelling)" for one in ("b", "abc")[n_classes == 3]]
    assert encoding.feature_names == ["x", *shares]
    X = encoding.encode(frame).X[:, 1:]
    if n_classes == 3:
        np.testing.assert_allclose(X.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.exhaustive
def test_spelling_of_no_use_is_dropped():
    """Of a hundred tables of names at random at most two use them: 1.5 errors above a hundredth."""
    rng, n_used = np.random.default_rng(1), 0
    for _ in range(100):
        names = [f"{word(rng)[:4]} {word(rng)[:4]}" for _ in range(60)]
        frame = pl.DataFrame({"x": rng.standard_normal(60), "who": names, "y": rng.random(60)})
        n_used += len(TableEncoding.fit(frame, "y").columns) - 1
    assert n_used <= 2


def test_spelling_that_says_what_another_column_says_is_dropped(frame):
    titles = frame["name"].str.extract(r", (\w+) ")
    known = frame.with_columns(rank=titles.replace_strict(TITLES, return_dtype=pl.Float64))
    assert TableEncoding.fit(known, "y").feature_names == ["x", "rank"]
    partly = known.with_columns(rank=pl.col("rank").abs())
    assert "name (mean y by spelling)" in TableEncoding.fit(partly, "y").feature_names


def test_the_target_is_left_by_a_ridge_regression_of_other_columns(frame):
    """Of unit penalty a column, both standardised: Hoerl & Kennard (1970), eq. 2.1."""
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    fitted = [*understood(frame.drop("y")).values()]
    residual = Target(y[:, None], ["mean y"], fitted, frame).residual[:, 0]
    z = (x - x.mean()) / x.std()
    standard = (y - y.mean()) / y.std()
    expected = standard - z * (z @ standard) / (N + 1)
    np.testing.assert_allclose(residual, expected * y.std() / np.abs(y).max(), rtol=1e-9)
    alone = frame.select("name", "y")
    residual = Target(y[:, None], ["mean y"], [], alone).residual[:, 0]
    np.testing.assert_allclose(residual, standard * y.std() / np.abs(y).max(), rtol=1e-9)


@pytest.mark.parametrize("name", ["code", "row_id"])
def test_numbers_of_rows_in_text_tell_of_the_table_alone(name):
    """Sorted by its target, as tables are, every part of it is told by the number of the row."""
    order = np.random.default_rng(2).permutation(N)
    step = 1 if name == "code" else 977
    text = pl.Series(name, [f"p-{step * row:06d}" for row in order])
    frame = pl.DataFrame({"x": np.arange(N) % 7, "y": np.float64(order)}).with_columns(text)
    encoding = TableEncoding.fit(frame, "y")
    assert encoding.feature_names == ["x"]
    assert encoding.report == [Message.of("dropped.names", name, n=N, n_rows=N)]


def test_levels_that_are_spelt_alike_are_used_for_it():
    rng = np.random.default_rng(3)
    roots, ranks = [word(rng) for _ in range(30)], ["junior", "senior", "chief"]
    place, rank = rng.integers(0, 30, 300), rng.integers(0, 3, 300)
    jobs = [f"{ranks[k]} {roots[i]}" for k, i in zip(rank, place, strict=True)]
    noise = 0.3 * rng.standard_normal(300)
    frame = pl.DataFrame({"job": jobs, "pay": 2.0 * rank + noise})
    encoding = TableEncoding.fit(frame, "pay")
    assert encoding.feature_names == ["job (mean pay by spelling)"]
    n = frame["job"].n_unique()
    own = {"n": n, "labels": "mean pay"}
    assert encoding.report == [Message.of("column.many_levels_by_spelling", "job", **own)]
    own = rng.standard_normal(90)[30 * rank + place] + noise
    encoding = TableEncoding.fit(frame.with_columns(pay=own), "pay")
    assert encoding.feature_names == ["job (mean pay)", "job (log rows)"]


def test_the_least_error_of_levels_is_that_of_the_best_pulled_means():
    rng = np.random.default_rng(5)
    place, fold = rng.integers(0, 9, 60), rng.integers(0, 10, 60)
    y = rng.standard_normal((9, 2))[place] + 0.5 * rng.standard_normal((60, 2))

    def errors(pull):
        each = []
        for row in range(60):
            others = (place == place[row]) & (fold != fold[row])
            mean = y[others].sum(axis=0) / (others.sum() + pull)
            each.append(np.mean((y[row] - mean) ** 2))
        return np.array(each)

    expected = min((errors(pull) for pull in [*PULLS, np.inf]), key=np.mean)
    assert expected.mean() < errors(np.inf).mean()
    np.testing.assert_allclose(least_error_of_levels(place, y, fold), expected)
    alone = np.arange(60)
    np.testing.assert_allclose(least_error_of_levels(alone, y, fold), errors(np.inf))


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_targets_of_any_size(frame, scale):
    X = TableEncoding.fit(frame, "y").encode(frame).X[:, 1]
    large = frame.with_columns(y=pl.col("y") * scale)
    encoding = TableEncoding.fit(large, "y")
    np.testing.assert_allclose(encoding.encode(large).X[:, 1] / scale, X, rtol=1e-5, atol=1e-5)
    own = encoding.cross_fitted(encoding.encode(large).X, large, None)
    assert np.isfinite(own).all()


def test_gaps_and_rows_without_a_target(frame):
    holed = frame.with_columns(
        name=pl.when(pl.int_range(N) % 5 == 0).then(None).otherwise("name"),
        y=pl.when(pl.int_range(N) % 7 == 0).then(None).otherwise("y"),
    )
    encoding = TableEncoding.fit(holed, "y")
    assert encoding.feature_names == ["x", "name (mean y by spelling)"]
    assert Message.of("column.gaps", "name", n=40) in encoding.report
    X = encoding.cross_fitted(encoding.encode(holed).X, holed, None)
    np.testing.assert_array_equal(np.isnan(X[:, 1]), np.arange(N) % 5 == 0)


def test_no_more_than_some_trigrams():
    rng = np.random.default_rng(4)
    words = [word(rng) for _ in range(400)]
    texts = pl.Series("t", [" ".join(rng.choice(words, 12)) for _ in range(300)])
    column = TextColumn.fit(texts, rng.standard_normal((300, 1)), ["mean y"])
    assert len(column.trigrams) == MOST_TRIGRAMS
    _, phi = indicators(texts.to_list())
    least = np.sort(phi.sum(axis=0))[-MOST_TRIGRAMS]
    n = [sum(one in trigrams_of(text) for text in texts) for one in column.trigrams[::50]]
    assert min(n) >= least
    assert TextColumn.fit(texts[:2], np.ones((2, 1)), ["mean y"]) is None


def test_a_fit_learns_what_names_tell(frame):
    """All but the noise of 1 is told by titles that no level shows."""
    model = bayesprop.fit(frame[:160], target="y", method="linear", test_fraction=0)
    new = frame[160:]

    error = new["y"].to_numpy() - model.predict_dist(new).mean
    assert np.sqrt(np.mean(error**2)) < 0.6 * new["y"].std()

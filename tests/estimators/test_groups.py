"""Groups of rows: what `fit(X, y, groups=...)` makes of them, and what it refuses."""

import numpy as np
import pandas as pd
import pytest

from bayesprop import (
    BayesianClassifier,
    BayesianLinearRegressor,
    BayesianRegressor,
    PBPClassifier,
)
from bayesprop.estimators.stored import restored, to_stored
from bayesprop.numerics.rows import Rows
from bayesprop.store import load_model
from bayesprop.tabular_default.held_out import HeldOut


def patients(n: int, per: int, seed: int):
    """Return rows of n patients whose levels their own features explain in part, and the groups."""
    rng = np.random.default_rng(seed)
    own, level, who = rng.standard_normal((n, 3)), rng.standard_normal(n), np.repeat(range(n), per)
    visit = rng.standard_normal((len(who), 2))
    y = level[who] + 0.5 * own[who, 0] + 0.5 * visit[:, 0] + 0.3 * rng.standard_normal(len(who))
    return np.hstack([own[who], visit]), y, who


@pytest.mark.exhaustive
def test_error_bars_are_those_of_new_groups():
    held, ungrouped = [], []
    for seed in range(3):
        X, y, who = patients(30, 10, seed)
        new, target, _ = patients(100, 2, seed + 100)
        for kept, groups in ((held, who), (ungrouped, None)):
            model = BayesianRegressor(n_epochs=400, random_state=seed).fit(X, y, groups=groups)
            interval = model.predict_interval(new, 0.9)
            kept.append(np.mean((interval[:, 0] <= target) & (target <= interval[:, 1])))
    # Two hundred rows of a hundred levels: a standard error of three points, at most, a seed.
    assert abs(np.mean(held) - 0.9) < 0.06
    assert np.mean(ungrouped) < 0.8


def test_what_groups_are_called_and_in_which_order_they_stand_changes_nothing_but_their_folds():
    X, y, who = patients(12, 5, 0)
    fit = BayesianRegressor((5,), n_epochs=5, n_members=2, random_state=0).fit
    as_numbers = fit(X, y, groups=who).predict(X)
    as_text = fit(X, y, groups=np.array([f"P{k:02d}" for k in who])).predict(X)
    np.testing.assert_array_equal(as_numbers, as_text)


def test_no_member_sees_all_groups_and_five_are_the_least():
    X, y, who = patients(12, 5, 0)
    labels = np.where(y > 0.0, "up", "down")
    regressor = BayesianRegressor((5,), n_epochs=5, random_state=0).fit(X, y, groups=who)
    assert regressor.state_.networks.n_members == 6
    classifier = BayesianClassifier((5,), n_epochs=5, n_members=3, random_state=0)
    classifier.fit(X, labels, groups=who)
    assert classifier.state_.experts[0].n_members == 3


def test_the_noise_of_rows_in_groups_has_no_tails(monkeypatch):
    X, y, who = patients(13, 10, 0)

    def asked(*_: object) -> None:
        raise RuntimeError("tails")

    monkeypatch.setattr(HeldOut, "with_tails", asked)
    model = BayesianRegressor((5,), n_epochs=20, n_members=2, random_state=0)
    assert not model.fit(X, y, groups=who).state_.tail.any()
    with pytest.raises(RuntimeError, match="tails"):
        model.fit(X, y)


@pytest.mark.exhaustive
def test_groups_weigh_the_families_of_classes():
    X, y, who = patients(40, 10, 1)
    labels = y > 0.0
    with_groups, without = (
        BayesianClassifier(n_epochs=150, n_members=4, random_state=0).fit(X, labels, groups=g)
        for g in (who, None)
    )
    new, target, _ = patients(200, 1, 2)
    gain = with_groups.log_likelihood(new, target > 0.0) - without.log_likelihood(new, target > 0.0)
    assert gain > 0.05


def test_what_groups_cannot_be_is_refused():
    X, y, who = patients(6, 4, 0)
    default = BayesianRegressor((5,), n_epochs=2)
    with pytest.raises(ValueError, match=r"one label a row, 24, .* got 23$"):
        default.fit(X, y, groups=who[1:])
    with pytest.raises(ValueError, match="two different groups or more"):
        default.fit(X, y, groups=np.zeros(24))
    with pytest.raises(ValueError, match="n_members must be 2 or more"):
        BayesianRegressor((5,), n_epochs=2, n_members=1).fit(X, y, groups=who)
    with pytest.raises(ValueError, match="labels of one kind"):
        default.fit(X, y, groups=np.array([1, "a"] * 12, object))
    for gap in (None, np.nan):
        with pytest.raises(ValueError, match=r"label in every row, got (None|nan) in row 1: "):
            default.fit(X, y, groups=np.array(["a", gap] * 12, object))
    for other, target in ((BayesianLinearRegressor(), y), (PBPClassifier(n_epochs=1), y > 0.0)):
        with pytest.raises(ValueError, match=r"groups must be None for .* holds out no rows"):
            other.fit(X, target, groups=who)


@pytest.fixture(scope="module")
def known():
    """Return a small fit, the rows that it has learnt, and others of the same groups."""
    X, y, who = patients(20, 14, 3)
    names = np.array([f"P{k:02d}" for k in who])
    is_new = np.arange(len(y)) % 7 == 0
    model = BayesianRegressor((5,), n_epochs=60, n_members=2, random_state=0)
    model.fit(X[~is_new], y[~is_new], groups=names[~is_new])
    return model, X[is_new], y[is_new], names[is_new]


def test_a_known_group_is_predicted_by_what_was_learnt_of_it(known):
    model, X, y, names = known
    as_new, as_known = model.predict_dist(X), model.predict_dist(X, groups=names)
    assert as_known.log_prob(y).mean() > as_new.log_prob(y).mean() + 0.3
    assert (as_known.std < as_new.std).all()
    np.testing.assert_array_equal(model.predict(X, groups=names), as_known.mean)
    mean, std = model.predict(X, return_std=True, groups=names)
    np.testing.assert_array_equal(np.stack([mean, std]), [as_known.mean, as_known.std])
    interval, bounds = model.predict_interval(X, groups=names), model.predict_quantiles(X, [0.05])
    np.testing.assert_array_equal(interval, as_known.interval(0.9))
    np.testing.assert_array_equal(bounds, as_new.quantile([0.05]))


def test_doubt_splits_into_group_function_and_noise(known):
    model, X, _, names = known
    stranger = np.where(np.arange(len(X)) % 2, "Q", names)
    predicted = model.predict_dist(X, groups=stranger)
    is_new = stranger == "Q"
    np.testing.assert_array_equal(predicted.var[is_new], model.predict_dist(X).var[is_new])
    assert (predicted.group_share[is_new] > 0.5).all()
    assert (predicted.group_share[~is_new] < 0.2).all()
    parts = predicted.epistemic_var, predicted.group_var, predicted.noise_var - predicted.group_var
    assert np.min(parts) >= 0.0
    np.testing.assert_allclose(sum(parts), predicted.var)
    np.testing.assert_array_equal(
        model.predict_dist(X).group_share[is_new], predicted.group_share[is_new]
    )


def test_where_the_function_is_unsure_a_known_group_is_unsure_too(known):
    model, X, _, names = known
    far = X + np.array([0.0, 0.0, 0.0, 40.0, -40.0])
    as_new, near = model.predict_dist(far), model.predict_dist(X)
    ratio = model.predict_dist(far, groups=names).var / as_new.var
    assert (model.predict_dist(X, groups=names).var / near.var).max() < 0.5
    share = as_new.epistemic_var / as_new.var
    assert share.min() > 0.6
    usual = model.state_.groups[0].usual_share
    assert (ratio > share - usual).all()


def test_missing_values_files_and_weights_keep_the_groups(known, tmp_path):
    model, X, y, names = known
    gappy = X.copy()
    gappy[::2, 4] = np.nan
    np.testing.assert_allclose(
        model.predict(gappy, groups=names)[1::2], model.predict(X, groups=names)[1::2]
    )
    assert model.predict_dist(gappy, groups=names).log_prob(y).mean() > (
        model.predict_dist(gappy).log_prob(y).mean() + 0.3
    )
    model.save(tmp_path / "m")
    fitted = load_model(tmp_path / "m").fitted
    again = fitted.predict(X, groups=names)
    np.testing.assert_array_equal(again.mean, model.predict(X, groups=names))
    own = BayesianRegressor((5,), n_epochs=2, n_members=2, random_state=0)
    own.fit(X, np.column_stack([y, -y]), groups=names, sample_weight=names != "P00")
    assert own.predict(X, groups=names).shape == (len(X), 2)
    assert own.encoding_.groups is not None
    assert len(own.encoding_.groups[0]) == len({*names}) - 1


def test_labels_that_are_not_those_of_the_fit_are_refused(known):
    model, X, y, names = known
    for groups, says in (
        (names[1:], "one label a row, 40, .* got 39$"),
        ("P00", "one label a row, 40, .* got 1$"),
    ):
        with pytest.raises(ValueError, match=says):
            model.predict(X, groups=groups)
    for absent in (np.nan, None):
        groups = np.where(names == "P00", absent, np.arange(len(X)).astype(object))
        with pytest.raises(ValueError, match="groups must hold"):
            BayesianRegressor((5,), n_epochs=2).fit(X, y, groups=groups)
    for other in (
        BayesianLinearRegressor().fit(X, y),
        BayesianRegressor((5,), n_epochs=2, n_members=2).fit(X, y),
    ):
        with pytest.raises(ValueError, match="groups must be None for a model that keeps no"):
            other.predict(X, groups=names)


def test_a_label_is_the_same_whatever_its_type(known):
    X, y = known[1:3]
    day = np.datetime64("2020-01-01")
    days = np.repeat(day + np.arange(8), 5)
    for fitted, same, other in (
        (days, [*map(pd.Timestamp, days)], days + 100),
        (days.astype("datetime64[ns]"), days.astype(object), [None] * 40),
        (np.repeat(np.arange(8), 5), np.repeat([*"01234567"], 5), np.full(40, np.nan)),
        (np.repeat(np.arange(8.0), 5), np.repeat(np.arange(8), 5), np.full(40, 0.5)),
        (np.repeat([*"abcdefgh"], 5), pd.Series(np.repeat([*"abcdefgh"], 5)), np.full(40, "A")),
        (
            np.repeat(2**60 + np.arange(8), 5),
            np.repeat(2**60 + np.arange(8, dtype="u8"), 5),
            X[:, 0],
        ),
    ):
        model = BayesianRegressor((5,), n_epochs=2, n_members=2).fit(X, y, groups=fitted)
        numbers = model.encoding_.group_numbers
        np.testing.assert_array_equal(numbers(same, 40)[:, 0], np.repeat(np.arange(8), 5))
        assert (numbers(other, 40) == -1).all()


def test_every_kind_of_prediction_has_the_variance_of_groups(known):
    model, X, y, names = known
    positive = BayesianRegressor((5,), n_epochs=2, n_members=2, target_kind="positive")
    positive.fit(X, np.exp(y), groups=names)
    for predicted in (
        model.predict_dist(np.where(np.eye(len(X), X.shape[1]) > 0, np.nan, X), groups=names),
        model.predict_dist(X, X_std=0.1, groups=names),
        positive.predict_dist(X, groups=names),
    ):
        np.testing.assert_allclose(predicted.group_var, predicted.group_share * predicted.var)
        assert (predicted.group_var <= predicted.noise_var).all()


def crossed(seed):
    """Return rows of 15 patients at 6 sites."""
    rng = np.random.default_rng(seed)
    who, site, X = (
        rng.integers(15, size=200),
        rng.integers(6, size=200),
        rng.standard_normal((200, 2)),
    )
    y = rng.standard_normal(15)[who] + rng.standard_normal(6)[site] + 0.3 * rng.standard_normal(200)
    return X, y, np.column_stack([who, site])


def test_groups_may_have_several_columns(tmp_path):
    X, y, groups = crossed(0)
    model = BayesianRegressor((5,), n_epochs=20, n_members=2, random_state=0)
    model.fit(X[:150], y[:150], groups=pd.DataFrame(groups[:150]))
    left = slice(150, None)
    fits = [
        model.predict_dist(X[left], groups=labels).log_prob(y[left]).mean()
        for labels in (groups[left], groups[left] + [0, 99], groups[left] + [99, 0], None)
    ]
    assert fits[0] > max(fits[1:3]) + 0.1
    assert min(fits[1:3]) > fits[3] + 0.1
    new = model.predict_dist(X, groups=groups + 99)
    np.testing.assert_array_equal(new.var, model.predict_dist(X).var)
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m").fitted.predict(X, groups=groups.astype(str))
    np.testing.assert_array_equal(again.var, model.predict_dist(X, groups=groups).var)

    for labels, says in (
        (groups[:, 0], "the columns of the fit, 2, got 1"),
        (groups[1:], r"one label a row, 200, .* got the shape \(199, 2\)"),
    ):
        with pytest.raises(ValueError, match=says):
            model.predict(X, groups=labels)
    wide = np.arange(600)[:, None] % [20, 501, 502]
    with pytest.raises(ValueError, match="at most 500 groups together, got 521"):
        BayesianRegressor((5,), n_epochs=2).fit(np.repeat(X, 3, 0), np.repeat(y, 3), groups=wide)


def test_forged_effects_are_refused():
    X, y, groups = crossed(1)
    model = BayesianRegressor((5,), n_epochs=2, n_members=2, random_state=0)
    model.fit(X, y, groups=groups)
    (effects,) = model.state_.groups
    effects.validate()
    for forged in (
        {"sizes": np.array([6, 15])},
        {"sizes": np.array([15])},
        {"factors": np.array([0, 0])},
        {"factors": np.array([0, -1])},
        {"factors": np.empty(0, np.int64), "sizes": np.empty(0, np.int64)},
        {"prior_var": effects.prior_var[:1]},
        {"prior_var": -effects.prior_var},
        {"level_cov": -effects.level_cov},
        {"noise_var": 0.0},
    ):
        with pytest.raises(ValueError, match=r"must be|noise variance"):
            effects._replace(**forged).validate()
    stored = to_stored(model)
    names = stored.header["model"]["fit"]["encoding"]["groups"]
    restored(type(model), stored.header["model"], stored.arrays)
    for forged in (None, names[:1], names[::-1]):
        stored.header["model"]["fit"]["encoding"]["groups"] = forged
        with pytest.raises(ValueError, match="every group whose effects are known"):
            restored(type(model), stored.header["model"], dict(stored.arrays))


def test_noise_within_groups_is_that_of_rows_left_out_if_it_is_larger():
    rng = np.random.default_rng(0)
    group, n = np.repeat(np.arange(12), 12), 144
    X = rng.standard_normal((n, 2))
    y = (X[:, 0] + rng.standard_normal(12)[group] + 0.5 * rng.standard_normal(n))[:, None]
    model = BayesianRegressor((5,), n_epochs=20, n_members=2, random_state=0)
    state = model.fit(X, y, groups=group).state_
    rows = Rows(model.x_scaler_.transform(X), model.y_scaler_.transform(y), None, group)
    plain = state.with_groups(rows, None, 99, np.random.default_rng(1)).groups[0]
    effects = 2.0 * rng.standard_normal(12)[group]
    for std, is_larger in ((1.0, True), (0.01, False)):
        left_out = (effects + std * rng.standard_normal(n))[:, None]
        left_out[:5] = np.nan
        found = state.with_groups(rows, left_out, 99, np.random.default_rng(1)).groups[0]
        assert (found.noise_var > 2.0 * plain.noise_var) == is_larger
        assert found.noise_var >= plain.noise_var
        np.testing.assert_array_equal(found.mean, plain.mean)

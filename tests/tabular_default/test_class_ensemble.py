"""The recipe for classes: slopes, probabilities, what rows left out choose, its way to a file."""

from __future__ import annotations

from dataclasses import replace

import ensemble_objective as objective
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from class_networks import OF_CLASSES as SETTINGS
from class_networks import mean_outputs, slopes_for_classes, widened
from scipy import optimize, special, stats

from bayesprop import codec
from bayesprop.numerics import softmax_expectations
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.experts import ClassState
from bayesprop.tabular_default.fit import Classes, _class_starts, _normals, fit, points
from bayesprop.tabular_default.method import settings_for_classes
from bayesprop.tabular_default.networks import class_outputs, flat, init_member
from bayesprop.tabular_default.piecewise_linear import Ramps, bounded
from bayesprop.tabular_default.training import Job, Table


def uncertain_member(n_inputs: int, n_classes: int, hidden: tuple[int, ...] = (7,)):
    return widened(init_member(np.random.default_rng(0), (n_inputs, *hidden, n_classes)))


@pytest.mark.parametrize(
    "n_classes", [3, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (2, 11))]
)
def test_probabilities_are_those_of_quadrature(n_classes):
    x = np.random.default_rng(1).standard_normal((40, 5))
    member = uncertain_member(5, n_classes)
    m, v = mean_outputs(member, x)
    assert 0.3 < np.median(v) < 30.0
    with jax.enable_x64():
        moments = jax.jit(jax.vmap(softmax_expectations.moments))(m, v)
        entropy = jax.jit(jax.vmap(softmax_expectations.expected_entropy))(m, v, moments)
    ((proba, expected_entropy),) = class_outputs([member], x, points(n_classes))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(proba, moments.proba, atol=0.03)
    np.testing.assert_allclose(expected_entropy, entropy, atol=0.08)


REST = [
    pytest.param(*case, marks=pytest.mark.exhaustive)
    for case in ((2, 20, (7,)), (3, 37, (7,)), (6, 16, (7,)))
]


@pytest.mark.parametrize(("n_classes", "n", "hidden"), [(3, 24, (6, 5)), *REST])
def test_slopes_are_on_average_those_of_the_expected_loss(n_classes, n, hidden):
    """Oracle: automatic differentiation through quadrature, 400 independent steps of size zero."""
    rng = np.random.default_rng(2)
    x, codes = rng.standard_normal((n, 4)), rng.integers(n_classes, size=n)
    rows = Table.of(x, np.eye(n_classes)[codes], rng.uniform(0.5, 2.0, n))
    member = uncertain_member(4, n_classes, hidden)
    got, std_error, losses = slopes_for_classes(member, rows, rng)
    with jax.enable_x64():
        like = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), member)

        def loss(member):
            moments = objective.propagate(
                member.mean, jnp.asarray(rows.x, jnp.float64), member.log_widths
            )
            log_p = jax.vmap(softmax_expectations.exact)(moments.m, moments.v, jnp.asarray(codes))
            data = -jnp.mean(rows.weight * log_p)
            price = objective.adaptive_kl(member.mean, SETTINGS.priors.mean)
            price += objective.width_price(member.log_widths)
            return data + price / rows.n_total, data

        (_, data), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(like)
    want = flat(jax.tree.map(np.asarray, gradient))
    assert (np.abs(got - want) < 5.0 * std_error + 2e-4 * np.abs(want).max()).all()
    error = losses[:, 1].std() / 20.0
    assert abs(losses[:, 1].mean() - float(data)) < 4.0 * error + 1e-3


def test_ramps_rise_between_quantiles():
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.exponential(size=200), rng.integers(3, size=200), np.zeros(200)])
    weight = np.ones(200)
    ramps = Ramps.of(x, weight)
    assert ramps.n_knots.tolist() == [9, 0, 0]
    knots = np.quantile(x[:, 0], np.linspace(0, 1, 9), method="inverted_cdf")
    at = np.array([[-5.0, 0.0, 0.0], [0.5, 1.0, 0.0], [9.0, 2.0, 0.0]])
    given = ramps.encode(at)
    assert given.shape == (3, 3 + 8)
    np.testing.assert_array_equal(given[:2, :3], at[:2])  # the third is beyond five
    height = (given[:, 3:] / 2.0 + ramps.centres).sum(axis=1)
    np.testing.assert_allclose(height, np.interp(at[:, 0], knots, np.arange(9)), atol=1e-5)
    np.testing.assert_allclose(ramps.encode(x)[:, 3:].mean(axis=0), 0.0, atol=1e-6)
    copies = rng.integers(1, 4, 200)
    weighted, repeated = (
        Ramps.of(x, copies),
        Ramps.of(x.repeat(copies, axis=0), np.ones(copies.sum())),
    )
    np.testing.assert_allclose(weighted.knots, repeated.knots)
    np.testing.assert_allclose(weighted.centres, repeated.centres)


def test_values_of_many_rows_are_knots_and_the_others_have_quantiles_of_their_own():
    rng = np.random.default_rng(4)
    amounts = np.sort(rng.exponential(size=40))
    x = np.r_[np.zeros(300), np.full(60, -1.0), amounts][rng.permutation(400), None]
    others = np.quantile(amounts, np.linspace(0, 1, 7), method="inverted_cdf")
    np.testing.assert_array_equal(Ramps.of(x, np.ones(400)).knots, np.r_[-1.0, 0.0, others])
    weight = np.where(x[:, 0] > 0.0, 0.0, 1.0)  # rows of weight 0 are none
    assert Ramps.of(x, weight).n_ramps == 0
    rare = np.where(rng.random(400) < 0.02, 7.0, -0.1)[:, None]
    ramps = Ramps.of(rare, np.ones(400))
    assert np.ptp(ramps.plain(rare)) > 5.0
    assert ramps.plain(np.float32(rare)).dtype == np.float32
    halved = ramps.with_halves(rare, np.ones(400))
    np.testing.assert_allclose(np.ptp(halved.plain(rare)), 2.0)
    np.testing.assert_array_equal(halved.with_halves(amounts[:, None], weight[:40] + 1.0).unit, 1.0)
    even = np.repeat(np.arange(6.0), 5)[:, None]
    np.testing.assert_array_equal(Ramps.of(even, np.ones(30)).knots, np.arange(6.0))


def test_more_columns_than_rows_have_no_ramps():
    x = np.random.default_rng(0).standard_normal((8, 9))
    assert Ramps.of(x, np.ones(8)).n_ramps == 0
    np.testing.assert_array_equal(Ramps.of(x, np.ones(8)).encode(x), np.float32(bounded(x)))
    assert settings_for_classes(8, 9).n_steps < settings_for_classes(9, 9).n_steps


def test_many_columns_of_many_rows_have_longer_training_and_no_ramps():
    x = np.random.default_rng(0).standard_normal((10_000, 256))
    ones = np.ones(len(x))
    assert Ramps.of(x, ones).n_ramps == 0
    assert Ramps.of(x[1:], ones[1:]).n_ramps == Ramps.of(x[:, :1], ones).n_ramps * 256 > 0
    assert settings_for_classes(10_000, 256).n_steps > settings_for_classes(10_000, 255).n_steps


def test_of_many_rows_networks_are_deeper_and_trained_longer_up_to_a_bound():
    few, many, more, most = (settings_for_classes(n, 9) for n in (5_000, 10_000, 20_000, 10**6))
    assert len(few.hidden_layer_sizes) < len(many.hidden_layer_sizes)
    assert (many.n_steps, more.n_steps) == (2 * few.n_steps, 4 * few.n_steps)
    assert most.n_steps == more.n_steps


def test_of_few_rows_networks_are_trained_for_their_share_of_the_steps():
    steps = {n: settings_for_classes(n, 9).n_steps for n in (100, 500, 1_000, 2_000, 5_000)}
    assert steps == {100: 1_000, 500: 1_000, 1_000: 2_000, 2_000: 4_000, 5_000: 4_000}


def test_far_inputs_grow_as_a_logarithm():
    x = np.array([[-1e6, -5.0, 0.3, 5.0, 6.0]])
    np.testing.assert_allclose(
        bounded(x), [[-5.0 - np.log(999_996.0), -5.0, 0.3, 5.0, 5.0 + np.log(2.0)]]
    )


def test_shares_are_the_most_probable():
    rng = np.random.default_rng(4)
    likelihood, weight = rng.uniform(0.05, 1.0, (3, 30)), rng.uniform(0.5, 2.0, 30)
    share = stacking.mixture_weights(likelihood, weight)

    def loss(raw):
        shares = np.exp(raw) / np.exp(raw).sum()
        return -weight @ np.log(shares @ likelihood) - stacking.PSEUDO_ROWS * np.log(shares).sum()

    best = optimize.minimize(loss, np.zeros(3)).x
    np.testing.assert_allclose(share, np.exp(best) / np.exp(best).sum(), atol=2e-3)
    assert stacking.mixture_weights(likelihood[:, :0], weight[:0]) == pytest.approx(1.0 / 3.0)


@pytest.mark.parametrize("log_power", [-0.5, 0.0, 0.6])
def test_the_power_is_the_nearest_to_one_that_rows_allow(log_power):
    """Oracle: the powers at which labels were drawn, and SciPy's best one, of weighted rows."""
    rng = np.random.default_rng(5)
    drawn = special.softmax(2.0 * rng.standard_normal((4_000, 3)), axis=1)
    codes = (rng.random((4_000, 1)) > np.cumsum(drawn, axis=1)).sum(axis=1)
    proba = stacking.normalised(drawn, np.exp(-log_power))
    known = Rows(np.zeros((4_000, 0)), codes, rng.uniform(0.5, 2.0, 4_000))

    def losses(log_power):
        return -np.log(special.softmax(np.exp(log_power) * np.log(proba), axis=1))[
            np.arange(4_000), codes
        ]

    def loss(log_power):
        return np.average(losses(log_power), weights=known.weight)

    best = optimize.minimize_scalar(loss, bounds=(-1.0, 1.0), method="bounded").x
    chosen = np.log(stacking.power(known, proba))
    assert abs(best - log_power) < 0.1
    assert abs(chosen) <= abs(best) + stacking.LOG_STEP / 2.0
    error = np.std(losses(chosen) - losses(best)) / np.sqrt(4_000)
    assert loss(chosen) - loss(best) < 3.0 * error + 2e-3


def test_a_power_of_rows_that_are_all_right_has_a_bound():
    known = Rows(np.zeros((50, 0)), np.arange(50) % 2, np.ones(50))
    proba = np.where(np.eye(2)[known.y] > 0.0, 0.9, 0.1)
    assert stacking.power(known, proba) == pytest.approx(np.e)


def test_folds_are_stratified_and_keep_groups_together():
    rng = np.random.default_rng(6)
    codes = np.repeat([0, 1, 2], [50, 10, 1])
    fold = stacking.folds(np.arange(61), codes, 5, rng)
    assert np.bincount(fold[:50]).tolist() == [10] * 5
    assert np.bincount(fold[50:60]).tolist() == [2] * 5
    assert fold[60] == -1
    groups = np.arange(61) // 2
    fold = stacking.folds(groups, codes, 5, rng)
    assert (fold[:-1:2] == fold[1::2]).all()


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((150, 2))
    codes = (x[:, 0] + 0.3 * rng.standard_normal(150) > 0).astype(int) + (x[:, 1] > 1.0)
    return x, codes, fit(1, Rows(x, codes), SETTINGS, Classes(3))


def test_a_fit_learns_and_says_how_well(fitted):
    x, codes, (state, info) = fitted
    doubtful = state.predict(x)
    log_p = np.log(doubtful.proba[np.arange(150), codes])
    np.testing.assert_allclose(doubtful.proba.sum(axis=1), 1.0)
    shares = np.bincount(codes) / 150
    assert -log_p.mean() < info.left_out_loss < -(shares @ np.log(shares)) - 0.3
    assert state.weights.sum() == pytest.approx(1.0)
    assert info.losses.shape == (12, 400, 2)
    assert 0 <= info.guards["dead_units"] <= 12 * 8


def test_labels_by_chance_are_seen_through():
    """Rows that a network was trained on would be worth more than the shares of the classes."""
    rng = np.random.default_rng(9)
    x, codes = rng.standard_normal((200, 6)), rng.integers(2, size=200)
    settings = replace(SETTINGS, n_steps=1500, hidden_layer_sizes=(16,))
    state, info = fit(2, Rows(x, codes), settings, Classes(2))
    share = np.bincount(codes) / 200
    entropy = -(share @ np.log(share))
    own = [one for one, _ in class_outputs(state.experts[1].members, bounded(x), state.points)]
    learnt = -np.log(np.mean(own, axis=0)[np.arange(200), codes]).mean()
    assert learnt < entropy - 0.05
    assert info.left_out_loss > entropy - 0.03
    new = rng.integers(2, size=200)
    fresh = state.predict(rng.standard_normal((200, 6))).proba[np.arange(200), new]
    assert -np.log(fresh).mean() < entropy + 0.1


def test_every_network_lacks_its_fold_and_counts_rows_as_its_expert_does():
    rng = np.random.default_rng(10)
    x, targets, fold = rng.standard_normal((30, 2)), np.eye(2)[np.arange(30) % 2], np.arange(30) % 3
    weight = rng.exponential(size=30)
    table = Table.of(x, targets, weight)._replace(fold=fold)
    starts = _class_starts(rng, (table, table), weight @ targets, SETTINGS, is_ordered=False)
    assert [one.networks.likelihood_weight for one in starts] == [1.0, 8.0, 1.0, 8.0]
    for number in range(12):
        start = starts[number // 3]
        job, times = Job.of(start, number % 3), start.networks.likelihood_weight
        assert job.number == number
        kept = np.flatnonzero(fold != number % 3)
        assert job.table.x is table.x
        np.testing.assert_array_equal(job.kept, kept)
        each = weight[kept] / weight[kept].mean()
        np.testing.assert_allclose(job.table.weight[kept], each, rtol=1e-6)
        assert job.table.n_total == pytest.approx(times * weight[kept].sum(), rel=1e-6)


def test_a_power_leaves_the_share_of_the_doubt_that_data_would_remove(fitted):
    x, _, (state, _) = fitted
    plain, raised = (state._replace(power=p, surprise=0.0).predict(x) for p in (1.0, 2.0))
    square = plain.proba**2
    np.testing.assert_allclose(raised.proba, square / square.sum(axis=1, keepdims=True))
    share, other = (
        one.expected_entropy / stats.entropy(one.proba, axis=1) for one in (plain, raised)
    )
    np.testing.assert_allclose(share, other)


def test_what_data_would_tell_grows_with_the_distance(fitted):
    x, _, (state, _) = fitted
    near, far = (state.predict(scale * x) for scale in (1.0, 20.0))
    assert (near.expected_entropy >= 0.0).all()

    def told(doubtful):
        p = doubtful.proba
        return np.mean(-(p * np.log(p)).sum(axis=1) - doubtful.expected_entropy)

    assert told(far) > 1.5 * told(near) > 0.0


def test_a_state_comes_back_from_its_arrays(fitted):
    x, _, (state, _) = fitted
    again = codec.read(ClassState, codec.write(state, ClassState))
    np.testing.assert_array_equal(again.predict(x).proba, state.predict(x).proba)
    ramps, (first, *others) = state.ramps, state.experts
    one = first.members[0]
    wide = one.mean[0]._replace(w_m=np.zeros((3, 8), np.float32))
    broken = one._replace(mean=(wide, *one.mean[1:]))
    broken = first._replace(members=(broken, *first.members[1:]))
    for change, message in (
        ({"weights": np.full(3, 1 / 3)}, "weights must be 4 numbers"),
        ({"weights": np.array([2.0, -1.0, 0.0, 0.0])}, "weights must be 4 numbers from 0"),
        ({"constant": np.ones(3)}, "constant must be 3 numbers"),
        ({"points": np.zeros((0, 3), np.float32)}, "points must have rows"),
        ({"surprise": 1.0}, "surprise must be from 0 to 1"),
        *(({"power": p}, "power must be between") for p in (0.0, 1e3, np.inf, np.nan)),
        ({"points": np.zeros((4, 2), np.float32)}, "points must be"),
        ({"ramps": ramps._replace(n_knots=np.zeros(2, int))}, "knots and centres"),
        ({"experts": (broken, *others)}, r"experts\.0\.members\.0\.mean\.0\.w"),
    ):
        with pytest.raises(ValueError, match=message):
            codec.read(ClassState, codec.write(state._replace(**change), ClassState))


def sharpened(expert):
    """Multiply the mean logits by hundred."""
    members = []
    for one in expert.members:
        *below, last = one.mean
        last = last._replace(w_m=100.0 * last.w_m, b_m=100.0 * last.b_m)
        members.append(one._replace(mean=(*below, last)))
    return expert._replace(members=tuple(members))


def test_no_class_is_less_likely_than_a_surprise_among_n_rows(fitted):
    x, codes, (state, _) = fitted
    sharp = state._replace(experts=tuple(map(sharpened, state.experts)))
    share = 1.0 / 152.0
    assert (sharp.predict(x).proba >= share * np.bincount(codes) / 150 - 1e-12).all()
    certain = sharp._replace(surprise=0.0).predict(x)
    assert certain.proba.min() < 1e-9
    np.testing.assert_allclose(
        sharp.predict(x).proba, (1.0 - share) * certain.proba + share * state.constant
    )
    of_constant = stats.entropy(np.bincount(codes))
    np.testing.assert_allclose(
        sharp.predict(x).expected_entropy,
        (1.0 - share) * certain.expected_entropy + share * of_constant,
    )


def test_normals_last_for_any_number_of_classes():
    """The compiled loop takes the rest of the table's length by what a step draws."""
    for n_classes in (2, 5000):
        assert len(_normals(0, n_classes)) >= 16 * 2 * n_classes


@pytest.mark.parametrize("name", ["one row of a class", "separable", "copies", "one member"])
def test_hard_tables_give_probabilities(name):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((40, 3))
    codes, settings = (x[:, 0] > 0).astype(int), SETTINGS
    if name == "one row of a class":
        codes[0] = 2
    if name == "copies":
        x, codes = np.repeat(x[:4], 10, axis=0), np.repeat([0, 1, 0, 1], 10)
    if name == "one member":
        settings = replace(SETTINGS, n_members=1)
    state, info = fit(0, Rows(x, codes), settings, Classes(3))
    proba = state.predict(x).proba
    assert np.isfinite(proba).all()
    assert (proba.argmax(axis=1) == codes)[1:].mean() > 0.9
    assert np.isnan(info.left_out_loss) == (name == "one member")


def test_a_table_of_cells_is_dealt_out_row_by_row():
    """Oracle: copies of every row, the n-th of which in their order goes to fold n modulo f."""
    rng = np.random.default_rng(2)
    x, codes = rng.integers(0, 2, (12, 2)).astype(float), rng.integers(0, 3, 12)
    copies = np.column_stack([codes, x]).repeat(rng.integers(1, 9, 12), axis=0)
    copies = copies[np.lexsort(copies.T[::-1])]
    order = rng.permutation(len(copies))
    x, codes, weight = copies[order, 1:], copies[order, 0].astype(int), np.full(len(order), 3.0)
    (inputs, classes, weights, _), fold = stacking.dealt(x, codes, weight, 4)
    for k in range(4):
        rows, counts = np.unique(copies[k::4], axis=0, return_counts=True)
        np.testing.assert_array_equal(np.column_stack([classes, inputs])[fold == k], rows)
        np.testing.assert_allclose(weights[fold == k], 3.0 * counts)
    np.testing.assert_allclose(weights.sum(), weight.sum())
    alone = np.arange(4.0)[:, None], np.arange(4), np.ones(4)
    assert set(stacking.dealt(*alone, 4)[1]) == {-1}


def test_rows_of_few_cells_are_learnt():
    """Two inputs of four values of which one tells the class: every cell has twenty rows."""
    x = np.tile(np.mgrid[0:2, 0:2].reshape(2, 4).T, (20, 1)).astype(float)
    codes = (np.random.default_rng(3).random(80) < np.where(x[:, 0] > 0.5, 0.9, 0.1)).astype(int)
    _, info = fit(0, Rows(2.0 * x - 1.0, codes), SETTINGS, Classes(2))
    assert info.left_out_loss < 0.5


def test_a_fold_may_be_without_rows():
    """One input apart from all others: seven of eight folds leave nothing out but copies."""
    x = np.r_[np.zeros((30, 1)), np.ones((1, 1)), np.full((1, 1), 2.0)]
    codes = np.r_[np.arange(30) % 2, 0, 1]
    groups = np.r_[np.zeros(30, int), 1, 2]
    state, _ = fit(0, Rows(x, codes, group=groups), SETTINGS, Classes(2))
    assert np.isfinite(state.predict(x).proba).all()

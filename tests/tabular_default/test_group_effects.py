"""Effects of groups: the exact mixed model by dense matrices, what it chooses, whom it moves."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.imputed import completed
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.pooled import pooled
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.experts import ClassState
from bayesprop.tabular_default.group_effects import GroupEffects, _Sums, by_group, some_rows
from bayesprop.tabular_default.piecewise_linear import Ramps

N_GROUPS = 12


def rows_of(seed, *, slope=0.0, within=0.0, weight=None, n=150):
    """Return residuals with an intercept a group, and a slope of input 1 and a line of input 0."""
    rng = np.random.default_rng(seed)
    group, x = rng.integers(N_GROUPS, size=n), rng.standard_normal((n, 3))
    x[:, 0] += rng.standard_normal(N_GROUPS)[group]
    own, steep = 0.7 * rng.standard_normal(N_GROUPS), slope * rng.standard_normal(N_GROUPS)
    z = own[group] + steep[group] * x[:, 1] + within * x[:, 0] + 0.5 * rng.standard_normal(n)
    return Rows(x, z, weight, group)


def dense(rows, columns, variances):
    """Return the covariance of all residuals, and of these with the line and with the effects."""
    s, *t, tau_line = variances
    h = np.column_stack([np.ones(len(rows.x)), rows.x[:, columns]])
    same = np.equal.outer(np.arange(N_GROUPS), rows.group)
    of_effects = np.einsum("gn,nq,q->gqn", same, h, t)
    among = np.einsum("nq,gqn->gn", h, of_effects)
    own = among[rows.group, np.arange(len(h))]
    assert own.shape == (len(h),)
    everything = np.einsum("mq,q,nq->mn", h, t, h) * np.equal.outer(rows.group, rows.group)
    everything += tau_line * rows.x @ rows.x.T + np.diag(s / rows.weights)
    return everything, tau_line * rows.x.T, of_effects


@pytest.mark.parametrize("columns", [[], [1], [1, 2]])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_evidence_and_posterior_are_those_of_dense_matrices(columns, is_weighted):
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.2, 2.0, 150) if is_weighted else None
    rows, columns = rows_of(0, slope=0.4, within=0.5, weight=weight), np.array(columns, int)
    variances = np.array([0.3, *rng.uniform(0.2, 1.0, 1 + len(columns)), 0.6])
    found = _Sums.of(rows, columns, N_GROUPS).solved(variances)
    cov, with_line, with_effects = dense(rows, columns, variances)
    expected = stats.multivariate_normal(np.zeros(len(cov)), cov).logpdf(rows.y)
    constant = 0.5 * np.sum(np.log(rows.weights)) - 0.5 * len(cov) * np.log(2.0 * np.pi)
    np.testing.assert_allclose(found.log_evidence, expected - constant, rtol=1e-9)
    explained = np.linalg.solve(cov, rows.y)
    np.testing.assert_allclose(found.among_mean, with_line @ explained, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.mean, with_effects @ explained, rtol=1e-7, atol=1e-9)
    given_line, *_ = dense(rows, columns, [*variances[:-1], 0.0])
    gain = np.linalg.solve(given_line, np.moveaxis(with_effects, 2, 1))
    var = np.diag(variances[1:-1]) - with_effects @ gain
    np.testing.assert_allclose(found.cov, var, rtol=1e-7, atol=1e-9)


def crossed_rows(n, n_inputs, is_nested):
    """Return residuals of persons, and of sites that they share or, nested, belong to."""
    rng = np.random.default_rng(n)
    person, site = rng.integers(9, size=n), rng.integers(5, size=n)
    site = person // 2 if is_nested else site
    x = rng.standard_normal((n, n_inputs))
    z = rng.standard_normal(5)[site] + rng.standard_normal(9)[person] + rng.standard_normal(n)
    z += x[:, :1].sum(axis=1) * rng.standard_normal(9)[person]
    return Rows(x, z, rng.uniform(0.5, 2.0, n), np.column_stack([site, person]))


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("n_inputs", [0, 2])
def test_several_factors_are_those_of_dense_matrices(is_nested, n_inputs):
    rows = crossed_rows(80, n_inputs, is_nested)
    by_size = rows._replace(group=rows.group[:, ::-1])
    columns, sizes = np.arange(min(n_inputs, 1)), np.array([9, 5])
    t, s, of_site, of_line = np.array([0.7, 0.2])[: 1 + len(columns)], 0.6, 0.9, 0.4
    variances = np.array([s, *t, *[of_line][: min(n_inputs, 1)], of_site])
    found = _Sums.of(by_size, columns, sizes).solved(variances)

    def cov(one, other, line):
        h, other_h = (np.column_stack([np.ones(len(r.x)), r.x[:, columns]]) for r in (one, other))
        site, person = (
            np.equal.outer(one.group[:, f], other.group[:, f]) * (one.group[:, [f]] >= 0)
            for f in (0, 1)
        )
        of_x = person.any(axis=1, keepdims=True) * line * (one.x @ other.x.T)
        return of_site * site + person * np.einsum("nq,q,mq->nm", h, t, other_h) + of_x

    noise = np.diag(s / rows.weights)
    everything, given_line = (cov(rows, rows, line) + noise for line in (of_line, 0.0))
    expected = stats.multivariate_normal(np.zeros(80), everything).logpdf(rows.y)
    constant = 0.5 * np.sum(np.log(rows.weights)) - 40.0 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(found.log_evidence, expected - constant, rtol=1e-9)

    effects = GroupEffects.of(columns, found, np.array([1, 0]), sizes, 1.0)
    effects.validate()
    labels = np.array([[0, 0], [4, 0], [2, -1], [-1, 3], [3, 8], [-1, -1]])
    new = Rows(np.random.default_rng(0).standard_normal((6, n_inputs)), np.zeros(6), None, labels)
    shift, factor = effects.at(labels, new.x)
    mean = cov(new, rows, of_line) @ np.linalg.solve(everything, rows.y)
    np.testing.assert_allclose(shift, mean, rtol=1e-7, atol=1e-9)
    among = cov(new, rows, 0.0)
    var = np.diag(cov(new, new, 0.0) - among @ np.linalg.solve(given_line, among.T))
    of_person = np.column_stack([np.ones(6), new.x[:, columns]]) ** 2 @ t
    of_new = (labels[:, 0] < 0) * of_site + (labels[:, 1] < 0) * of_person
    rest = (1.0 - s) * of_new / (of_site + of_person)
    np.testing.assert_allclose(factor, s + var + rest, rtol=1e-7)
    assert (shift[5], factor[5]) == (0.0, 1.0)


def test_true_variances_are_recovered_within_their_errors():
    """Twelve tables of 600 rows: 30 schools, 4 classes each, and 8 crossed testers."""
    found, rng = [], np.random.default_rng(0)
    stds = {"school": (30, 0.6), "class": (120, 0.8), "tester": (8, 0.5)}
    for _ in range(12):
        group = np.stack([rng.integers(n, size=600) for n, _ in stds.values()], axis=1)
        group[:, 0] = group[:, 1] // 4
        z = 0.7 * rng.standard_normal(600)
        for k, (n, std) in enumerate(stds.values()):
            z += std * rng.standard_normal(n)[group[:, k]]
        one = GroupEffects.fit(Rows(np.zeros((600, 0)), z, None, group), np.array([30, 120, 8]))
        assert one is not None
        assert [*one.factors] == [1, 0, 2]
        found.append([*one.prior_var[[1, 0, 2]], one.noise_var])
    true = np.square([*(std for _, std in stds.values()), 0.7])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(12)
    assert (np.abs(np.mean(found, axis=0) - true) < 4.0 * error).all()


def test_variances_are_the_most_likely_ones():
    rows = rows_of(2, slope=0.5)
    sums = _Sums.of(rows, np.array([1]), N_GROUPS)
    best = sums.most_likely()
    prior_var = best.mean.var(axis=0) + best.cov.mean(axis=0).diagonal()
    for factor in (0.8, 1.25):
        for k in range(2):
            tried = np.array([best.variances[0], *prior_var, 1e-5])
            tried[k] *= factor
            assert sums.solved(tried).log_evidence < best.log_evidence
    assert best.variances[0] == pytest.approx(0.25, rel=0.35)


def test_slopes_and_lines_come_where_they_are_and_nowhere_else():
    alone, sloped, within = (
        GroupEffects.fit(rows_of(3, **how, n=600), N_GROUPS)
        for how in ({}, {"slope": 0.5}, {"within": 0.8})
    )
    assert alone is not None
    assert sloped is not None
    assert within is not None
    assert [*alone.columns] == []
    assert [*sloped.columns] == [1]
    assert np.abs(alone.line).max() < 0.05
    assert within.line[0] == pytest.approx(0.8, abs=0.1)
    rng = np.random.default_rng(4)
    for seed in range(5):
        rows = rows_of(seed)._replace(y=rng.standard_normal(150))
        found = GroupEffects.fit(rows, N_GROUPS)
        assert found is None or not len(found.columns)
    alone = rows_of(5, n=40)._replace(group=np.arange(40))
    assert GroupEffects.fit(alone, 40) is None


def test_order_of_rows_and_numbers_of_groups_do_not_matter():
    rows = rows_of(6, slope=0.4)
    rng = np.random.default_rng(0)
    order, called = rng.permutation(150), rng.permutation(N_GROUPS)
    other = rows.at(order)._replace(group=called[rows.group[order]])
    one, two = (GroupEffects.fit(each, N_GROUPS) for each in (rows, other))
    assert one is not None
    assert two is not None
    np.testing.assert_allclose(two.mean[called], one.mean, rtol=1e-3, atol=1e-4)
    assert two.noise_var == pytest.approx(one.noise_var, rel=1e-3)


def test_the_unit_of_weights_does_not_matter():
    weight = np.random.default_rng(9).uniform(0.5, 2.0, 150)
    one, two = (
        GroupEffects.fit(rows_of(6, weight=unit * weight), N_GROUPS) for unit in (1.0, 2.0**20)
    )
    assert one is not None
    assert two is not None
    np.testing.assert_allclose(two.mean, one.mean, rtol=1e-6)
    assert two.noise_var == pytest.approx(one.noise_var)


def test_a_group_of_many_rows_keeps_the_noise_and_new_groups_stay():
    rows = rows_of(7, n=6000)
    found = GroupEffects.fit(rows, N_GROUPS)
    assert found is not None
    shift, factor = found.at(np.array([0, -1]), np.zeros((2, 3)))
    assert found.noise_var < factor[0] < 1.01 * found.noise_var
    assert (shift[1], factor[1]) == (0.0, 1.0)
    level = np.mean(rows.y[rows.group == 0])
    assert shift[0] == pytest.approx(level, abs=0.01)


def test_an_outlier_moves_its_group_by_no_more_than_five():
    rows = rows_of(8)
    wild, clipped = rows.y.copy(), rows.y.copy()
    wild[0], clipped[0] = 1e6, 5.0
    one, two = (GroupEffects.fit(rows._replace(y=y), N_GROUPS) for y in (wild, clipped))
    assert one is not None
    assert two is not None
    np.testing.assert_array_equal(one.mean, two.mean)


def test_some_rows_have_every_group_before_a_second_of_any():
    group = np.repeat(np.arange(5), [1, 2, 30, 40, 50])
    counts = np.bincount(group[some_rows(group, np.random.default_rng(0), 14)])
    assert counts.sum() == 14
    assert [*counts[:2]] == [1, 2]
    assert np.ptp(counts[2:]) <= 1
    values = np.random.default_rng(1).random((len(group), 2))
    np.testing.assert_allclose(
        by_group(values, group, 6)[:5], [values[group == k].sum(axis=0) for k in range(5)]
    )


def test_a_moved_mixture_is_the_same_shape_around_another_mean():
    rng = np.random.default_rng(2)
    k, n = 3, 4
    mixture = MixturePredictive.of_networks(
        f_mean=rng.standard_normal((k, n, 1)),
        f_var=rng.uniform(0.1, 0.4, (k, n, 1)),
        log_noise_mean=rng.standard_normal((k, n, 1)) - 1.0,
        log_noise_var=np.full((k, n, 1), 0.1),
        dof=np.full((k, n, 1), 6.0),
    )
    shift, factor = rng.standard_normal((n, 1)), np.array([0.3, 0.6, 1.0, 0.45])[:, None]
    share = np.full((n, 1), 0.25)
    moved = mixture.in_groups(shift, factor, share)
    np.testing.assert_allclose(moved.var, factor * mixture.var)
    np.testing.assert_allclose(moved.mean, mixture.mean + shift * mixture.std)
    y = rng.standard_normal((n, 1))
    before = mixture.mean + (y - moved.mean) / np.sqrt(factor)
    np.testing.assert_allclose(moved.cdf(y), mixture.cdf(before), atol=1e-9)
    log_p = mixture.log_prob(before) - 0.5 * np.log(factor)
    np.testing.assert_allclose(moved.log_prob(y), log_p, rtol=1e-9)
    known = mixture.in_groups(shift, share, share)
    assert (known.group_share == 0.0).all()
    left = moved.noise_var - moved.group_share * moved.var
    np.testing.assert_allclose(left, known.noise_var)
    assert (mixture.group_share == 0.0).all()
    parts = [completed(mixture[:2], 2), mixture[2:]]
    places = [np.array([2]), np.array([0, 1])]
    own = [one[np.array([2, 3, 0])] for one in (shift, factor, share)]
    together = pooled(parts, places).in_groups(*own)
    assert isinstance(together.group_share, np.ndarray)
    np.testing.assert_allclose(together.mean[:2], moved.mean[2:])
    np.testing.assert_allclose(together.var[:2], moved.var[2:])
    np.testing.assert_allclose(together.var[2], factor[0] * parts[0].var[0])


def answers_of(rng, n, group, var):
    """Return log-odds without effects, and answers 0 and 1 with intercepts of this variance."""
    logits = rng.standard_normal(n)
    own = sum(np.sqrt(var) * rng.standard_normal(g.max() + 1)[g] for g in group.T)
    return logits, 1.0 * (rng.random(n) < special.expit(logits + own))


@pytest.mark.parametrize("n_factors", [1, 2])
def test_effects_on_classes_are_the_most_likely_ones_given_their_variances(n_factors):
    rng = np.random.default_rng(n_factors)
    group = np.column_stack([rng.integers(9, size=150), rng.integers(4, size=150)])[:, :n_factors]
    logits, y = answers_of(rng, 150, group, 1.0)
    rows = Rows(np.zeros((150, 0)), y, rng.uniform(0.5, 2.0, 150), group)
    prior_var = np.array([0.8, 0.5])[:n_factors]
    found = GroupEffects._of_odds(rows, logits, np.array([9, 4])[:n_factors], prior_var)
    sizes, weight = (9, 4)[:n_factors], rows.weights / rows.weights.mean()
    h = np.concatenate([np.eye(n)[g] for n, g in zip(sizes, group.T, strict=True)], axis=1)
    precision = 1.0 / np.repeat(prior_var, sizes)

    def loss(b):
        score = logits + h @ b
        return weight @ (np.logaddexp(0.0, score) - y * score) + 0.5 * precision @ b**2

    best = optimize.minimize(loss, np.zeros(h.shape[1]), tol=1e-12).x
    p = special.expit(logits + h @ best)
    cov = np.linalg.inv(np.diag(precision) + (h * (weight * p * (1.0 - p))[:, None]).T @ h)
    shift, factor = found.at(group, rows.x)
    np.testing.assert_allclose(shift, h @ best, atol=2e-4)
    np.testing.assert_allclose(factor - 1.0, np.sum(h @ cov * h, axis=1), rtol=1e-3)
    new = found.at(np.full((1, n_factors), -1), np.zeros((1, 0)))
    assert new == (0.0, 1.0)


def test_variances_of_effects_on_classes_are_recovered_and_flat_log_odds_made_steeper():
    rng = np.random.default_rng(4)
    group, x = np.repeat(np.arange(150), 40)[:, None], np.zeros((6000, 0))
    for var in (0.0, 2.0):
        logits, y = answers_of(rng, 6000, group, var)
        # What is said of new groups, whose effect is not known (by the integral's usual bound).
        flat = logits / np.sqrt(1.0 + np.pi / 8.0 * var)
        found = GroupEffects.of_class(Rows(x, y, None, group), flat, flat, np.array([150]))
        if not var:
            assert found is None
        else:  # quasi-likelihood takes them for less, the fewer rows a group has
            assert abs(found.prior_var[0] - var) < 4.0 * var * np.sqrt(2.0 / 150)
            assert abs(1.0 + found.line[0] - np.sqrt(1.0 + np.pi / 8.0 * var)) < 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_are_averaged_over_what_is_not_known_of_effects(n_classes):
    rng = np.random.default_rng(n_classes)
    n, n_odds = 200, n_classes if n_classes > 2 else 1
    proba = rng.dirichlet(np.ones(n_classes), n)
    state, group = of_classes(n_classes), rng.integers(-1, 5, size=(n, 1))
    effects = [
        GroupEffects._of_odds(
            Rows(np.zeros((60, 0)), 1.0 * (rng.random(60) < 0.7), None, np.arange(60)[:, None] % 5),
            np.zeros(60),
            np.array([5]),
            np.array([1.5]),
        )
        for _ in range(n_odds)
    ]
    state = state._replace(groups=tuple(effects))
    given = ClassPredictive.of_codes(proba, 0.8 * special.entr(proba).sum(axis=1))
    moved = state.in_groups(given, group)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    odds = special.logit(proba[:, 1:] if n_classes == 2 else proba)
    expected = np.empty((n, n_odds))
    for k, one in enumerate(effects):
        shift, factor = one.at(group, np.zeros((n, 0)))
        drawn = (odds[:, k] + shift)[:, None] + np.sqrt(factor - 1.0)[:, None] * nodes
        expected[:, k] = special.expit(drawn) @ weights / weights.sum()
    whole = np.c_[1.0 - expected, expected] if n_classes == 2 else expected
    whole /= whole.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(moved.proba, whole, atol=0.01)
    is_new = group[:, 0] < 0
    np.testing.assert_allclose(moved.proba[is_new], proba[is_new], rtol=1e-9)
    np.testing.assert_allclose(moved.expected_entropy[is_new], given.expected_entropy[is_new])
    assert (moved.expected_entropy <= moved.entropy + 1e-12).all()


@pytest.mark.parametrize("is_sign", [False, True])
def test_classes_that_inputs_separate_leave_finite_effects_and_room_for_surprises(is_sign):
    rng = np.random.default_rng(0)
    group, x = rng.integers(10, size=(300, 1)), rng.standard_normal(300)
    logits, y = 0.5 * (0.4 * np.sign(x) if is_sign else x), 1.0 * (x > 0.0)
    rows, proba = Rows(np.zeros((300, 0)), y, None, group), special.expit(np.c_[-logits, logits])
    effects = GroupEffects.of_class(rows, logits, logits, np.array([10]))
    state = of_classes(2)._replace(groups=(effects,), surprise=1.0 / 302)
    moved = state.in_groups(ClassPredictive.of_codes(proba, special.entr(proba).sum(axis=1)), group)
    assert np.isfinite(moved.expected_entropy).all()
    assert np.mean(moved.proba.argmax(axis=1) == y) > 0.95
    assert moved.proba.min() > 0.5 / 303


def of_classes(n_classes):
    """Return a state of which only the number of classes matters."""
    constant, points = np.full(n_classes, 1.0 / n_classes), np.zeros((1, n_classes), np.float32)
    return ClassState((), np.zeros(0), Ramps.of(np.zeros((2, 2)), np.ones(2)), constant, points, 0)

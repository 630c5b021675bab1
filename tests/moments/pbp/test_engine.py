"""The compiled engine against a plain form with numerical derivatives, exact Bayes, invariants."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from compiled_passes import (
    assert_states_close,
    data_pass,
    linear_state,
    problem,
    train,
)
from scipy.special import erfc

from bayesprop import PBPRegressor
from bayesprop.moments.pbp import engine
from bayesprop.moments.pbp.state import LEAST_INFORMATION, PBPInfo, init

SMALLEST_VAR = 1e-100


def output_moments(m, v, x):
    """Eq. 13-17 in the textbook form, for real or complex weights."""
    z, v_z = x, 0.0 * x
    for depth, (weight, variance) in enumerate(zip(m, v, strict=True)):
        z, v_z = np.append(z, 1.0), np.append(v_z, 0.0)
        a = z @ weight / np.sqrt(len(z))
        v_a = (v_z @ weight**2 + (z**2 + v_z) @ variance) / len(z)
        if depth == len(m) - 1:
            return a, v_a
        std = np.sqrt(v_a)
        cdf = erfc(-a / std / np.sqrt(2.0)) / 2.0
        pdf = np.exp(-((a / std) ** 2) / 2.0) / np.sqrt(2.0 * np.pi)
        z = a * cdf + std * pdf
        v_z = (a**2 + v_a) * cdf + a * std * pdf - z**2
    raise AssertionError("no layers")


def log_z(m, v, x, y, noise_var):
    f_m, f_v = output_moments(m, v, x)
    total = f_v + noise_var
    return np.sum(-0.5 * np.log(2.0 * np.pi * total) - 0.5 * (y - f_m) ** 2 / total)


def complex_step(function, layers):
    """Differentiate by every entry of every layer, exactly to rounding."""
    slopes = []
    for depth, layer in enumerate(layers):
        slope = np.empty_like(layer)
        for index in np.ndindex(*layer.shape):
            moved = [np.asarray(part, dtype=complex) for part in layers]
            moved[depth][index] += 1e-30j
            slope[index] = function(moved).imag / 1e-30
        slopes.append(slope)
    return slopes


def gamma_after(shape, rate, f_v, residual):
    """Eq. 9 and 10 as printed."""
    log_z = []
    for k in range(3):
        variance = f_v + rate / (shape - 1 + k)
        log_z.append(-0.5 * np.log(variance) - 0.5 * residual**2 / variance)
    z = [np.exp(value - log_z[1]) for value in log_z]
    new_shape = 1.0 / (z[0] * z[2] * (shape + 1) / shape - 1.0)
    return new_shape, 1.0 / (z[2] * (shape + 1) / rate - shape / (z[0] * rate))


def plain_datum(state, x, y, weight, *, guarded=True):
    """Absorb one datum, by eq. 6, 7, 9 and 10 with numerical derivatives of log Z."""
    m, v = list(state.m), list(state.v)
    tempered = state.noise_var / weight
    d_m = complex_step(lambda moved: log_z(moved, v, x, y, tempered), m)
    d_v = complex_step(lambda moved: log_z(m, moved, x, y, tempered), v)
    undone = 0
    for k in range(len(m)):
        new_m = m[k] + v[k] * d_m[k]
        new_v = v[k] - v[k] ** 2 * (d_m[k] ** 2 - 2.0 * d_v[k])
        good = (new_v > SMALLEST_VAR) & np.isfinite(new_m) & np.isfinite(new_v)
        undone += np.sum(~good)
        m[k], v[k] = np.where(good, new_m, m[k]), np.where(good, new_v, v[k])
    f_m, f_v = output_moments(state.m, state.v, x)
    old = np.stack([state.noise_shape, state.noise_rate])
    new = old + weight * (np.stack(gamma_after(*old, f_v, y - f_m)) - old)
    good = np.all(np.isfinite(new), axis=0) & (new[0] > 1.0) & (new[1] > 0.0) | (not guarded)
    new = np.where(good, new, old)
    after = state._replace(m=tuple(m), v=tuple(v), noise_shape=new[0], noise_rate=new[1])
    info = PBPInfo(
        weight * log_z(state.m, state.v, x, y, state.noise_var),
        np.mean(f_v / (f_v + state.noise_var)),
        undone,
        np.sum(~good),
    )
    return after, info


@pytest.mark.parametrize(
    "sizes",
    [(2, 1), (3, 2), (2, 7, 1), (1, 8, 1), (2, 33, 1), (3, 4, 2), (2, 5, 3, 1), (1, 9, 16, 2)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_pass_equals_plain_form(sizes, weighted):
    state, x, y = problem(sizes, 3)
    weight = np.array([0.4, 1.0, 2.5]) if weighted else np.ones(3)
    expected, info = state, PBPInfo()
    for row in (2, 0, 1, 0):
        expected, more = plain_datum(expected, x[row], y[row], weight[row])
        info = info + more
    got, got_info = data_pass(state, x, y, np.array([2, 0, 1, 0]), weight if weighted else None)
    assert_states_close(got, expected, rtol=1e-8, atol=1e-11)
    assert got_info.log_z == pytest.approx(info.log_z, rel=1e-10)
    assert got_info.epistemic_share == pytest.approx(info.epistemic_share, rel=1e-10)
    assert got_info.guards == info.guards


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("sizes", [(2, 6, 1), (2, 5, 4, 2)])
def test_guards_on_hostile_data(sizes, guarded):
    """Far outliers, of inputs and, last, of targets, on a model that is sure of its noise."""
    state, x, y = problem(sizes, 8, seed=3)
    state = state._replace(noise_rate=state.noise_rate * 0.05)
    x[2], x[5], y[7] = 40.0, -300.0, 25.0
    expected, info = state, PBPInfo()
    for row in range(8):
        expected, more = plain_datum(expected, x[row], y[row], 1.0, guarded=guarded)
        info = info + more
    got, got_info = data_pass(state, x, y, np.arange(8), guarded=guarded)
    assert got_info.weights_undone == info.weights_undone > 0
    assert got_info.noise_kept == info.noise_kept
    assert (info.noise_kept > 0) == guarded
    assert_states_close(got, expected, rtol=1e-6, atol=1e-8)


def test_monstrous_targets_leave_the_weights_alone():
    state, x, y = problem((2, 6, 1), 3)
    for target in (1e101, 1e153, 1e200, np.inf, np.nan):
        y[1] = target
        got, info = data_pass(state, x, y, np.array([1]))
        assert info.noise_kept == 1
        assert info.weights_undone > 0
        assert_states_close(got, state, rtol=0.0)


@pytest.mark.exhaustive
def test_stochastic_ep_stays_at_the_exact_posterior():
    """Where assumed density filtering counts the data once more with every pass."""
    _, x, y = problem((0, 1), 50)
    state = shrunk = linear_state(1.2)
    var = 1.0 / (1.0 / 1.2 + 50.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        order = rng.permutation(50)
        state, info = data_pass(state, x, y, order, inference="sep")
        shrunk, _ = data_pass(shrunk, x, y, order)
    assert info.weights_undone == 0
    assert state.v[0].item() == pytest.approx(var, rel=1e-9)
    assert abs(state.m[0].item() - var * y.sum()) < 2.0 * np.sqrt(var)
    assert shrunk.v[0].item() < 0.01 * var


@pytest.mark.parametrize("inference", ["adf", "sep"])
def test_weight_zero_is_an_absent_row(inference):
    state, x, y = problem((3, 9, 1), 20)
    weight = np.where(np.arange(20) % 3 == 0, 0.0, 1.0)
    orders = np.array([np.random.default_rng(e).permutation(20) for e in range(3)])
    got = train(state, x, y, orders, weight, inference=inference)
    present = [order[weight[order] > 0.0] for order in orders]
    expected = train(state, x, y, present, inference=inference)
    assert_states_close(got[0], expected[0], rtol=0.0)
    assert got[1] == expected[1]


def plain_refresh(state, inference, targets, *, guarded):
    """Supplement eq. 35-39 with the textbook eq. 9-10, weight by weight; the prior is (6, 6)."""
    in_prior = inference == "sep" or targets == "classes"
    is_deep = len(state.m) > 2 and not in_prior
    least = LEAST_INFORMATION[targets] if in_prior and guarded else 0.0
    uninformed = outlying = 0
    fields = ("m", "v", "site_prec", "site_prec_mean", "site_shape", "site_rate")
    new = {name: [part.copy() for part in getattr(state, name)] for name in fields}
    shape, rate = float(state.prior_shape), float(state.prior_rate)
    for depth, layer in enumerate(state.m):
        for j in range(layer.shape[1]):
            for i in range(layer.shape[0]):
                m, v, prec, prec_mean, a, b = (new[name][depth][i, j] for name in fields)
                cavity_v = 1.0 / (1.0 / v - prec)
                cavity_m = cavity_v * (m / v - prec_mean)
                cavity = shape - a, rate - b
                prior_var = cavity[1] / (cavity[0] - 1.0)
                if abs(1.0 / cavity_v) < least / prior_var:
                    uninformed += 1
                    continue
                if not (0.0 < cavity_v < 1e6 and cavity[0] > 1.0 and cavity[1] > 0.0):
                    outlying += 1
                    continue
                variance = cavity_v + prior_var
                m = cavity_m - cavity_v * cavity_m / variance
                v = cavity_v - cavity_v**2 / variance
                shape, rate = gamma_after(*cavity, cavity_v, cavity_m)
                # The start's mean, alone in the cavity, beside what the prior expects there.
                start = (5.0 / 6.0 * cavity_v) ** 2 / layer.shape[0]
                counts = guarded and not in_prior and len(state.m) > 1 and start > variance
                is_large = not (is_deep or rate / (shape - 1.0) < 2.0 * prior_var)
                if guarded and (is_deep or counts or is_large):
                    shape, rate = cavity[0] + 0.5, cavity[1] + 0.5 * (m**2 + v)
                    uninformed += counts
                    outlying += is_large and not counts
                site = 1.0 / v - 1.0 / cavity_v, m / v - cavity_m / cavity_v
                values = m, v, *site, shape - cavity[0], rate - cavity[1]
                for name, value in zip(fields, values, strict=True):
                    new[name][depth][i, j] = value
    layers = {name: tuple(parts) for name, parts in new.items()}
    after = state._replace(**layers, prior_shape=np.array(shape), prior_rate=np.array(rate))
    return after, PBPInfo(prior_kept=outlying, prior_uninformed=uninformed)


@pytest.mark.parametrize(
    ("sizes", "n", "inference", "targets", "guarded"),
    [
        ((3, 1), 200, "adf", "numbers", False),
        ((2, 9, 8, 2), 200, "adf", "numbers", False),
        ((2, 9, 8, 2), 200, "adf", "numbers", True),
        ((2, 5, 1), 6, "adf", "numbers", True),
        ((2, 5, 1), 6, "sep", "numbers", True),
        ((2, 5, 1), 6, "adf", "classes", True),
    ],
)
def test_refresh_equals_plain_form(sizes, n, inference, targets, guarded):
    """Guarded, q(lambda) does not believe weights that the data hardly inform."""
    state, x, y = problem(sizes, n)
    rule = {"inference": inference, "targets": targets, "guarded": guarded}
    for epoch in range(2):
        state, _ = data_pass(state, x, y, np.random.default_rng(epoch).permutation(n))
        expected, expected_info = plain_refresh(state, **rule)
        state, info = engine.refresh_prior(state, **rule)
        assert info == expected_info
        assert (info.prior_uninformed > 0) == guarded
        assert_states_close(state, expected, rtol=1e-8, atol=1e-9)


def test_a_large_weight_says_no_more_to_the_prior_than_one_weight_can():
    """Known exactly, it adds a half to the shape and half its square to the rate."""
    state, x, y = problem((2, 5, 1), 300)
    state, _ = data_pass(state, x, y, np.arange(300))
    state, _ = engine.refresh_prior(state)
    for part, value in (("m", 100.0), ("v", 1e-9), ("site_shape", 0.0), ("site_rate", 0.0)):
        getattr(state, part)[-1][-1, 0] = value  # the last weight to be refreshed
    got, info = engine.refresh_prior(state)
    assert info.prior_kept == 1
    assert got.site_shape[-1][-1, 0] == pytest.approx(0.5)
    assert got.site_rate[-1][-1, 0] == pytest.approx(0.5 * 100.0**2, rel=1e-6)
    published, _ = engine.refresh_prior(state, guarded=False)
    assert published.site_rate[-1][-1, 0] > 1e100


@pytest.mark.exhaustive
def test_useless_inputs_are_switched_off_as_well_as_without_guards():
    """Four of 32 inputs matter, of which none says anything alone."""
    log_ratio = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (8000, 32))
        f = np.sin(x[:, 0] / 2.0) * x[:, 1] * x[:, 2] * x[:, 3]
        f = f / f.std()
        y = (f + 0.1 * rng.normal(size=8000))[:6000, None]
        start, orders = init(rng, (32, 50, 1)), [rng.permutation(6000) for _ in range(40)]
        rmse = []
        for guarded in (True, False):
            state, _ = train(start, x[:6000], y, orders, guarded=guarded)
            m, _ = engine.predict_moments(state, x[6000:])
            rmse.append(np.sqrt(np.mean((m[:, 0] - f[6000:]) ** 2)))
        log_ratio.append(np.log(rmse[0] / rmse[1]))
    assert np.mean(log_ratio) < np.log(1.02) + 2.0 * np.std(log_ratio, ddof=1) / np.sqrt(4.0)


@pytest.mark.parametrize("guarded", [True, False])
def test_refresh_leaves_what_has_no_cavity(guarded):
    state, x, y = problem((2, 5, 1), 300)
    state, _ = data_pass(state, x, y, np.arange(300))
    state.site_prec[0][1, 3] = 2.0 / state.v[0][1, 3]
    got, info = engine.refresh_prior(state, guarded=guarded)
    assert info.prior_kept == 1
    for name in ("m", "v", "site_prec", "site_rate"):
        assert getattr(got, name)[0][1, 3] == getattr(state, name)[0][1, 3]


def test_a_model_without_any_variance():
    state, x, y = problem((2, 5, 4, 1), 5)
    state = state._replace(v=tuple(np.zeros_like(v) for v in state.v))
    got, info = data_pass(state, x, y, np.arange(5))
    assert info.weights_undone == 5 * sum(m.size for m in state.m)
    assert_states_close(
        got._replace(noise_shape=0, noise_rate=0),
        state._replace(noise_shape=0, noise_rate=0),
        rtol=0.0,
    )
    m, v = engine.predict_moments(state, x)
    assert np.all(v < 1e-90)
    assert np.isfinite(m).all()


def test_threads_do_not_meet():
    jobs = [problem((3, 20, 1), 200, seed=seed) for seed in range(6)]
    orders = np.array([np.random.default_rng(e).permutation(200) for e in range(10)])

    def fit(job):
        state, x, y = job
        return train(state, x, y, orders)[0]

    alone = [fit(job) for job in jobs]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(fit, jobs))
    for a, b in zip(alone, together, strict=True):
        assert_states_close(a, b, rtol=0.0)


@pytest.mark.parametrize("inference", ["adf", "sep"])
def test_inputs_stay_as_they_are(inference):
    state, x, y = problem((3, 9, 2), 20)
    weight, order = np.ones(20), np.arange(20)
    arrays = [x, y, weight, order]
    for field in state:
        arrays.extend(field if isinstance(field, tuple) else [field])
    for array in arrays:
        array.setflags(write=False)
    new, _ = train(state, x, y, [order] * 2, weight, inference=inference)
    engine.predict_moments(new, x)


def test_other_layouts_and_types_are_welcome():
    state, x, y = problem((3, 9, 1), 20)
    expected, _ = data_pass(state, x, y, np.arange(20))
    got, _ = data_pass(state, np.asfortranarray(x), y[::1], list(range(20)))
    assert_states_close(got, expected, rtol=0.0)


@pytest.mark.parametrize("sizes", [(4, 1), (3, 17, 1), (2, 40, 7, 3)])
def test_predictions(sizes, monkeypatch):
    state, x, _ = problem(sizes, 100)
    m, v = engine.predict_moments(state, x)
    for row in range(0, 100, 17):
        expected = output_moments(state.m, state.v, x[row])
        np.testing.assert_allclose(m[row], expected[0], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(v[row], expected[1], rtol=1e-10)
    monkeypatch.setattr(engine, "_CHUNK_ROWS", 7)  # by several threads
    np.testing.assert_allclose(engine.predict_moments(state, x), (m, v), rtol=1e-10)
    assert np.shape(engine.predict_moments(state, x[:0])) == (2, 0, sizes[-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((4, 2))}, r"x must be \(n, 3\), got shape \(4, 2\)"),
        ({"y": np.zeros(4)}, r"y must be \(n, 1\), got shape \(4,\)"),
        ({"y": np.zeros((5, 1))}, "as many rows each, got 4, 5 and 4"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    state, x, y = problem((3, 4, 1), 4)
    with pytest.raises(ValueError, match=message):
        data_pass(state, **{"x": x, "y": y, "order": np.arange(4), **change})


def test_the_estimator_without_guards_is_the_published_algorithm_of_two_hidden_layers():
    """Epoch by epoch the plain form: eq. 6, 7, 9 and 10, then supplement eq. 35-39, as printed.

    q(lambda) gets eq. 9-10 from every weight; with guards two layers have the variational update.
    """
    _, x, y = problem((2, 6, 5, 1), 150, seed=5)
    x, y = (part - part.mean(axis=0) for part in (x, y))
    x, y = x / x.std(axis=0), y / y.std(axis=0)
    model = PBPRegressor((6, 5), 2, random_state=3, guarded=False).fit(x, y[:, 0])
    rng = np.random.RandomState(3)
    state = init(rng, (2, 6, 5, 1))
    for _ in range(2):
        for row in rng.permutation(150):
            state, _ = plain_datum(state, x[row], y[row], 1.0, guarded=False)
        state, _ = plain_refresh(state, "adf", "numbers", guarded=False)
    assert_states_close(model.state_, state, rtol=1e-6, atol=1e-7)
    guarded = PBPRegressor((6, 5), 2, random_state=3).fit(x, y[:, 0])
    assert abs(guarded.state_.prior_shape / state.prior_shape - 1.0) > 0.1

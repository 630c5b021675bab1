"""PBP for classes: log Z and its gradient, ADF by brute force, exact Bayes on a grid."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from compiled_passes import assert_states_close, data_pass, linear_state, problem
from scipy import integrate, special, stats

from bayesprop.moments.pbp import engine, loops, probit, updates
from bayesprop.numerics.compiled import compiled
from bayesprop.numerics.gaussian_logits import gaussian_nodes, probit_entropy


@compiled
def meet_class(outputs, sums, points, y):
    log_z, _ = probit.meet_class(outputs, sums, points, y, 0, 1.0)
    return log_z


def kernel_log_z(m, v, y):
    """log Z and its gradient by the compiled engine."""
    outputs = np.zeros((4, len(m)))
    outputs[loops.F_M], outputs[loops.F_V] = m, v
    log_z = meet_class(outputs, *probit.room_for(len(m)), np.atleast_2d(np.asarray(y, float)))
    return log_z, outputs[2:]


def log_z_by_brute_force(m, v, y):
    """Sum the integrand at a hundred thousand points that cover every output."""
    s = np.sqrt(1.0 + np.asarray(v))
    u = np.linspace(min(m) - 14 * max(s), max(m) + 14 * max(s), 100_001)
    log_joint = -0.5 * ((u - m[y]) / s[y]) ** 2 - np.log(s[y] * np.sqrt(2 * np.pi))
    for j in range(len(m)):
        if j != y:
            log_joint += special.log_ndtr((u - m[j]) / s[j])
    return special.logsumexp(log_joint) + np.log(u[1] - u[0])


@pytest.mark.parametrize("m", [-300.0, -38.0, -1.2, 0.0, 0.7, 30.0])
@pytest.mark.parametrize("y", [1.0, -1.0])
def test_a_sign_has_its_probability_far_into_the_tails(m, y):
    v = 0.8
    mpmath.mp.dps = 40

    def exact(m, v):
        return mpmath.log(mpmath.ncdf(mpmath.mpf(y) * m / mpmath.sqrt(1 + mpmath.mpf(v))))

    log_z, gradient = kernel_log_z([m], [v], y)
    assert log_z == pytest.approx(float(exact(m, v)), rel=1e-13, abs=1e-100)
    by_m = float(mpmath.diff(lambda a: exact(a, v), m))
    by_v = float(mpmath.diff(lambda b: exact(m, b), v))
    assert gradient[:, 0] == pytest.approx([by_m, by_v], rel=1e-9, abs=1e-15)
    with jax.enable_x64(True):
        jax_log_z = updates.probit_log_z(jnp.float64(m), jnp.float64(v), jnp.float64(y))
    assert float(jax_log_z) == pytest.approx(float(exact(m, v)), rel=1e-12, abs=1e-100)


def test_several_signs_have_the_sum_of_their_logs():
    """Against SciPy's Phi, its gradient by differences, and JAX."""
    m, v, y = (np.array(a) for a in ([0.3, -2.0, 7.0], [0.4, 1.3, 0.1], [1.0, 1.0, -1.0]))

    def exact(m, v):
        return special.log_ndtr(y * m / np.sqrt(1.0 + v)).sum()

    log_z, gradient = kernel_log_z(m, v, y)
    assert log_z == pytest.approx(exact(m, v), rel=1e-13)
    for k, step in enumerate(1e-5 * np.eye(3)):
        assert gradient[0, k] == pytest.approx((exact(m + step, v) - exact(m - step, v)) / 2e-5)
        by_v = (exact(m, v + step) - exact(m, v - step)) / 2e-5
        assert gradient[1, k] == pytest.approx(by_v, rel=1e-5)


def test_labels_of_a_linear_model_are_models_of_their_own():
    """With a known prior the outputs share nothing: the columns are those of two classes each."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((30, 3)), np.sign(rng.standard_normal((30, 2)))
    rule = {"order": rng.permutation(30), "targets": "classes"}
    rule["weight"] = rng.uniform(0.0, 2.0, 30)
    both, info = data_pass(linear_state(1.3, 3, o=2), x, y, **rule)
    each = [data_pass(linear_state(1.3, 3), x, y[:, [k]], **rule) for k in (0, 1)]
    for k, (alone, _) in enumerate(each):
        np.testing.assert_allclose(both.m[0][:, [k]], alone.m[0], rtol=1e-12)
        np.testing.assert_allclose(both.v[0][:, [k]], alone.v[0], rtol=1e-12)
    assert info.log_z == pytest.approx(sum(one.log_z for _, one in each))
    assert info.epistemic_share == pytest.approx(np.mean([one.epistemic_share for _, one in each]))


def test_labels_move_hidden_weights_as_the_gradient_of_log_z_does():
    """Eq. 6-7 of one row by central differences of log Z in a mean and a variance; and by JAX."""
    state, x, noise = problem((2, 3, 3), 1, seed=2)
    y, order = np.sign(noise), np.array([0])
    after, info = data_pass(state, x, y, order, targets="classes")
    assert_states_close(
        after, updates.data_pass(state, x, y, order, targets="classes")[0], rtol=1e-9
    )

    def log_z(m=0.0, v=0.0):
        moved = [w.copy() for w in state.m], [w.copy() for w in state.v]
        for part, shift in zip(moved, (m, v), strict=True):
            part[0][1, 2] += shift
        f_m, f_v = engine.predict_moments(state._replace(m=moved[0], v=moved[1]), x)
        return special.log_ndtr(y * f_m / np.sqrt(1.0 + f_v)).sum()

    assert info.log_z == pytest.approx(log_z())
    by_m, by_v = ((log_z(**{n: 1e-5}) - log_z(**{n: -1e-5})) / 2e-5 for n in "mv")
    m, v = state.m[0][1, 2], state.v[0][1, 2]
    assert after.m[0][1, 2] == pytest.approx(m + v * by_m, rel=1e-7)
    assert after.v[0][1, 2] == pytest.approx(v - v**2 * (by_m**2 - 2.0 * by_v), rel=1e-7)


@pytest.mark.parametrize(
    ("m", "v"),
    [
        ([0.3, -0.2], [0.4, 1.3]),
        ([1.0, -0.5, 0.2], [0.1, 0.7, 2.0]),
        ([6.0, -5.0, 0.0, 2.0, 2.1], [0.0, 3.0, 0.2, 0.5, 1.0]),
    ],
)
def test_the_largest_of_several_outputs(m, v):
    """Integral by brute force, gradient by its differences; probabilities sum to one."""
    m, v = np.array(m), np.array(v)
    log_p = engine.log_class_probabilities(m[None], v[None])[0]
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-13)
    if len(m) == 2:
        assert log_p == pytest.approx(
            special.log_ndtr([1, -1] * np.diff(m[::-1]) / (2 + v.sum()) ** 0.5)
        )
    for y in range(len(m)):
        log_z, gradient = kernel_log_z(m, v, y)
        assert log_z == pytest.approx(log_p[y], rel=1e-12)
        assert log_z == pytest.approx(log_z_by_brute_force(m, v, y), abs=1e-9)
        step = 1e-4
        for k in range(len(m)):
            shift = step * (np.arange(len(m)) == k)
            by_m = log_z_by_brute_force(m + shift, v, y) - log_z_by_brute_force(m - shift, v, y)
            by_v = log_z_by_brute_force(m, v + 2 * shift, y) - log_z_by_brute_force(m, v, y)
            assert gradient[0, k] == pytest.approx(by_m / (2 * step), abs=1e-6)
            assert gradient[1, k] == pytest.approx(by_v / (2 * step), abs=1e-3)
    if len(m) != 3:
        return
    with jax.enable_x64(True):
        value_and_gradient = jax.value_and_grad(updates.multinomial_probit_log_z, argnums=(0, 1))
        jax_found = value_and_gradient(jnp.asarray(m), jnp.asarray(v), len(m) - 1)
    assert float(jax_found[0]) == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(np.stack(jax_found[1]), gradient, rtol=1e-10, atol=1e-12)


def test_many_classes_and_wide_outputs_stay_finite_and_sum_to_one():
    rng = np.random.default_rng(0)
    for k, scale in ((2, 1e3), (40, 1.0), (5, 1e12), (3, 1e-9)):
        m, v = scale * rng.normal(size=(20, k)), scale**2 * rng.uniform(size=(20, k))
        log_p = engine.log_class_probabilities(m, v)
        assert np.isfinite(log_p).all()
        np.testing.assert_allclose(
            np.exp(log_p).sum(axis=1), 1.0, rtol=2e-2 if scale > 1e2 else 1e-9
        )


def test_one_label_is_the_moments_of_the_exact_posterior():
    """No hidden units: every marginal matches the tilted distribution, on a grid in two weights."""
    prior_var, x = 1.7, 0.6
    grid = np.linspace(-9.0, 9.0, 801)
    w, b = np.meshgrid(grid, grid, indexing="ij")
    tilted = stats.norm.pdf(w, 0, prior_var**0.5) * stats.norm.pdf(b, 0, prior_var**0.5)
    tilted = tilted * special.ndtr(-(w * x + b) / np.sqrt(2.0))
    for absorbed in (updates.data_pass, data_pass):
        after, info = absorbed(
            linear_state(prior_var, 1), np.array([[x]]), np.array([[-1.0]]), np.array([0]),
            targets="classes",
        )  # fmt: skip
        assert info.log_z == pytest.approx(np.log(tilted.sum() * (grid[1] - grid[0]) ** 2))
        for weight, m, v in zip((w, b), after.m[0][:, 0], after.v[0][:, 0], strict=True):
            mean = np.average(weight, weights=tilted)
            assert m == pytest.approx(mean, rel=1e-7)
            assert v == pytest.approx(np.average((weight - mean) ** 2, weights=tilted), rel=1e-7)


def test_a_weight_is_a_power_of_the_factor():
    start, none, label = linear_state(1.5, 0), np.zeros((1, 0)), np.ones((1, 1))
    rule = {"order": np.array([0]), "targets": "classes"}
    once, _ = data_pass(start, none, label, **rule)
    thrice, _ = data_pass(start, none, label, weight=np.array([3.0]), **rule)
    prec, added = 1 / 1.5, 1 / once.v[0].item() - 1 / 1.5
    assert 1 / thrice.v[0].item() == pytest.approx(prec + 3 * added)
    pulled = once.m[0].item() / once.v[0].item()
    assert thrice.m[0].item() / thrice.v[0].item() == pytest.approx(3 * pulled)


def test_expected_entropies():
    m, v = np.array([0.3, -2.0, 5.0, 0.1, 40.0]), np.array([0.0, 0.5, 9.0, 400.0, 1.0])

    def entropy(f):
        return special.entr(special.ndtr(f)) + special.entr(special.ndtr(-f))

    for found, a, b in zip(probit_entropy(m, v), m, v, strict=True):
        exact = entropy(a) if b == 0 else integrate.quad(
            lambda f, a=a, b=b: entropy(f) * stats.norm.pdf(f, a, b**0.5), -12, 12, epsabs=1e-12
        )[0]  # fmt: skip
        assert found == pytest.approx(exact, abs=1e-9)
    nodes = gaussian_nodes(3, 32)
    m, v = np.array([[0.5, -1.0, 2.0]]), np.array([[0.3, 2.0, 1.0]])
    f = m + np.sqrt(v) * nodes
    log_p = engine.log_class_probabilities(f, np.zeros_like(f))
    np.testing.assert_allclose(
        engine.expected_entropies(m, v, nodes), -np.sum(np.exp(log_p) * log_p) / len(f)
    )

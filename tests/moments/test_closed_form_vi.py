"""The closed-form objective: against dense evidence, draws, quadrature and finite differences."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

from bayesprop.moments import closed_form_vi as vi
from bayesprop.networks.gradient_method import Parameters
from bayesprop.networks.likelihoods import Categorical, InputNoise, KnownNoise, LearnedNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics import loops
from bayesprop.numerics.loops import Batch
from bayesprop.numerics.rows import Rows


def rows_of(n=40, n_inputs=3, n_targets=1, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, n_inputs))
    y = np.sin(x @ rng.standard_normal((n_inputs, n_targets))) + 0.2 * rng.standard_normal(
        (n, n_targets)
    )
    weight = np.ones(n) if weight is None else weight
    return Rows(*(jnp.asarray(a, jnp.float32) for a in (x, y, weight)))


def params_of(model, n_inputs=3, hidden=(20,), seed=0, log_var=-4.0):
    weights = init_weights(jax.random.key(seed), (n_inputs, *hidden, model.likelihood.n_outputs))
    return vi.start(model, weights, log_var=log_var)


@pytest.mark.parametrize("likelihood_weight", [1.0, 3.0])
def test_elbo_at_the_exact_posterior_is_the_evidence(likelihood_weight):
    """Linear model, orthogonal columns: the posterior factorises, so that nothing is lost."""
    n, noise_var, prior_std = 8, 0.3, 1.7
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))[0]
    ones = np.ones(n) / np.sqrt(n)
    basis = np.linalg.qr(np.column_stack([ones, basis[:, :2]]))[0]
    x = 2.0 * basis[:, 1:]
    design = np.column_stack([x, np.ones(n)])
    y = np.random.default_rng(1).standard_normal(n)
    # lambda copies of every row: a Gaussian of noise_var / lambda, and what the copies add.
    var = noise_var / likelihood_weight
    prec = design.T @ design / var + np.eye(3) / prior_std**2
    m = np.linalg.solve(prec, design.T @ y / var)
    cov = var * np.eye(n) + prior_std**2 * design @ design.T
    evidence = stats.multivariate_normal(np.zeros(n), cov).logpdf(y)
    norm = likelihood_weight * np.log(2 * np.pi * noise_var) - np.log(2 * np.pi * var)
    evidence -= 0.5 * n * norm
    model = vi.Model(
        KnownNoise(1, noise_var), prior_scale=prior_std, likelihood_weight=likelihood_weight
    )
    q = vi.Posterior(
        (jnp.asarray(m[:, None], jnp.float32),),
        (jnp.asarray(-np.log(np.diag(prec))[:, None], jnp.float32),),
    )
    rows = Rows(jnp.asarray(x, jnp.float32), jnp.asarray(y[:, None], jnp.float32), jnp.ones(n))
    assert float(vi.elbo(model, Parameters(q, ()), rows)) == pytest.approx(evidence, rel=2e-5)


@pytest.mark.parametrize(
    ("likelihood", "hidden"),
    [(KnownNoise(1, 0.2), (200,)), (LearnedNoise(2), (200,)), (InputNoise(1), (200,))],
)
def test_expected_log_likelihood_against_draws(likelihood, hidden):
    """One hidden layer: mean and variance of the output are exact, and known noise needs no more.

    With a log variance of the noise beside it, independence and Gaussian shape are approximations,
    good here to 2 %.
    """
    model = vi.Model(likelihood)
    rows = rows_of(n_targets=likelihood.n_targets)
    params = params_of(model, hidden=hidden, log_var=-6.0)
    ours = float(jax.jit(partial(vi.terms, model))(params, rows)[0])
    state = vi.VIState(params, (), jnp.zeros(()))
    apply = partial(plain_apply, activation_name="relu")

    def one(key):
        weights, noise = vi.sample(key, state)
        f = jax.vmap(partial(apply, weights))(rows.x)
        return jnp.sum(jax.vmap(partial(likelihood.log_prob, noise))(f, rows.y))

    drawn = np.asarray(jax.lax.map(one, jax.random.split(jax.random.key(1), 2000), batch_size=100))
    slack = 0.02 * abs(ours) if isinstance(likelihood, InputNoise) else 0.0
    assert abs(ours - drawn.mean()) < 4.0 * drawn.std() / np.sqrt(len(drawn)) + slack


def test_epoch_of_losses_is_the_objective_whatever_the_batches():
    """With the parameters held still, a row's mean loss is -ELBO / n for every batch size."""
    weight = np.random.default_rng(2).integers(0, 4, 40).astype(float)
    rows = rows_of(weight=weight)
    model = vi.Model(LearnedNoise(1), prior_scale=0.7, likelihood_weight=2.5)
    method = vi.closed_form_vi(model, learning_rate=1e-12)
    state = method.init(jax.random.key(0), params_of(model).weights.m)
    whole = -float(jax.jit(partial(vi.elbo, model))(state.params, rows)) / weight.sum()
    _, info = loops.epoch(method.update, state, jax.random.key(3), rows, batch_size=7)
    assert float(info.loss) == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize(
    ("likelihood", "scale", "prior"),
    [
        (InputNoise(1), "fan_in", "normal"),
        (InputNoise(1), "empirical", "laplace"),
        (Categorical(3, "taylor"), "fan_in", "laplace"),
        (Categorical(3, "taylor"), "empirical", "normal"),
    ],
)
def test_gradient_against_finite_differences(likelihood, scale, prior):
    model = vi.Model(likelihood, prior=prior, prior_scale=scale)
    with jax.enable_x64(True):
        rows, params = jax.tree.map(
            lambda a: jnp.asarray(a, jnp.float64), (rows_of(n=9), params_of(model, hidden=(4, 3)))
        )
        if isinstance(likelihood, Categorical):
            rows = rows._replace(y=jnp.arange(9) % 3)
        flat, params_from = ravel_pytree(params)
        value_and_slope = jax.jit(
            jax.value_and_grad(lambda flat: vi.elbo(model, params_from(flat), rows))
        )
        slope = np.asarray(value_and_slope(flat)[1])
        for step in np.random.default_rng(0).standard_normal((3, len(flat))):
            ahead, back = (float(value_and_slope(flat + h * step)[0]) for h in (1e-5, -1e-5))
            assert slope @ step == pytest.approx((ahead - back) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("prior", ["normal", "laplace"])
def test_empirical_scale_is_the_best_of_all_scales(prior):
    """Against a search over one scale a layer; the closed form is never beaten."""
    model = vi.Model(KnownNoise(1), prior=prior, prior_scale="empirical")
    q = params_of(model, hidden=(6,), log_var=-1.0).weights
    one_layer = vi.Posterior(q.m[:1], q.log_v[:1])
    ours = float(vi.kl(model, one_layer))
    grid = np.geomspace(0.05, 5.0, 400)
    others = [
        float(vi.kl(vi.Model(KnownNoise(1), prior=prior, prior_scale=float(s)), one_layer))
        for s in grid
    ]
    assert ours <= min(others) + 1e-4
    assert ours == pytest.approx(min(others), abs=0.05)


def test_lbfgs_converges_and_knows_it():
    rows, model = rows_of(), vi.Model(KnownNoise(1, 0.04))
    start = params_of(model, log_var=-10.0)
    found = vi.fit_lbfgs(model, start, rows, tol=1e-3, max_steps=2000)
    assert found.trace["gradient_norm"][-1] <= 1e-3
    assert found.trace["loss"] == sorted(found.trace["loss"], reverse=True)
    bound = float(jax.jit(partial(vi.elbo, model))(found.state, rows))
    assert found.trace["loss"][-1] == pytest.approx(-bound / 40, rel=1e-4)
    assert jax.tree.leaves(found.state)[0].dtype == jnp.float32
    cut = vi.fit_lbfgs(model, start, rows, tol=1e-3, max_steps=5)
    assert len(cut.trace["loss"]) == 5
    assert cut.trace["gradient_norm"][-1] > 1e-3


def test_lbfgs_finds_the_posterior_of_a_linear_model():
    """Mean-field optimum of a linear-Gaussian model: its mean, and one over the precisions."""
    rows, noise_var = rows_of(), 0.3
    design = np.column_stack([rows.x, np.ones(40)]).astype(float)
    prec = design.T @ design / noise_var + np.eye(4)
    mean = np.linalg.solve(prec, design.T @ np.asarray(rows.y, float)[:, 0] / noise_var)
    model = vi.Model(KnownNoise(1, noise_var), prior_scale=1.0)
    start = params_of(model, hidden=(), log_var=-3.0)
    q = vi.fit_lbfgs(model, start, rows, tol=1e-7).state.weights
    np.testing.assert_allclose(q.m[0][:, 0], mean, atol=1e-4)
    np.testing.assert_allclose(q.v[0][:, 0], 1.0 / np.diag(prec), rtol=1e-3)


def test_warm_up_scales_the_kl_alone():
    rows, model = rows_of(), vi.Model(KnownNoise(1, 0.1))
    batch = Batch(*rows[:3], jnp.asarray(0), 1, jnp.asarray(40.0))
    still = {"learning_rate": 1e-12}
    cold, warm = (vi.closed_form_vi(model, warm_up_epochs=w, **still) for w in (0.0, 10.0))
    state = cold.init(jax.random.key(0), params_of(model).weights.m)
    log_lik, divergence = jax.jit(partial(vi.terms, model))(state.params, rows)
    update = jax.jit(warm.update)
    for n_epochs, share in ((0.0, 0.0), (4.0, 0.4), (25.0, 1.0)):
        at = state._replace(n_epochs=jnp.asarray(n_epochs))
        expected = (share * divergence - log_lik) / 40
        loss = update(jax.random.key(0), at, batch)[1].loss
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    cold_loss = jax.jit(cold.update)(jax.random.key(0), state, batch)[1].loss
    assert float(cold_loss) == pytest.approx(float(divergence - log_lik) / 40, rel=1e-5)


def test_dead_units_are_those_without_a_way_out():
    m = jnp.array([[1.0, 0.0], [0.01, -0.02], [0.0, 0.3], [2.0, 2.0]])
    q = vi.Posterior((jnp.ones((4, 3)), m), (jnp.zeros((4, 3)), jnp.full((4, 2), np.log(0.01))))
    assert vi.dead_units(q).tolist() == [1]


def test_entropies_do_not_depend_on_what_all_logits_share():
    rng = np.random.default_rng(0)
    m, v = rng.normal(size=(50, 3)), rng.uniform(0.1, 4.0, (50, 3))
    for part, moved in zip(vi._class_moments(m, v), vi._class_moments(m + 1e5, v), strict=True):
        np.testing.assert_allclose(part, moved, atol=1e-8)

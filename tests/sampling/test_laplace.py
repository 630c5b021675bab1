"""Laplace's approximation against dense matrices, exact linear models, quadrature-free oracles."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import linalg, optimize, special, stats

from bayesprop.networks.gradient_method import Parameters
from bayesprop.networks.likelihoods import Categorical, InputNoise, KnownNoise, LearnedNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics.rows import Rows
from bayesprop.sampling import laplace as laplace_module
from bayesprop.sampling.curvature import Diagonal, Full, Kron, LeafwiseCurvature, tangent_apply
from bayesprop.sampling.laplace import (
    Fit,
    LaplaceModel,
    draw_linear,
    draw_network,
    laplace,
    maximise,
    measure,
    predict_linearised,
)

SIZES = (3, 4, 2)
APPLY = partial(plain_apply, activation_name="erf")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(13, 3))
WEIGHT = RNG.uniform(0.2, 2.0, size=13)


def by_hand(weights, x):
    """The same network as a stranger would write it."""
    hidden = jax.scipy.special.erf(jnp.append(x, 1.0) @ weights[0])
    return jnp.append(hidden, 1.0) @ weights[1]


LIKELIHOODS = {
    "noise": (LearnedNoise(2), np.array([-1.0, 0.5]), RNG.normal(size=(13, 2))),
    "classes": (Categorical(2), (), RNG.integers(0, 2, size=13)),
    "input noise": (InputNoise(1), (), RNG.normal(size=(13, 1))),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def network(seed=1, sizes=SIZES):
    weights = init_weights(jax.random.key(seed), sizes)
    return tuple(jnp.asarray(w, jnp.float64) + 0.1 for w in weights)


def rows(y, x=X, weight=WEIGHT):
    return Rows(jnp.asarray(x), jnp.asarray(y), jnp.asarray(weight))


def matrix_of(curvature):
    """H, by the root of (H + I)^-1, whether it is a matrix or a basis and deviations a leaf."""
    root = curvature.root(np.ones(len(curvature.sizes)), 1.0)
    leaves = [(root, np.ones(len(root)))] if isinstance(root, np.ndarray) else []
    for *basis, std in [] if leaves else root:
        leaves.append((np.kron(*basis) if basis else np.eye(std.size), std.ravel()))
    precisions = [np.linalg.inv((turn * std**2) @ turn.T) for turn, std in leaves]
    return linalg.block_diag(*precisions) - np.eye(int(curvature.sizes.sum()))


def brute_force(likelihood, noise, weights):
    """The matrix by dense Jacobians of every row."""
    flat, unravel = ravel_pytree(weights)
    slopes = jax.jit(jax.vmap(jax.jacobian(lambda flat, x: by_hand(unravel(flat), x)), (None, 0)))
    total = 0.0
    for x, w, slope in zip(X, WEIGHT, np.asarray(slopes(flat, X)), strict=True):
        total += w * slope.T @ information(likelihood, noise, by_hand(weights, x)) @ slope
    return total


def information(likelihood, noise, f):
    if isinstance(likelihood, LearnedNoise):
        return np.diag(np.exp(-noise))
    if isinstance(likelihood, InputNoise):
        return np.diag([np.exp(-f[1]), 0.5])
    p = np.exp(f) / np.exp(f).sum()
    return np.diag(p) - np.outer(p, p)


@pytest.mark.parametrize("name", list(LIKELIHOODS))
def test_full_and_diagonal_are_those_of_brute_force(name, monkeypatch):
    likelihood, noise, y = LIKELIHOODS[name]
    monkeypatch.setattr(laplace_module, "_WORKING_VALUES", 300)  # several batches, the last filled
    mode = Parameters(network(), noise)
    dense = brute_force(likelihood, noise, mode.weights)
    for apply in (APPLY, by_hand):
        found, _ = measure(LaplaceModel(apply, likelihood, Diagonal()), mode, rows(y))
        np.testing.assert_allclose(np.diag(matrix_of(found)), np.diag(dense), rtol=1e-9, atol=1e-12)
        found, _ = measure(LaplaceModel(apply, likelihood, Full()), mode, rows(y))
        np.testing.assert_allclose(matrix_of(found), dense, atol=1e-9)


@pytest.mark.parametrize("name", ["noise", "classes"])
def test_kronecker_factors_are_moments_of_inputs_and_slopes(name):
    """By loops; the slopes of the units are those of their biases."""
    likelihood, noise, y = LIKELIHOODS[name]
    weights = network()
    found, _ = measure(LaplaceModel(APPLY, likelihood, Kron()), Parameters(weights, noise), rows(y))
    by_bias = jax.jit(jax.vmap(jax.jacobian(by_hand), (None, 0)))(weights, X)
    inputs, blocks = X, []
    for layer in range(2):
        z, slopes = np.column_stack([inputs, np.ones(13)]), np.asarray(by_bias[layer])[:, :, -1]
        of_inputs, of_units = 0.0, 0.0
        for w, row, slope, x in zip(WEIGHT, z, slopes, X, strict=True):
            of_inputs += w * np.outer(row, row)
            middle = information(likelihood, noise, by_hand(weights, x))
            of_units += w * slope.T @ middle @ slope
        blocks.append(np.kron(of_inputs / WEIGHT.sum(), of_units))
        inputs = special.erf(z @ weights[0]) if layer == 0 else None
    np.testing.assert_allclose(matrix_of(found), linalg.block_diag(*blocks), atol=1e-10)


def linear_model(n=40, noise_var=0.3, prior_prec=0.7):
    """A network without hidden units at its mode, and the exact posterior of its weights."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 3))
    phi = np.column_stack([x, np.ones(n)])
    y = phi @ rng.normal(size=(4, 1)) + noise_var**0.5 * rng.normal(size=(n, 1))
    prec = phi.T @ phi / noise_var + prior_prec * np.eye(4)
    mean = np.linalg.solve(prec, phi.T @ y / noise_var)
    mode = Parameters((jnp.asarray(mean),), ())
    return mode, rows(y, x, np.ones(n)), phi, np.linalg.inv(prec)


@pytest.mark.parametrize("structure", [Full(), Kron()], ids=["full", "kron"])
def test_a_linear_model_is_exact(structure):
    """With one output Kronecker factors are no approximation."""
    mode, data, phi, cov = linear_model()
    model = LaplaceModel(plain_apply, KnownNoise(1, 0.3), structure)
    posterior, ascent = laplace(model, mode, data, prior_prec=0.7, prior="known")
    y = np.asarray(data.y)[:, 0]
    marginal = stats.multivariate_normal(cov=0.3 * np.eye(40) + phi @ phi.T / 0.7)
    assert ascent.trace == [pytest.approx(marginal.logpdf(y), rel=1e-10)]
    moments = predict_linearised(model, posterior, jnp.zeros((64, 3)).at[:40].set(data.x))
    np.testing.assert_allclose(moments.m[:40], phi @ mode.weights[0], rtol=1e-10)
    var = np.einsum("ni,ij,nj->n", phi, cov, phi)
    np.testing.assert_allclose(moments.cov[:40, 0, 0], var, rtol=1e-9)


@pytest.mark.parametrize("structure", [Full(), Kron(), Diagonal()], ids=lambda one: one.name)
@pytest.mark.parametrize("prior", ["by-leaf", "one", "known"])
def test_the_evidence_is_at_its_maximum(structure, prior):
    """Against an optimiser of the evidence written out with a dense matrix."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 3))
    weights = network(2, (3, 4, 1))
    f = np.asarray(jax.vmap(partial(by_hand, weights))(x))
    y = f + 0.5 * rng.normal(size=(60, 1))
    mode, data = Parameters(weights, jnp.zeros(1)), rows(y, x, np.ones(60))
    model = LaplaceModel(APPLY, LearnedNoise(1), structure)
    posterior, found = laplace(model, mode, data, prior=prior, tolerance=1e-6, max_steps=2000)
    dense = matrix_of(measure(model, mode, data)[0])
    squares = [float((w**2).sum()) for w in weights]
    residual = y - f

    def minus_evidence(logs):
        prec, noise_var = np.exp(logs[:2]), np.exp(logs[2])
        likelihood = stats.norm.logpdf(residual, scale=noise_var**0.5).sum()
        full = dense / noise_var + np.diag(np.repeat(prec, [16, 5]))
        log_prior = 16 * logs[0] + 5 * logs[1] - prec @ squares
        return -likelihood - 0.5 * (log_prior - np.linalg.slogdet(full)[1])

    one = np.array([[1, 1, 0], [0, 0, 1]])
    expand = {"by-leaf": np.eye(3), "one": one, "known": np.eye(3)[2:]}[prior]
    loss = lambda free: minus_evidence(free @ expand)  # noqa: E731
    best = optimize.minimize(loss, np.zeros(len(expand)), tol=1e-10)
    logs = best.x @ expand
    assert found.converged
    assert found.trace[0] == pytest.approx(-minus_evidence(np.zeros(3)), rel=1e-10)
    assert found.trace[-1] == pytest.approx(-best.fun, abs=1e-5)
    assert np.diff(found.trace).min() > -1e-8
    np.testing.assert_allclose(np.log(found.point.prior_prec), logs[:2], atol=2e-3)
    np.testing.assert_allclose(posterior.mode.likelihood, logs[2:], atol=2e-3)


@pytest.mark.parametrize("structure", [Full(), Kron(), Diagonal()], ids=lambda one: one.name)
def test_draws_have_the_covariance_that_predictions_use(structure):
    """Drawn linear networks, and the dense J S J', against the moments in closed form."""
    _, noise, y = LIKELIHOODS["noise"]
    model = LaplaceModel(APPLY, KnownNoise(len(noise), 0.4), structure)
    mode = Parameters(network(), ())
    posterior, _ = laplace(model, mode, rows(y), prior="known")
    x = jnp.asarray(np.random.default_rng(8).normal(size=(64, 3)))
    moments = predict_linearised(model, posterior, x)
    flat, unravel = ravel_pytree(mode.weights)
    slopes = np.asarray(jax.jacobian(lambda flat: by_hand(unravel(flat), x[0]))(flat))
    dense = matrix_of(measure(model, mode, rows(y))[0]) + np.eye(flat.size)
    np.testing.assert_allclose(moments.cov[0], slopes @ np.linalg.inv(dense) @ slopes.T, atol=1e-9)

    linear, n = tangent_apply(APPLY), 4000
    keys = jax.random.split(jax.random.key(0), n)

    def draw(key):
        f = linear(draw_linear(model, key, posterior).weights, x[0])
        return f, ravel_pytree(draw_network(model, key, posterior).weights)[0]

    drawn, plain = map(np.asarray, jax.jit(jax.vmap(draw))(keys))
    root = np.linalg.cholesky(moments.cov[0])
    z = np.linalg.solve(root, (drawn - np.asarray(moments.m[0])).T)
    assert np.abs(z.mean(axis=1)).max() < 4.0 / np.sqrt(n)
    assert np.abs(np.cov(z) - np.eye(2)).max() < 4.0 * np.sqrt(2.0 / n)
    var = np.diag(np.linalg.inv(dense))
    assert np.abs(plain.var(axis=0) / var - 1.0).max() < 5.0 * np.sqrt(2.0 / n)


def test_what_cannot_be_is_refused():
    mode, data, _, _ = linear_model()
    vanished = mode._replace(likelihood=jnp.array([-800.0]))
    with pytest.raises(FloatingPointError, match="left the finite numbers"):
        laplace(LaplaceModel(plain_apply, LearnedNoise(1), Full()), vanished, data)
    with pytest.raises(ValueError, match=r"must be plain_apply .* Full\(\) or Diagonal\(\)"):
        LaplaceModel(by_hand, KnownNoise(1), Kron())


GOLDEN = json.loads((Path(__file__).parent.parent / "golden/laplace-torch.json").read_text())


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("structure", [Full(), Kron(), Diagonal()], ids=lambda one: one.name)
def test_curvature_evidence_and_prediction_are_those_of_laplace_torch(kind, structure):
    """Its Kronecker factors leave biases apart: of them, weights and biases are compared."""
    expected = GOLDEN[kind][structure.name]
    mode = Parameters(tuple(map(jnp.asarray, GOLDEN["layers"])), ())
    is_classes = kind == "classification"
    likelihood = Categorical(2) if is_classes else KnownNoise(2, GOLDEN["noise_var"])
    x = np.array(GOLDEN["x"])
    data = rows(np.array(GOLDEN["codes" if is_classes else "y"]), x, np.ones(12))
    model, prec = LaplaceModel(plain_apply, likelihood, structure), GOLDEN["prior_prec"]
    curvature = matrix_of(measure(model, mode, data)[0])
    if not is_classes:
        curvature *= GOLDEN["noise_var"]  # theirs is that of unit noise
    if structure == Diagonal():
        leaves = [np.diag(curvature)[:20].reshape(4, 5), np.diag(curvature)[20:].reshape(6, 2)]
        theirs = [part for leaf in leaves for part in (leaf[:-1].T.ravel(), leaf[-1])]
        np.testing.assert_allclose(np.concatenate(theirs), expected["curvature"], rtol=1e-8)
    if structure == Kron():
        weights1, biases1, weights2, biases2 = expected["weight_blocks"]
        blocks = [curvature[:20, :20].reshape(4, 5, 4, 5), curvature[20:, 20:].reshape(6, 2, 6, 2)]
        theirs = zip(blocks, (weights1, weights2), (biases1, biases2), strict=True)
        for block, weights, biases in theirs:
            o = block.shape[1]
            ours = block[:-1, :, :-1, :].transpose(1, 0, 3, 2).reshape(o * (len(block) - 1), -1)
            np.testing.assert_allclose(ours, np.kron(*map(np.array, weights)), atol=1e-8)
            np.testing.assert_allclose(block[-1, :, -1, :], np.array(biases[0]), atol=1e-8)
        return
    posterior, ascent = laplace(model, mode, data, prior_prec=prec, prior="known")
    assert ascent.trace[0] == pytest.approx(expected["log_evidence"], rel=1e-7)
    moments = predict_linearised(model, posterior, jnp.zeros((64, 3)).at[:12].set(x))
    np.testing.assert_allclose(moments.m[:12], expected["mean"], atol=1e-8)
    np.testing.assert_allclose(moments.cov[:12], expected["cov"], atol=1e-7)


def test_more_determined_weights_than_values_do_not_stop_the_noise():
    """Where the rank of the curvature is not bounded by the rows, as of Kronecker factors."""
    curvature = LeafwiseCurvature([np.full((4, 5), 1e3)], [()])
    fit = Fit(log_likelihood=-9.0, misfit=2.0, n_values=5.0)
    found = maximise(curvature, fit, np.array([3.0]), np.ones(1), "by-leaf", 5000, 0.05)

    def minus_evidence(logs):
        (prec, b), (log_prec, log_b) = np.exp(logs), logs
        spread = 20 * np.log(1e3 * b + prec)
        return -0.5 * (2.0 * (1.0 - b) + 5.0 * log_b + 20 * log_prec - 3.0 * prec - spread)

    best = optimize.minimize(minus_evidence, np.zeros(2), tol=1e-10)
    assert found.converged
    assert found.trace[-1] == pytest.approx(-9.0 - best.fun, abs=1e-2)
    assert np.diff(found.trace).min() > -1e-8

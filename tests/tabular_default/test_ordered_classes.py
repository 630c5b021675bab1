"""The cumulative likelihood: probabilities and slopes against quadrature; what its families do."""

from __future__ import annotations

from dataclasses import replace

import ensemble_objective as objective
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from class_networks import OF_CLASSES as SETTINGS
from class_networks import mean_outputs, slopes_for_classes, widened
from scipy import special

from bayesprop import codec
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.experts import ClassState
from bayesprop.tabular_default.fit import Classes, fit, points
from bayesprop.tabular_default.networks import (
    LEAST_GAP,
    class_outputs,
    flat,
    init_member,
    init_thresholds,
)
from bayesprop.tabular_default.training import Table

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def uncertain_member(n_inputs, n_classes):
    rng = np.random.default_rng(0)
    member = widened(init_member(rng, (n_inputs, 7, 1)))
    return member._replace(thresholds=init_thresholds(rng.uniform(0.5, 2.0, n_classes)))


def latent(member, x):
    return (part[:, 0] for part in mean_outputs(member, x))


def ends_of(raw):
    return np.concatenate([raw[:1], raw[0] + np.cumsum(np.exp(raw[1:]) + LEAST_GAP)])


def by_quadrature(m, v, raw):
    """P(y) at the nodes of the latent as differences of sigmoids, (n, q, c)."""
    a = m[:, None] + np.sqrt(v)[:, None] * NODES
    reached = special.expit(ends_of(np.float64(raw)) - a[..., None])
    edges = np.zeros((*a.shape, 1)), np.ones((*a.shape, 1))
    return np.diff(np.concatenate([edges[0], reached, edges[1]], axis=2), axis=2)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_probabilities_and_entropies_are_those_of_quadrature(n_classes):
    x, member = np.random.default_rng(1).standard_normal((40, 5)), uncertain_member(5, n_classes)
    m, v = latent(member, x)
    assert 0.3 < np.median(v) < 30.0
    p = by_quadrature(m, v, member.thresholds)
    ((proba, expected_entropy),) = class_outputs([member], x, points(n_classes))
    np.testing.assert_allclose(proba, WEIGHTS @ p, atol=4e-3)
    entropy = special.entr(p).sum(axis=2) @ WEIGHTS
    np.testing.assert_allclose(expected_entropy, entropy, atol=0.01)


def test_far_in_the_tails_nothing_cancels():
    member = uncertain_member(2, 3)._replace(thresholds=np.float32([-40.0, np.log(80.0)]))
    sure = tuple(layer._replace(w_log_std=layer.w_log_std - 9.0) for layer in member.mean)
    x = np.zeros((1, 2))
    m, v = latent(member._replace(mean=sure), x)
    ((proba, _),) = class_outputs([member._replace(mean=sure)], x, points(3))
    want = WEIGHTS @ by_quadrature(m, v, member.thresholds)
    assert want[0, 0] < 1e-15
    np.testing.assert_allclose(proba[0, 0], want[0, 0], rtol=0.02)


def test_classes_start_with_their_shares():
    share = np.array([5.0, 1.0, 3.0, 1.0])
    p = by_quadrature(np.zeros(1), np.zeros(1), init_thresholds(share))[0, 0]
    np.testing.assert_allclose(p, share / share.sum(), rtol=1e-5)


@pytest.mark.exhaustive
def test_slopes_are_on_average_those_of_the_expected_loss():
    """Oracle: central differences of a loss by quadrature; 400 independent steps of size zero."""
    rng, n, n_classes = np.random.default_rng(2), 37, 4
    x, codes = rng.standard_normal((n, 3)), rng.integers(n_classes, size=n)
    rows = Table.of(x, np.eye(n_classes)[codes], rng.uniform(0.5, 2.0, n))
    member = uncertain_member(3, n_classes)
    got, std_error, losses = slopes_for_classes(member, rows, rng)

    def loss(thresholds, bias):
        *below, last = member.mean
        moved = member._replace(mean=(*below, last._replace(b_m=last.b_m + bias)))
        p = by_quadrature(*latent(moved, rows.x), thresholds)[np.arange(n), :, codes]
        return -np.mean(rows.weight * (np.log(p) @ WEIGHTS))

    raw, step = np.float64(member.thresholds), 1e-3
    vectors = [a.size for a in (*(part for layer in member.mean for part in layer),)]
    first = sum(vectors)
    for k in range(len(raw)):
        away = step * np.eye(len(raw))[k]
        want = (loss(raw + away, 0.0) - loss(raw - away, 0.0)) / (2.0 * step)
        assert abs(got[first + k] - want) < 5.0 * std_error[first + k] + 1e-4
    assert abs(losses[:, 1].mean() - loss(raw, 0.0)) < 4.0 * losses[:, 1].std() / 20.0 + 1e-3

    # The slopes in the latent's mean and variance, which the weights share with other likelihoods.
    def data(member):
        moments = objective.propagate(
            member.mean, jnp.asarray(rows.x, jnp.float64), member.log_widths
        )
        a = moments.m + jnp.sqrt(moments.v) * NODES[None]
        ends = jnp.asarray(np.concatenate([[-np.inf], ends_of(raw), [np.inf]]))
        up, low = ends[codes + 1][:, None] - a, ends[codes][:, None] - a
        p = jax.nn.sigmoid(up) - jax.nn.sigmoid(low)
        price = objective.adaptive_kl(member.mean, SETTINGS.priors.mean)
        price += objective.width_price(member.log_widths)
        return -jnp.mean(rows.weight * (jnp.log(p) @ WEIGHTS)) + price / rows.n_total

    with jax.enable_x64():
        like = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), member)
        want = flat(jax.tree.map(np.asarray, jax.grad(data)(like)))
    others = np.r_[:first, first + len(raw) : len(got)]
    off = np.abs(got - want)[others]
    assert (off < 5.0 * std_error[others] + 2e-4 * np.abs(want).max()).all()


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((150, 2))
    codes = np.digitize(x[:, 0] + 0.4 * rng.logistic(size=150), [-1.0, 0.0, 1.0])
    return x, codes, fit(1, Rows(x, codes), SETTINGS, Classes(4, is_ordered=True))


def test_experts_with_an_order_stand_beside_the_others(fitted):
    x, codes, (state, info) = fitted
    assert [one.is_ordered for one in state.experts] == [False] * 4 + [True] * 4
    assert len(state.weights) == 8
    proba = state.predict(x).proba
    log_p = np.log(proba[np.arange(150), codes])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    share = np.bincount(codes) / 150
    assert -log_p.mean() < info.left_out_loss < -(share @ np.log(share))
    again = codec.read(ClassState, codec.write(state, ClassState))
    np.testing.assert_array_equal(again.predict(x).proba, proba)


def test_an_order_that_is_none_costs_little(fitted):
    """Codes shuffled: the families without order take the mixture."""
    x, codes, _ = fitted
    state, info = fit(
        1, Rows(x, np.array([2, 0, 3, 1])[codes]), SETTINGS, Classes(4, is_ordered=True)
    )
    _, plain = fit(1, Rows(x, np.array([2, 0, 3, 1])[codes]), SETTINGS, Classes(4))
    assert state.weights[:4].sum() > 0.6
    assert info.left_out_loss < plain.left_out_loss + 0.04


def test_two_classes_have_the_experts_of_classes():
    rng = np.random.default_rng(3)
    x, codes = rng.standard_normal((40, 2)), np.arange(40) % 2
    state, _ = fit(0, Rows(x, codes), replace(SETTINGS, n_steps=20), Classes(2, is_ordered=True))
    assert not any(one.is_ordered for one in state.experts)


def test_networks_of_another_likelihood_are_refused(fitted):
    _, _, (state, _) = fitted
    wrong = state.experts[0].members[0]._replace(thresholds=np.zeros(2, np.float32))
    forged = state._replace(
        experts=(state.experts[0]._replace(members=(wrong,) * 3), *state.experts[1:])
    )
    with pytest.raises(ValueError, match="networks must lead"):
        codec.read(ClassState, codec.write(forged, ClassState))

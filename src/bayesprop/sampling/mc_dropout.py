"""Monte Carlo dropout (Gal & Ghahramani 2016): dropout in training is variational inference.

The posterior of layer l is W_l = diag(z_l) M_l, z_l Bernoulli with the probability p_l of keeping a
unit. Its KL to the prior N(0, 1 / l²), l the length scale, is up to a constant

    KL = sum_l (p_l l² / 2) |M_l|² + (l² / 2) |bias_l|²       (supplement, from the paper's eq. 6)

and the objective KL - sum log p(y | x, W) is dropout with weight decay lambda = p l² / (2 N tau)
(eq. 7 solved for lambda) beside the mean over N rows of half the squared error.
"""

from __future__ import annotations

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.model.gradient_method import Apply, Draw, GradientMethod
from bayesprop.model.network_likelihoods import NetworkLikelihood
from bayesprop.model.networks import Weights
from bayesprop.sampling.dropout import Rates, drop_rows, dropout_forward, keep_share
from bayesprop.sampling.point_network import Penalty, PointState, penalised_network


def mc_dropout(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    *,
    rates: Rates,
    length_scale: float,
    activation_name: str = "relu",
) -> GradientMethod:
    """Build dropout as approximate inference: draws of the weights are networks with missing units.

    rates
        Probability that an input or a hidden unit is missing, in training and in every draw.
    length_scale
        Weights have the prior N(0, 1 / length_scale²): the larger, the smoother the function.
    """
    method = penalised_network(
        apply,
        likelihood,
        optimizer,
        penalty=dropout_kl(rates, length_scale=length_scale),
        forward=dropout_forward(rates, activation_name=activation_name),
    )

    def sample(key: PRNGKeyArray, state: PointState) -> Draw:
        return Draw(drop_rows(key, state.weights, rates), state.likelihood)

    return method._replace(sample=sample)


def dropout_kl(rates: Rates, *, length_scale: float) -> Penalty:
    """Build the KL above, without its constant, of weights as they are trained.

    Kept units are divided by p, so M_l = w_l / p_l and (p_l l² / 2) |M_l|² = l² |w_l|² / (2 p_l).
    """

    def kl(weights: Weights) -> Float[Array, ""]:
        def one(w: Array, rate: float) -> Float[Array, ""]:
            return jnp.sum(w[:-1] ** 2) / keep_share(rate) + jnp.sum(w[-1] ** 2)

        layers = zip(weights, rates.of_layers(len(weights)), strict=True)
        return 0.5 * length_scale**2 * sum((one(*layer) for layer in layers), jnp.zeros(()))

    return kl

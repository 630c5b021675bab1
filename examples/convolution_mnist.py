"""A Bayesian convolutional network by the functional form: any function of a pytree will do.

Trains on MNIST and asks Fashion-MNIST how well the network knows what it does not know. With
`--quick` the digits that come with scikit-learn, and noise in place of clothes.
"""

import argparse
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.metrics import roc_auc_score

from bayesprop.datasets.images import load_images
from bayesprop.networks.draws import predict_draws
from bayesprop.networks.likelihoods import Categorical
from bayesprop.networks.priors import ScaleMixturePrior
from bayesprop.numerics.loops import epoch
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.bayes_by_backprop import bayes_by_backprop


def convolutional(key, side):
    """Two convolutions, each with pooling by two, and one dense layer."""
    first, second, last = jax.random.split(key, 3)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 8, 3, padding=1, key=first),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(8, 16, 3, padding=1, key=second),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(16 * (side // 4) ** 2, 10, key=last),
        ]
    )


def main(arguments=None):
    """Train, then print the accuracy and how well the entropy tells strangers apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="8 by 8 digits, in seconds")
    parser.add_argument("--epochs", type=int, help="passes over the pictures (5; quick: 25)")
    chosen = parser.parse_args(arguments)
    images = load_images("digits" if chosen.quick else "mnist")
    if chosen.quick:
        strangers = np.random.default_rng(0).integers(0, 256, images.test_x.shape)
    else:
        strangers = load_images("fashion").test_x

    def pixels(x):
        return jnp.asarray(x[:, None], jnp.float32) / 126.0

    # What is learnt, as a pytree, and the function of it that Bayes by Backprop needs.
    network = convolutional(jax.random.key(0), images.train_x.shape[1])
    start, rest = eqx.partition(network, eqx.is_inexact_array)

    def apply(weights, x):
        return eqx.combine(weights, rest)(x)

    method = bayes_by_backprop(
        apply, Categorical(10), ScaleMixturePrior(0.5, 1.0, 0.0025), optax.adam(3e-3),
        kl_weights="geometric",
    )  # fmt: skip
    state = method.init(jax.random.key(1), start)
    n = len(images.train_x)
    rows = Rows(pixels(images.train_x), jnp.asarray(images.train_y), jnp.ones(n))
    for place in range(chosen.epochs or (25 if chosen.quick else 5)):
        state, info = epoch(method.update, state, jax.random.key(place), rows, batch_size=128)
        print(f"epoch {place + 1}: log-likelihood {info.mean_log_likelihood:.3f} a picture")

    predict = partial(predict_draws, method, jax.random.key(2), state, n_draws=10)
    seen, strange = (
        np.asarray(predict(pixels(x)).proba, np.float64) for x in (images.test_x, strangers)
    )
    accuracy = np.mean(seen.argmax(axis=1) == images.test_y)
    entropy = [-np.sum(p * np.log(p + 1e-12), axis=1) for p in (seen, strange)]
    is_strange = np.repeat([0, 1], [len(seen), len(strange)])
    print(f"accuracy {accuracy:.4f}, entropy {entropy[0].mean():.3f} nats a picture")
    print(f"strangers: entropy {entropy[1].mean():.3f} nats a picture, ", end="")
    print(f"area under the ROC curve {roc_auc_score(is_strange, np.concatenate(entropy)):.4f}")


if __name__ == "__main__":
    main()

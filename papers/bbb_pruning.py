"""Table 2 and Figure 4 of Blundell et al. (2015): most weights of an MNIST network can go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.networks import pruning
from papers import compare, digit_networks, markdown
from papers.compare import Estimate
from papers.digit_networks import Config
from papers.protocol import Key, Scratch
from papers.rows import Row

NAME = "bbb-pruning"
KIND = "bbb-mixture"
SHARES = (0.0, 0.5, 0.75, 0.95, 0.98)
CUT_SHARE = 0.75
_QUANTILES = 2001


def fit_cell(config: Config, key: Key, scratch: Scratch) -> dict[str, Any]:
    """Remove shares of the weights of the last epoch, as the paper does; test what is left."""
    network = digit_networks.trained(config, KIND, key["units"], scratch)
    q = network.state.params.weights
    m, std = q.m, q.std
    test = digit_networks.pictures(config).test
    n_weights = sum(w.size for w in m)
    pruned = []
    for share in SHARES:
        masks = pruning.keep(m, std, share)
        left = jax.tree.map(lambda w, mask: jnp.where(jnp.asarray(mask), w, 0.0), m, masks)
        pruned.append(
            {
                "share": share,
                "n_left": sum(int(np.count_nonzero(mask)) for mask in masks),
                "test_error": digit_networks.error(left, test),
            }
        )
    ratio = digit_networks.flat(pruning.signal_to_noise(m, std))
    return {
        "n_weights": n_weights,
        "ratio_quantiles": np.quantile(ratio, np.linspace(0.0, 1.0, _QUANTILES)),
        "pruned": pruned,
    }


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the ratios of the largest network."""
    from papers.figures import snr_figure

    for same in digit_networks.largest(rows):
        ratio = np.asarray((same[0].result or {})["ratio_quantiles"])
        snr_figure.draw(stem, ratio=ratio, cut_share=CUT_SHARE)


def section(rows: Sequence[Row]) -> str:
    """Write the errors of the smaller networks beside the paper's."""
    networks = digit_networks.of_seeds(rows).values()
    paper = compare.anchors("bbb_table2.csv")
    lines = []
    for same in networks:
        each = [(row.result or {})["pruned"] for row in same]
        for of_share in zip(*each, strict=True):
            share, n_left = of_share[0]["share"], of_share[0]["n_left"]
            ours = Estimate.of([100.0 * one["test_error"] for one in of_share])
            printed = paper[str(share)]["test_error"]
            units = str(same[0].cell["units"])
            lines.append(
                (units, f"{100 * share:g} %", str(n_left), printed, markdown.estimate(ours))
            )
    finished = [row for same in networks for row in same]
    n_seeds = max(map(len, networks), default=0)
    table = markdown.table(_HEADER, lines)
    return markdown.section(NAME, rows, finished, table=table, n_seeds=n_seeds)


_HEADER = ("units", "removed", "weights left", "test error, paper, %", "test error, ours, %")


EXPERIMENT = digit_networks.experiment(
    (KIND,), name=NAME, work=fit_cell, section=section, draw=draw
)

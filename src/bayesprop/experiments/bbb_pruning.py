"""Table 2 and Figure 4 of Blundell et al. (2015): most weights of an MNIST network can go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.experiments import compare, digit_networks, markdown, protocol
from bayesprop.experiments.digit_networks import Config
from bayesprop.experiments.protocol import Cell, Key, Progress
from bayesprop.experiments.rows import Row
from bayesprop.model import mean_field, pruning

NAME = "bbb-pruning"
KIND = "bbb-mixture"
SHARES = (0.0, 0.5, 0.75, 0.95, 0.98)
CUT_SHARE = 0.75


def run(
    *,
    quick: bool,
    jobs: int,
    out: Path,
    only: list[str] | None,
    seed: int,
    progress: Progress,
) -> None:
    """Prune the networks of Table 1, trained here if they are not there; parts: their units."""
    config = digit_networks.quick(Config(seed=seed)) if quick else Config(seed=seed)
    cells = [
        Cell({"method": KIND, "units": units}, units**2)
        for units in digit_networks.chosen_units(config, only)
    ]
    work = partial(fit_cell, out=out, progress=progress)
    rows = protocol.run_cells(NAME, work, config, cells, out=out, jobs=jobs, progress=progress)
    finished = protocol.all_rows(out, NAME)
    protocol.write_section(out, NAME, section(finished))
    _draw(config, markdown.latest(finished), out)
    protocol.check_all_done(rows)


def fit_cell(
    config: Config, key: Key, *, out: Path, progress: Progress | None = None
) -> dict[str, Any]:
    """Remove shares of the weights of the last epoch, as the paper does; test what is left."""
    network = digit_networks.trained(config, KIND, key["units"], out, progress=progress)
    m, std = network.state.q.m, mean_field.stds(network.state.q)
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
        "cut": pruning.threshold(m, std, CUT_SHARE),
        "ratio_quantiles": np.quantile(ratio, [0.05, 0.25, 0.5, 0.75, 0.95]),
        "pruned": pruned,
    }


def _draw(config: Config, rows: Sequence[Row], out: Path) -> None:
    from bayesprop.report import snr_figure

    if not rows:
        return
    units = max(row.cell["units"] for row in rows)
    q = digit_networks.trained(config, KIND, units, out).state.q
    mean, std = digit_networks.flat(q.m), digit_networks.flat(mean_field.stds(q))
    snr_figure.draw(out / NAME, mean=mean, std=std, cut_share=CUT_SHARE)


def section(rows: Sequence[Row]) -> str:
    """Write the errors of the smaller networks beside the paper's."""
    finished = markdown.latest(rows)
    paper = compare.anchors("bbb_table2.csv")
    lines = [
        (
            str(row.cell["units"]),
            f"{100 * left['share']:g} %",
            str(left["n_left"]),
            paper[str(left["share"])]["test_error"],
            f"{100 * left['test_error']:.2f}",
        )
        for row in sorted(finished, key=lambda row: row.cell["units"])
        for left in (row.result or {})["pruned"]
    ]
    return "\n\n".join(
        (
            "## Removing weights of low signal-to-noise (BBB paper, Table 2 and Figure 4)",
            "The Bayes by Backprop network with the mixture prior after the last epoch. The "
            "weights of lowest abs(mean) / std over the whole network become zero; the rest "
            "predict by "
            "their means. The paper's figures are of 1200 units.",
            markdown.table(_HEADER, lines),
            f"![Density and distribution of the signal-to-noise ratio]({NAME}.svg)",
            markdown.origin(finished) if finished else "Nothing has been run.",
        )
    ) + markdown.failures(rows)


_HEADER = ("units", "removed", "weights left", "test error, paper, %", "test error, ours, %")

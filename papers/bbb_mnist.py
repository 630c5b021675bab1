"""Table 1 of Blundell et al. (2015): test errors on MNIST without tricks on the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayesprop.sampling.mean_field import MeanField
from papers import compare, digit_networks, markdown
from papers.compare import Estimate
from papers.digit_networks import Config, Network
from papers.protocol import Cell, Experiment, Key, Scratch, Selection
from papers.rows import Row

NAME = "bbb-mnist"
N_MEMBERS = 5
_ENSEMBLE_UNITS = 800


def cells(config: Config, asked: Selection) -> list[Cell]:
    """List the networks of the table; a part is one of them, such as "bbb-mixture-400".

    Quick: the digits that come with scikit-learn, 32 units, a few epochs.
    """
    networks = _networks(config)
    return [networks[part] for part in asked.parts]


def _networks(config: Config) -> dict[str, Cell]:
    """Name the networks, smallest first."""
    ensemble = _ENSEMBLE_UNITS if _ENSEMBLE_UNITS in config.units else config.units[0]
    return {
        digit_networks.name_of(kind, units): Cell(
            {"method": kind, "units": units},
            float(units * units * config.epochs_of(kind) * (N_MEMBERS if is_ensemble else 1)),
        )
        for units in config.units
        for kind in digit_networks.KINDS
        if not (is_ensemble := kind == "dropconnect") or units == ensemble
    }


def fit_cell(config: Config, key: Key, scratch: Scratch) -> dict[str, Any]:
    """Train one network, or the ensemble; the validation pictures choose the epoch."""
    kind, units = key["method"], key["units"]
    n_members = N_MEMBERS if kind == "dropconnect" else 1
    networks = [
        digit_networks.trained(config, kind, units, scratch, member=member)
        for member in range(n_members)
    ]
    first, test = networks[0], digit_networks.pictures(config).test
    result = {
        "n_epochs": config.epochs_of(kind),
        "n_weights": sum(w.size for w in first.method.mean(first.state).weights),
        "best_epoch": first.best + 1,
        "validation_error": first.trace["validation_error"][first.best],
        "test_error": first.trace["test_error"][first.best],
        "last_test_error": first.trace["test_error"][-1],
        "validation_errors": first.trace["validation_error"],
        "test_errors": first.trace["test_error"],
    }
    return result | _averaged(config, networks, test)


def _averaged(config: Config, networks: Sequence[Network], test: Any) -> dict[str, float]:
    """Errors of averages: over members, or over draws of the last epoch's posterior."""
    n_draws = config.n_draws if isinstance(networks[0].state.params.weights, MeanField) else 1
    if len(networks) == 1 and n_draws == 1:
        return {}
    proba = [digit_networks.probabilities(config, n, test, n_draws=n_draws) for n in networks]
    return {"last_test_error_averaged": digit_networks.averaged_error(proba, test)}


def section(rows: Sequence[Row]) -> str:
    """Write the errors beside the paper's."""
    networks = digit_networks.of_seeds(rows)
    firsts = [same[0] for same in networks.values()]
    paper = compare.anchors("bbb_table1.csv")
    return markdown.section(
        NAME,
        rows,
        [row for same in networks.values() for row in same],
        table=markdown.table(_HEADER, [_line(row, paper) for row in firsts]),
        settings=_settings(firsts),
        other_seeds=_other_seeds(networks),
    )


def _other_seeds(networks: Mapping[str, Sequence[Row]]) -> str:
    """Average the networks that were trained with several seeds."""
    errors = ("validation_error", "test_error", "last_test_error")
    lines = [
        [name, ", ".join(str(row.config["seed"]) for row in same)]
        + [
            markdown.estimate(Estimate.of([100 * (row.result or {})[error] for row in same]))
            for error in errors
        ]
        for name, same in networks.items()
        if len(same) > 1
    ]
    return f"{_OF_SEEDS}\n\n{markdown.table(_SEEDS_HEADER, lines)}" if lines else ""


_HEADER = (
    "network | weights | epochs | chosen epoch | validation error, % | test error, paper, % | "
    "test error, ours, % | at the last epoch, % | averaged, %"
)
_SEEDS_HEADER = ("network", "seeds", "validation error, %", "test error, %", "at the last epoch, %")
_OF_SEEDS = (
    "The same with other seeds, that is with another start, order and choice of validation digits; "
    "mean ± standard error over the seeds (the test digits are the same):"
)


def _line(row: Row, paper: dict[str, dict[str, str]]) -> list[str]:
    kind, units = row.cell["method"], row.cell["units"]
    printed = kind.removesuffix("-local").removesuffix("-sgd")
    anchor = paper.get(digit_networks.name_of(printed, units), {})
    result = row.result or {}
    averaged = result.get("last_test_error_averaged")
    return [
        digit_networks.name_of(kind, units),
        f"{result['n_weights'] / 1e6:.2g}m",
        str(result["n_epochs"]),
        str(result["best_epoch"]),
        f"{100 * result['validation_error']:.2f}",
        anchor.get("test_error", "–"),
        f"{100 * result['test_error']:.2f}",
        f"{100 * result['last_test_error']:.2f}",
        "–" if averaged is None else f"{100 * averaged:.2f}",
    ]


def _settings(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    config, of_sgd = rows[-1].config, digit_networks.OF_SGD_KINDS
    return (
        f"Data: {config['dataset']}. Steps fall to zero along a cosine. Plain networks: SGD, step "
        f"{config['sgd_step']:g}, momentum {config['momentum']:g}. Dropout: half of the hidden "
        "units, a fifth of the inputs. DropConnect: half of the weights, one mask a batch. Bayes "
        f"by Backprop: Adam, step {config['bbb_step']:g}, {config['n_samples']} draws of the "
        f"weights a step, {config['kl_weights']} KL weights, standard deviations from "
        f"{config['init_std']:g}; mixture prior ({config['share']:g}, {config['wide_std']:g}, "
        f"{config['narrow_std']:.2g}), normal prior N(0, {config['prior_std']:g}²). "
        f"{digit_networks.LOCAL}: the same mixture and draws of activations, a row its own, in the "
        "place of draws of weights, a batch its own (Kingma, Salimans & Welling 2015). "
        f"{' and '.join(digit_networks.BY_SGD)}: as one public reproduction, SGD of step "
        f"{digit_networks.SGD_STEP_ON_SUMS:g} on sums over a batch, a tenth of it from the middle "
        f"of the epochs, {of_sgd['n_samples']} draw, {of_sgd['kl_weights']} KL weights, standard "
        f"deviations from {of_sgd['init_std']:g}, a mixture whose narrow part has "
        f"{of_sgd['narrow_std']:.2g}."
    )


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=_networks,
    cells=cells,
    work=fit_cell,
    section=section,
    quick=digit_networks.QUICK,
    scratch=True,
)

"""`python -m benchmarks.distillation FOLDER ...`: one network fitted to what the default predicts.

Can a small network stand for the default outside Python, without its training rows? The default
(teacher) is fitted to at most 1,250 rows of a table, and asked about 40,000 drawn rows and its
training rows; a network (student) is fitted to the answers, and both are scored on up to 1,000
other rows. Of numbers the student predicts mean, log epistemic and log noise variance, and a
mixture of four Gaussians; of classes logits, and mutual information as a share of the entropy.

Two gates need no labels. Of numbers: root mean square over training rows of the difference of the
means, in units of the teacher's core, the narrower of its standard deviation and its interquartile
range / 1.349. Of classes: mean Kullback-Leibler divergence from the teacher, nats, over training
rows. `jump` is how far the teacher's mean goes, root mean square over test rows in its standard
deviations, when the column that moves it most moves by a hundredth of its own.

FOLDERs hold NAME.csv or NAME.csv.gz, and `BAYESPROP_DATA` the sets of UCI. One line of JSON a table
goes to `results/distillation.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import polars as pl
from scipy import special
from scipy.spatial import KDTree
from scipy.stats import spearmanr

import bayesprop
from bayesprop.datasets import registry
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.mixture import BROAD_SHARE, MixturePredictive
from bayesprop.model.task import Fitted
from bayesprop.table.read import read_table
from benchmarks.tables import rows_of, run_missing

NUMBERS = {
    **{"boston": "", "kin8nm": "", "energy": "", "concrete": "", "power_plant": ""},
    **{"puma8NH": "target", "cpu_activity": "target", "insurance": "charges", "fiat_500": "price"},
}
"""Targets; "": a set of UCI, by `bayesprop.datasets`."""
CLASSES = {
    **{"Vehicle": "Class", "banknote": "class", "PimaIndiansDiabetes2": "diabetes"},
    **{"maternal_health_risk": "RiskLevel"},
}
MOST_ROWS, MOST_TEST_ROWS, N_DRAWN, N_OFF = 1_250, 1_000, 40_000, 2_000
KINDS = (0.35, 0.4, 0.15, 0.1)  # jittered, mixed with a neighbour, of the copula, outside
JITTER, N_NEAR, SWAPPED, FURTHEST = (0.02, 0.5), 10, 0.2, 3.0
FEW_VALUES, HEAVY = 10, 6.0  # kurtosis, beyond which a column comes as arcsinh, too
WIDTH, N_LAYERS, N_GAUSSIANS = 128, 3, 4
N_STEPS, BATCH, STEP_SIZE, DECAY, AVERAGED = 8_000, 512, 3e-3, 1e-4, 0.002
EDGES = np.linspace(-3.3, 3.3, 24)
LEVELS = special.ndtr(0.5 * (EDGES[1:] + EDGES[:-1]))
SHARES = np.diff(special.ndtr(np.r_[-np.inf, EDGES[1:-1], np.inf]))
"""Levels of the quantiles at which the mixture is compared, and the mass that each stands for."""
JUMP = 0.01
_LEAST_VAR, _LOG_STD = 1e-9, (-8.0, 3.0)


class Answers(NamedTuple):
    """What a teacher predicts of rows: what the student learns, (n, k), and the prediction."""

    values: np.ndarray
    predicted: Any


def drawn(fitted: Fitted, X: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw standardised rows near and far from complete training rows in their own units.

    Columns of ten values or fewer, and those where less than half of the values are distinct, take
    values that stand in the table.
    """
    x, d = fitted.encoding.standardised(X), X.shape[1]
    n_values = np.array([len(np.unique(column)) for column in X.T])
    moves = n_values > np.maximum(FEW_VALUES, 0.5 * len(X))
    near = np.asarray(KDTree(x).query(x, k=min(N_NEAR + 1, len(x)))[1])[:, 1:]
    n_jittered, n_mixed, n_copula, n_outside = rng.multinomial(n, KINDS)

    def some(n: int) -> np.ndarray:
        return rng.integers(len(x), size=n)

    i = some(n_jittered)
    std = np.exp(rng.uniform(*np.log(JITTER), size=(len(i), 1)))
    jittered = x[i] + moves * std * rng.standard_normal((len(i), d))
    j = near[i[:, None], rng.integers(near.shape[1], size=jittered.shape)]
    swapped = ~moves & (n_values > FEW_VALUES) & (rng.random(jittered.shape) < SWAPPED)
    jittered = np.where(swapped, x[j, np.arange(d)], jittered)
    i, u = some(n_mixed), rng.random((n_mixed, 1))
    j = near[i, rng.integers(near.shape[1], size=len(i))]
    mixed = np.where(moves, u * x[i] + (1.0 - u) * x[j], np.where(u > 0.5, x[i], x[j]))
    seeded = np.random.RandomState(rng.integers(2**31))
    gaps = np.full((n_copula, d), np.nan)
    copula = fitted.encoding.standardised(fitted.known_inputs.of_columns(d).completed(gaps, seeded))
    i, factor = some(n_outside), rng.uniform(1.0, FURTHEST, (n_outside, 1))
    far = x[i] * factor + JITTER[1] * rng.standard_normal((len(i), d))
    return np.concatenate([jittered, mixed, copula, np.where(moves, far, x[i])])


def answers(fitted: Fitted, x: np.ndarray) -> Answers:
    """Ask the teacher about standardised rows."""
    parts: list[Any] = [
        fitted.method.predict(fitted.learned.state, x[first : first + 4096])
        for first in range(0, len(x), 4096)
    ]
    predicted: Any = type(parts[0]).joined(parts)
    if isinstance(predicted, ClassPredictive):
        entropy = special.entr(predicted.proba).sum(axis=1)
        share = np.clip(1.0 - predicted.expected_entropy / np.maximum(entropy, 1e-9), 0.0, 1.0)
        return Answers(np.column_stack([predicted.proba, share]), predicted)
    log_vars = np.log(np.maximum([predicted.epistemic_var, predicted.noise_var], _LEAST_VAR))
    quantiles = predicted.quantile(LEVELS)[:, 0]
    return Answers(np.column_stack([predicted.mean, *log_vars, quantiles]), predicted)


def with_arcsinh(x: np.ndarray, heavy: np.ndarray) -> jax.Array:
    """Give heavy-tailed columns once more, as arcsinh."""
    return jnp.asarray(np.column_stack([np.clip(x, -30, 30), np.arcsinh(x[:, heavy])]), jnp.float32)


def start(key: jax.Array, n_inputs: int, first: np.ndarray) -> dict[str, Any]:
    """Return weights of layers and of a line beside them; the outputs begin at `first`."""
    sizes = [n_inputs, *[WIDTH] * N_LAYERS, len(first)]
    keys = jax.random.split(key, N_LAYERS + 1)
    layers = [
        [jax.random.normal(key, (i, o)) * np.sqrt(1.5 / i), jnp.zeros(o)]
        for key, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    layers[-1] = [0.1 * layers[-1][0], jnp.asarray(first, jnp.float32)]
    return {"layers": layers, "line": jnp.zeros((n_inputs, len(first)))}


def outputs(weights: dict[str, Any], x: jax.Array) -> jax.Array:
    """Apply the network."""
    h = x
    for w, b in weights["layers"][:-1]:
        h = jax.nn.silu(h @ w + b)
    w, b = weights["layers"][-1]
    return h @ w + b + x @ weights["line"]


def first_outputs() -> np.ndarray:
    """Return what a student of numbers predicts before it learns."""
    means = np.linspace(-0.7, 0.7, N_GAUSSIANS)
    return np.r_[0.0, -2.0, -1.0, 0.0 * means, means, 0.0 * means - 0.3]


class Heads(NamedTuple):
    """Outputs of a student of numbers; Gaussians in standard deviations from the mean, (n, k)."""

    mean: Any
    log_vars: Any
    log_std: Any
    log_share: Any
    means: Any
    log_stds: Any

    @classmethod
    def of(cls, out: jax.Array) -> Heads:
        """Split outputs, (n, 3 + 3 k)."""
        share, means, log_stds = jnp.split(out[:, 3:], 3, axis=1)
        log_std = 0.5 * jnp.logaddexp(out[:, 1], out[:, 2])
        log_share = jax.nn.log_softmax(share)
        return cls(out[:, 0], out[:, 1:3], log_std, log_share, means, jnp.clip(log_stds, *_LOG_STD))


def loss_of_numbers(out: jax.Array, says: jax.Array) -> jax.Array:
    """Differences of means and variances, and cross-entropy at the teacher's quantiles."""
    heads, quantiles = Heads.of(out), says[:, 3:]
    log_std = 0.5 * jnp.logaddexp(says[:, 1], says[:, 2])
    z = (quantiles - heads.mean[:, None]) / jnp.exp(heads.log_std)[:, None]
    z = (z[..., None] - heads.means[:, None]) / jnp.exp(heads.log_stds)[:, None]
    each = heads.log_share[:, None] - heads.log_stds[:, None] - 0.5 * z**2
    own = jax.nn.logsumexp(each, axis=-1) - heads.log_std[:, None] + np.log1p(-BROAD_SHARE)
    log_p = jnp.logaddexp(own, np.log(BROAD_SHARE) - 0.5 * quantiles**2) + log_std[:, None]
    means = optax.huber_loss((heads.mean - says[:, 0]) / jnp.exp(log_std))
    log_vars = optax.huber_loss(heads.log_vars, says[:, 1:3]).sum(axis=1)
    return jnp.mean(means + 0.3 * log_vars - log_p @ SHARES)


def loss_of_classes(out: jax.Array, says: jax.Array) -> jax.Array:
    """Cross-entropies of the classes and of the share of mutual information."""
    own = optax.softmax_cross_entropy(out[:, :-1], says[:, :-1])
    return jnp.mean(own + 0.3 * optax.sigmoid_binary_cross_entropy(out[:, -1], says[:, -1]))


def trained(
    x: jax.Array, says: np.ndarray, loss: Callable[..., jax.Array], first: np.ndarray, seed: int
) -> dict[str, Any]:
    """Fit a network by AdamW, one cycle of step sizes, and average its last weights."""
    weights = start(jax.random.key(seed), x.shape[1], first)
    cycle = optax.cosine_onecycle_schedule(N_STEPS, STEP_SIZE, pct_start=0.15)
    optimizer, says_ = optax.adamw(cycle, weight_decay=DECAY), jnp.asarray(says, jnp.float32)

    def step(carried: Any, rows: jax.Array) -> tuple[Any, None]:
        weights, state, average = carried
        slope = jax.grad(lambda w: loss(outputs(w, x[rows]), says_[rows]))(weights)
        move, state = optimizer.update(slope, state, weights)
        weights = optax.apply_updates(weights, move)
        return (weights, state, optax.incremental_update(weights, average, AVERAGED)), None

    rows = jax.random.randint(jax.random.key(seed + 1), (N_STEPS, BATCH), 0, len(x))
    begun = weights, optimizer.init(weights), weights
    return jax.jit(lambda begun, rows: jax.lax.scan(step, begun, rows)[0][2])(begun, rows)


def predictive(out: np.ndarray) -> MixturePredictive:
    """Return what outputs of a student of numbers predict."""
    heads = Heads(*(np.asarray(part, np.float64) for part in Heads.of(jnp.asarray(out))))
    mean, std, none = (
        heads.mean[:, None],
        np.exp(heads.log_std)[:, None],
        np.zeros((0, len(out), 1)),
    )
    share = np.pad((1.0 - BROAD_SHARE) * np.exp(heads.log_share), ((0, 0), (1, 0)))
    share[:, 0] = BROAD_SHARE
    means = np.pad(mean + std * heads.means, ((0, 0), (1, 0)))
    own_vars = np.pad((std * np.exp(heads.log_stds)) ** 2, ((0, 0), (1, 0)), constant_values=1.0)
    epistemic_var, noise_var = np.exp(heads.log_vars).T[..., None]
    moments = mean, epistemic_var, noise_var, np.log(noise_var), 0.0 * mean
    return MixturePredictive(
        *moments, *(part.T[..., None] for part in (share, means, own_vars)), *[none] * 6
    )


def class_predictive(out: np.ndarray) -> ClassPredictive:
    """Return what outputs of a student of classes predict."""
    proba = special.softmax(np.asarray(out, np.float64)[:, :-1], axis=1)
    entropy = special.entr(proba).sum(axis=1)
    return ClassPredictive.of_codes(proba, entropy * special.expit(-out[:, -1]))


def core(predicted: MixturePredictive) -> np.ndarray:
    """Return the narrower of standard deviation and interquartile range / 1.349, (n,)."""
    low, high = predicted.quantile([0.25, 0.75])[:, 0].T
    return np.minimum((high - low) / 1.349, predicted.std[:, 0])


def root_mean_square(values: np.ndarray) -> float:
    """Return it."""
    return float(np.sqrt(np.mean(values**2)))


def table_of(name: str, folders: Sequence[Path]) -> tuple[pl.DataFrame, str]:
    """Read a table; its rows whose target is known, and the target."""
    target = (NUMBERS | CLASSES)[name]
    if target:
        (file,) = (file for folder in folders for file in folder.glob(f"{name}.csv*"))
        frame = read_table(str(file))
    else:
        loaded = registry.load(name)
        frame, target = loaded.frame(), loaded.target_name
    return frame.filter(pl.col(target).is_not_null()), target


def score(folders: Sequence[Path], name: str, split: int) -> dict[str, Any]:
    """Fit a teacher and its student, and compare them."""
    frame, target = table_of(name, folders)
    order = np.random.default_rng(split).permutation(len(frame))
    n = min(MOST_ROWS, int(0.8 * len(frame)))
    train, test = frame[order[:n]], frame[order[n : n + MOST_TEST_ROWS]]
    kind = "numbers" if name in NUMBERS else "classes"
    model = bayesprop.fit(train, target=target, target_kind=kind)
    fitted, rng = model.saved.fitted, np.random.default_rng(split)
    known, held = model.encoding.rows(train), model.encoding.rows(test)
    X, X_test = fitted.filled(known.X), fitted.filled(held.X)
    x, x_test = map(fitted.encoding.standardised, (X, X_test))
    x_off, x_drawn = (drawn(fitted, X, n, rng) for n in (N_OFF, N_DRAWN))
    started = time.perf_counter()
    teacher = {"train": answers(fitted, x), "drawn": answers(fitted, x_drawn)}
    asked = time.perf_counter()
    centred = x - x.mean(axis=0)
    kurtosis = (centred**4).mean(axis=0) / np.maximum(x.var(axis=0) ** 2, 1e-12)
    of_network = partial(with_arcsinh, heavy=kurtosis > HEAVY)
    given = of_network(np.concatenate([x, x_drawn]))
    says = np.concatenate([teacher[part].values for part in ("train", "drawn")])
    is_number = kind == "numbers"
    loss, read = (loss_of_numbers, predictive) if is_number else (loss_of_classes, class_predictive)
    first = first_outputs() if is_number else np.zeros(says.shape[1])
    weights = trained(given, says, loss, first, split)
    student = {
        part: read(np.asarray(outputs(weights, of_network(rows))))
        for part, rows in (("train", x), ("test", x_test), ("off", x_off))
    }
    ended = time.perf_counter()
    teacher |= {"test": answers(fitted, x_test), "off": answers(fitted, x_off)}
    y = np.asarray(held.y)[:, None] if is_number else np.asarray(held.y)
    y = fitted.task.encode(y, np.random.RandomState(0), X_test)
    if is_number:
        own = scores_of_numbers({part: a.predicted for part, a in teacher.items()}, student, y)
        own |= largest_jump(model, x_test, teacher["test"].predicted)
    else:
        own = scores_of_classes({part: a.predicted for part, a in teacher.items()}, student, y)
    sizes = {"n": len(x), "d": x.shape[1], "n_test": len(x_test)}
    return sizes | own | {"asking_s": asked - started, "training_s": ended - asked}


def largest_jump(model: Any, x: np.ndarray, said: Any) -> dict[str, Any]:
    """Move every column by JUMP alone; return how far the mean goes at most, and by which."""
    fitted = model.saved.fitted
    ask, state = fitted.method.predict, fitted.learned.state
    jumps = [
        root_mean_square((ask(state, x + JUMP * unit).mean - said.mean) / said.std)
        for unit in np.eye(x.shape[1])
    ]
    worst = int(np.argmax(jumps))
    return {"jump": jumps[worst], "jump_column": model.encoding.feature_names[worst]}


def scores_of_numbers(
    teacher: dict[str, Any], student: dict[str, Any], y: np.ndarray
) -> dict[str, float]:
    """Compare predictions of the same rows by part; y of the test rows."""
    before, after = teacher["test"], student["test"]
    away = (student["train"].mean - teacher["train"].mean)[:, 0]
    gain = (after.log_prob(y) - before.log_prob(y))[:, 0]
    rho = {
        f"rho_{part}": spearmanr(
            student[part].epistemic_var[:, 0], teacher[part].epistemic_var[:, 0]
        )[0]
        for part in ("test", "off")
    }
    rmse = [root_mean_square(one.mean - y) for one in (before, after)]
    crps = [float(one.crps(y).mean()) for one in (before, after)]
    low, high = np.moveaxis(after.interval(0.9), -1, 0)
    return rho | {
        "gate": root_mean_square(away / core(teacher["train"])),
        "gate_in_std": root_mean_square(away / teacher["train"].std[:, 0]),
        "gain": gain.mean(),
        "gain_error": gain.std() / np.sqrt(len(gain)),
        "rmse": rmse[1] / rmse[0] - 1.0,
        "crps": crps[1] / crps[0] - 1.0,
        "coverage": float(np.mean((y >= low) & (y <= high))),
    }


def scores_of_classes(
    teacher: dict[str, Any], student: dict[str, Any], y: np.ndarray
) -> dict[str, float]:
    """Compare predictions of the same rows by part; y of the test rows."""
    before, after = teacher["test"], student["test"]
    gain = after.log_prob(y) - before.log_prob(y)
    p, q = (np.maximum(part["train"].proba, 1e-12) for part in (teacher, student))
    rho = {
        f"rho_{part}": spearmanr(
            student[part].mutual_information, teacher[part].mutual_information
        )[0]
        for part in ("test", "off")
    }
    return rho | {
        "gate": float((p * np.log(p / q)).sum(axis=1).mean()),
        "gain": gain.mean(),
        "gain_error": gain.std() / np.sqrt(len(gain)),
    }


def main() -> None:
    """Measure what is missing, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="where NAME.csv lies")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/distillation.jsonl"))
    asked = parser.parse_args()
    cases = product(NUMBERS | CLASSES, range(asked.splits))
    run_missing(asked.out, ("table", "split"), cases, partial(score, asked.folders))
    columns = ("table", "split", "n", "gate", "gate_in_std", "jump", "jump_column", "gain")
    columns += ("gain_error", "rmse", "crps", "coverage", "rho_test", "rho_off")
    print(" | ".join(columns))
    for row in rows_of(asked.out):
        values = (row.get(name, "–") for name in columns)
        print(" | ".join(f"{v:.4f}" if isinstance(v, float) else str(v) for v in values))


if __name__ == "__main__":
    main()

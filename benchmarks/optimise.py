"""`python -m benchmarks.optimise`: simple regret of ours beside other optimisers.

Functions to minimise (Surjanovic & Bingham's library: Branin, Hartmann 6, Ackley 5; Branin with a
catalyst of three levels and a whole number; Branin with noise) and tables of measured rows used as
pools, whose largest target is sought: concrete, and CSV files of numbers in the folder `--pools`,
the last column the target. All begin with the same ten random rows and ask for five rows at a time.
The regret is that of the function, noise left out, at the row measured as best; after 10, 20 and 50
rows, in standard deviations of the function. One line of JSON a run goes to `--out`; what stands
there already is not run again. `--who` names the optimisers; optuna and botorch are optional.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

N_FIRST, N_BATCH, N_ROWS, SEEN = 10, 5, 50, (10, 20, 50)
LEAST = dict.fromkeys(("branin", "hartmann", "ackley", "mixed", "noisy"), 1e-6)
"""Regret below which none is told apart; of a pool a hundredth."""
LEVELS = ("nickel", "copper", "palladium")
Ask = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From rows measured and their targets, to be small, to the rows to measure next."""


class Problem(NamedTuple):
    """A function on a box, the last column a level if there are any; or a pool of rows."""

    value: Callable[[np.ndarray], np.ndarray]
    bounds: np.ndarray
    n_levels: int = 0
    whole: tuple[int, ...] = ()
    noise: float = 0.0
    pool: np.ndarray | None = None

    def drawn(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n rows."""
        if self.pool is not None:
            return self.pool[rng.permutation(len(self.pool))[:n]]
        low, high = self.bounds.T
        x = rng.uniform(low, high, (n, len(self.bounds)))
        return self.allowed(x)

    def allowed(self, x: np.ndarray) -> np.ndarray:
        """Round columns of whole numbers."""
        x = np.clip(x, *self.bounds.T)
        x[:, list(self.whole)] = np.rint(x[:, list(self.whole)])
        return x

    def numbers(self, x: np.ndarray) -> np.ndarray:
        """Return rows in the unit box, levels as columns of 0 and 1."""
        low, high = self.bounds.T
        z = (x - low) / np.where(high > low, high - low, 1.0)
        if not self.n_levels:
            return z
        return np.column_stack([z[:, :-1], x[:, -1:] == np.arange(self.n_levels)])


def branin(x: np.ndarray) -> np.ndarray:
    """Two inputs, three minima of 0.397887."""
    a, b = x[:, 0], x[:, 1]
    bent = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return bent**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def hartmann(x: np.ndarray) -> np.ndarray:
    """Six inputs, a minimum of -3.32237."""
    a = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
         [17, 8, 0.05, 10, 0.1, 14]]
    )  # fmt: skip
    p = 1e-4 * np.array(
        [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
         [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]
    )  # fmt: skip
    inner = np.einsum("kd,nkd->nk", a, (x[:, None] - p) ** 2)
    return -np.exp(-inner) @ np.array([1.0, 1.2, 3.0, 3.2])


def ackley(x: np.ndarray) -> np.ndarray:
    """Any number of inputs, a minimum of 0 among many small ones."""
    slope, waves = np.sqrt(np.mean(x**2, axis=1)), np.mean(np.cos(2 * np.pi * x), axis=1)
    return 20.0 - 20.0 * np.exp(-0.2 * slope) + np.e - np.exp(waves)


def mixed(x: np.ndarray) -> np.ndarray:
    """Branin, moved by a level, and a whole number whose best value is 3."""
    level = x[:, -1].astype(int)
    moved = x[:, :2] + np.array([[0.0, 0.0], [2.0, -1.0], [-2.0, 2.0]])[level]
    return branin(moved) + np.array([8.0, 0.0, 15.0])[level] + 2.0 * (x[:, 2] - 3.0) ** 2


def pool_of(path: Path) -> Problem:
    """Return the rows of a CSV file of numbers, the last column its target, to be large."""
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    rows = rows[np.unique(rows[:, :-1], axis=0, return_index=True)[1]]
    known = {tuple(row[:-1]): -row[-1] for row in rows}
    x = rows[:, :-1]
    bounds = np.stack([x.min(axis=0), x.max(axis=0)], axis=1)
    return Problem(lambda at: np.array([known[tuple(row)] for row in at]), bounds, pool=x)


def problems(pools: Path | None = None) -> dict[str, Problem]:
    """Every problem by name, with the pools of a folder."""
    box = np.array([[-5.0, 10.0], [0.0, 15.0]])
    bundled = Path(__file__).parents[1] / "src/bayesprop/datasets/concrete.csv"
    return {
        "branin": Problem(branin, box),
        "hartmann": Problem(hartmann, np.tile([0.0, 1.0], (6, 1))),
        "ackley": Problem(ackley, np.tile([-5.0, 10.0], (5, 1))),
        "mixed": Problem(mixed, np.array([*box, [0.0, 8.0], [0.0, 2.0]]), 3, (2, 3)),
        "noisy": Problem(branin, box, noise=10.0),
        "concrete": pool_of(bundled),
        **{one.stem: pool_of(one) for one in sorted(pools.glob("*.csv") if pools else [])},
    }


def by_chance(problem: Problem, seed: int) -> Ask:
    """Random rows."""
    rng = np.random.default_rng((seed, 1))
    return lambda x, y: problem.drawn(N_BATCH, rng)  # noqa: ARG005


def by_ours(problem: Problem, seed: int, **settings: Any) -> Ask:
    """Ask `Optimiser`, with settings of `fit`."""
    import polars as pl

    from bayesprop import Optimiser

    names = [f"x{k}" for k in range(len(problem.bounds))]

    def frame(x: np.ndarray) -> pl.DataFrame:
        made = pl.DataFrame(x, schema=names)
        made = made.with_columns(pl.col(names[k]).cast(pl.Int64) for k in problem.whole)
        if not problem.n_levels:
            return made
        return made.with_columns(pl.Series(names[-1], [LEVELS[int(one)] for one in x[:, -1]]))

    def ask(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        table = frame(x).with_columns(y=pl.Series(y))
        given: dict[str, Any] = {}
        if problem.pool is None:
            n = len(names) - bool(problem.n_levels)
            given = {"ranges": dict(zip(names[:n], problem.bounds[:n].tolist(), strict=True))}
        else:
            given = {"candidates": frame(problem.pool)}
        given |= {"seed": seed + len(x), **settings}
        search = Optimiser(table, target="y", goal="min", **given)
        found = search.ask(N_BATCH).frame.select(names)
        if problem.n_levels:
            places = [LEVELS.index(one) for one in found[names[-1]]]
            found = found.with_columns(pl.Series(names[-1], places))
        return found.to_numpy().astype(np.float64)

    return ask


def by_process(problem: Problem, seed: int) -> Ask:
    """scikit-learn's Gaussian process with expected improvement, its own mean for rows chosen."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    rng = np.random.default_rng((seed, 2))

    def ask(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        z, chosen = problem.numbers(x), []
        lengths: Any = np.ones(z.shape[1])
        kernel = ConstantKernel() * Matern(lengths, nu=2.5) + WhiteKernel(0.01)
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
        model.fit(z, y)
        how: Any = {"optimizer": None, "normalize_y": True}
        fixed = GaussianProcessRegressor(model.kernel_, **how)
        candidates = unmeasured(problem, x, rng)
        at = problem.numbers(candidates)
        for _ in range(N_BATCH):
            mean, std = fixed.fit(z, y).predict(at, return_std=True)
            t = (y.min() - mean) / std
            gain = std * (t * stats.norm.cdf(t) + stats.norm.pdf(t))
            gain[chosen] = -1.0
            chosen.append(int(np.argmax(gain)))
            z, y = np.vstack([z, at[chosen[-1:]]]), np.append(y, mean[chosen[-1]])
        return candidates[chosen]

    return ask


def unmeasured(problem: Problem, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of the pool that are not measured, or ten thousand random ones."""
    if problem.pool is None:
        return problem.drawn(10_000, rng)
    known = {tuple(row) for row in x}
    return np.array([row for row in problem.pool if tuple(row) not in known])


def by_tpe(problem: Problem, seed: int) -> Ask:
    """Optuna's TPE; of a pool the row that is nearest to what it proposes."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=N_FIRST)
    study = optuna.create_study(sampler=sampler)
    spaces: dict[str, Any] = {}
    for k, (low, high) in enumerate(problem.bounds):
        is_level = problem.n_levels and k == len(problem.bounds) - 1
        spaces[f"x{k}"] = (
            optuna.distributions.CategoricalDistribution(tuple(range(problem.n_levels)))
            if is_level
            else optuna.distributions.IntDistribution(int(low), int(high))
            if k in problem.whole
            else optuna.distributions.FloatDistribution(low, high)
        )
    kinds = {name: int if k in problem.whole else float for k, name in enumerate(spaces)}

    def ask(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        n_known = len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)))
        for row, value in zip(x[n_known:], y[n_known:], strict=True):
            own = {name: kinds[name](v) for name, v in zip(spaces, row, strict=True)}
            study.add_trial(
                optuna.create_trial(params=own, distributions=spaces, value=float(value))
            )
        asked = [study.ask(spaces) for _ in range(N_BATCH)]
        rows = np.array([[float(one.params[name]) for name in spaces] for one in asked])
        for one in asked:
            study.tell(one, state=optuna.trial.TrialState.FAIL)
        if problem.pool is None:
            return rows
        left, found = unmeasured(problem, x, np.random.default_rng(0)), []
        for row in problem.numbers(rows):
            apart = np.square(problem.numbers(left) - row).sum(axis=1)
            found.append(left[np.argmin(apart)])
            left = np.delete(left, np.argmin(apart), axis=0)
        return np.array(found)

    return ask


def by_botorch(problem: Problem, seed: int) -> Ask:
    """BoTorch's SingleTaskGP with qLogEI, levels as columns of 0 and 1."""
    import torch  # pyright: ignore[reportMissingImports]
    from botorch.acquisition import qLogExpectedImprovement  # pyright: ignore[reportMissingImports]
    from botorch.fit import fit_gpytorch_mll  # pyright: ignore[reportMissingImports]
    from botorch.models import SingleTaskGP  # pyright: ignore[reportMissingImports]
    from botorch.models.transforms import Standardize  # pyright: ignore[reportMissingImports]
    from botorch.optim import optimize_acqf, optimize_acqf_discrete  # pyright: ignore[reportMissingImports]
    from gpytorch.mlls import ExactMarginalLogLikelihood  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    rng = np.random.default_rng((seed, 3))

    def ask(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        torch.manual_seed(seed + len(x))
        z = torch.tensor(problem.numbers(x), dtype=torch.double)
        values = torch.tensor(-y[:, None], dtype=torch.double)
        model = SingleTaskGP(z, values, outcome_transform=Standardize(1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        gain = qLogExpectedImprovement(model, best_f=float(values.max()))
        if problem.pool is None and not problem.whole:
            box = torch.tensor([[0.0] * z.shape[1], [1.0] * z.shape[1]], dtype=torch.double)
            found, _ = optimize_acqf(gain, box, q=N_BATCH, num_restarts=8, raw_samples=128)
            low, high = problem.bounds.T
            return low + found.numpy() * (high - low)
        left = unmeasured(problem, x, rng)
        left = left if problem.pool is not None else left[:2000]
        at = torch.tensor(problem.numbers(left), dtype=torch.double)
        found, _ = optimize_acqf_discrete(gain, q=N_BATCH, choices=at, max_batch_size=512)
        apart = np.square(found.numpy()[:, None] - at.numpy()).sum(axis=2)
        return left[np.argmin(apart, axis=1)]

    return ask


WHO = {
    "random": by_chance,
    "ours": by_ours,
    "quick": partial(by_ours, n_epochs=5000),
    "pbp": partial(by_ours, method="pbp"),
    "process": by_process,
    "tpe": by_tpe,
    "botorch": by_botorch,
}


def run(name: str, problem: Problem, who: str, seed: int) -> dict[str, Any]:
    """Search once; regrets in standard deviations of the function at random rows."""
    rng = np.random.default_rng(seed)
    some = problem.value(problem.drawn(20_000, np.random.default_rng(0)))
    least = {"branin": 0.397887, "noisy": 0.397887, "hartmann": -3.32237, "ackley": 0.0}.get(name)
    if name == "mixed":
        many = np.random.default_rng(1)
        grid = problem.drawn(400_000, many)
        grid[:, 2], grid[:, 3] = 3.0, 1.0
        least = problem.value(grid).min()
    least = some.min() if least is None else least

    def measured(rows: np.ndarray) -> np.ndarray:
        return problem.value(rows) + problem.noise * rng.standard_normal(len(rows))

    started = time.process_time()
    x = problem.drawn(N_FIRST, rng)
    y, regrets = measured(x), {}
    ask = WHO[who](problem, seed)
    while True:
        if len(x) in SEEN:
            best = problem.value(x[[np.argmin(y)]])[0]
            regrets[len(x)] = float((best - least) / some.std())
        if len(x) >= N_ROWS:
            seconds = time.process_time() - started
            return {"problem": name, "who": who, "seed": seed, "regret": regrets, "s": seconds}
        new = problem.allowed(ask(x, y)) if problem.pool is None else ask(x, y)
        x, y = np.vstack([x, new]), np.append(y, measured(new))


def logs(lines: Sequence[dict[str, Any]]) -> np.ndarray:
    """Decimal logarithms of regrets, one row a run; a regret below LEAST counts as that."""
    regrets = np.array([list(one["regret"].values()) for one in lines])
    return np.log10(np.maximum(regrets, [LEAST.get(one["problem"], 1e-2) for one in lines[:1]]))


def show(lines: list[dict[str, Any]]) -> None:
    """Print medians, and log regret at the end less ours with its standard error.

    Of repeats that ours has run too.
    """
    found = {(one["problem"], one["who"], one["seed"]): one for one in lines}
    names = [*dict.fromkeys(one["problem"] for one in lines)]
    whose = [who for who in WHO if any(one["who"] == who for one in lines)]

    def own(problem: str, who: str) -> list[dict[str, Any]]:
        of = {seed: one for (p, w, seed), one in found.items() if (p, w) == (problem, who)}
        return [of[seed] for seed in paired[problem, who] if seed in of]

    seeds = {pair: {s for *of, s in found if of == [*pair]} for pair in product(names, whose)}
    paired = {pair: sorted(seeds[pair] & seeds.get((pair[0], "ours"), set())) for pair in seeds}

    def median(problem: str, who: str) -> str:
        regrets = [list(one["regret"].values())[1:] for one in own(problem, who)]
        return " / ".join(f"{value:.2g}" for value in np.median(regrets, axis=0)) if regrets else ""

    def apart(problem: str, who: str) -> str:
        ours = {one["seed"]: one for one in own(problem, "ours")}
        others = own(problem, who)
        if len(others) < 2:
            return ""
        less = (logs(others) - logs([ours[one["seed"]] for one in others]))[:, -1]
        return f"{less.mean():+.2f} ± {less.std(ddof=1) / np.sqrt(len(less)):.2f} ({len(less)})"

    tables = {f"Median after {SEEN[1]} / {SEEN[2]} rows": (median, whose)}
    tables["Log10 less ours (repeats)"] = (apart, [who for who in whose if who != "ours"])
    for title, (cell, columns) in tables.items():
        print(f"| {title} | " + " | ".join(columns) + " |\n| --- |" + " ---: |" * len(columns))
        for problem in names:
            print(f"| {problem} | " + " | ".join(cell(problem, who) for who in columns) + " |")
        print()
    n_steps = (N_ROWS - N_FIRST) / N_BATCH
    for who in whose:
        seconds = np.mean([one["s"] for one in lines if one["who"] == who]) / n_steps
        print(f"- {who}: {seconds:.2g} processor seconds a step")


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw mean log regret over rows measured, a panel a problem, of seeds that all have run."""
    import matplotlib.pyplot as plt

    found = {(one["problem"], one["who"], one["seed"]): one for one in lines}
    names, whose = ([*dict.fromkeys(one[key] for one in lines)] for key in ("problem", "who"))
    figure, axes = plt.subplots(2, -(-len(names) // 2), figsize=(11, 5), layout="constrained")
    for problem, panel in zip(names, axes.flat, strict=False):
        n_runs = Counter(seed for p, _, seed in found if p == problem)
        seeds = [seed for seed, n in n_runs.items() if n == max(n_runs.values())]
        for who in [one for one in WHO if one in whose]:
            if own := [found[problem, who, s] for s in seeds if (problem, who, s) in found]:
                panel.plot(SEEN, logs(own).mean(axis=0), ".-", label=who)
        panel.set(title=f"{problem} ({len(seeds)})", xticks=SEEN)
    axes.flat[0].legend(fontsize="small")
    figure.supxlabel("rows measured")
    figure.supylabel("mean of log10 regret")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run what is missing, then print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--who", nargs="*", default=["random", "ours", "process"])
    parser.add_argument("--problems", nargs="*", default=None)
    parser.add_argument("--pools", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/optimise.jsonl"))
    parser.add_argument("--picture", type=Path, help="where regret curves are drawn")
    asked = parser.parse_args()
    every = problems(asked.pools)
    asked.out.parent.mkdir(exist_ok=True)
    lines = (
        [json.loads(line) for line in asked.out.read_text().splitlines()]
        if asked.out.exists()
        else []
    )
    done = {(one["problem"], one["who"], one["seed"]) for one in lines}
    for seed in range(asked.repeats):
        for name in asked.problems or every:
            for who in asked.who:
                if (name, who, seed) not in done:
                    line = run(name, every[name], who, seed)
                    with asked.out.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    lines = [json.loads(line) for line in asked.out.read_text().splitlines()]
    show(lines)
    if asked.picture is not None:
        draw(lines, asked.picture)


if __name__ == "__main__":
    main()

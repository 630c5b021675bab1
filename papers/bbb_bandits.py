"""Figure 6 of Blundell et al. (2015): cumulative regret on the mushroom bandit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.bandits.linear_rewards import LinearRewards
from bayesprop.bandits.policies import Bandit, EpsilonGreedy, ThompsonSampler
from bayesprop.bandits.refitted_rewards import RefittedRewards
from bayesprop.bandits.replayed_rewards import NeuralLinearRewards, ReplayedRewards
from bayesprop.bandits.streamed_rewards import StreamedRewards
from bayesprop.catalogue import make
from papers import markdown
from papers.bandit_simulation import run as simulate
from papers.compare import Estimate
from papers.mushrooms import Mushroom
from papers.protocol import Cell, Experiment, Key, Scratch, Selection
from papers.rows import Row

if TYPE_CHECKING:
    from papers.figures.regret_figure import Band

NAME = "bbb-bandits"
UNIFORM = 4.910
"""Expected regret a step of choosing evenly: half of 7.230 (eat all) and 2.590 (leave all)."""
N_POINTS = 200


@dataclass(frozen=True)
class Config:
    """Settings that agents share; the two layers are those of networks that practise."""

    seed: int = 1
    n_interactions: int = 50_000
    hidden_layer_sizes: tuple[int, ...] = (100, 100)
    reward_scale: float = 10.0
    learning_rate: float = 1e-4
    n_averaged: int = 2


class Agent(NamedTuple):
    """An agent: what it is called, whether the paper has it, its cost, how it is made."""

    label: str
    is_published: bool
    cost: float
    make: Callable[[Config, int], Bandit]


def _replayed(config: Config, method: str, **settings: Any) -> ReplayedRewards:
    usual = {
        "hidden_layer_sizes": config.hidden_layer_sizes,
        "learning_rate": config.learning_rate,
    }
    return ReplayedRewards(make(method, **usual | settings), reward_scale=config.reward_scale)


def _backprop(config: Config, seed: int) -> Bandit:
    rewards = _replayed(
        config,
        "bayes-by-backprop",
        noise=0.01,
        prior="mixture",
        prior_mixture=(0.5, 1.0, 0.0025),
        init_std=0.02,
        learning_rate=5e-5,
    )
    return ThompsonSampler(rewards, Mushroom.arms, n_averaged=config.n_averaged, random_state=seed)


def _epsilon(epsilon: float) -> Callable[[Config, int], Bandit]:
    def make_agent(config: Config, seed: int) -> Bandit:
        rewards = _replayed(config, "network", noise=1.0, weight_decay=0.0)
        return EpsilonGreedy(rewards, Mushroom.arms, epsilon=epsilon, random_state=seed)

    return make_agent


def _dropout(config: Config, seed: int) -> Bandit:
    rewards = _replayed(config, "mc-dropout", noise=1.0, dropout=0.1)
    return ThompsonSampler(rewards, Mushroom.arms, random_state=seed)


def _linear(config: Config, seed: int) -> Bandit:
    rewards = LinearRewards(noise_rate=config.reward_scale**2)
    return ThompsonSampler(rewards, Mushroom.arms, random_state=seed)


def _streamed(config: Config, seed: int) -> Bandit:
    rewards = StreamedRewards(reward_scale=config.reward_scale)
    return ThompsonSampler(rewards, Mushroom.arms, random_state=seed)


def _laplace(_config: Config, seed: int) -> Bandit:
    network = make("laplace", hidden_layer_sizes=(50,))
    return ThompsonSampler(RefittedRewards(network), Mushroom.arms, random_state=seed)


def _neural_linear(config: Config, seed: int) -> Bandit:
    rewards = NeuralLinearRewards(reward_scale=config.reward_scale, buffer_size=32_768)
    return ThompsonSampler(rewards, Mushroom.arms, random_state=seed)


AGENTS: Mapping[str, Agent] = {
    "bayes-by-backprop": Agent("Bayes by Backprop", True, 20.0, _backprop),
    "greedy": Agent("greedy", True, 10.0, _epsilon(0.0)),
    "epsilon-1": Agent("epsilon-greedy, 1 %", True, 10.0, _epsilon(0.01)),
    "epsilon-5": Agent("epsilon-greedy, 5 %", True, 10.0, _epsilon(0.05)),
    "linear": Agent("linear Thompson", False, 0.2, _linear),
    "pbp": Agent("streaming PBP Thompson, 1x50", False, 0.2, _streamed),
    "neural-linear": Agent("neural-linear Thompson", False, 1.0, _neural_linear),
    "laplace": Agent("Laplace Thompson, 1x50, fitted anew", False, 20.0, _laplace),
    "mc-dropout": Agent("MC dropout Thompson", False, 12.0, _dropout),
}
_N_RUNS, _QUICK_INTERACTIONS, _QUICK_AGENTS = 5, 1000, ("linear", "pbp", "neural-linear")


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List five runs of every agent; parts are agents.

    Quick: two runs of 1000 interactions, of the agents named or of those that cost little.
    """
    agents = asked.parts if asked.named or not asked.quick else _QUICK_AGENTS
    return [
        Cell({"agent": agent, "run": number}, AGENTS[agent].cost)
        for number in range(2 if asked.quick else _N_RUNS)
        for agent in agents
    ]


def fit_cell(config: Config, key: Key, scratch: Scratch | None = None) -> dict[str, Any]:
    """Run one agent once: cumulative regrets at 200 points, the last fifth, time.

    A killed run goes on in the middle, from a checkpoint in the scratch folder.
    """
    checkpoint = None
    if scratch is not None:
        name = f"{NAME}-{key['agent']}-{key['run']}-{config.seed}-{config.n_interactions}"
        checkpoint = scratch.folder / f"{name}.checkpoint"
    seed = 1000 * config.seed + key["run"]
    n = config.n_interactions
    done = simulate(
        lambda: AGENTS[key["agent"]].make(config, seed),
        Mushroom(),
        n,
        seed=seed,
        checkpoint=checkpoint,
    )
    places = np.linspace(n / N_POINTS, n, N_POINTS).astype(int) - 1
    expected, realised = (np.cumsum(r) for r in (done.expected_regret, done.realised_regret))
    return {
        "expected": expected[places].tolist(),
        "realised": realised[places].tolist(),
        "last_fifth": float(expected[-1] - expected[n - n // 5 - 1]),
        "eaten": float(np.mean(done.chosen == 0)),
        "milliseconds": done.milliseconds,
    }


def curves(rows: Sequence[Row], agent: str, which: str) -> Float[np.ndarray, "r p"]:
    """Return the cumulative regret of every run of an agent."""
    found = {row.cell["run"]: row.result or {} for row in _of(rows, agent)}
    return np.array([found[number][which] for number in sorted(found)])


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw mean and range of every agent's regret."""
    from papers.figures import regret_figure
    from papers.figures.regret_figure import Band

    bands: dict[str, Band] = {}
    for agent, about in AGENTS.items():
        regret = curves(rows, agent, "expected")
        if len(regret):
            bands[about.label] = Band(regret.mean(axis=0), regret.min(axis=0), regret.max(axis=0))
    if bands:
        n = max(row.config["n_interactions"] for row in rows)
        regret_figure.draw(stem, bands=bands, n_interactions=n, uniform=UNIFORM)


def section(rows: Sequence[Row]) -> str:
    """Write the table of regrets beside what the paper says in words."""
    finished = markdown.latest(rows)
    n = max((row.config["n_interactions"] for row in finished), default=0)
    lines = [_line(finished, agent, n) for agent in AGENTS]
    return markdown.section(
        NAME,
        rows,
        finished,
        n=n,
        table=markdown.table(_HEADER, [line for line in lines if line]),
        absent=_absent(finished),
    )


_HEADER = (
    "agent | in the paper | runs | regret, all | realised | after a tenth | last fifth | of "
    "uniform's | eaten | ms an interaction"
)


def _line(rows: Sequence[Row], agent: str, n: int) -> list[str] | None:
    expected, realised = curves(rows, agent, "expected"), curves(rows, agent, "realised")
    if not len(expected):
        return None
    results = [row.result or {} for row in _of(rows, agent)]
    last = [result["last_fifth"] for result in results]
    tenth = N_POINTS // 10 - 1
    regrets = (expected[:, -1], realised[:, -1], expected[:, tenth], last)
    shown = [_rounded(Estimate.of([float(x) for x in regret])) for regret in regrets]
    share = float(np.mean(last)) / (UNIFORM * (n // 5))
    milliseconds = float(np.median([result["milliseconds"] for result in results]))
    eaten = float(np.mean([result["eaten"] for result in results]))
    about = AGENTS[agent]
    return [
        about.label,
        "yes" if about.is_published else "",
        str(len(results)),
        *shown,
        f"{share:.1%}",
        f"{eaten:.1%}",
        f"{milliseconds:.2f}",
    ]


def _rounded(estimate: Estimate) -> str:
    """Regrets are multiples of five: no decimals."""
    se = "" if estimate.se is None else f" ± {estimate.se:,.0f}"
    return f"{estimate.mean:,.0f}{se}"


def _absent(rows: Sequence[Row]) -> str:
    """Name the agents without a finished run."""
    absent = [about.label for agent, about in AGENTS.items() if not len(_of(rows, agent))]
    return f" Without a finished run so far: {'; '.join(absent)}." if absent else ""


def _of(rows: Sequence[Row], agent: str) -> list[Row]:
    return [row for row in rows if row.cell["agent"] == agent]


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=AGENTS,
    cells=cells,
    work=fit_cell,
    section=section,
    draw=draw,
    quick={"n_interactions": _QUICK_INTERACTIONS},
    scratch=True,
)

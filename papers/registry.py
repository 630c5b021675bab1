"""The table of experiments: one line each; `python -m papers` finds them here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from papers.protocol import Experiment


@dataclass(frozen=True)
class Entry:
    """A table or figure of a paper that can be run again."""

    name: str
    summary: str
    paper: str

    def load(self) -> Experiment:
        """Import the experiment, from the module of its name."""
        return importlib.import_module(f"papers.{self.name.replace('-', '_')}").EXPERIMENT


_PAPERS = {
    "Hernández-Lobato & Adams (2015)": {
        "pbp-table1": "PBP on the UCI sets: test RMSE, log-likelihood and seconds (Table 1)",
        "pbp-table1-baselines": "tuned backpropagation and Graves' VI on the UCI sets (Table 1)",
        "pbp-deep": "PBP with 1 to 4 hidden layers, as published and guarded (supplement Table 1)",
        "pbp-deep-baselines": (
            "tuned backpropagation with 1 to 4 hidden layers (supplement Table 1)"
        ),
        "pbp-table2": "active learning on the UCI sets: test RMSE after nine additions (Table 2)",
        "pbp-active-curves": (
            "test RMSE as rows are added, active and random, as a picture (Figure 2)"
        ),
        "pbp-toy": "VI, BP, PBP and HMC on 20 points of a cubic, as a picture (Figure 1)",
        "pbp-toy-tuned": "VI and BP tuned on these points, as a picture (Figure 1)",
        "pbp-student-t": "error in log Z of a Gaussian for the Student-t (supplement Figure 1)",
    },
    "Roth & Pernkopf (2016)": {
        "closed-form-mnist": "closed-form VI beside two others on MNIST and its variants (Table 1)",
        "closed-form-relu": "moments of a Gaussian through a rectifier, as a picture (Figure 1)",
        "closed-form-toy": "20 points of a sine by L-BFGS, as a picture (Figure 2a)",
        "closed-form-averaging": (
            "averages of drawn networks against the closed-form prediction (Figure 2b)"
        ),
    },
    "Blundell et al. (2015)": {
        "bbb-mnist": "Bayes by Backprop and plain networks on MNIST: test errors (Table 1)",
        "bbb-curves": "test error on MNIST as training goes on (Figure 2)",
        "bbb-weights": "weights and their signal-to-noise ratio, as pictures (Figures 3 and 4)",
        "bbb-pruning": "test error after weights were removed (Table 2)",
        "bbb-regression": "a noisy curve by Bayes by Backprop and by a plain network (Figure 5)",
        "bbb-bandits": "which mushrooms to eat: cumulative regret of nine agents (Figure 6)",
    },
    "Gal & Ghahramani (2016)": {
        "mc-dropout-regression": "MC dropout on a curve with a gap, as a picture (lecture)",
        "mc-dropout-moons": "MC dropout on two moons, as a picture (lecture)",
    },
    "a lecture on Bayesian deep learning": {
        "lecture-linear": "linear regression in closed form on a curve, as a picture (lecture)",
        "lecture-logistic": (
            "logistic regression on two clouds: MAP, Laplace, VI, as a picture (lecture)"
        ),
        "lecture-moons": (
            "two moons by variational inference and MC dropout, as a picture (lecture)"
        ),
    },
    "beyond the papers": {
        "pbp-variants": "what stochastic EP, longer training and mini-batches cost or bring",
        "ground-truth": "every approximation beside exact sampling, on 30 points of four sets",
        "bundled-tables": (
            "every method untuned on the tables of scikit-learn, beside scikit-learn's own"
        ),
        "mnist-strangers": "doubt about Fashion-MNIST after learning MNIST: AUROC of the entropy",
        "uci-default": "the untuned default on the UCI sets, and on sets it was not made on",
        "uci-today": "all methods and what a user would pick instead, untuned, on the UCI sets",
        "tables-today-numbers": "the same on real tables whose target is a number",
        "tables-today-classes": "the same on real tables whose target is a class",
    },
}

EXPERIMENTS: dict[str, Entry] = {
    name: Entry(name, summary, paper)
    for paper, summaries in _PAPERS.items()
    for name, summary in summaries.items()
}

"""The table of experiments: one line each; `bayesprop reproduce` finds them here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from papers.protocol import Experiment


@dataclass(frozen=True)
class Entry:
    """A table or figure of a paper that can be run again.

    module
        Where it is: its `EXPERIMENT` is imported only when it is needed.
    """

    name: str
    summary: str
    paper: str
    module: str

    def load(self) -> Experiment:
        """Import the experiment."""
        return importlib.import_module(self.module).EXPERIMENT


_PBP = "Hernández-Lobato & Adams (2015)"
_CLOSED_FORM = "Roth & Pernkopf (2016)"
_BBB = "Blundell et al. (2015)"
_DROPOUT = "Gal & Ghahramani (2016)"
_LECTURE = "a lecture on Bayesian deep learning"

EXPERIMENTS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="pbp-table1",
            summary="PBP on the UCI sets: test RMSE, log-likelihood and seconds (Table 1)",
            paper=_PBP,
            module="papers.pbp_table1",
        ),
        Entry(
            name="pbp-table1-baselines",
            summary="tuned backpropagation and Graves' VI on the UCI sets (Table 1)",
            paper=_PBP,
            module="papers.pbp_baselines",
        ),
        Entry(
            name="pbp-deep",
            summary="PBP with 1 to 4 hidden layers, as published and guarded (supplement Table 1)",
            paper=_PBP,
            module="papers.pbp_deep",
        ),
        Entry(
            name="pbp-deep-baselines",
            summary="tuned backpropagation with 1 to 4 hidden layers (supplement Table 1)",
            paper=_PBP,
            module="papers.pbp_deep_baselines",
        ),
        Entry(
            name="pbp-table2",
            summary="active learning on the UCI sets: test RMSE after nine additions (Table 2)",
            paper=_PBP,
            module="papers.pbp_table2",
        ),
        Entry(
            name="pbp-active-curves",
            summary="test RMSE as rows are added, active and random, as a picture (Figure 2)",
            paper=_PBP,
            module="papers.pbp_active_curves",
        ),
        Entry(
            name="pbp-toy",
            summary="VI, BP, PBP and HMC on 20 points of a cubic, as a picture (Figure 1)",
            paper=_PBP,
            module="papers.pbp_toy",
        ),
        Entry(
            name="pbp-student-t",
            summary="error in log Z of a Gaussian for the Student-t (supplement Figure 1)",
            paper=_PBP,
            module="papers.pbp_student_t",
        ),
        Entry(
            name="closed-form-mnist",
            summary="closed-form VI beside two others on MNIST and its variants (Table 1)",
            paper=_CLOSED_FORM,
            module="papers.closed_form_mnist",
        ),
        Entry(
            name="closed-form-relu",
            summary="moments of a Gaussian through a rectifier, as a picture (Figure 1)",
            paper=_CLOSED_FORM,
            module="papers.closed_form_relu",
        ),
        Entry(
            name="closed-form-toy",
            summary="20 points of a sine by L-BFGS, as a picture (Figure 2a)",
            paper=_CLOSED_FORM,
            module="papers.closed_form_toy",
        ),
        Entry(
            name="closed-form-averaging",
            summary="averages of drawn networks against the closed-form prediction (Figure 2b)",
            paper=_CLOSED_FORM,
            module="papers.closed_form_averaging",
        ),
        Entry(
            name="bbb-mnist",
            summary="Bayes by Backprop and plain networks on MNIST: test errors (Table 1)",
            paper=_BBB,
            module="papers.bbb_mnist",
        ),
        Entry(
            name="bbb-curves",
            summary="test error on MNIST as training goes on (Figure 2)",
            paper=_BBB,
            module="papers.bbb_curves",
        ),
        Entry(
            name="bbb-weights",
            summary="weights and their signal-to-noise ratio, as pictures (Figures 3 and 4)",
            paper=_BBB,
            module="papers.bbb_weights",
        ),
        Entry(
            name="bbb-pruning",
            summary="test error after weights were removed (Table 2)",
            paper=_BBB,
            module="papers.bbb_pruning",
        ),
        Entry(
            name="bbb-regression",
            summary="a noisy curve by Bayes by Backprop and by a plain network (Figure 5)",
            paper=_BBB,
            module="papers.bbb_regression",
        ),
        Entry(
            name="bbb-bandits",
            summary="which mushrooms to eat: cumulative regret of nine agents (Figure 6)",
            paper=_BBB,
            module="papers.bbb_bandits",
        ),
        Entry(
            name="mc-dropout-regression",
            summary="MC dropout on a curve with a gap, as a picture (lecture)",
            paper=_DROPOUT,
            module="papers.mc_dropout_regression",
        ),
        Entry(
            name="mc-dropout-moons",
            summary="MC dropout on two moons, as a picture (lecture)",
            paper=_DROPOUT,
            module="papers.mc_dropout_moons",
        ),
        Entry(
            name="lecture-logistic",
            summary="logistic regression on two clouds: MAP, Laplace, VI, as a picture (lecture)",
            paper=_LECTURE,
            module="papers.lecture_logistic",
        ),
        Entry(
            name="lecture-moons",
            summary="two moons by variational inference and MC dropout, as a picture (lecture)",
            paper=_LECTURE,
            module="papers.lecture_moons",
        ),
        Entry(
            name="pbp-variants",
            summary="what stochastic EP, longer training and mini-batches cost or bring",
            paper="beyond the papers",
            module="papers.pbp_variants",
        ),
        Entry(
            name="ground-truth",
            summary="every approximation beside exact sampling, on 30 points of four sets",
            paper="beyond the papers",
            module="papers.ground_truth",
        ),
        Entry(
            name="bundled-tables",
            summary="every method untuned on the tables of scikit-learn, beside scikit-learn's own",
            paper="beyond the papers",
            module="papers.bundled_tables",
        ),
        Entry(
            name="mnist-strangers",
            summary="doubt about Fashion-MNIST after learning MNIST: AUROC of the entropy",
            paper="beyond the papers",
            module="papers.mnist_strangers",
        ),
        Entry(
            name="uci-default",
            summary="the untuned default on the UCI sets, and on sets it was not made on",
            paper="beyond the papers",
            module="papers.uci_default",
        ),
        Entry(
            name="uci-today",
            summary="all methods and what a user would pick instead, untuned, on the UCI sets",
            paper="beyond the papers",
            module="papers.uci_today",
        ),
    )
}

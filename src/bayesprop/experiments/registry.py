"""The table of experiments: one line each; `bayesprop reproduce` finds them here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper that can be run again.

    home
        "module:run", imported only when the experiment is run. The module also has
        `section(rows)`, the Markdown that `docs/results.md` shows.
    """

    name: str
    summary: str
    paper: str
    home: str


_PBP = "Hernández-Lobato & Adams (2015)"
_CLOSED_FORM = "Roth & Pernkopf (2016)"
_BBB = "Blundell et al. (2015)"
_DROPOUT = "Gal & Ghahramani (2016)"
_LECTURE = "a lecture on Bayesian deep learning"

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="pbp-table1",
            summary="PBP on the UCI sets: test RMSE, log-likelihood and seconds (Table 1)",
            paper=_PBP,
            home="bayesprop.experiments.pbp_table1:run",
        ),
        Experiment(
            name="pbp-deep",
            summary="PBP with 1 to 4 hidden layers, as published and guarded (supplement Table 1)",
            paper=_PBP,
            home="bayesprop.experiments.pbp_deep:run",
        ),
        Experiment(
            name="pbp-variants",
            summary="what stochastic EP, longer training and mini-batches cost or bring",
            paper="beyond the papers",
            home="bayesprop.experiments.pbp_variants:run",
        ),
        Experiment(
            name="pbp-table2",
            summary="active learning on the UCI sets: test RMSE after nine additions (Table 2)",
            paper=_PBP,
            home="bayesprop.experiments.pbp_table2:run",
        ),
        Experiment(
            name="pbp-active-curves",
            summary="test RMSE as rows are added, active and random, as a picture (Figure 2)",
            paper=_PBP,
            home="bayesprop.experiments.pbp_active_curves:run",
        ),
        Experiment(
            name="pbp-toy",
            summary="VI, BP, PBP and HMC on 20 points of a cubic, as a picture (Figure 1)",
            paper=_PBP,
            home="bayesprop.experiments.pbp_toy:run",
        ),
        Experiment(
            name="pbp-student-t",
            summary="error in log Z of a Gaussian for the Student-t (supplement Figure 1)",
            paper=_PBP,
            home="bayesprop.experiments.pbp_student_t:run",
        ),
        Experiment(
            name="closed-form-mnist",
            summary="closed-form VI beside two others on MNIST and its variants (Table 1)",
            paper=_CLOSED_FORM,
            home="bayesprop.experiments.closed_form_mnist:run",
        ),
        Experiment(
            name="closed-form-relu",
            summary="moments of a Gaussian through a rectifier, as a picture (Figure 1)",
            paper=_CLOSED_FORM,
            home="bayesprop.experiments.closed_form_relu:run",
        ),
        Experiment(
            name="closed-form-toy",
            summary="20 points of a sine by L-BFGS, as a picture (Figure 2a)",
            paper=_CLOSED_FORM,
            home="bayesprop.experiments.closed_form_toy:run",
        ),
        Experiment(
            name="closed-form-averaging",
            summary="averages of drawn networks against the closed-form prediction (Figure 2b)",
            paper=_CLOSED_FORM,
            home="bayesprop.experiments.closed_form_averaging:run",
        ),
        Experiment(
            name="bbb-mnist",
            summary="Bayes by Backprop and plain networks on MNIST: test errors (Table 1)",
            paper=_BBB,
            home="bayesprop.experiments.bbb_mnist:run",
        ),
        Experiment(
            name="bbb-curves",
            summary="test error on MNIST as training goes on (Figure 2)",
            paper=_BBB,
            home="bayesprop.experiments.bbb_curves:run",
        ),
        Experiment(
            name="bbb-weights",
            summary="weights and their signal-to-noise ratio, as pictures (Figures 3 and 4)",
            paper=_BBB,
            home="bayesprop.experiments.bbb_weights:run",
        ),
        Experiment(
            name="bbb-pruning",
            summary="test error after weights were removed (Table 2)",
            paper=_BBB,
            home="bayesprop.experiments.bbb_pruning:run",
        ),
        Experiment(
            name="bbb-regression",
            summary="a noisy curve by Bayes by Backprop and by a plain network (Figure 5)",
            paper=_BBB,
            home="bayesprop.experiments.bbb_regression:run",
        ),
        Experiment(
            name="bbb-bandits",
            summary="which mushrooms to eat: cumulative regret of nine agents (Figure 6)",
            paper=_BBB,
            home="bayesprop.experiments.bbb_bandits:run",
        ),
        Experiment(
            name="mc-dropout-regression",
            summary="MC dropout on a curve with a gap, as a picture (lecture)",
            paper=_DROPOUT,
            home="bayesprop.experiments.mc_dropout_regression:run",
        ),
        Experiment(
            name="mc-dropout-moons",
            summary="MC dropout on two moons, as a picture (lecture)",
            paper=_DROPOUT,
            home="bayesprop.experiments.mc_dropout_moons:run",
        ),
        Experiment(
            name="lecture-logistic",
            summary="logistic regression on two clouds: MAP, Laplace, VI, as a picture (lecture)",
            paper=_LECTURE,
            home="bayesprop.experiments.lecture_logistic:run",
        ),
        Experiment(
            name="lecture-moons",
            summary="two moons by variational inference and MC dropout, as a picture (lecture)",
            paper=_LECTURE,
            home="bayesprop.experiments.lecture_moons:run",
        ),
        Experiment(
            name="ground-truth",
            summary="every approximation beside exact sampling, on 30 points of four sets",
            paper="beyond the papers",
            home="bayesprop.experiments.ground_truth:run",
        ),
        Experiment(
            name="bundled-tables",
            summary="every method untuned on the tables of scikit-learn, beside scikit-learn's own",
            paper="beyond the papers",
            home="bayesprop.experiments.bundled_tables:run",
        ),
        Experiment(
            name="mnist-strangers",
            summary="doubt about Fashion-MNIST after learning MNIST: AUROC of the entropy",
            paper="beyond the papers",
            home="bayesprop.experiments.mnist_strangers:run",
        ),
        Experiment(
            name="uci-default",
            summary="the untuned default on the UCI sets, and on sets it was not made on",
            paper="beyond the papers",
            home="bayesprop.experiments.uci_default:run",
        ),
    )
}

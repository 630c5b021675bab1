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
            name="pbp-toy",
            summary="PBP on 20 points of a cubic, as a picture (Figure 1)",
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
            name="uci-default",
            summary="the untuned default on the UCI sets, and on sets it was not made on",
            paper="beyond the papers",
            home="bayesprop.experiments.uci_default:run",
        ),
    )
}

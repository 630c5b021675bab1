"""The table of methods: one line each; the command line and the contract tests find them here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

REGRESSION, CLASSIFICATION = "regression", "classification"


@dataclass(frozen=True)
class Method:
    """A way to fit a Bayesian network.

    home, classifier
        "module:Class" of the regressor and of the classifier, imported only when the method is
        used; None where it has none.
    cost
        What a fit costs, in words.
    when
        When to choose it, in words.
    is_slow
        Whether a comparison leaves it out unless it is named.
    """

    name: str
    summary: str
    paper: str
    cost: str
    when: str
    home: str | None
    classifier: str | None = None
    is_slow: bool = False

    @property
    def homes(self) -> dict[str, str]:
        """Where the estimator of each task lives, by task."""
        found = {REGRESSION: self.home, CLASSIFICATION: self.classifier}
        return {task: home for task, home in found.items() if home is not None}

    @property
    def task(self) -> str:
        """The tasks, in words."""
        return ", ".join(self.homes)


def _network(module: str, name: str) -> dict[str, Any]:
    """Say where the two estimators of a module are."""
    module = f"bayesprop.estimators.{module}"
    return {"home": f"{module}:{name}Regressor", "classifier": f"{module}:{name}Classifier"}


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="default",
            summary="An ensemble of Bayesian networks, untuned, for numbers and for classes",
            paper="a recipe of this library, after Roth & Pernkopf (2016)",
            cost="seconds a fit on a small table, about a minute on 40 000 rows",
            when="the default: calibrated predictions, noise that depends on the inputs",
            **_network("default", "Bayesian"),
        ),
        Method(
            name="closed-form-vi",
            summary="Variational inference without sampling: moments through every layer",
            paper="Roth & Pernkopf (2016)",
            cost="a plain network an epoch, twice its arithmetic",
            when="repeatable fits, predictions in one pass, pruning",
            **_network("closed_form_vi", "ClosedFormVI"),
        ),
        Method(
            name="pbp",
            summary="Probabilistic backpropagation: one pass of means and variances a datum",
            paper="Hernández-Lobato & Adams (2015)",
            cost="about 1 µs a row and epoch (50 ReLU units, one core)",
            when="streams (partial_fit), a fit in milliseconds, classes or noise of one size",
            **_network("pbp", "PBP"),
        ),
        Method(
            name="ebp",
            summary="Networks of sign units, weights binary or real; no learning rate",
            paper="Soudry, Hubara & Meir (2014)",
            cost="about 20 µs a row and epoch (13 inputs, 50 units)",
            when="weights of one bit, streams of labels (partial_fit)",
            home=None,
            classifier="bayesprop.estimators.ebp:EBPClassifier",
        ),
        Method(
            name="batch-ep",
            summary="Expectation propagation with a site for every datum; one hidden layer",
            paper="Jylänki, Nummenmaa & Vehtari (2014)",
            cost="a second a fit of 30 rows, twenty of 400 (10 inputs, one core)",
            when="tables of tens to hundreds of rows, where every row counts once",
            home="bayesprop.estimators.batch_ep:BatchEPRegressor",
            is_slow=True,
        ),
        Method(
            name="linear",
            summary="Linear regression with exact posterior and evidence; bases, relevance",
            paper="MacKay (1992), Bishop (2006)",
            cost="milliseconds; the cube of the number of columns",
            when="few rows, weights to read, exact streams, a model that networks have to beat",
            home="bayesprop.estimators.linear_regression:BayesianLinearRegressor",
        ),
        Method(
            name="logistic",
            summary="Logistic regression, two classes or more, by Laplace or variationally",
            paper="MacKay (1992), Bishop (2006)",
            cost="milliseconds; the cube of columns times classes",
            when="few rows, weights to read, a model that networks have to beat",
            home=None,
            classifier="bayesprop.estimators.logistic_regression:BayesianLogisticClassifier",
        ),
        Method(
            name="bayes-by-backprop",
            summary="Variational inference by drawn weights; normal or scale-mixture prior",
            paper="Blundell et al. (2015)",
            cost="about twice a plain network an epoch, more epochs",
            when="large networks, priors without a closed form, pruning, any network of your own",
            **_network("bayes_by_backprop", "BayesByBackprop"),
        ),
        Method(
            name="graves-vi",
            summary="Variational inference with a biased variance gradient; a baseline",
            paper="Graves (2011)",
            cost="as Bayes by Backprop",
            when="to compare with the tables of the PBP paper",
            **_network("graves_vi", "GravesVI"),
        ),
        Method(
            name="laplace",
            summary="A Gaussian around a trained network, by its curvature; evidence; closed form",
            paper="MacKay (1992), Ritter et al. (2018), Immer et al. (2021)",
            cost="a plain network, and a few passes over the rows for the curvature",
            when="error bars for a network trained as usual; prior and noise without held-out rows",
            **_network("laplace", "Laplace"),
        ),
        Method(
            name="mc-dropout",
            summary="Dropout kept at prediction: the average of many thinned networks",
            paper="Gal & Ghahramani (2016)",
            cost="a plain network to fit; n_draws passes to predict",
            when="a network that has dropout anyway",
            **_network("mc_dropout", "MCDropout"),
        ),
        Method(
            name="deep-ensemble",
            summary="Several networks from several starts, each with its own noise",
            paper="Lakshminarayanan et al. (2017)",
            cost="n_members plain networks, trained together",
            when="a strong baseline; compute for five networks",
            **_network("point_network", "DeepEnsemble"),
        ),
        Method(
            name="mcmc",
            summary="Draws from the exact posterior: NUTS, HMC, random walk",
            paper="Hoffman & Gelman (2014)",
            cost="seconds to minutes; grows with the rows at every step",
            when="small networks and tables, where nothing may be approximated: the ground truth",
            **_network("mcmc", "MCMC"),
            is_slow=True,
        ),
        Method(
            name="network",
            summary="One network at a point, with weight decay, dropout or DropConnect",
            paper="the baselines of Blundell et al. (2015)",
            cost="the cheapest gradient method",
            when="a baseline: it does not know what it does not know",
            **_network("point_network", "PointNetwork"),
        ),
    )
}


def estimator_class(name: str, task: str = REGRESSION) -> type:
    """Return the estimator class of a method; ValueError names the methods that exist."""
    module, attribute = _home(name, task).split(":")
    return getattr(importlib.import_module(module), attribute)


def plain_class(name: str, task: str = REGRESSION) -> Any:
    """Return the estimator class of a method without scikit-learn, which predicts all the same."""
    module, attribute = _home(name, task).split(":")
    return importlib.import_module(module).plain[attribute]


def _home(name: str, task: str) -> str:
    """Return "module:Class" of an estimator; ValueError names the methods that exist."""
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}")
    if task not in (REGRESSION, CLASSIFICATION):
        raise ValueError(f"task must be {REGRESSION} or {CLASSIFICATION}, got {task!r}")
    homes = METHODS[name].homes
    if task not in homes:
        able = ", ".join(method.name for method in METHODS.values() if task in method.homes)
        raise ValueError(f"method {name!r} does {METHODS[name].task} only; for {task}: {able}")
    return homes[task]


def make(name: str, *, task: str = REGRESSION, **params: Any) -> Any:
    """Build an unfitted estimator of a method with the given hyper-parameters."""
    return estimator_class(name, task)(**params)

"""Reference models for comparison: scikit-learn's gradient boosting and Gaussian process.

Each at its defaults, or with what its documentation tells a user to do; nothing tuned to a table.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.distributions.quantiles import QuantilePredictive
from bayesprop.model.task import Standardiser

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_ROWS, MAX_VALUES, MAX_HISTOGRAMS, MAX_CLASSES = 50_000, 24_000_000, 3000, 30
MAX_PROCESS_ROWS = 1000
_MAX_SCALES = 30
Inputs = Float[np.ndarray, "n d"]


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Run on one core, without advice: threads of OpenMP that wait for others cost more."""
    with warnings.catch_warnings(), threadpool_limits(1), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def scaler_of(X: Inputs) -> Standardiser:
    """Learn the mean and std of every column, the mean of it in each gap."""
    gap = np.isnan(X)
    return Standardiser.fit(np.where(gap, np.nanmean(X, axis=0), X) if gap.any() else X)


def standardised(scaler: Standardiser, X: Inputs) -> Inputs:
    """Standardise rows, gaps at the mean."""
    return np.nan_to_num(scaler.transform(X), nan=0.0)


@dataclass
class GaussianProcess:
    """A Gaussian process whose hyper-parameters and predictions come from so many rows at most.

    A squared-exponential kernel, a length scale an input (one for all beyond 30 inputs), and noise;
    inputs and target standardised, gaps at the mean.
    """

    seed: int = 0
    n_learning: int = 300
    n_kept: int = MAX_PROCESS_ROWS
    name: ClassVar = "GaussianProcess"
    is_mapped: ClassVar = True

    @_single_threaded()
    def fit(self, X: Inputs, y: Float[np.ndarray, " n"]) -> Self:
        """Maximise the evidence of some rows, then condition on more of them."""
        from sklearn.gaussian_process import GaussianProcessRegressor, kernels

        self.scaler_ = scaler_of(X)
        self.mean_, self.std_ = float(y.mean()), float(y.std()) or 1.0
        order = np.random.default_rng(self.seed).permutation(len(y))
        inputs, targets = standardised(self.scaler_, X), (y - self.mean_) / self.std_
        scales: Any = np.ones(X.shape[1]) if X.shape[1] <= _MAX_SCALES else 1.0
        kernel = kernels.ConstantKernel() * kernels.RBF(scales) + kernels.WhiteKernel()
        few, most = order[: self.n_learning], order[: self.n_kept]
        model: Any = GaussianProcessRegressor(kernel, random_state=self.seed)
        self.model_ = model.fit(inputs[few], targets[few])
        if len(most) > len(few):
            model = GaussianProcessRegressor(model.kernel_, optimizer=None)  # type: ignore[arg-type]
            self.model_ = model.fit(inputs[most], targets[most])
        return self

    @_single_threaded()
    def predict_dist(self, X: Inputs) -> GaussianPredictive:
        """Predict; the noise is the white part of the kernel."""
        mean, std = self.model_.predict(standardised(self.scaler_, X), return_std=True)
        noise = np.full(len(X), self.model_.kernel_.k2.noise_level)
        predictive = GaussianPredictive(mean, np.maximum(std**2 - noise, 0.0), noise)
        return predictive.rescaled(self.mean_, self.std_)


@dataclass
class QuantileBoosting:
    """Histogram boosting of some quantiles, and once more of the mean; it takes gaps as they are.

    levels
        Of the quantiles, ascending; between them and beyond, pieces of normal distributions.
    """

    seed: int = 0
    levels: tuple[float, ...] = LEVELS
    name: ClassVar = "HistGradientBoosting"
    is_mapped: ClassVar = False

    @_single_threaded()
    def fit(self, X: Inputs, y: Float[np.ndarray, " n"]) -> Self:
        """Fit one model more than there are levels."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        self.mean_ = HistGradientBoostingRegressor(random_state=self.seed).fit(X, y)
        self.models_ = [
            HistGradientBoostingRegressor(
                loss="quantile", quantile=float(level), random_state=self.seed
            ).fit(X, y)
            for level in self.levels
        ]
        return self

    @_single_threaded()
    def predict_dist(self, X: Inputs) -> QuantilePredictive:
        """Predict the mean and the quantiles."""
        quantiles = np.stack([model.predict(X) for model in self.models_], axis=1)
        return QuantilePredictive.of(self.mean_.predict(X), np.asarray(self.levels), quantiles)


@dataclass
class ClassBoosting:
    """Histogram boosting of the log loss; a class without a row has the odds of half a row."""

    classes: np.ndarray
    seed: int = 0
    name: ClassVar = "HistGradientBoosting"
    is_mapped: ClassVar = False

    @_single_threaded()
    def fit(self, X: Inputs, y: np.ndarray) -> Self:
        """Fit one model to the codes of the labels."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        codes = np.searchsorted(self.classes, y)
        self.n_ = len(y)
        self.model_ = HistGradientBoostingClassifier(random_state=self.seed).fit(X, codes)
        return self

    @_single_threaded()
    def predict_dist(self, X: Inputs) -> ClassPredictive:
        """Predict the probabilities of every class."""
        proba = np.full((len(X), len(self.classes)), 0.5 / self.n_)
        proba[:, self.model_.classes_] = self.model_.predict_proba(X)
        return ClassPredictive.of_sure_weights(proba, self.classes)


REFERENCE_MODELS = (GaussianProcess.name, QuantileBoosting.name)
ReferenceModel = GaussianProcess | QuantileBoosting | ClassBoosting
"""`is_mapped`: whether a target of a kind is learnt through its map, as Gaussians need it; the
quantiles of a map are the map of quantiles."""


class Plan(NamedTuple):
    """A reference model, unfitted, and the most rows that it is fitted to."""

    model: ReferenceModel
    n_rows: int


def sampled(n_rows: int, X: Inputs, y: np.ndarray) -> tuple[Inputs, np.ndarray]:
    """Draw so many rows, always the same ones, in their order."""
    chosen = np.sort(np.random.default_rng(0).choice(len(y), n_rows, replace=False))
    return X[chosen], y[chosen]


class Plans(NamedTuple):
    """Fitted reference models, and sentences on omitted or sampled ones."""

    each: tuple[Plan, ...]
    notes: tuple[str, ...]


def plans(n: int, d: int, classes: np.ndarray | None = None) -> Plans:
    """Choose the reference models of a task, and rows for each that keep the time of a report.

    n, d
        Training rows and encoded columns.
    classes
        All that the labels may be; None for numbers.
    """
    boosting = QuantileBoosting() if classes is None else ClassBoosting(classes)
    n_models = len(LEVELS) + 1 if classes is None else len(classes) if len(classes) > 2 else 1
    most = min(MAX_ROWS, MAX_VALUES // (n_models * max(d, 1)))
    each, notes = [Plan(boosting, most)], []
    if n_models > MAX_CLASSES or n_models * d > MAX_HISTOGRAMS:
        each, what = [], "quantiles" if classes is None else "classes"
        notes.append(
            f"{boosting.name} is left out beyond {MAX_CLASSES} classes and beyond "
            f"{MAX_HISTOGRAMS:,} features times {what} (here: {d:,} times {n_models})."
        )
    elif most < n:
        notes.append(f"{boosting.name} was fitted to {most:,} of the {n:,} training rows.")
    if classes is None and n <= MAX_PROCESS_ROWS:
        each.append(Plan(GaussianProcess(), n))
    elif classes is None:
        notes.append(f"GaussianProcess is left out beyond {MAX_PROCESS_ROWS:,} training rows.")
    return Plans(tuple(each), tuple(notes))


def fit_reference_models(
    X: Inputs,
    y: np.ndarray,
    classes: np.ndarray | None = None,
    mapped: np.ndarray | None = None,
    names: Collection[str] = REFERENCE_MODELS,
) -> tuple[dict[str, ReferenceModel], tuple[str, ...]]:
    """Fit the reference models of a task, by name; one that cannot learn or predict is left out.

    Returned beside are sentences on those that saw fewer rows, or that are left out.

    mapped
        The targets through the map of their kind; None: as they are.
    names
        Of those that are wanted.
    """
    if not {*names} & {*REFERENCE_MODELS}:
        return {}, ()
    planned = plans(len(X), X.shape[1], classes)
    models, notes = {}, list(planned.notes)
    for model, n_rows in planned.each:
        if model.name not in names:
            continue
        own = y if mapped is None or not model.is_mapped else mapped
        try:
            model.fit(*(sampled(n_rows, X, own) if n_rows < len(y) else (X, own)))
            if not np.all(model.predict_dist(X[:1]).is_finite):
                raise ValueError("its predictions are not finite")
            models[model.name] = model
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            notes.append(f"{model.name} is left out: {str(error).splitlines()[0]}.")
    return models, tuple(notes)

"""Models that a fit is compared with: one of no inputs, a linear one, and with peers three more."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from jaxtyping import Float
from scipy import special
from threadpoolctl import threadpool_limits

from bayesprop import codec
from bayesprop.codec import JsonObject, Labels
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.gaussian_copula import KnownInputs
from bayesprop.distributions.imputed import over_gaps
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from bayesprop.distributions.quantiles import QuantilePredictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.model.task import Numbers, Standardiser
from bayesprop.targets.bijectors import COUNT, NUMBERS
from bayesprop.targets.censoring import IntervalMap, Ridge
from bayesprop.targets.kinds import learnt_map

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_ROWS, MAX_VALUES, MAX_HISTOGRAMS, MAX_CLASSES = 50_000, 24_000_000, 3000, 30
MAX_PROCESS_ROWS = 1000
_MAX_SCALES = 30
Inputs = Float[np.ndarray, "n d"]
MAX_FEATURES = 1000
MAX_STORED_FEATURES = 64
MAX_WEIGHTS = 20_000
_MAX_VALUES = 10_000_000
_DAMAGED = "the stored baselines are damaged: fit the model again"


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
        scales: np.ndarray | float = np.ones(X.shape[1]) if X.shape[1] <= _MAX_SCALES else 1.0
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
SIMPLE = ("constant", "linear", "logistic")
"""Names of what any model should beat; others are those of reference models."""
EVERY = (*SIMPLE, *REFERENCE_MODELS)


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


@dataclass(frozen=True)
class ConstantBaseline:
    """N(mean, var) of the training targets for every row, whatever its features. In y and y²."""

    mean: float
    var: float

    @classmethod
    def fit(cls, y: Float[np.ndarray, " n"]) -> ConstantBaseline:
        """Take mean and variance (ddof 0) of the targets.

        Of equal targets the std is 1e-6 of their size: a variance of zero has no density.
        """
        is_constant = float(np.ptp(y)) == 0.0
        with np.errstate(over="ignore"):  # an infinite variance says what is wrong
            least = np.square(1e-6 * (np.max(np.abs(y)) or 1.0))
            return cls(float(np.mean(y)), float(least if is_constant else np.var(y)))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict every row alike."""
        ones = np.ones(len(x))
        return GaussianPredictive(self.mean * ones, 0.0 * ones, self.var * ones)


@dataclass(frozen=True, eq=False)
class FrequencyBaseline:
    """The same probabilities for every row: the share of each class among the training rows."""

    classes: Labels
    share: Float[np.ndarray, " c"]

    @classmethod
    def fit(cls, y: np.ndarray, classes: np.ndarray) -> FrequencyBaseline:
        """Count the classes, half a row more for each, so that none is excluded.

        This is the posterior mean under Jeffreys's prior, Dirichlet(1/2).
        """
        counts = np.bincount(np.searchsorted(classes, y), minlength=len(classes)) + 0.5
        return cls(classes, counts / np.sum(counts))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Predict every row alike."""
        return ClassPredictive.of_sure_weights(np.tile(self.share, (len(x), 1)), self.classes)


@dataclass(frozen=True, eq=False)
class LinearBaseline:
    """Bayesian linear regression, its two precisions set by the evidence (MacKay 1992).

    Everything is held in standardised units.

    weight_mean, weight_cov
        The Gaussian posterior of the slopes; the intercept is the mean of y.
    noise_var
        Variance of the residual noise, standardised y².
    """

    x_scaler: Standardiser
    y_scaler: Standardiser
    weight_mean: Float[np.ndarray, " d"]
    weight_cov: Float[np.ndarray, "d d"]
    noise_var: float

    @classmethod
    def fit(cls, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> LinearBaseline:
        """Fit scikit-learn's BayesianRidge to standardised rows."""
        from sklearn.linear_model import BayesianRidge

        x_scaler, y_scaler = scaler_of(x), Standardiser.fit(y[:, None])
        z, t = standardised(x_scaler, x), y_scaler.transform(y[:, None])[:, 0]
        ridge = BayesianRidge(fit_intercept=False, tol=1e-6).fit(z, t)
        return cls(x_scaler, y_scaler, ridge.coef_, ridge.sigma_, 1.0 / float(ridge.alpha_))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict mean and variance, in y and y²."""
        z = standardised(self.x_scaler, x)
        var = np.einsum("ij,ij->i", z @ self.weight_cov, z)
        noise_var = np.full_like(var, self.noise_var)
        predictive = GaussianPredictive(z @ self.weight_mean, var, noise_var)
        return predictive.rescaled(self.y_scaler.inverse_mean(np.zeros(1)), self.y_scaler.scale)


@dataclass(frozen=True, eq=False)
class LogisticBaseline:
    """Multinomial logistic regression on standardised inputs, at its most probable weights.

    weight, intercept
        For standardised inputs; the prior is N(0, 1) for every weight and flat for the intercepts.
    """

    classes: Labels
    x_scaler: Standardiser
    weight: Float[np.ndarray, "d c"]
    intercept: Float[np.ndarray, " c"]

    @classmethod
    def fit(
        cls, x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray
    ) -> LogisticBaseline:
        """Fit scikit-learn's LogisticRegression to standardised rows.

        A class without a row gets no slopes, and the odds of half a row.
        """
        from sklearn.linear_model import LogisticRegression

        x_scaler = scaler_of(x)
        weight = np.zeros((x.shape[1], len(classes)))
        codes = np.searchsorted(classes, y)
        counts = np.bincount(codes, minlength=len(classes))
        intercept, present = np.log(np.maximum(counts, 0.5) / len(y)), counts > 0
        if np.sum(present) > 1:
            # The one vector of two classes is the difference of theirs: of twice the variance.
            strength = 2.0 if np.sum(present) == 2 else 1.0
            model = LogisticRegression(C=strength, tol=1e-6, max_iter=500)
            model.fit(standardised(x_scaler, x), codes)
            halves = np.array([[-0.5], [0.5]]) if len(model.coef_) == 1 else 1.0
            weight[:, present] = (halves * model.coef_).T
            intercept[present] = np.ravel(np.asarray(halves).T * model.intercept_)
        return cls(classes, x_scaler, weight, intercept)

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Predict the probabilities of every class."""
        logits = standardised(self.x_scaler, x) @ self.weight + self.intercept
        return ClassPredictive.of_sure_weights(special.softmax(logits, axis=1), self.classes)


def _learn_target(
    kind: str, exposure: int | None, x: Float[np.ndarray, "n d"], y: np.ndarray
) -> tuple[Numbers, Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Learn a target of a kind from training rows; also return its rows, mapped to the line.

    Mapped without a look at the inputs, for the constant, and with one, for the line: what is
    known of a target may be an interval.
    """
    z, y = standardised(scaler_of(x), x), np.asarray(y, np.float64)[:, None]
    at = None if exposure is None else x[:, exposure]
    target = Numbers(Standardiser.none(1), True, learnt_map(kind, z, y, None, at))
    of_rows = target.of_rows(x, exposure).map
    of_constant = of_line = of_rows.encode(y, np.random.RandomState(0), z)[:, 0]
    if isinstance(of_rows, IntervalMap):
        ridge = Ridge.of_some(zeros := np.zeros((len(y), 1)), np.ones(len(y)))
        tendency = of_rows.with_tendency(ridge, y[:, 0]).tendency
        without_inputs = replace(cast(Any, of_rows), tendency=tendency)
        of_constant = without_inputs.encode(y, np.random.RandomState(0), zeros)[:, 0]
        target = replace(target, map=replace(cast(Any, target.map), tendency=None))
    return target, of_constant, of_line


class _StoredBaselines(NamedTuple):
    """Baselines stored in a model file: the simple ones."""

    constant: ConstantBaseline | FrequencyBaseline
    line: LinearBaseline | LogisticBaseline | None
    note: str
    target: Numbers | None
    exposure: int | None

    def validate(self) -> None:
        """Raise ValueError where an exposure is no column, or not of counts."""
        is_place = self.target and self.target.kind == COUNT and (self.exposure or 0) >= 0
        if self.exposure is not None and not is_place:
            raise ValueError(_DAMAGED)


@dataclass(frozen=True)
class Baselines:
    """The baselines of one training table, by name.

    note
        Why there is no line, or of how many rows; empty where there is nothing to say.
    target, exposure
        How those that are mapped see a target that is no plain number (None: as it is), and the
        place of the column that counts grow with.
    reference_notes
        Sentences on reference models, which no file holds, that were left out or saw a sample.
    """

    models: Mapping[str, Any]
    note: str = ""
    target: Numbers | None = None
    exposure: int | None = None
    reference_notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        x: Float[np.ndarray, "n d"],
        y: np.ndarray,
        classes: np.ndarray | None = None,
        *,
        kind: str = NUMBERS,
        exposure: int | None = None,
        names: Collection[str] = SIMPLE,
    ) -> Baselines:
        """Fit them on the training rows; `classes` are all that the labels `y` may be.

        kind, exposure
            Of a target of numbers, and the place of the column that counts grow with.
        names
            Of those that are wanted beside the constant, out of EVERY.
        """
        target, of_constant, mapped = None, y, y
        if classes is None and kind != NUMBERS:
            target, of_constant, mapped = _learn_target(kind, exposure, x, y)
        constant = (
            ConstantBaseline.fit(of_constant)
            if classes is None
            else FrequencyBaseline.fit(y, classes)
        )
        line, note = _line(x, mapped, classes) if {*names} & {*SIMPLE[1:]} else ({}, "")
        reference, reference_notes = fit_reference_models(x, y, classes, mapped, names)
        return cls(
            {"constant": constant, **line, **reference}, note, target, exposure, reference_notes
        )

    @classmethod
    def of(
        cls,
        estimator: Any,
        x: Float[np.ndarray, "n d"],
        y: np.ndarray,
        names: Collection[str] = SIMPLE,
    ) -> Baselines:
        """Fit those of the task of a fitted estimator, on training rows."""
        if (classes := getattr(estimator, "classes_", None)) is not None:
            return cls.fit(x, y, classes, names=names)
        kind, exposure = estimator.task_.kind, estimator.encoding_.exposure
        return cls.fit(x, y, kind=kind, exposure=exposure, names=names)

    def again(
        self, x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray | None = None
    ) -> Baselines:
        """Fit those of the same target to other rows, without reference models."""
        if self.target is None:
            return Baselines.fit(x, y, classes)
        return Baselines.fit(x, y, kind=self.target.kind, exposure=self.exposure)

    def predict(
        self, x: Float[np.ndarray, "n d"], beside: Any = None, inputs: KnownInputs | None = None
    ) -> dict[str, Distribution]:
        """Predict rows by each, under its name.

        beside
            What a model predicts for them; theirs are given its positive class, and its order.
        inputs
            How the columns go together: over a gap the line is averaged, as the model is. None: a
            gap is filled with the mean, which reference models that take none do, too.
        """
        predicted: dict[str, Distribution] = {}
        if self.exposure is not None and self.exposure >= x.shape[1]:
            raise ValueError(_DAMAGED)
        to_y = None if self.target is None else self.target.of_rows(x, self.exposure).map[..., 0]
        for name, one in self.models.items():
            if name in SIMPLE[1:] and inputs is not None and np.isnan(x).any():
                predicted[name] = over_gaps(one.predict_dist, x, inputs.model)
            else:
                predicted[name] = one.predict_dist(x)
            if to_y is not None and (name in SIMPLE or one.is_mapped):
                predicted[name] = TransformedPredictive.of(cast(Predictive, predicted[name]), to_y)
        if not isinstance(beside, ClassPredictive):
            return predicted
        about = {"order": beside.order, "positive": beside.positive}
        return {name: replace(one, **about) for name, one in predicted.items()}

    def to_dict(self) -> JsonObject:
        """Return plain JSON-ready values; a linear one only while its covariance stays small."""
        note, line = self.note, self.models.get("linear", self.models.get("logistic"))
        if isinstance(line, LinearBaseline) and len(line.x_scaler.mean) > MAX_STORED_FEATURES:
            line = None
            note = (
                "The linear baseline was not stored with the model, which has more than "
                f"{MAX_STORED_FEATURES} encoded features."
            )
        stored = _StoredBaselines(self.models["constant"], line, note, self.target, self.exposure)
        return codec.to_json(stored, _StoredBaselines)

    @classmethod
    def from_dict(cls, stored: JsonObject) -> Baselines:
        """Rebuild from `to_dict`; KeyError, TypeError or ValueError if it is not one."""
        constant, line, note, target, exposure = codec.from_json(_StoredBaselines, stored)
        if line is None:
            return cls({"constant": constant}, note, target, exposure)
        # What does not fit together cannot predict a row.
        predicted = line.predict_dist(np.zeros((1, len(line.x_scaler.mean))))
        if not np.all(predicted.is_finite):
            raise ValueError(_DAMAGED)
        name = "linear" if isinstance(line, LinearBaseline) else "logistic"
        return cls({"constant": constant, name: line}, note, target, exposure)


def _line(
    x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray | None
) -> tuple[dict[str, LinearBaseline | LogisticBaseline], str]:
    """Fit a line, the logistic one on as many rows as are quick to fit; say where it is not."""
    (n, d), c = x.shape, 1 if classes is None else len(classes)
    name = "linear" if classes is None else "logistic"
    if d > MAX_FEATURES or (d + 1) * c > MAX_WEIGHTS:
        return {}, (
            f"The {name} baseline is left out beyond {MAX_FEATURES:,} encoded features or "
            f"{MAX_WEIGHTS:,} weights (here: {d:,} features, {(d + 1) * c:,} weights)."
        )
    if classes is None:
        return {name: LinearBaseline.fit(x, y)}, ""
    most = max(_MAX_VALUES // (d + 1), 1)
    if n <= most:
        return {name: LogisticBaseline.fit(x, y, classes)}, ""
    note = f"The logistic baseline was fitted to {most:,} of the {n:,} training rows."
    return {name: LogisticBaseline.fit(*sampled(most, x, y), classes)}, note

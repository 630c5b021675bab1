"""Learning by asking: which rows to measure next, and what follows from them."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, cast

import numpy as np
from jaxtyping import Float, Float64
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from bayesprop import codec
from bayesprop.active_learning import acquisition as acquisitions
from bayesprop.active_learning import batches
from bayesprop.active_learning.acquisition import CLASSES, NUMBERS, Acquisition, Score
from bayesprop.active_learning.batches import (
    BATCHES,
    Allowed,
    Batch,
    Chosen,
    Query,
    checked_allowed,
    checked_costs,
    checked_log_met,
    checked_rows,
    named,
)
from bayesprop.active_learning.doubt import can_be_drawn
from bayesprop.active_learning.goal import Goal, best_of
from bayesprop.active_learning.stopping import Rule, Saved, Step
from bayesprop.codec import UNBOUNDED, Labels
from bayesprop.estimators.any_estimator import (
    Estimator,
    Inputs,
    check_estimator,
    checked_values,
    is_classifier,
    last_step,
    predictive_of,
    tells_parts,
)
from bayesprop.estimators.params import check_int, one_of
from bayesprop.sealed import ModelFileError, believing
from bayesprop.store import load_model, save_model

if TYPE_CHECKING:
    from bayesprop.estimators.shell import ClassifierBase, EstimatorBase, RegressorBase

_NOTES = "active_learning"
_SETTINGS = ("acquisition", "batch", "update", "classes", "n_draws", "random_state")


class Learnt(NamedTuple):
    """All rows that a learner was taught, NaN for gaps, and the names of their columns.

    y
        Their targets; of several targets row after row.
    """

    X: Annotated[Float64[np.ndarray, "n d"], UNBOUNDED]
    y: Labels
    columns: list[str] | None


class Notes(NamedTuple):
    """Stored state of a learner without its estimator; see `ActiveLearner`."""

    acquisition: str
    batch: str
    update: str
    classes: Labels | None
    n_draws: int
    random_state: int
    stop: list[Saved]
    learnt: Learnt | None
    n_queries: int
    top_score: float | None
    history: list[Step]


@dataclass(eq=False, kw_only=True)
class ActiveLearner:
    """An estimator that asks for the rows it would learn most from.

    Works with every estimator of this library, and with any of scikit-learn that has
    `predict(X, return_std=True)` or `predict_proba`, pipelines included.

    Parameters
    ----------
    estimator : estimator
        Fitted or not. The learner keeps a copy of its own.
    acquisition : str or function
        A name out of `bayesprop.active_learning.acquisition.ACQUISITIONS`, or a function from the
        `Doubt` about candidates to a score of each.
    batch : {"auto", "fantasy", "k-means++", "top"}
        How several rows are chosen at once. "fantasy": one by one, each as if those before it had
        been measured. "k-means++": drawn to be worth much and unlike each other. "top": the best.
        "auto" is "fantasy" for regressors of this library, which know what a measurement would
        tell about other rows, and "k-means++" for the rest, which would have to be taught what
        they predict.
    update : {"refit", "stream"}
        Whether `teach` fits from scratch to all rows, or calls `partial_fit` with the new ones.
    X, y : array-like or None
        The rows that a fitted estimator has learnt already; "refit" needs them.
    stop : sequence of rules
        Of `bayesprop.active_learning.stopping`, or functions from the history to a reason or None.
    classes : array-like or None
        All labels that will be met; for a classifier with update="stream".
    n_draws : int
        Functions drawn from the posterior to see how candidates hang together.
    random_state : int
        Seeds draws, random choices and ties; the estimator has its own.

    Attributes
    ----------
    estimator_ : estimator
        The copy, with all that it has been taught.
    history_ : list of Step
        One a `teach`.
    X_, y_ : ndarray or None
        All rows learnt, with update="refit".

    Examples
    --------
    >>> import numpy as np
    >>> from bayesprop import ActiveLearner, BayesianLinearRegressor
    >>> learner = ActiveLearner(BayesianLinearRegressor(noise=0.1, prior_prec=1.0))
    >>> _ = learner.teach(np.array([[0.0], [1.0]]), np.array([0.1, 0.9]))
    >>> pool = np.linspace(0.0, 5.0, 11)[:, None]
    >>> learner.query(pool, 3).indices
    array([10,  9,  0])
    """

    estimator: Estimator = field(kw_only=False)
    acquisition: str | Score = field(default="mutual-information", kw_only=False)
    batch: Batch = "auto"
    update: Literal["refit", "stream"] = "refit"
    X: Inputs | ArrayLike | None = None
    y: ArrayLike | None = None
    stop: Sequence[Rule] = ()
    classes: ArrayLike | None = None
    n_draws: int = 128
    random_state: int = 0
    estimator_: Any = field(init=False)
    history_: list[Step] = field(init=False)
    X_: Float[np.ndarray, "n d"] | None = field(init=False, default=None)
    y_: np.ndarray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._check_settings()
        self.estimator_ = copy.deepcopy(self.estimator)
        self.history_ = []
        self._columns: list[str] | None = None
        self._n_queries, self._top_score = 0, None
        if self.X is not None and self.y is not None:
            values = checked_values(self.y, classes=is_classifier(self.estimator))
            self.X_, self.y_, self._columns = self._all_rows(checked_rows("X", self.X), values)

    def query(
        self,
        pool: Inputs | ArrayLike,
        n: int = 1,
        *,
        costs: ArrayLike | None = None,
        allowed: Allowed = None,
        reference: Inputs | ArrayLike | None = None,
        goal: Goal | None = None,
        log_met: ArrayLike | None = None,
        pending: Inputs | ArrayLike | None = None,
    ) -> Chosen:
        """Choose the n rows of the pool to measure next: indices, scores, best first.

        pool
            (N, d) candidates, an array or a frame.
        costs
            (N,), positive: what counts is then the score per cost.
        allowed
            (N,) of True and False, or a function of the pool that returns it.
        reference
            (m, d) rows whose predictions matter; for "expected-entropy-reduction" alone.
        goal
            Whether the largest or smallest value is sought, and the value to beat; its best of None
            is the best mean at the rows learnt. For the acquisitions that seek it, and "random".
        log_met
            (N,) log probability that each row meets what is required; its score is multiplied by
            the probability (Gardner et al. 2014). As costs, for scores that are not negative.
        pending
            (m, d) rows whose results are awaited, for a goal: the others are chosen as if these
            had been measured. Not by "top", "thompson" and "random", whose choices stay as they
            are.

        Raises NotFittedError before the first `teach`, except for random choices, and ValueError
        where fewer than n different rows are allowed.
        """
        query = self._query(pool, costs, allowed, reference, goal, log_met)
        if pending is not None:
            if goal is None:
                raise ValueError("pending rows are for a goal; teach the learner others")
            query = replace(query, pending=checked_rows("pending", pending))
        check_int("n", n)
        if goal is not None and self.batch == "k-means++":
            raise ValueError("k-means++ has no batch for a goal: take fantasy, top or auto")
        scores = batches.scores_of(query)
        batch = self.batch
        if batch == "auto":
            by_value = goal is not None or can_be_drawn(self.estimator_)
            batch = "fantasy" if by_value else "k-means++"
        chosen = batches.choose(query, scores, int(n), batch)
        self._n_queries += 1
        of_pool, own = query.if_met(scores), query.if_met(chosen.scores, chosen.indices)
        self._top_score = float(np.max(of_pool[query.allowed]))
        return chosen._replace(scores=own, pool_scores=of_pool)

    def scores(
        self,
        pool: Inputs | ArrayLike,
        *,
        costs: ArrayLike | None = None,
        reference: Inputs | ArrayLike | None = None,
        goal: Goal | None = None,
        log_met: ArrayLike | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Score every row of the pool on its own, in the unit of the acquisition, per cost."""
        query = self._query(pool, costs, None, reference, goal, log_met)
        return query.worth(batches.scores_of(query))

    def teach(self, X: Inputs | ArrayLike, y: ArrayLike, *, cost: float | None = None) -> Self:
        """Learn measured rows, by a fit to all rows or by streaming the new ones.

        A teaching that fails leaves the learner as it was.

        X, y
            Rows and what was measured.
        cost
            What the measurements cost, not negative; None: 1 a row.
        """
        rows = checked_rows("X", X)
        price = float(len(rows) if cost is None else cost)
        if not 0.0 <= price < float("inf"):
            raise ValueError(f"cost must be a finite number >= 0, got {cost!r}; None is 1 a row")
        values = checked_values(y, classes=is_classifier(self.estimator))
        all_rows = self._all_rows(rows, values) if self.update == "refit" else None
        log_likelihood = self._log_likelihood(rows, values)
        started = time.perf_counter()
        taught = self._taught(rows, values)
        seconds = time.perf_counter() - started
        n_initial = 0 if self.X_ is None else len(self.X_)
        n_before = self.history_[-1].n_rows if self.history_ else n_initial
        self.estimator_ = taught
        if all_rows is not None:
            self.X_, self.y_, self._columns = all_rows
        n = len(rows)
        step = Step(n, n_before + n, price, self._top_score, log_likelihood, seconds)
        self.history_, self._top_score = [*self.history_, step], None
        return self

    def stop_reason(self) -> str | None:
        """Return why to stop, by the first rule that says so; None to go on."""
        reasons = (rule(self.history_) for rule in self.stop)
        return next((reason for reason in reasons if reason is not None), None)

    def save(self, path: str | Path) -> None:
        """Write estimator, rows, settings and history to one file that loads without running code.

        It is also a model file, which `bayesprop.load` opens. TypeError for an estimator that is
        not of this library, or for functions of your own as acquisition or rule.
        """
        if not isinstance(self.acquisition, str):
            raise TypeError(f"only a named acquisition can be saved, got {self.acquisition!r}")
        if not _fitted(self.estimator_):
            raise NotFittedError("there is nothing to save before the first teach")
        learnt = None
        if self.X_ is not None and self.y_ is not None:
            learnt = Learnt(self.X_, self.y_.ravel(), self._columns)
        notes = Notes(
            **{name: getattr(self, name) for name in _SETTINGS},
            stop=cast("list[Saved]", list(self.stop)),
            learnt=learnt,
            n_queries=self._n_queries,
            top_score=self._top_score,
            history=self.history_,
        )
        save_model(
            path,
            cast("EstimatorBase", self.estimator_),
            metadata={_NOTES: codec.to_json(notes, Notes)},
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, to go on as if never interrupted; ModelFileError if it is not."""
        saved = load_model(path)
        notes = saved.metadata.get(_NOTES)
        if not isinstance(notes, dict):
            raise ModelFileError(
                f"model file {str(path)!r} holds a model but no learner: "
                "ActiveLearner(bayesprop.load(path), ...) makes one"
            )
        with believing(f"model file {str(path)!r} has damaged notes"):
            about: Notes = codec.from_json(Notes, notes)
            settings = {name: getattr(about, name) for name in _SETTINGS}
            learner = cls(saved.estimator, stop=tuple(about.stop), **settings)
            if about.learnt is not None:
                learner.X_, y, learner._columns = about.learnt
                learner.y_ = y if len(y) == len(learner.X_) else y.reshape(len(learner.X_), -1)
        learner._n_queries, learner._top_score = about.n_queries, about.top_score
        learner.history_ = about.history
        return learner

    def _check_settings(self) -> None:
        check_estimator(self.estimator)
        one_of("auto", *BATCHES).check("batch", self.batch)
        one_of("refit", "stream").check("update", self.update)
        check_int("n_draws", self.n_draws, least=2)
        check_int("random_state", self.random_state, least=0)
        if self.update == "stream" and not hasattr(self.estimator, "partial_fit"):
            kind = type(self.estimator).__name__
            raise ValueError(f'update="stream" needs partial_fit, which {kind} lacks: take refit')
        if (self.X is None) != (self.y is None):
            raise ValueError("X and y must be given together: the rows learnt already")
        if self.X is not None and (self.update == "stream" or not _fitted(self.estimator)):
            raise ValueError(
                'X and y are what a fitted estimator has learnt, for update="refit"; '
                "teach other rows"
            )
        streams_classes = self.update == "stream" and is_classifier(self.estimator)
        if self.classes is not None and not streams_classes:
            raise ValueError('classes are for a classifier with update="stream"; leave them out')
        named = acquisitions.ACQUISITIONS.get(str(self.acquisition))
        self._acquisition(has_goal=named is not None and bool(named.goal))

    def _acquisition(self, *, has_goal: bool) -> Acquisition | Score:
        if not isinstance(self.acquisition, str):
            if has_goal:
                raise ValueError("a goal is for a named acquisition that seeks it, not your own")
            return self.acquisition
        about = {"targets": CLASSES if is_classifier(self.estimator) else NUMBERS}
        parts = tells_parts(self.estimator)
        return acquisitions.find(self.acquisition, **about, tells_parts=parts, has_goal=has_goal)

    def _query(
        self,
        pool: Inputs | ArrayLike,
        costs: ArrayLike | None,
        allowed: Allowed,
        reference: Inputs | ArrayLike | None,
        goal: Goal | None,
        log_met: ArrayLike | None,
    ) -> Query:
        acquisition = self._acquisition(has_goal=goal is not None)
        name = getattr(acquisition, "name", "")
        wants_reference = name == acquisitions.EXPECTED_ENTROPY_REDUCTION
        if wants_reference != (reference is not None):
            raise ValueError(
                f"reference rows are for {acquisitions.EXPECTED_ENTROPY_REDUCTION}, which needs "
                f"them, and for nothing else; the acquisition is {name or 'your own'}"
            )
        if name != acquisitions.RANDOM and not _fitted(self.estimator_):
            raise NotFittedError('teach the first rows, or choose them by acquisition="random"')
        rows = checked_rows("pool", pool)
        if not len(rows):
            raise ValueError("pool must hold one candidate at least, got none")
        seed = np.random.SeedSequence((int(self.random_state), self._n_queries))
        return Query(
            estimator=self.estimator_,
            X=rows,
            acquisition=acquisition,
            cost=checked_costs(costs, len(rows)),
            log_met=checked_log_met(log_met, len(rows)),
            allowed=checked_allowed(allowed, rows),
            reference=None if reference is None else checked_rows("reference", reference),
            seed=int(seed.generate_state(1)[0]),
            n_draws=self.n_draws,
            learn=self._taught,
            goal=goal and self._with_best(goal, needs_best=getattr(acquisition, "beats", False)),
        )

    def _with_best(self, goal: Goal, *, needs_best: bool) -> Goal:
        """Return a goal with its value to beat; ValueError where it is needed and not known."""
        goal.check()
        if goal.best is not None or not needs_best:
            return goal
        if self.X_ is None:
            raise ValueError("goal.best must be the value to beat: no measured rows are kept")
        return goal._replace(best=best_of(self.estimator_, named(self.X_, self._columns), goal))

    def _taught(self, X: Inputs, y: np.ndarray) -> Estimator:
        """Return a copy of the estimator that has learnt further rows."""
        taught = copy.deepcopy(self.estimator_)
        if self.update == "stream":
            if self.classes is None:
                return cast("RegressorBase | ClassifierBase", taught).partial_fit(X, y)
            return cast("ClassifierBase", taught).partial_fit(X, y, self.classes)
        if self.X_ is None and _fitted(self.estimator_):
            raise ValueError(
                "the estimator was fitted to rows that the learner does not have: take another "
                'batch, such as k-means++, or in Python update="stream", or give the rows as X and '
                "y of ActiveLearner"
            )
        rows, values, columns = self._all_rows(X, y)
        return taught.fit(named(rows, columns), values)

    def _all_rows(
        self, X: Inputs, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
        """Return the rows kept and further ones, their values, and the names of the columns."""
        rows, values = np.asarray(X, np.float64), np.asarray(y)
        names = getattr(X, "columns", None)
        columns = None if names is None else [str(name) for name in names]
        if self.X_ is None or self.y_ is None:
            return rows, values, columns
        if columns is not None and columns != self._columns:
            raise ValueError(f"X must have the columns {self._columns}, in order, got {columns}")
        rows = np.concatenate([self.X_, rows])
        return rows, np.concatenate([self.y_, values]), self._columns

    def _log_likelihood(self, X: Inputs, y: np.ndarray) -> float | None:
        """Mean log density of values before they are learnt; None where there is none."""
        if not _fitted(self.estimator_):
            return None
        predicted, values = predictive_of(self.estimator_, X), np.asarray(y)
        try:
            with np.errstate(all="ignore"):
                total = float(np.sum(predicted.log_prob(values)) / len(values))
        except ValueError:  # a class that was not known, which `teach` may learn
            return None
        return total if np.isfinite(total) else None


def _fitted(estimator: Estimator) -> bool:
    """Whether a fit has left attributes; scikit-learn's own check passes unfitted processes."""
    names = vars(last_step(estimator))
    return any(name.endswith("_") and not name.startswith("_") for name in names)

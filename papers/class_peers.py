"""Other libraries' classifiers of tables: what a user would pick instead.

Each at its defaults, or with what its documentation tells a user to do; nothing tuned to a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop.model.class_predictive import ClassPredictive
from papers.number_peers import NaturalBoosting
from papers.peers import Peer, by_name
from papers.table_models import AS_THEY_ARE, NETWORK, Filled, catboost, pytabkit
from papers.table_splits import TableRows


class Classifier:
    """A classifier of scikit-learn's manner.

    read
        What it reads of rows.
    """

    def __init__(self, model: Any, read: Callable[[TableRows], Any]) -> None:
        self.model, self.read = model, read

    def fit(self, rows: TableRows, y: np.ndarray) -> Self:
        """Learn rows and the codes of their labels."""
        self.classes, codes = np.unique(y, return_inverse=True)
        self.model.fit(self.read(rows), codes)
        return self

    def predict_dist(self, rows: TableRows) -> ClassPredictive:
        """Predict rows; a probability of 0 counts as 1e-15."""
        proba = np.maximum(self.model.predict_proba(self.read(rows)), 1e-15)
        return ClassPredictive.of_sure_weights(proba, self.classes)


class _FilledClassifier:
    """A classifier that takes no gaps among numbers."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, frame: Any, y: np.ndarray) -> Self:
        self.fill_ = Filled.of(frame)
        self.model.fit(self.fill_(frame), y)
        return self

    def predict_proba(self, frame: Any) -> np.ndarray:
        return self.model.predict_proba(self.fill_(frame))


class _CatBoostClassifier:
    """CatBoost of classes, told which columns are categories."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, rows: TableRows, codes: np.ndarray) -> Self:
        self.model_ = catboost("Classifier", self.seed, rows).fit(rows.frame, codes)
        return self

    def predict_proba(self, rows: TableRows) -> np.ndarray:
        return self.model_.predict_proba(rows.frame)


class _NaturalClasses:
    """NGBoost of classes, stopped as that of numbers is."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, codes: np.ndarray) -> Self:
        from ngboost import NGBClassifier  # pyright: ignore[reportMissingImports]
        from ngboost.distns import k_categorical  # pyright: ignore[reportMissingImports]

        n_rounds, n_patient = NaturalBoosting.n_rounds, NaturalBoosting.n_patient
        kept, held, y_kept, y_held = train_test_split(
            X, codes, test_size=0.1, random_state=self.seed, stratify=codes
        )
        self.model_ = NGBClassifier(
            k_categorical(int(codes.max()) + 1),
            n_estimators=n_rounds,
            early_stopping_rounds=n_patient,
            random_state=self.seed,
            verbose=False,
        ).fit(kept, y_kept, X_val=held, Y_val=y_held)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X, max_iter=self.model_.best_val_loss_itr + 1)


def _lightgbm_classifier(seed: int) -> Any:
    from lightgbm import LGBMClassifier  # pyright: ignore[reportMissingImports]

    return LGBMClassifier(random_state=seed, verbose=-1)


def _matrix(rows: TableRows) -> np.ndarray:
    return rows.matrix


def _frame(rows: TableRows) -> Any:
    return rows.frame


PEERS = by_name(
    (
        Peer(
            name="CatBoost",
            how=AS_THEY_ARE,
            make=lambda seed: Classifier(_CatBoostClassifier(seed), lambda rows: rows),
            package="catboost",
        ),
        Peer(
            name="LightGBM",
            how=AS_THEY_ARE,
            make=lambda seed: Classifier(_lightgbm_classifier(seed), _frame),
            package="lightgbm",
        ),
        Peer(
            name="RealMLP",
            how=NETWORK,
            make=lambda seed: Classifier(
                _FilledClassifier(pytabkit("RealMLP_TD_Classifier", seed)), _frame
            ),
            package="pytabkit",
        ),
        Peer(
            name="TabM",
            how=NETWORK,
            make=lambda seed: Classifier(
                _FilledClassifier(pytabkit("TabM_D_Classifier", seed)), _frame
            ),
            package="pytabkit",
        ),
        Peer(
            name="NGBoost",
            how="of encoded rows, gaps at the mean; at most 2000 rounds of its step .01, stopped "
            "when a tenth of the rows, held out, has not gained for 50",
            make=lambda seed: Classifier(
                make_pipeline(SimpleImputer(keep_empty_features=True), _NaturalClasses(seed)),
                _matrix,
            ),
            package="ngboost",
        ),
        Peer(
            name="random forest",
            how="scikit-learn, 500 trees, of encoded rows",
            make=lambda seed: Classifier(RandomForestClassifier(500, random_state=seed), _matrix),
        ),
        Peer(
            name="histogram boosting",
            how="scikit-learn, its defaults, of encoded rows",
            make=lambda seed: Classifier(
                HistGradientBoostingClassifier(random_state=seed), _matrix
            ),
        ),
        Peer(
            name="LogisticRegression",
            how="scikit-learn, its defaults, of encoded and standardised rows, gaps at the mean",
            make=lambda _seed: Classifier(
                make_pipeline(
                    SimpleImputer(keep_empty_features=True),
                    StandardScaler(),
                    LogisticRegression(max_iter=2_000),
                ),
                _matrix,
            ),
        ),
        Peer(
            name="constant",
            how="the shares of the training rows",
            make=lambda _seed: Classifier(DummyClassifier(), _matrix),
        ),
    )
)

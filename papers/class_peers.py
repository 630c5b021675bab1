"""Other libraries' classifiers of tables: what a user would pick instead.

Each at its defaults, or with what its documentation tells a user to do; nothing tuned to a table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop.distributions.categorical import ClassPredictive
from papers.arena import Learn, Peer, Predict
from papers.number_peers import natural_boosting
from papers.table_models import AS_THEY_ARE, NETWORK, catboost, filling, pytabkit
from papers.table_splits import TableRows


def labelled(learn: Learn) -> Learn:
    """Learn the codes of labels; a probability of 0 counts as 1e-15."""

    def of_labels(rows: TableRows, y: np.ndarray) -> Predict:
        classes, codes = np.unique(y, return_inverse=True)
        proba = learn(rows, codes)
        return lambda new: ClassPredictive.of_sure_weights(np.maximum(proba(new), 1e-15), classes)

    return of_labels


def scikit_learn(model: Any, read: Callable[[TableRows], Any] = lambda rows: rows.matrix) -> Learn:
    """Return what learns by a classifier of scikit-learn's manner, which reads that of rows."""

    def learn(rows: TableRows, codes: np.ndarray) -> Predict:
        model.fit(read(rows), codes)
        return lambda new: model.predict_proba(read(new))

    return labelled(learn)


def _filled(model: Any) -> Learn:
    """Learn by a classifier that takes no gaps among numbers."""

    def learn(rows: TableRows, codes: np.ndarray) -> Predict:
        fill = filling(rows.frame)
        model.fit(fill(rows.frame), codes)
        return lambda new: model.predict_proba(fill(new.frame))

    return labelled(learn)


def _catboost(seed: int, rows: TableRows, codes: np.ndarray) -> Predict:
    model = catboost("Classifier", seed, rows).fit(rows.frame, codes)
    return lambda new: model.predict_proba(new.frame)


def _ngboost(seed: int, rows: TableRows, codes: np.ndarray) -> Predict:
    from ngboost.distns import k_categorical  # pyright: ignore[reportMissingImports]

    imputer = SimpleImputer(keep_empty_features=True)
    x, law = imputer.fit_transform(rows.matrix), k_categorical(int(codes.max()) + 1)
    model = natural_boosting("NGBClassifier", seed, x, codes, stratify=codes, Dist=law)
    best = model.best_val_loss_itr + 1
    return lambda new: model.predict_proba(imputer.transform(new.matrix), max_iter=best)


def _lightgbm_classifier(seed: int) -> Any:
    from lightgbm import LGBMClassifier  # pyright: ignore[reportMissingImports]

    return LGBMClassifier(random_state=seed, verbose=-1)


PEERS = {
    "CatBoost": Peer(
        how=AS_THEY_ARE,
        make=lambda seed: labelled(partial(_catboost, seed)),
        package="catboost",
    ),
    "LightGBM": Peer(
        how=AS_THEY_ARE,
        make=lambda seed: scikit_learn(_lightgbm_classifier(seed), lambda rows: rows.frame),
        package="lightgbm",
    ),
    "RealMLP": Peer(
        how=NETWORK,
        make=lambda seed: _filled(pytabkit("RealMLP_TD_Classifier", seed)),
        package="pytabkit",
    ),
    "TabM": Peer(
        how=NETWORK,
        make=lambda seed: _filled(pytabkit("TabM_D_Classifier", seed)),
        package="pytabkit",
    ),
    "NGBoost": Peer(
        how="of encoded rows, gaps at the mean; at most 2000 rounds of its step .01, stopped "
        "when a tenth of the rows, held out, has not gained for 50",
        make=lambda seed: labelled(partial(_ngboost, seed)),
        package="ngboost",
    ),
    "random forest": Peer(
        how="scikit-learn, 500 trees, of encoded rows",
        make=lambda seed: scikit_learn(RandomForestClassifier(500, random_state=seed)),
    ),
    "histogram boosting": Peer(
        how="scikit-learn, its defaults, of encoded rows",
        make=lambda seed: scikit_learn(HistGradientBoostingClassifier(random_state=seed)),
    ),
    "LogisticRegression": Peer(
        how="scikit-learn, its defaults, of encoded and standardised rows, gaps at the mean",
        make=lambda _seed: scikit_learn(
            make_pipeline(
                SimpleImputer(keep_empty_features=True),
                StandardScaler(),
                LogisticRegression(max_iter=2_000),
            )
        ),
    ),
    "constant": Peer(
        how="the shares of the training rows",
        make=lambda _seed: scikit_learn(DummyClassifier()),
    ),
}

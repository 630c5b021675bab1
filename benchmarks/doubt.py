"""`python -m benchmarks.doubt FOLDER`: whether the default for classes knows how sure it is.

On the tables and splits of `benchmarks.tables`, and on two of them whose rarer class was thinned to
2 % of the rows. Calibration error of the most probable class and of all classes apart, over fifteen
bins, beside what chance gives probabilities that are right (2000 draws of the labels); how well
doubt finds wrong predictions, beside a deep ensemble's; and how doubt grows for rows moved away
from the middle. Predictions go to `results/doubt/`; what stands there already is not run again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from bayesprop import BayesianClassifier, DeepEnsembleClassifier
from bayesprop.cli.console import print_table
from benchmarks.tables import Split, asked_for, split_of
from papers.table_splits import CLASSES

RARE, RARE_SHARE = ("mlc_churn", "HMDA"), 0.02
FURTHER = (1.0, 2.0, 4.0)
N_BINS, N_CHANCES = 15, 2_000
Predictions = dict[str, np.ndarray]


def rarer(split: Split) -> object:
    """Return the class of fewer training rows."""
    classes, counts = np.unique(split.y, return_counts=True)
    return classes[counts.argmin()]


def thinned(split: Split, share: float) -> Split:
    """Leave out rows of the rarer of two classes until they are a share of all, at least two."""
    rare, rng, parts = rarer(split), np.random.default_rng(0), []
    for y in (split.y, split.y_test):
        few, many = np.flatnonzero(y == rare), np.flatnonzero(y != rare)
        n = max(2, round(share / (1.0 - share) * len(many)))
        parts.append(np.sort(np.r_[rng.permutation(few)[:n], many]))
    rows, test = parts
    return split._replace(
        x=split.x[rows], y=split.y[rows], x_test=split.x_test[test], y_test=split.y_test[test]
    )


def predict_missing(file: Path, predict: Callable[..., Predictions], *case: Any) -> None:
    """Write what a function predicts of a case, unless the file is there."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.savez(file, **predict(*case))  # pyright: ignore[reportArgumentType]


def over_splits(splits: list[Predictions], part: str) -> np.ndarray:
    """Join a part of the predictions of all splits."""
    return np.concatenate([one[part] for one in splits])


def predictions(split: Split, seed: int) -> Predictions:
    """Fit both, and predict the test rows; of ours, the doubt of rows moved away, too."""
    x_test, middle = split.x_test, split.x.mean(axis=0)
    ours = BayesianClassifier(random_state=seed).fit(split.x, split.y)
    ensemble = DeepEnsembleClassifier(random_state=seed).fit(split.x, split.y)
    predicted = ours.predict_dist(x_test)
    away = [ours.predict_dist(middle + factor * (x_test - middle)) for factor in FURTHER]
    return {
        "codes": np.searchsorted(ours.classes_, split.y_test),
        "proba": predicted.proba,
        "mutual_information": predicted.mutual_information,
        "further": np.array([each.mutual_information.mean() for each in away]),
        "of_ensemble": ensemble.predict_proba(x_test),
    }


def top_label_error(proba: np.ndarray, codes: np.ndarray) -> float:
    """Return the expected calibration error of the most probable class (Guo et al. 2017)."""
    return _gap(proba.max(axis=1), proba.argmax(axis=1) == codes)


def class_wise_error(proba: np.ndarray, codes: np.ndarray) -> float:
    """Return the same of every class, averaged over them (Kull et al. 2019)."""
    return float(np.mean([_gap(p, codes == c) for c, p in enumerate(proba.T)]))


def _gap(promised: np.ndarray, came: np.ndarray) -> float:
    bins = np.minimum((promised * N_BINS).astype(int), N_BINS - 1)
    return float(np.abs(np.bincount(bins, promised - came, N_BINS)).sum() / len(came))


def chance(
    error: Callable[[np.ndarray, np.ndarray], float], proba: np.ndarray, codes: np.ndarray
) -> tuple[float, float, float]:
    """Return the error, its 97.5 % point where probabilities are right, and its share above."""
    rng, levels = np.random.default_rng(0), np.cumsum(proba, axis=1)[:, :-1]
    measured, by_chance = error(proba, codes), np.empty(N_CHANCES)
    for draw in range(N_CHANCES):
        by_chance[draw] = error(proba, (levels <= rng.random((len(proba), 1))).sum(axis=1))
    return measured, float(np.quantile(by_chance, 0.975)), float(np.mean(by_chance >= measured))


def wrong_found(proba: np.ndarray, doubt: np.ndarray, codes: np.ndarray) -> float:
    """Area under the curve of doubt as a test for wrong predictions."""
    wrong = proba.argmax(axis=1) != codes
    return float(roc_auc_score(wrong, doubt)) if 0 < wrong.sum() < len(wrong) else float("nan")


def doubts(one: Predictions) -> list[float]:
    """Say how well ours, its mutual information and an ensemble find wrong predictions."""
    proba, of_ensemble, codes = one["proba"], one["of_ensemble"], one["codes"]
    return [
        wrong_found(proba, 1.0 - proba.max(axis=1), codes),
        wrong_found(proba, one["mutual_information"], codes),
        wrong_found(of_ensemble, 1.0 - of_ensemble.max(axis=1), codes),
    ]


def cases() -> dict[str, tuple[str, bool]]:
    """Return tables, and whether they are thinned, by the names they have here."""
    rare = {f"{name}, 2 %": (name, True) for name in RARE}
    return {name: (name, False) for name in CLASSES} | rare


def measure(folder: Path, out: Path, n_splits: int) -> None:
    """Predict what is missing."""

    def predict(name: str, number: int, is_thinned: bool) -> Predictions:
        split = split_of(folder, name, number)
        return predictions(thinned(split, RARE_SHARE) if is_thinned else split, number)

    for number, (case, (name, is_thinned)) in product(range(n_splits), cases().items()):
        predict_missing(out / f"{case}-{number}.npz", predict, name, number, is_thinned)


def show(out: Path, n_splits: int) -> None:
    """Print a line a table, over the test rows of all splits."""
    lines, inside = [], [0, 0]
    for case in cases():
        splits = [dict(np.load(out / f"{case}-{number}.npz")) for number in range(n_splits)]
        proba, codes = (over_splits(splits, part) for part in ("proba", "codes"))
        cells = []
        for k, error in enumerate((top_label_error, class_wise_error)):
            measured, most, share = chance(error, proba, codes)
            inside[k] += measured <= most
            cells += [f"{measured:.3f} ({most:.3f})", f"{share:.3f}"]
        of_doubt = np.nanmean([doubts(one) for one in splits], axis=0)
        further = np.mean([one["further"] for one in splits], axis=0)
        doubt = [f"{value:.3f}" for value in (*of_doubt, *further)]
        lines.append((case, str(len(codes)), *cells, *doubt))
    columns = (
        "table",
        "test rows",
        "top label (97.5 %)",
        "chance",
        "class-wise (97.5 %)",
        "chance",
        "wrong found",
        "by mutual information",
        "by an ensemble",
        *(f"mutual information, {factor:g} x" for factor in FURTHER),
    )
    title = f"Within the band of chance: {inside[0]} and {inside[1]} of {len(lines)}"
    print_table(title, columns, lines, right=range(1, len(columns)))


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, "results/doubt")
    measure(asked.folder, asked.out, asked.splits)
    show(asked.out, asked.splits)


if __name__ == "__main__":
    main()

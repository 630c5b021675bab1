"""What hyper-parameters of many estimators mean, written once, and put into their docstrings."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform

SHARED = """
Parameters
----------
hidden_layer_sizes : tuple of int
    Units of every hidden layer; () is a linear model.
n_epochs : int
    Passes over the rows.
batch_size : int
    Rows of a step; all of them if there are fewer.
activation : {"relu", "leaky_relu", "erf", "identity"}
    Nonlinearity of the hidden layers.
learning_rate : float
    Step size of the optimiser.
optimizer : {"adam", "sgd", "rmsprop"}
    Adam, stochastic gradient descent with momentum, or RMSprop (Tieleman & Hinton 2012).
momentum : float
    Of "sgd", 0 to less than 1.
weight_decay : float
    Precision of a Gaussian prior on every parameter, in standardised units: weight_decay / 2
    times the sum of squares is added to the SUM of -log p over the rows. 0: none.
early_stopping : bool
    Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch; n_epochs is
    the most.
validation_fraction : float
    Share of the rows that is held out.
patience : int
    Epochs without a better one before it stops.
init_std : float
    Standard deviation of every weight at the start.
n_draws : int
    Networks that are drawn for a prediction.
noise : "learned", "input" or float
    One noise variance learnt for every output; one that depends on the input; or the variance
    itself, in y².
standardise : bool
    Whether inputs are brought to mean 0 and variance 1; False for pixels.
warm_start : bool
    Whether `fit` goes on from the previous `fit`, with its scaling.
target_kind : {"numbers", "positive", "nonnegative", "censored", "share", "count"}
    What a target can be: any number; above 0, learnt through a map between a log and a line that
    rows left out choose; 0 or above, where 0 has a probability of its own; up to a limit, the
    least or the largest value if a fiftieth of the rows have it, which stands for all beyond;
    between 0 and 1, or 0 and 100 where one exceeds 1, as log odds; or a whole number from 0 on,
    predicted by the probability of each. Predictions never leave it.
exposure : str, int or None
    Column of X that says how long, or on how many, each row's count was taken: counts grow with
    it, and its log is an input. A name, if X has names, or a place.
order : sequence of labels or None
    Of ordered classes, from the lowest to the highest; words need it, numbers sort themselves.
random_state : int, RandomState or None
    Seeds start, order of rows and draws.
verbose : int
    1 writes a line an epoch to stderr.
"""

EXAMPLES = {
    "regressor": """
>>> from sklearn.datasets import load_diabetes
>>> from bayesprop import {name}
>>> X, y = load_diabetes(return_X_y=True)
{model}
>>> mean, std = model.fit(X[:400], y[:400]).predict(X[400:], return_std=True)
>>> mean.shape, bool((std > 0).all())
((42,), True)
""",
    "classifier": """
>>> from sklearn.datasets import load_breast_cancer
>>> from bayesprop import {name}
>>> X, y = load_breast_cancer(return_X_y=True)
{model}
>>> model.fit(X[:400], y[:400]).predict_proba(X[400:]).shape
(169, 2)
>>> bool(model.score(X[400:], y[400:]) > 0.9)
True
""",
}
"""Of an estimator that gives none of its own, or only how it is made."""

_HEADING = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")
T = TypeVar("T")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def hyper_parameters(cls: type[T]) -> type[T]:
    """Turn annotated fields into keyword-only hyper-parameters; an estimator describes them.

    Estimators are compared by identity, and shown as scikit-learn shows its own.
    """
    made = dataclass(eq=False, repr=False, kw_only=True)(cls)
    if hasattr(made, "fit") and hasattr(made, "method_class"):
        _describe(made)
    return made


def _describe(cls: type) -> None:
    """Complete an estimator's docstring: `Parameters` in their order, `Attributes`, `Examples`.

    What the class does not say, the classes above it do, or else `SHARED` and `EXAMPLES`.
    """
    texts = [inspect.cleandoc(one.__doc__ or "") for one in cls.__mro__]
    chain = [_sections(text) for text in (*texts, SHARED)]
    words = _entries(chain, "Parameters")
    # In the order of the signature: what can be given without its name comes first.
    names = [one.name for one in sorted(fields(cast(Any, cls)), key=lambda one: bool(one.kw_only))]
    parameters = dict.fromkeys(words[name] for name in names)
    whole = chain[0] | {
        "Parameters": "\n".join(parameters),
        "Attributes": "\n".join(dict.fromkeys(_entries(chain, "Attributes").values())),
        "Examples": _example(cls, chain[0].get("Examples", "")),
    }
    order = ("Parameters", "Attributes", "Examples")
    titled = [f"{name}\n{'-' * len(name)}\n{whole[name]}" for name in order if whole.get(name)]
    cls.__doc__ = "\n\n".join([whole[""], *titled, ""])


def _example(cls: type, lines: str) -> str:
    """Return the lines of a class, or what they are short of: one line makes the estimator."""
    if "\n" in lines:
        return lines
    example = EXAMPLES["classifier" if hasattr(cls, "predict_proba") else "regressor"]
    made = lines or f">>> model = {cls.__name__}(random_state=0)"
    return example.format(name=cls.__name__, model=made).strip()


def _sections(text: str) -> dict[str, str]:
    """Split a docstring at its headings; what stands before the first is named ""."""
    first, *rest = _HEADING.split(text)
    sections = zip(rest[::2], rest[1::2], strict=True)
    return {"": first.strip()} | {name: words.strip() for name, words in sections}


def _entries(chain: list[dict[str, str]], section: str) -> dict[str, str]:
    """Return the entry of every name that a section describes; of several, the first text's."""
    entries: dict[str, str] = {}
    for sections in chain:
        for entry in filter(None, _ENTRY.split(sections.get(section, ""))):
            for name in entry.partition(" : ")[0].split(", "):
                entries.setdefault(name, entry)
    return entries

"""Finished sentences on who predicts better, of any made figures: no claim that these contradict.

The oracle computes the paired differences from closed forms of scipy and scikit-learn.
"""

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.evaluation.scores import advise, compare_in_words, rivals
from bayesprop.evaluation.verdict import verdict
from bayesprop.evaluation.words import percent
from bayesprop.table.encoding import EncodedRows

REFERENCE_MODELS = {"HistGradientBoosting (scikit-learn)": "HistGradientBoosting"}
NAMES = REFERENCE_MODELS | {
    "this model": "model",
    "the model": "model",
    "a constant": "constant",
    "a linear model": "linear",
    "a logistic regression": "logistic",
    "a logistic model": "logistic",
}
WHO = "(" + "|".join(map(re.escape, NAMES)) + ")"
CLAIMS = [
    (rf"{WHO} predicts (?:these rows )?better than {WHO}", "better"),
    (rf"{WHO} predicts better \(", "better"),
    (rf"{WHO} predicts as well(?: as {WHO})?", "level"),
    (rf"{WHO} and {WHO} do not differ", "level"),
    (rf"{WHO} is better than {WHO} in .* and worse in ", "mixed"),
]


def made(rng, n, line, scale, is_class):
    """Draw targets, and predictions by four models of any skill and any width."""
    names = ("model", "constant", line, *REFERENCE_MODELS.values())
    shared, own = rng.normal(), rng.random()
    skill = {k: abs(scale * (shared + own * rng.normal())) for k in names} | {"constant": 0.0}
    if is_class:
        y = rng.random(n) < 0.4
        logits = {k: s * (2 * y - 1) + (s > 0) * rng.normal(size=n) for k, s in skill.items()}
        p = {name: 1.0 / (1.0 + np.exp(-z)) for name, z in logits.items()}
        classes = np.array(["no", "yes"])
        models = {
            k: ClassPredictive.of_sure_weights(np.stack([1 - v, v], 1), classes)
            for k, v in p.items()
        }
        losses = {
            k: {"log loss": -np.log(np.where(y, v, 1 - v)), "Brier score": 2.0 * (v - y) ** 2}
            for k, v in p.items()
        }
        return classes[y.astype(int)], models, losses
    y, models, losses = rng.normal(size=n), {}, {}
    for name, own in skill.items():
        mean = own / (1.0 + own) * y + 0.3 * (own > 0) * rng.normal(size=n)
        std = np.exp(0.5 * scale * rng.normal()) * np.ones(n)
        models[name] = GaussianPredictive(mean, 0.1 * std**2, 0.9 * std**2)
        z, half = (y - mean) / std, stats.norm.ppf(0.95) * std
        density, below = stats.norm.pdf(z), stats.norm.cdf(z)
        losses[name] = {
            "CRPS": std * (z * (2 * below - 1) + 2 * density - 1 / np.sqrt(np.pi)),
            "RMSE": (y - mean) ** 2 / (2.0 * np.sqrt(np.mean((y - mean) ** 2))),
            "interval score": 2 * half + 20.0 * np.maximum(np.abs(y - mean) - half, 0.0),
            "log-likelihood": -stats.norm.logpdf(y, mean, std),
        }
    return y, models, losses


def side(losses, one, other):
    """Who is ahead by standard errors of paired differences: 1, -1, 0 for neither, None mixed."""
    signs = set()
    for name, own in losses[one].items():
        gap = losses[other][name] - own
        mean = np.mean(gap) * (2.0 if name == "RMSE" else 1.0)
        signs |= {np.sign(mean)} if abs(mean) > 2.0 * stats.sem(gap) else set()
    return None if len(signs) > 1 else signs.pop() if signs else 0


def claim_of(sentence):
    """Return who is compared, the model second where it is not named, and what is claimed."""
    pattern, kind = next((p, k) for p, k in CLAIMS if re.search(p, sentence, re.IGNORECASE))
    found = [name for name in re.search(pattern, sentence, re.IGNORECASE).groups() if name]
    names = {name.lower(): own for name, own in NAMES.items()}
    one, other = [names[name.lower()] for name in [*found, "the model"][:2]]
    return one, other, kind


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(10, 150),
    scale=st.sampled_from([0.0, 0.1, 0.3, 1.0, 3.0]),
    is_class=st.booleans(),
    method=st.sampled_from(["pbp", "linear"]),
)
def test_sentences_claim_what_the_figures_show(seed, n, scale, is_class, method):
    rng, line = np.random.default_rng(seed), "logistic" if is_class else "linear"
    y, models, losses = made(rng, n, line, scale, is_class)
    rows = EncodedRows(np.zeros((n, 1)), y, np.arange(n))
    on_terminal = [*map(str, advise(models, rows, method))]
    on_page = [compare_in_words(one, one.title) for one in rivals(models, y)]
    claims, truth = {}, {"better": 1, "level": 0, "mixed": None}
    for sentence in [*on_terminal, *on_page]:
        one, other, kind = claim_of(sentence)
        assert side(losses, one, other) == truth[kind], sentence
        who = one if kind == "better" else kind
        assert claims.setdefault(frozenset((one, other)), who) == who, "two sentences contradict"
        for gain, error in re.findall(r"by ([\d.]+) ± ([\d.]+)(?![\d.]|\s×)", sentence):
            assert kind == "level" or float(gain) > 1.3 * float(error), sentence
    assert len(on_page) == 3
    ahead = [name for name in losses if side(losses, name, "constant") == 1]
    for sentence in on_terminal:
        if re.search("columns do not tell|or columns that say nothing", sentence):
            assert not ahead
        if "AS WELL AS" in sentence:
            assert method == "linear" or line not in ahead
        if "consider --method" in sentence:
            assert method == "pbp"
            assert {line, "model"} & set(ahead)
        assert "another model beats" not in sentence or ahead
    silent = not any(claim_of(sentence)[0] == "constant" for sentence in on_terminal)
    assert not silent or ahead or side(losses, "model", "constant") is None


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(20, 400),
    shift=st.sampled_from([0.0, 0.2, 0.5]),
    width=st.sampled_from([0.6, 0.8, 1.0, 1.25, 2.0]),
    dof=st.sampled_from([1.0, 2.0, 1000.0]),
)
def test_the_verdict_agrees_with_the_coverage_beside_it(seed, n, shift, width, dof):
    y = np.random.default_rng(seed).standard_t(dof, n) + shift
    predicted = GaussianPredictive(np.zeros(n), np.zeros(n), np.full(n, width**2))
    found, half = verdict(predicted, y), stats.norm.ppf([0.75, 0.95, 0.975]) * width
    levels, held = np.array([0.5, 0.9, 0.95]), np.mean(np.abs(y)[:, None] <= half, axis=0)
    for share in held:
        assert percent(share) in found.details[-1]
    z = (held - levels) / np.sqrt(levels * (1.0 - levels) / n)
    if "too narrow" in found.headline:
        assert np.all(z < 2.0), found
    if "too wide" in found.headline:
        assert np.all(z > -2.0), found
    if found.headline.startswith("Biased"):
        assert n >= 100 or abs(z[1]) > 2.0
    assert (found.tone == "caution") <= (not found.headline.startswith("Perhaps"))

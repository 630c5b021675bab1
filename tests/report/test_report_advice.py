"""Sentences on simpler models never contradict the figures beside them: any figures at all."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bayesprop.report.advice import (
    CONSTANT_BETTER,
    CONSTANT_LEVEL,
    LINE_BETTER,
    LINE_LEVEL,
    advise,
)
from bayesprop.report.scores import Comparison, Lead
from bayesprop.report.verdict import judge

OTHERS = ("constant", "linear", "peer")
LOSSES = ("log-likelihood", "CRPS")


def leads(better, worse):
    """Paired differences of losses [scores, n], from scipy's standard errors."""
    by = ((np.mean(b - a), stats.sem(b - a)) for a, b in zip(better, worse, strict=True))
    return [Lead(name, "", Comparison(*one)) for name, one in zip(LOSSES, by, strict=True)]


def zs(some):
    return np.array([lead.by.gain / max(lead.by.error, 1e-300) for lead in some])


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(10, 100),
    scale=st.sampled_from([0.0, 0.1, 0.3, 1.0, 5.0]),
    is_line=st.booleans(),
)
def test_what_is_said_follows_from_the_figures(seed, n, scale, is_line):
    rng = np.random.default_rng(seed)
    loss = {
        name: scale * rng.normal(size=(2, 1)) + rng.normal(size=(2, n))
        for name in ("model", *OTHERS)
    }
    over = {name: leads(loss["model"], loss[name]) for name in OTHERS}
    over_constant = {name: leads(loss[name], loss["constant"]) for name in OTHERS[1:]}
    said = advise(over, over_constant, () if is_line else ("linear",))
    z = {name: zs(some) for name, some in over.items()}
    line_tells = not is_line and _is_ahead(zs(over_constant["linear"]))
    if said is None:
        assert np.any(z["constant"] > 2.0) or line_tells
        assert is_line or not (
            np.any(z["linear"] < -2.0) and np.all(z["linear"] < 2.0) and _is_ahead(z["constant"])
        )
        return
    cited = zs([said.evidence])[0]
    assert said.evidence in over[said.name]
    assert np.all(z[said.name] <= 2.0), "nobody is advised whom the model clearly beats"
    assert (cited < -2.0) == (said.code in (CONSTANT_BETTER, LINE_BETTER))
    if said.code in (CONSTANT_LEVEL, LINE_LEVEL):
        assert np.all(np.abs(z[said.name]) <= 2.0)
    if said.code == LINE_LEVEL:
        assert np.all(z["linear"] <= 1.0)
    if said.code == CONSTANT_LEVEL:
        assert not line_tells
    if said.code in (LINE_BETTER, LINE_LEVEL):
        assert not is_line
        assert line_tells or _is_ahead(z["constant"])
    if not said.columns_tell:
        assert not any(_is_ahead(zs(some)) for some in over_constant.values())


def _is_ahead(z):
    return bool(np.any(z > 2.0) and np.all(z >= -2.0))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(20, 99), shift=st.floats(-1.0, 1.0))
def test_caution_is_for_what_is_clear(seed, n, shift):
    pit = stats.norm.cdf(np.random.default_rng(seed).standard_normal(n) + shift)
    found = judge(pit, 1.0)
    held = np.mean(np.abs(2.0 * pit - 1.0) <= 0.9)
    is_well = abs(held - 0.9) <= 2.0 * np.sqrt(0.09 / n)
    if found.headline.startswith("Perhaps") or (is_well and "iased" in found.headline):
        assert found.tone == "unknown"
        assert not found.headline.startswith("Biased")

"""`merge` and `update --half-life`: what they write, and what they refuse in a line."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bayesprop.store import load_model

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Three tables of one kind; `both` is `a` and `b`."""
    folder, frames = tmp_path_factory.mktemp("merge"), {}
    for name, n in (("a", 60), ("b", 40), ("c", 30)):
        x, group = RNG.normal(size=n), RNG.choice(["f", "m"], n)
        y = 2.0 * x + (group == "f") + 0.1 * RNG.standard_normal(n)
        frames[name] = pl.DataFrame({"x": x, "group": group, "y": y})
    frames["both"] = pl.concat([frames["a"], frames["b"]])
    for name, frame in frames.items():
        frame.write_csv(folder / f"{name}.csv")
    return folder


def fitted(cli, folder, name, method, out=None, **options):
    out = folder / f"{out or name}.{method}"
    words = ("--target", "y", "--method", method, "--test-fraction", "0", "--out", out, "-q")
    assert cli("fit", folder / f"{name}.csv", *words, *options.get("more", ())).code == 0
    return out


def test_models_fitted_alone_are_merged(cli, tables):
    a, b, both = (fitted(cli, tables, name, "linear") for name in ("a", "b", "both"))
    out = tables / "merged.linear"
    answer = cli("merge", a, b, "--out", out, "--json").json
    assert answer["rows"] == {"train": 100, "held_out": 0}
    models = [load_model(path).estimator for path in (out, both)]
    x = RNG.normal(size=(5, 3))
    np.testing.assert_allclose(models[0].predict(x), models[1].predict(x), rtol=1e-9)
    assert "learnt" in cli("evaluate", out, tables / "b.csv").err


def test_rows_that_count_twice_are_named(cli, tables):
    start = fitted(cli, tables, "c", "linear")
    parts = [tables / f"{name}.more" for name in "ab"]
    for part in parts:
        words = ("--half-life", "500", "--out", part, "-q")
        assert cli("update", start, part.with_suffix(".csv"), *words).code == 0
    copied = tables / "copied.more"
    copied.write_bytes(parts[0].read_bytes())
    to = ("--out", tables / "merged.more", "-q")
    for models, is_twice in (
        ((*parts, "--start", start), False),
        (parts, True),
        ((parts[0], copied, "--start", start), True),
    ):
        answer = cli("merge", *models, *to)
        assert (answer.code, "count twice" in " ".join(answer.err.split())) == (0, is_twice)


def test_what_does_not_go_together_is_refused(cli, tables):
    a, c = fitted(cli, tables, "a", "linear"), fitted(cli, tables, "c", "linear")
    other = fitted(cli, tables, "a", "linear", "other", more=("--drop", "group"))
    ebp = fitted(cli, tables, "a", "default", more=("--epochs", "2"))
    metres, feet = (
        fitted(cli, tables, "a", "linear", unit, more=("--unit", unit)) for unit in ("m", "ft")
    )
    for words, error in (
        (("merge", a, other), "differs from the first model in its columns"),
        (("merge", metres, feet), "has a target in ft, the first model in m: convert one"),
        (("merge", a, ebp), "a model of method default, the others of linear"),
        (("merge", a, a), "names a file twice"),
        (("merge",), "one model file at least"),
        (("update", c, tables / "b.csv", "--half-life", "0"), "half_life must be a number"),
        (("update", c, tables / "b.csv", "--half-life", "9", "--with", a), "without --with"),
    ):
        refused = cli(*words, "--out", tables / "no")
        assert refused.code == 2, words
        assert error in refused.error
        assert not (tables / "no").exists()

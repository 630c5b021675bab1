import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bayesprop.estimators.pbp import PBPRegressor
from bayesprop.store import ModelFileError, load_model, save_model

GOLDEN = Path(__file__).parent / "golden"
PARTS = ("mean", "epistemic_var", "noise_var")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.bayesprop")), ids=lambda path: path.stem)
def test_models_of_every_schema_load_and_predict_the_same(path):
    saved = load_model(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    assert saved.table is not None
    predicted = saved.estimator.predict_dist(saved.table.transform(pl.DataFrame(expected["rows"])))
    for part in PARTS:
        np.testing.assert_allclose(getattr(predicted, part), expected[part], rtol=1e-12, atol=0.0)
    assert saved.metadata["unit"] == "kN"
    assert saved.header["method"] == "pbp"


def without(name):
    return lambda _header, arrays: arrays.pop(name)


def with_array(name, array):
    return lambda _header, arrays: arrays.update({name: array})


def with_header(key, value):
    return lambda header, _arrays: header.update({key: value})


@pytest.mark.parametrize(
    "change",
    [
        without("noise_rate"),
        with_array("m.1", np.zeros((7, 1))),
        with_array("v.0", np.ones((4, 3))),
        with_array("v.1", np.full((5, 1), -1.0)),
        with_array("m.0", np.zeros(16)),
        with_array("site_prec.1", np.zeros((50, 1))),
        with_array("noise_shape", np.full(3, 6.0)),
        with_array("prior_rate", np.ones(2)),
        with_header("n_features_in", 5),
        with_header("feature_names_in", ["a"]),
        with_header("x_scaler", {"unit": [1.0], "mean": [0.0], "std": [1.0]}),
        with_header("y_scaler", {"unit": [1.0], "mean": [0.0], "std": ["x"]}),
        with_header("y_scaler", {"unit": [1.0], "mean": [0.0], "std": [float("nan")]}),
        with_header("params", {"engine": "os:system"}),
        with_header("params", {"shell": "rm"}),
        with_header("fit_report", {"a": 1}),
    ],
)
def test_a_forged_model_is_refused_before_compiled_code_sees_it(tmp_path, change):
    x = np.random.default_rng(5).normal(3.0, [1.0, 1e3, 1e-3], (40, 3))
    model = PBPRegressor((4,), n_epochs=1, random_state=2).fit(x, x[:, 0] + 1e-3 * x[:, 1])
    header, arrays = model.to_stored()
    change(header, arrays)
    model.to_stored = lambda: (header, arrays)  # the checksum of the file will be right
    save_model(tmp_path / "m", model)
    with pytest.raises(ModelFileError, match="does not describe a pbp model"):
        load_model(tmp_path / "m")

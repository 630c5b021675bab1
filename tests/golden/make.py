"""Write the golden models of the current file schema; run once per schema, never to mend a test.

From the repository root: PYTHONPATH=tests .venv/bin/python tests/golden/make.py

`methods-v1` was written on an x86-64 with AVX-512 by commit b4bce00, before the estimators were
rebuilt, but for the default for classes, added when it became a recipe; `pbp-v1` by the release of
the schema, with a table's encoding.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl

import golden_cases
from bayesprop import sealed, store
from bayesprop.estimators.pbp import PBPRegressor
from bayesprop.table.encoding import TableEncoding

HERE = Path(__file__).parent
NAME = f"pbp-v{sealed.SCHEMA}"
METHODS = HERE / f"methods-v{sealed.SCHEMA}"


def training_table():
    rng = np.random.default_rng(2015)
    frame = pl.DataFrame(
        {
            "length_mm": rng.uniform(1.0, 9.0, 60).round(3),
            "alloy": rng.choice(["A", "B"], 60),
        }
    )
    load = frame["length_mm"] ** 2 + 5.0 * (frame["alloy"] == "A") + rng.normal(0.0, 1.0, 60)
    return frame.with_columns(load.alias("load_kN"))


def write_model_of_a_table():
    table = training_table()
    encoding = TableEncoding.fit(table, "load_kN")
    model = PBPRegressor((5,), n_epochs=10, random_state=1)
    model.fit(encoding.encode(table).X, encoding.target(table))
    metadata = {"unit": "kN", "note": "golden file of the tests"}
    store.save_model(HERE / f"{NAME}.bayesprop", model, table=encoding, metadata=metadata)
    rows = table.head(8).drop("load_kN")
    predicted = model.predict_dist(encoding.encode(rows).X)
    expected = {
        "rows": rows.to_dict(as_series=False),
        "mean": predicted.mean.tolist(),
        "epistemic_var": predicted.epistemic_var.tolist(),
        "noise_var": predicted.noise_var.tolist(),
    }
    (HERE / f"{NAME}.json").write_text(json.dumps(expected, indent=1) + "\n")


def write_models_of_all_methods():
    METHODS.mkdir(exist_ok=True)
    expected = {}
    for name, task in golden_cases.cases():
        model = golden_cases.fitted(name, task)
        model.save(METHODS / f"{name}-{task}.bayesprop")
        x = golden_cases.rows(task).x_test[: golden_cases.N_STORED]
        expected[f"{name}-{task}"] = {
            "scores": golden_cases.scores(model, task),
            "predictions": golden_cases.predictions(model, x),
        }
    METHODS.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write_model_of_a_table()
    write_models_of_all_methods()

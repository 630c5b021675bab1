"""What no command does: each is refused in a line that says what is wrong, and nothing is left."""

from __future__ import annotations

import numpy as np
import pytest

from house_table import as_csv, house_rows

COMMANDS = {
    "fit": "fit HOUSES --out m --quiet",
    "price": "fit HOUSES --out m --quiet --target price",
    "kind": "fit KINDS --out m --quiet --target kind --method pbp --epochs 10",
    "predict": "predict MODEL HOUSES",
    "suggest": "suggest MODEL CANDIDATES",
    "compare": "compare LINE",
    "line": "compare LINE --target y",
    "": "",
}
REFUSED = {
    "": [
        ("fot", "did you mean 'fit'"),
        ("fit", "missing argument"),
        ("predict m", "missing argument"),
        ("fit t.csv", "--out"),
        ("fit t.csv --out m --epochs 0", "--epochs"),
        ("fit t.csv --out m --epochs x", "--epochs"),
        ("fit t.csv --out m --inference mcmc", "sep"),
        ("fit t.csv --out m --test-fraction nan", "--test-fraction"),
        ("fit t.csv --out m --test-fraction 1", "--test-fraction"),
        ("fit t.csv --out m --epoch 3", "--epochs"),
        ("fit t.csv --out m --seed -1", "--seed"),
        ("fit absent.csv --target y --out m", "absent.csv"),
        ("fit diabetis --target y --out m", "diabetis"),
        ("fit . --target y --out m", "'.'"),
        ("fit absent.csv -o m --task classification --method linear",
         "--method linear supports only regression, and --task is classification"),
        ("fit absent.csv -o m --task regression --method logistic", "supports only classification"),
        *((f"fit iris -o m --time-limit={text}", "must be a time above 0, such as 60s, 5m or 90")
          for text in ("", "0", "-5", "5d", "s", "1e3", "five")),
        *((f"fit diabetes --out m --method linear --{words}", "is for two classes")
          for words in ("cost fn=1,fp=1", "positive setosa")),
        *((f"fit iris --out m --method logistic --{words}", "is for two classes")
          for words in ("cost fn=1,fp=1", "positive setosa")),
        ("fit iris --out m --target-kind count", "--target-kind count is for numbers"),
        ("predict MODEL - --calibrate -", "cannot both be standard input"),
        ("compare iris --positive x", "--positive is for two classes"),
        ("fit RAGGED --target y --out m --method linear", "line 22"),
        ("inspect absent.bayesprop", "there is no model file 'absent.bayesprop'"),
        *((f"{command} HOUSES HOUSES", "houses.csv' is not a bayesprop model")
          for command in ("predict", "evaluate", "report")),
    ],
    "fit": [
        ("", "--target is required: the column to predict; columns: area, rooms, town, price"),
        ("--target prise", "; did you mean 'price'? columns: area, rooms, town, price"),
    ],
    "price": [
        ("--drop nothing", "no column 'nothing'"),
        ("--drop rooms,towm", "did you mean 'town'?"),
        ("--drop rooms,price", "--drop price"),
        ("--weights town", "numbers"),
        ("--weights price", "target"),
        ("--weights area", "row"),
        ("--hidden 0", "--hidden"),
        ("--hidden five", "--hidden"),
        ("--method pdp", "did you mean 'pbp'"),
    ],
    "kind": [
        ("--task regression", "must be a number, got 'a'"),
        ("--unit EUR", "--unit is for numbers, and kind holds classes"),
        ("--method linear", "kind asks for classification"),
        ("--batch-size 5", "--batch-size: pbp has no such setting"),
        ("--method network --inference sep", "that have it: pbp (regression, classification)"),
        ("--set weight_piror=2", "did you mean 'weight_prior'? it has: "),
        ("--set width", "--set must be name=value"),
        ("--set =2", "--set must be name=value"),
        ("--set weight_prior=[0,1]", "weight_prior must"),
        ("--set x=1 --set x=2", "--set x is given twice"),
        ("--set n_epochs=3", "--epochs sets this: give only --epochs"),
        ("--set random_state=3", "--seed sets this: give only --seed"),
        ("--set target_kind=share", "give only"),
        ("--target-kind prices", "'positive', 'nonnegative'"),
        ("--order a,b --target-kind classes", "omit --target-kind classes"),
        ("--task ranking", "'regression', 'classification'"),
    ],
    "predict": [
        ("--interval 90", "--interval"),
        ("--interval nan", "--interval"),
        ("--quantiles 0.5,1", "--quantiles"),
        ("--quantiles low", "--quantiles"),
        ("--out p.xlsx", ".parquet"),
        ("--out absent/p.csv", "does not exist"),
        ("--out .", "folder"),
        ("--json --out p.csv", "one that ends in .jsonl holds JSON lines"),
        ("--columns rums,price", "no column 'rums'; did you mean 'rooms'?"),
        ("--abstain-above -1", "--abstain-above must be a number of at least 0, got -1"),
        ("--by std", "--by chooses the uncertainty that --abstain-above refers to"),
        ("--abstain-above 1 --by epistemik", "is not available for a model of numbers;"
         " did you mean 'epistemic'? choose from std, epistemic"),
        ("--std-of rooms", "--std-of must be COL=COL or COL=NUMBER, such as dose=dose_sd"),
        ("--std-of town=1", "column 'town' is not an input that holds numbers"),
        ("--std-of rooms=-1", "must be a finite number of at least 0, in its unit, got -1"),
        ("--std-of rooms=rums", "lacks 'rums', the column of the standard deviations of rooms"),
        ("--std-of rooms=1 --why", "--why and --calibrate are for exact inputs: omit these"),
        ("--calibrate HOUSES", "rows that were not used in the fit: the model was fitted on"),
    ],
    "suggest": [
        ("--acquisition mutual-informaton", "did you mean 'mutual-information'"),
        ("--acquisition expected-entropy-reduction", "--reference requires"),
        ("--cost price", "no column 'price'"),
        ("--cost town", "must hold numbers"),
        ("--cost area", "must hold finite numbers > 0, got no value in data rows"),
        ("--where area~3", "--where must be a column, one of"),
        ("--where aera<3", "did you mean 'area'"),
        ("--where area<x", "'x' is no number"),
        ("--where town<x", "which can be compared by == and != only"),
        ("--where area<-1", "meets every --where"),
        ("--reference t.csv", "--reference requires"),
        ("--out t.txt2", "must end in .csv"),
    ],
    "compare": [("--target z", "no column 'z'")],
    "line": [
        ("--method pdp", "no method 'pdp'; did you mean 'pbp'?"),
        ("--method logistic", "--method logistic supports only classification, and the target"),
        ("--test-fraction 0.001", "--test-fraction 0.001 holds out none of 300 rows: raise it"),
        ("--plot a.pdf", "--plot a.pdf must end in .svg or .png"),
        ("--plot none/a.svg", "the folder none does not exist"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory, houses, house_model):
    folder = tmp_path_factory.mktemp("refused")
    rows = house_rows(100, seed=9)
    texts = {
        "KINDS": "a,kind\n" + "".join(f"{k % 7},{'ab'[k % 2]}\n" for k in range(40)),
        "CANDIDATES": as_csv([{k: v for k, v in row.items() if k != "price"} for row in rows]),
        "RAGGED": "a,b,y\n" + "".join(f"{k},{k * k % 7},{k}\n" for k in range(20)) + "1,2\n",
        "LINE": "x,y\n" + "".join(f"{k},{2 * k + k % 5}\n" for k in np.arange(300.0)),
    }
    for name, text in texts.items():
        (folder / name).with_suffix(".csv").write_text(text)
    paths = {name: (folder / name).with_suffix(".csv") for name in texts}
    return paths | {"HOUSES": houses, "MODEL": house_model}


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [(command, *case) for command, cases in REFUSED.items() for case in cases],
)
def test_it_is_refused_in_a_line(cli, tables, tmp_path, monkeypatch, command, words, expected):
    monkeypatch.chdir(tmp_path)
    asked = f"{COMMANDS[command]} {words}".split()
    result = cli(*(tables.get(word, word) for word in asked))
    assert expected.lower() in result.refusal.lower()
    assert result.out == "" or "--json" in asked
    assert list(tmp_path.iterdir()) == []

"""What can be asked of the command line: one dataclass a sub-command, its fields the options.

The parser is made from these, and what a sub-command does receives one. Light, because `--help`
imports it: the file that does the work is imported when it runs.
"""
# ruff: noqa: RUF009  (`option` and `argument` call `dataclasses.field`)

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from bayesprop.cli import completion
from bayesprop.cli.options import (
    argument,
    column,
    option,
    output,
    repeated,
    size,
    switch,
    time_limit,
)


@dataclass(frozen=True, kw_only=True)
class Action:
    """One sub-command: its docstring is the help, the file of its name has the `run` that does it.

    words
        The command line as typed.
    """

    summary: ClassVar[str | None] = None
    examples: ClassVar[tuple[str, ...]] = ()

    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WithJson(Action):
    """An action that can answer a program."""

    as_json: bool = switch("Print one JSON object on stdout, and nothing else there.", "--json")


@dataclass(frozen=True, kw_only=True)
class WithRemarks(Action):
    """An action that takes a while, and can be quiet about it."""

    quiet: bool = switch("No progress and no remarks.", "--quiet", "-q")


@dataclass(frozen=True, kw_only=True)
class WithSeed(Action):
    """An action that draws random numbers."""

    seed: int = option("Fixes every random draw.", default=0, min=0, max=2**32 - 1, metavar="N")


@dataclass(frozen=True, kw_only=True)
class OfModel(WithJson, WithRemarks):
    """An action that asks a model about a table, which may lack columns."""

    model: Path = argument("MODEL", "A file that `fit` wrote.", completion.models)
    allow_missing_columns: bool = switch(
        "Take columns that the table lacks for missing in every row, not for an error.",
        "--allow-missing-columns",
    )


@dataclass(frozen=True, kw_only=True)
class OfTable(Action):
    """An action that reads a table."""

    table: str = argument(
        "TABLE",
        "A file (.csv, .csv.zst, .parquet or a folder of it, .xlsx, .db::TABLE and others), the "
        "name of a known data set, or - for CSV on stdin.",
        completion.tables,
    )
    max_size: int | None = size(
        "The most that is read into memory of a table, unpacked. Default: 4G."
    )


@dataclass(frozen=True, kw_only=True)
class Learning(WithSeed, OfTable):
    """Which rows and columns of a table a fit learns from, and what judges it."""

    target: str | None = column(
        "Column to predict; a known data set has its own.", "--target", "-t"
    )
    task: Literal["regression", "classification"] | None = option(
        "A number or a class. Default: text, true/false and whole numbers of two kinds are classes."
    )
    target_kind: (
        Literal[
            "numbers", "positive", "nonnegative", "censored", "share", "count", "classes", "ordered"
        ]
        | None
    ) = option(
        "What a number can be: numbers (any), positive, nonnegative (0 or above), censored (up "
        "to a limit), share (0 to 1), count; classes, or ordered ones. Default: guessed, and said.",
        metavar="KIND",
    )
    order: str | None = option(
        "Ordered classes, from the lowest to the highest: low,mid,high. Numbers sort themselves.",
        metavar="CLASSES",
    )
    weights: str | None = column(
        "Column of row weights in the fit, not a feature; rows of weight 0 are left out."
    )
    drop: tuple[str, ...] = column(
        "Columns to leave out: id, or id,agent for two; repeatable.", default=(), metavar="COLS"
    )
    exposure: str | None = column(
        "Column that counts grow with: how long, or on how many, each row was counted."
    )
    group: str | None = column(
        "Column of what belongs together (patient, site, machine), not a feature: whole groups are "
        "held out, and error bars are those of new groups."
    )
    time: str | None = column(
        "Column of numbers or dates (2024-01-31): the latest rows are held out."
    )
    missing: str | None = option(
        "Values that are missing: NA,?,-999; none: empty cells alone. Default: by column.",
    )
    kind: tuple[str, ...] = repeated(
        "What a column holds: lap=duration (1:30:00, 75:30), or start=time (of day); repeatable. "
        "Default: by type, values and name.",
        metavar="COL=KIND",
    )
    test_fraction: float | None = option(
        "Share of rows held out to judge the fit. Default: 0.1; below 300 rows they are judged in "
        "five folds instead, and all are learnt.",
        min=0.0,
        max=0.9,
        metavar="SHARE",
    )
    test: str | None = option(
        "Rows of your own to judge the fit by; all of TABLE is then learnt.", metavar="TABLE"
    )
    positive: str | None = option(
        "Of two classes, the one that decisions and average precision are about. Default: the "
        "rarer.",
        metavar="CLASS",
    )


@dataclass(frozen=True, kw_only=True)
class Fit(Learning, WithJson, WithRemarks):
    """Fit a model to a table, judge it on held-out rows, save it."""

    examples: ClassVar = (
        "bayesprop fit houses.csv --target price --out houses.bayesprop",
        "bayesprop fit houses.csv --target price --unit EUR --drop id,agent \\",
        "    --method pbp --hidden 50,50 --inference sep --out m.bayesprop --report r.html",
        "bayesprop fit visits.csv --target weight --group patient --out m.bayesprop",
        "bayesprop fit sales.csv --target units --test sales_2024.csv --out m.bayesprop",
        "bayesprop fit visits.csv --target visits --target-kind count --out v.bayesprop",
        "bayesprop fit wines.csv --target quality --target-kind ordered --out w.bayesprop",
        "bayesprop fit diabetes --test-fraction 0 --out m.bayesprop --json",
        "bayesprop fit iris --out iris.bayesprop --report iris.html      (classes)",
        "bayesprop fit loans.csv -t default --positive yes --cost fn=10,fp=1 -o l.bayesprop",
    )

    out: Path = output("Where the model goes, e.g. m.bayesprop.", MISSING)
    method: str | None = option(
        "One of those that `bayesprop methods` lists. Default: one for the task.",
        metavar="NAME",
        autocompletion=completion.methods,
    )
    hidden: tuple[str, ...] = repeated(
        "Units of each hidden layer: 50, or 50,50 for two. Default: the method's.",
        metavar="UNITS",
    )
    epochs: int | None = option("Passes over the data. Default: the method's.", min=1, metavar="N")
    batch_size: int | None = option(
        "Rows in one update. Default: the method's.", min=1, metavar="N"
    )
    inference: Literal["adf", "sep"] | None = option(
        "For pbp. adf: as published. sep: error bars survive long training. Default: adf."
    )
    settings: tuple[str, ...] = repeated(
        "Any other hyper-parameter of the method, such as learning_rate=0.01; repeatable.",
        "--set",
        metavar="NAME=VALUE",
    )
    cost: str | None = option(
        "What a missed positive and a false alarm cost: fn=10,fp=1. `predict` then decides.",
        metavar="COSTS",
    )
    rate: str | None = option(
        "Decide by the threshold that reaches recall=R, precision=P or flagged=SHARE on the "
        "held-out rows.",
        metavar="RATE",
    )
    report: Path | None = option("Also write a report (.html).", metavar="FILE")
    time_limit: float | None = time_limit(
        "Save the best model that fits into so much time: 60s, 5m, 1h, 90 (seconds)."
    )
    unit: str | None = option("Unit of the target, shown in the report.", metavar="TEXT")
    shards: int | None = option(
        "Deal the rows into K parts that are learnt apart, in rounds: linear, logistic, pbp, "
        "closed-form-vi.",
        min=1,
        metavar="K",
    )
    rounds: int | None = option("Of --shards. Default: 10.", min=1, metavar="N")
    cluster: str | None = option(
        "A Dask scheduler, tcp://HOST:8786, whose workers learn the shards. Default: threads.",
        metavar="ADDRESS",
    )
    checkpoint: Path | None = option(
        "File that keeps the last round of --shards: the same command goes on from there.",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class Predict(OfTable, OfModel):
    """Predict every row of a table, with error bars.

    A number: mean, standard deviation in two parts, intervals. A class: the likeliest one, the
    probability of each, and the doubt in nats, of which more data would remove one part.
    """

    examples: ClassVar = (
        "bayesprop predict m.bayesprop new.csv > predictions.csv",
        "bayesprop predict m.bayesprop new.csv --interval 0.5 --interval 0.9 --out p.parquet",
        "bayesprop predict m.bayesprop new.csv --quantiles 0.05,0.5,0.95 --columns id,name",
        "bayesprop predict m.bayesprop new.csv --json | jq .mean",
        "bayesprop predict m.bayesprop new.csv --calibrate held_out.csv",
        "bayesprop predict m.bayesprop new.csv --abstain-above 12.5 --by epistemic",
        "bayesprop predict m.bayesprop new.csv --cost fn=10,fp=1               (two classes)",
    )

    out: str = output("A .csv, .tsv, .jsonl or .parquet file; - for stdout.", "-")
    interval: tuple[float, ...] = repeated(
        "Share of new observations that the interval should hold; repeatable. Default: 0.9.",
        metavar="COVERAGE",
    )
    quantiles: tuple[str, ...] = repeated(
        "Also these quantiles: 0.05,0.5,0.95; repeatable.", metavar="LEVELS"
    )
    calibrate: str | None = option(
        "Rows with the target that the fit did not see: stretch the intervals to hold COVERAGE of "
        "such rows; of classes, choose the threshold of --rate on them.",
        metavar="TABLE",
    )
    cost: str | None = option(
        "Two classes: decide by these costs of a missed positive and a false alarm: fn=10,fp=1. "
        "Default: as the fit was told.",
        metavar="COSTS",
    )
    rate: str | None = option(
        "Two classes: decide by the threshold that reaches recall=R, precision=P or flagged=SHARE "
        "on the rows of --calibrate.",
        metavar="RATE",
    )
    abstain_above: float | None = option(
        "Rows less sure than this get no prediction but the reason.", metavar="VALUE"
    )
    by: str | None = option(
        "What VALUE is about. Numbers: std (default) or epistemic, in the target's unit. "
        "Classes: entropy (default) or mutual-information, nats, or error-probability.",
        metavar="NAME",
    )
    columns: tuple[str, ...] = repeated(
        "Columns of the table to repeat beside the predictions, instead of row numbers: id,name; "
        "all of them: all.",
        metavar="COLS",
        autocompletion=completion.columns,
    )
    as_json: bool = switch("Rows as JSON on stdout, an object a line.", "--json")


@dataclass(frozen=True, kw_only=True)
class Compare(Learning, WithJson, WithRemarks):
    """Fit several methods with their defaults and judge them on the same held-out rows.

    Best first, by log loss or, of numbers, by CRPS; scikit-learn's boosting and, on small tables,
    its Gaussian process stand beside them. A method that fails does not stop the others.
    """

    summary: ClassVar = "Fit several methods to a table and judge them on the same held-out rows."
    examples: ClassVar = (
        "bayesprop compare houses.csv --target price",
        "bayesprop compare iris --method logistic --method default --splits 10",
        "bayesprop compare houses.csv --target price --plot comparison.png --json",
        "bayesprop compare sales.csv --target units --test sales_2024.csv",
        "bayesprop compare loans.csv -t default --positive yes",
    )

    method: tuple[str, ...] = repeated(
        "A method; repeatable. Default: all that are quick.",
        metavar="NAME",
        autocompletion=completion.methods,
    )
    time_limit: float | None = time_limit("Of every fit: 60s, 5m, 90 (seconds).")
    no_peers: bool = switch(
        "Leave out scikit-learn's gradient boosting and Gaussian process.", "--no-peers"
    )
    splits: int | None = option(
        "Random splits, the same for every method. Default: 5; with --test or --time there is one.",
        min=1,
        metavar="N",
    )
    test_fraction: float | None = option(
        "Share of rows held out to judge the fits. Default: 0.2.",
        min=0.0,
        max=0.9,
        metavar="SHARE",
    )
    seed: int = option("Fixes the splits and the fits.", default=0, min=0, max=2**31, metavar="N")
    plot: Path = option(
        "Where log-likelihood against time goes (.svg, .png).",
        default=Path("comparison.svg"),
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class Suggest(OfTable, OfModel, WithSeed):
    """Choose the rows of a table that the model would learn most from.

    Each is chosen as if those above it had been measured, so that no two say the same.
    """

    summary: ClassVar = "Choose which rows of a table to measure next, and say why."
    examples: ClassVar = (
        "bayesprop suggest m.bayesprop candidates.csv --n 5 --why",
        "bayesprop suggest m.bayesprop candidates.csv --cost price --where 'heat <= 80'",
        "bayesprop suggest m.bayesprop candidates.csv --n 20 --out next.csv --json",
    )

    table: str = argument(
        "CANDIDATES",
        "Rows that could be measured: a file, or - for CSV on stdin.",
        completion.tables,
    )
    n: int = option("Rows to choose.", "--n", "-n", default=5, min=1, metavar="N")
    why: bool = switch("Say of every row why, in words and numbers.", "--why")
    acquisition: str = option(
        "What makes a row worth measuring: mutual-information, epistemic-variance, "
        "predictive-variance, predictive-entropy, expected-entropy-reduction or random.",
        default="mutual-information",
        metavar="NAME",
    )
    batch: str = option(
        "How rows are kept from saying the same: fantasy, k-means++, top or auto.",
        default="auto",
        metavar="NAME",
    )
    cost: str | None = column("Column of what a measurement costs; score per cost.")
    where: tuple[str, ...] = repeated(
        "Only such rows: 'temperature <= 80'; repeatable.", metavar="CONDITION"
    )
    reference: str | None = option(
        "Rows whose predictions matter: expected-entropy-reduction.", metavar="TABLE"
    )
    out: Path | None = output("A .csv, .tsv, .jsonl or .parquet file.")


@dataclass(frozen=True, kw_only=True)
class Evaluate(OfTable, OfModel):
    """Judge a model on a table that holds the target."""

    examples: ClassVar = ("bayesprop evaluate houses.bayesprop later.csv --json",)


@dataclass(frozen=True, kw_only=True)
class Report(OfTable, OfModel):
    """Write one HTML page that judges a model on a table that holds the target."""

    summary: ClassVar = "Write an HTML page that judges a model on a table."
    examples: ClassVar = ("bayesprop report houses.bayesprop later.csv --out report.html",)

    out: Path = output("Where the page goes (.html).", Path("report.html"))


@dataclass(frozen=True, kw_only=True)
class Inspect(WithJson):
    """Say what a model file holds, how its fit went, and what command reproduces it."""

    summary: ClassVar = "Say what a model file holds and what reproduces it."
    examples: ClassVar = ("bayesprop inspect houses.bayesprop --json",)

    model: Path = argument("MODEL", "A file that `fit` wrote.", completion.models)


@dataclass(frozen=True, kw_only=True)
class Methods(WithJson):
    """List the methods: what they do, what they cost, when to choose them."""

    summary: ClassVar = "List the methods and when to choose them."


@dataclass(frozen=True, kw_only=True)
class Datasets(WithJson):
    """List the known data sets: size, target, licence, where they would come from."""

    summary: ClassVar = "List the known data sets."


@dataclass(frozen=True, kw_only=True)
class Warm(Action):
    """Compile what a first fit by default or pbp would wait for: their programs serve any table.

    Kept beside the package, or in the user's cache; NUMBA_CACHE_DIR names another folder.
    """

    summary: ClassVar = "Compile now what a first fit would wait for."
    examples: ClassVar = ("bayesprop warm      (in a Dockerfile, after pip install)",)

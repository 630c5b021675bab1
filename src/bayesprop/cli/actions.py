"""The sub-commands of the command line: one dataclass each, whose fields are the options.

The parser is built from these classes, and `run` of a sub-command receives an instance. This
module imports little, because `--help` imports it; the file that runs a sub-command is imported
later.
"""
# ruff: noqa: RUF009  (`option` and `argument` call `dataclasses.field`)

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from bayesprop.cli import completion
from bayesprop.cli.options import (
    argument,
    column,
    escaping,
    method,
    option,
    output,
    repeated,
    size,
    switch,
    time_limit,
)


@dataclass(frozen=True, kw_only=True)
class Action:
    """One sub-command: its docstring is the help text; the file of its name defines `run`.

    words
        The command line as typed.
    """

    summary: ClassVar[str | None] = None
    examples: ClassVar[tuple[str, ...]] = ()

    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WithJson(Action):
    """An action that can print JSON."""

    as_json: bool = switch("Print one JSON object on stdout and nothing else.", "--json")


@dataclass(frozen=True, kw_only=True)
class WithRemarks(Action):
    """An action that prints progress and remarks."""

    quiet: bool = switch("Print no progress and no remarks.", "--quiet", "-q")


@dataclass(frozen=True, kw_only=True)
class WithSeed(Action):
    """An action that draws random numbers."""

    seed: int = option("Random seed.", default=0, min=0, max=2**32 - 1, metavar="N")


@dataclass(frozen=True, kw_only=True)
class OfModel(WithJson, WithRemarks):
    """An action that applies a model to a table, which may lack columns."""

    model: Path = argument("MODEL", "A model file written by `fit`.", completion.models)
    allow_missing_columns: bool = switch(
        "Treat columns that the table lacks as missing values instead of an error.",
        "--allow-missing-columns",
    )


@dataclass(frozen=True, kw_only=True)
class OfTable(Action):
    """An action that reads a table."""

    table: str = argument(
        "TABLE",
        "A file (.csv, .csv.zst, .parquet or a folder of them, .xlsx, .db::TABLE and others), the "
        "name of a known data set, or - for CSV on stdin.",
        completion.tables,
    )
    max_size: int | None = size("Largest table to read into memory, uncompressed. Default: 4G.")


@dataclass(frozen=True, kw_only=True)
class Learning(WithSeed, OfTable):
    """The rows and columns of a table to train on, and the rows to evaluate on."""

    target: str | None = column(
        "Column to predict. Default: the target of a known data set.", "--target", "-t"
    )
    task: Literal["regression", "classification"] | None = option(
        "Predict a number or a class. Default: text, true/false and whole numbers with two "
        "distinct values are classes."
    )
    target_kind: (
        Literal[
            "numbers", "positive", "nonnegative", "censored", "share", "count", "classes", "ordered"
        ]
        | None
    ) = option(
        "Range of the target: numbers (any), positive, nonnegative (0 or above), censored (at a "
        "limit), share (0 to 1), count; classes or ordered (classes). Default: inferred and "
        "printed.",
        metavar="KIND",
    )
    order: str | None = option(
        "Ordered classes from the lowest to the highest: low,mid,high. Default: numeric order.",
        metavar="CLASSES",
    )
    weights: str | None = column(
        "Column of row weights, not used as a feature; rows of weight 0 are left out."
    )
    drop: tuple[str, ...] = column(
        "Columns to leave out: id, or id,agent; repeatable.", default=(), metavar="COLS"
    )
    exposure: str | None = column(
        "Column of the exposure of a count: duration or population of each row."
    )
    group: tuple[str, ...] = column(
        "Column that names groups (patient, site), not used as a feature: whole groups are held "
        "out, and error bars are for new groups; known groups have effects. Repeatable (the first "
        "is held out); school/class: classes within schools.",
        default=(),
    )
    time: str | None = column(
        "Column of times, as numbers or dates (2024-01-31): the latest rows are held out."
    )
    missing: str | None = option(
        "Cells that mean a missing value: NA,?,-999; none: only empty cells. Default: detected in "
        "each column.",
    )
    kind: tuple[str, ...] = repeated(
        "Kind of a column: lap=duration (1:30:00, 75:30) or start=time (of day); repeatable. "
        "Default: from type, values and name.",
        metavar="COL=KIND",
    )
    test_fraction: float | None = option(
        "Share of rows held out to evaluate the model. Default: 0.1; below 300 rows, five-fold "
        "cross-validation, and the model is fitted to all rows.",
        min=0.0,
        max=0.9,
        metavar="SHARE",
    )
    test: str | None = option(
        "Table to evaluate the model on; the model is then fitted to all of TABLE.",
        metavar="TABLE",
    )
    positive: str | None = option(
        "Positive one of two classes, for decisions and average precision. Default: the rarer "
        "class.",
        metavar="CLASS",
    )


def with_errors(default: str = "") -> Any:
    """Option for the standard deviations of inputs."""
    text = (
        "Inputs with measurement errors: COL=COL names the column of their standard deviations, "
        "COL=0.5 gives one number, in the unit of the column; repeatable."
    )
    return repeated(text + default, metavar="COL=STD")


@dataclass(frozen=True, kw_only=True)
class Fit(Learning, WithJson, WithRemarks):
    """Fit a model to a table, evaluate it on held-out rows and save it."""

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

    out: Path = output("Model file to write, such as m.bayesprop.", MISSING)
    method: str | None = method()
    hidden: tuple[str, ...] = repeated(
        "Units of each hidden layer: 50, or 50,50 for two layers. Default: the method's.",
        metavar="UNITS",
    )
    epochs: int | None = option("Passes over the data. Default: the method's.", min=1, metavar="N")
    batch_size: int | None = option(
        "Rows in one mini-batch. Default: the method's.", min=1, metavar="N"
    )
    inference: Literal["adf", "sep"] | None = option(
        "For pbp. adf: as published. sep: error bars stay calibrated in long training. Default: "
        "adf."
    )
    settings: tuple[str, ...] = repeated(
        "Other hyper-parameter of the method, such as learning_rate=0.01; repeatable.",
        "--set",
        metavar="NAME=VALUE",
    )
    cost: str | None = option(
        "Costs of a false negative and a false positive: fn=10,fp=1. `predict` then adds a "
        "decision for each row.",
        metavar="COSTS",
    )
    rate: str | None = option(
        "Decide by the threshold that reaches recall=R, precision=P or flagged=SHARE on the "
        "held-out rows; SHARE is the share of rows that are flagged.",
        metavar="RATE",
    )
    std_of: tuple[str, ...] = with_errors()
    report: Path | None = option("HTML report to write.", metavar="FILE")
    time_limit: float | None = time_limit(
        "Time limit of the fit; the best model so far is saved: 60s, 5m, 1h, 90 (seconds)."
    )
    unit: str | None = option("Unit of the target, shown in the report.", metavar="TEXT")
    shards: int | None = option(
        "Split the rows into K shards that are trained separately and combined after each round: "
        "linear, logistic, pbp, closed-form-vi.",
        min=1,
        metavar="K",
    )
    rounds: int | None = option(
        "Number of rounds over the shards. Default: 10.", min=1, metavar="N"
    )
    cluster: str | None = option(
        "Address of a Dask scheduler, tcp://HOST:8786, whose workers train the shards. Default: "
        "local threads.",
        metavar="ADDRESS",
    )
    checkpoint: Path | None = option(
        "File that stores the last round of --shards; the same command resumes from it.",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class Predict(OfTable, OfModel):
    """Predict every row of a table, with error bars.

    For a number: mean, standard deviation and its two parts (epistemic, noise), intervals. For a
    class: the most probable class, the probability of each class, entropy and mutual information
    (the epistemic part) in nats.
    """

    examples: ClassVar = (
        "bayesprop predict m.bayesprop new.csv > predictions.csv",
        "bayesprop predict m.bayesprop new.csv --interval 0.5 --interval 0.9 --out p.parquet",
        "bayesprop predict m.bayesprop new.csv --quantiles 0.05,0.5,0.95 --columns id,name",
        "bayesprop predict m.bayesprop new.csv --json | jq .mean",
        "bayesprop predict m.bayesprop new.csv --why --columns id",
        "bayesprop predict m.bayesprop new.csv --calibrate held_out.csv",
        "bayesprop predict m.bayesprop new.csv --std-of dose=dose_sd --std-of age=0.5",
        "bayesprop predict m.bayesprop new.csv --abstain-above 12.5 --by epistemic",
        "bayesprop predict m.bayesprop new.csv --cost fn=10,fp=1               (two classes)",
    )

    out: str = output("File to write (.csv, .tsv, .jsonl or .parquet); - for stdout.", "-")
    interval: tuple[float, ...] = repeated(
        "Probability that the interval contains a new observation; repeatable. Default: 0.9.",
        metavar="COVERAGE",
    )
    quantiles: tuple[str, ...] = repeated(
        "Quantiles to add: 0.05,0.5,0.95; repeatable.", metavar="LEVELS"
    )
    calibrate: str | None = option(
        "Table with the target that was not used in the fit. Numbers: scale the intervals so that "
        "they contain COVERAGE of such rows. Classes: choose the threshold of --rate on it.",
        metavar="TABLE",
    )
    cost: str | None = option(
        "Two classes: decide by these costs of a false negative and a false positive: fn=10,fp=1. "
        "Default: the costs given to `fit`.",
        metavar="COSTS",
    )
    rate: str | None = option(
        "Two classes: decide by the threshold that reaches recall=R, precision=P or flagged=SHARE "
        "on the rows of --calibrate.",
        metavar="RATE",
    )
    abstain_above: float | None = option(
        "Give no prediction for rows whose uncertainty is above VALUE; state the reason instead.",
        metavar="VALUE",
    )
    by: str | None = option(
        "Measure of uncertainty for --abstain-above. Numbers: std (default) or epistemic, in the "
        "unit of the target. Classes: entropy (default), mutual-information (nats) or "
        "error-probability.",
        metavar="NAME",
    )
    columns: tuple[str, ...] = repeated(
        "Columns of the table to copy to the output instead of row numbers: id,name; all for "
        "every column.",
        metavar="COLS",
        autocompletion=completion.columns,
    )
    std_of: tuple[str, ...] = with_errors(" Default: the errors given to `fit`; COL=0: none.")
    why: bool = switch(
        "Add a column that says why: what moves each prediction and what makes it uncertain. About "
        "a second a row.",
        "--why",
    )
    escape_formulas: bool = escaping()
    as_json: bool = switch("Print rows as JSON on stdout, one object per line.", "--json")


@dataclass(frozen=True, kw_only=True)
class Compare(Learning, WithJson, WithRemarks):
    """Fit several methods with their defaults and evaluate them on the same held-out rows.

    Methods are sorted by CRPS (numbers) or log loss (classes), best first. scikit-learn's gradient
    boosting and, on small tables, its Gaussian process are included. Failures are reported; the
    other fits continue.
    """

    summary: ClassVar = "Fit several methods and evaluate them on the same held-out rows."
    examples: ClassVar = (
        "bayesprop compare houses.csv --target price",
        "bayesprop compare iris --method logistic --method default --splits 10",
        "bayesprop compare houses.csv --target price --plot comparison.png --json",
        "bayesprop compare sales.csv --target units --test sales_2024.csv",
        "bayesprop compare loans.csv -t default --positive yes",
    )

    method: tuple[str, ...] = repeated(
        "Method to fit; repeatable. Default: all fast methods.",
        metavar="NAME",
        autocompletion=completion.methods,
    )
    time_limit: float | None = time_limit("Time limit of each fit: 60s, 5m, 90 (seconds).")
    no_peers: bool = switch(
        "Leave out scikit-learn's gradient boosting and Gaussian process.", "--no-peers"
    )
    splits: int | None = option(
        "Number of random splits, the same for every method. Default: 5; with --test or --time: 1.",
        min=1,
        metavar="N",
    )
    test_fraction: float | None = option(
        "Share of rows held out to evaluate the models. Default: 0.2.",
        min=0.0,
        max=0.9,
        metavar="SHARE",
    )
    seed: int = option(
        "Random seed of the splits and the fits.", default=0, min=0, max=2**31, metavar="N"
    )
    plot: Path = option(
        "Plot of log-likelihood against time to write (.svg, .png).",
        default=Path("comparison.svg"),
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class Choosing(WithJson, WithRemarks, WithSeed):
    """An action that chooses rows to measure."""

    n: int = option("Number of rows to choose.", "--n", "-n", default=5, min=1, metavar="N")
    maximise: bool = switch("Seek the largest value of the target.", "--maximise")
    minimise: bool = switch("Seek the smallest value of the target.", "--minimise")
    target_value: float | None = option(
        "Value of the target to reach. Default: the best value predicted at the measured rows.",
        metavar="VALUE",
    )
    acquisition: str | None = option(
        "Acquisition function: log-expected-improvement (default), probability-of-improvement "
        "(default with --target-value), confidence-bound, thompson or random.",
        metavar="NAME",
    )
    cost: str | None = column("Column of measurement costs; the score counts per cost.")
    where: tuple[str, ...] = repeated(
        "Choose only rows that meet a condition: 'temperature <= 80'; repeatable.",
        metavar="CONDITION",
    )
    requires: tuple[str, ...] = repeated(
        "Weigh rows by the probability that a further output meets a condition; repeatable. "
        "'purity.bayesprop >= 0.95': a second model predicts it; in `optimise` also a column of "
        "TABLE, 'purity >= 0.95'.",
        "--require",
        metavar="CONDITION",
    )
    out: Path | None = output("File to write the rows to (.csv, .tsv, .jsonl or .parquet).")
    escape_formulas: bool = escaping()


@dataclass(frozen=True, kw_only=True)
class Suggest(Choosing, OfTable, OfModel):
    """Choose the rows of a table whose measurement would improve the model most.

    With --maximise or --minimise, choose the rows that may beat the best row so far. Each row is
    chosen as if the rows above it had been measured, so that the rows differ.
    """

    summary: ClassVar = "Choose the rows of a table to measure next."
    examples: ClassVar = (
        "bayesprop suggest m.bayesprop candidates.csv --n 5 --why",
        "bayesprop suggest m.bayesprop candidates.csv --cost price --where 'heat <= 80'",
        "bayesprop suggest m.bayesprop candidates.csv --n 20 --out next.csv --json",
        "bayesprop suggest m.bayesprop candidates.csv --maximise --measured trials.csv",
        "bayesprop suggest m.bayesprop candidates.csv --maximise --target-value 95",
        "bayesprop suggest m.bayesprop pool.csv --maximise --measured trials.csv \\",
        "    --require 'waste.bayesprop <= 0.05'",
    )

    table: str = argument(
        "CANDIDATES",
        "Table of rows that could be measured: a file, or - for CSV on stdin.",
        completion.tables,
    )
    why: bool = switch("Print the reason for each row.", "--why")
    measured: str | None = option(
        "Table of the rows measured so far, for --maximise or --minimise; none of them is chosen.",
        metavar="TABLE",
    )
    acquisition: str | None = option(
        "Acquisition function: mutual-information (default), epistemic-variance, "
        "predictive-variance, predictive-entropy, expected-entropy-reduction or random. With "
        "--maximise or --minimise: log-expected-improvement (default), probability-of-improvement "
        "(default with --target-value), confidence-bound, thompson or random.",
        metavar="NAME",
    )
    batch: str = option(
        "Batch diversity strategy: fantasy, k-means++, top or auto.",
        default="auto",
        metavar="NAME",
    )
    reference: str | None = option(
        "Table of the rows to predict well, for expected-entropy-reduction.", metavar="TABLE"
    )


@dataclass(frozen=True, kw_only=True)
class Evaluate(OfTable, OfModel):
    """Evaluate a model on a table that contains the target."""

    examples: ClassVar = ("bayesprop evaluate houses.bayesprop later.csv --json",)


@dataclass(frozen=True, kw_only=True)
class Monitor(OfTable, OfModel):
    """Check whether new rows are like those of the fit, and whether the model still holds.

    Each column is compared with the rows of the fit, missing values too; where the table contains
    the target, also coverage and scores with those on held-out rows. Exit code 3: an alarm.
    """

    summary: ClassVar = "Check whether new rows are like those of the fit."
    examples: ClassVar = (
        "bayesprop monitor houses.bayesprop this_week.csv",
        "bayesprop monitor houses.bayesprop this_week.csv --alarm-rate 0.001 --json",
    )

    alarm_rate: float = option(
        "Probability of any alarm where nothing has changed, at most.", default=0.01, metavar="RATE"
    )


@dataclass(frozen=True, kw_only=True)
class Report(OfTable, OfModel):
    """Write an HTML report of a model on a table that contains the target."""

    summary: ClassVar = "Write an HTML report of a model on a table."
    examples: ClassVar = ("bayesprop report houses.bayesprop later.csv --out report.html",)

    out: Path = output("HTML file to write.", Path("report.html"))


@dataclass(frozen=True, kw_only=True)
class Inspect(WithJson):
    """Describe a model file: contents, fit, and the command that reproduces it."""

    summary: ClassVar = "Describe a model file and the command that reproduces it."
    examples: ClassVar = ("bayesprop inspect houses.bayesprop --json",)

    model: Path = argument("MODEL", "A model file written by `fit`.", completion.models)


@dataclass(frozen=True, kw_only=True)
class Export(WithRemarks):
    """Write a model as a graph of ONNX, which predicts without Python.

    Methods pbp, closed-form-vi, linear, logistic, laplace and ebp.
    """

    summary: ClassVar = "Write a model as a graph of ONNX."
    examples: ClassVar = ("bayesprop export houses.bayesprop houses.onnx",)

    model: Path = argument("MODEL", "A model file written by `fit`.", completion.models)
    out: Path = argument("FILE", "File to write, such as houses.onnx.")
    quantiles: tuple[str, ...] = repeated(
        "Quantiles to output. Default: 0.05,0.5,0.95; repeatable.", metavar="LEVELS"
    )


@dataclass(frozen=True, kw_only=True)
class Methods(WithJson):
    """List the methods, their cost, and when to choose each."""

    summary: ClassVar = "List the methods and when to choose them."


@dataclass(frozen=True, kw_only=True)
class Datasets(WithJson):
    """List the known data sets with size, target, licence and source."""

    summary: ClassVar = "List the known data sets."


@dataclass(frozen=True, kw_only=True)
class Warm(Action):
    """Compile the functions that the first fit of the default or pbp would compile.

    The compiled functions work for any table. They are stored next to the package or in the user's
    cache; NUMBA_CACHE_DIR names another folder.
    """

    summary: ClassVar = "Compile in advance, so that the first fit starts at once."
    examples: ClassVar = ("bayesprop warm      (in a Dockerfile, after pip install)",)

"""What can be asked of the command line: one dataclass a sub-command, its fields the options.

The parser is made from these, and what a sub-command does receives one. Light, because `--help`
imports it: the file that does the work is imported when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from typer import Argument, Option

TableName = Annotated[
    str,
    Argument(
        metavar="TABLE",
        help="A .csv, .tsv or .parquet file, the name of a known data set, or - for CSV on stdin.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path, Argument(metavar="MODEL", help="A file that `fit` wrote.", show_default=False)
]
AsJson = Annotated[
    bool, Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress and no remarks.")]
Seed = Annotated[int, Option(min=0, max=2**32 - 1, metavar="N", help="Fixes every random draw.")]
HeldOut = Annotated[
    float,
    Option(min=0.0, max=0.9, metavar="SHARE", help="Share of rows held out to judge the fit."),
]


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
class Learning(Action):
    """Which rows and columns of a table a fit learns from, and which judge it."""

    table: TableName
    target: Annotated[
        str | None,
        Option(
            "--target", "-t", metavar="COL", help="Column to predict; a known data set has its own."
        ),
    ] = None
    task: Annotated[
        Literal["regression", "classification"] | None,
        Option(
            help="A number or a class. Default: text, true/false and whole numbers of two kinds "
            "are classes."
        ),
    ] = None
    weights: Annotated[
        str | None,
        Option(
            metavar="COL",
            help="Column of row weights in the fit, not a feature; rows of weight 0 are left out.",
        ),
    ] = None
    drop: Annotated[
        tuple[str, ...], Option(metavar="COL", help="Column to leave out; repeatable.")
    ] = ()
    test_fraction: HeldOut = 0.1
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class Fit(Learning):
    """Fit a model to a table, judge it on held-out rows, save it."""

    examples: ClassVar = (
        "bayesprop fit houses.csv --target price --out houses.bayesprop",
        "bayesprop fit houses.csv --target price --unit EUR --drop id --drop agent \\",
        "    --method pbp --hidden 50,50 --inference sep --out m.bayesprop --report r.html",
        "bayesprop fit diabetes --test-fraction 0 --out m.bayesprop --json",
        "bayesprop fit iris --out iris.bayesprop --report iris.html      (classes)",
    )

    out: Annotated[
        Path, Option("--out", "-o", help="Where the model goes, e.g. m.bayesprop.", metavar="FILE")
    ]
    method: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="One of those that `bayesprop methods` lists. Default: one for the task.",
        ),
    ] = None
    hidden: Annotated[
        tuple[str, ...],
        Option(
            metavar="UNITS",
            help="Units of each hidden layer: 50, or 50,50 for two. Default: the method's.",
        ),
    ] = ()
    epochs: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Passes over the data. Default: the method's."),
    ] = None
    batch_size: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Rows in one update. Default: the method's."),
    ] = None
    inference: Annotated[
        Literal["adf", "sep"] | None,
        Option(
            help="For pbp. adf: as published. sep: error bars survive long training. Default: adf."
        ),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other hyper-parameter of the method, such as learning_rate=0.01; repeatable.",
        ),
    ] = ()
    report: Annotated[Path | None, Option(metavar="FILE", help="Also write a report (.html).")] = (
        None
    )
    unit: Annotated[
        str | None, Option(metavar="TEXT", help="Unit of the target, shown in the report.")
    ] = None
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class Predict(Action):
    """Predict every row of a table.

    A number: mean, standard deviation in two parts, intervals. A class: the likeliest one, the
    probability of each, and the doubt in nats, of which more data would remove one part.
    """

    summary: ClassVar = "Predict every row of a table, with error bars."
    examples: ClassVar = (
        "bayesprop predict m.bayesprop new.csv > predictions.csv",
        "bayesprop predict m.bayesprop new.csv --interval 0.5 --interval 0.9 --out p.parquet",
        "bayesprop predict m.bayesprop new.csv --quantiles 0.05,0.5,0.95",
        "bayesprop predict m.bayesprop new.csv --calibrate held_out.csv",
        "bayesprop predict m.bayesprop new.csv --abstain-above 12.5 --by epistemic",
    )

    model: ModelFile
    table: TableName
    out: Annotated[
        str, Option("--out", "-o", metavar="FILE", help="A .csv or .parquet file; - for stdout.")
    ] = "-"
    interval: Annotated[
        tuple[float, ...],
        Option(
            metavar="COVERAGE",
            help="Share of new observations that the interval should hold; repeatable. "
            "Default: 0.9.",
        ),
    ] = ()
    quantiles: Annotated[
        tuple[str, ...],
        Option(metavar="LEVELS", help="Also these quantiles: 0.05,0.5,0.95; repeatable."),
    ] = ()
    calibrate: Annotated[
        str | None,
        Option(
            metavar="TABLE",
            help="Rows with the target that the fit did not see: stretch the intervals to hold "
            "COVERAGE of such rows.",
        ),
    ] = None
    abstain_above: Annotated[
        float | None,
        Option(metavar="VALUE", help="Rows less sure than this get no prediction but the reason."),
    ] = None
    by: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="What VALUE is about. Numbers: std (default) or epistemic, in the target's unit. "
            "Classes: entropy (default) or mutual-information, nats, or error-probability.",
        ),
    ] = None
    keep: Annotated[
        bool, Option("--keep", help="Repeat the table's own columns instead of row numbers.")
    ] = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class Compare(Learning):
    """Fit several methods with their defaults and judge them on the same held-out rows.

    Best log-likelihood first. A method that fails does not stop the others.
    """

    summary: ClassVar = "Fit several methods to a table and judge them on the same held-out rows."
    examples: ClassVar = (
        "bayesprop compare houses.csv --target price",
        "bayesprop compare iris --method logistic --method mlp --splits 10",
        "bayesprop compare houses.csv --target price --plot comparison.png --json",
    )

    method: Annotated[
        tuple[str, ...],
        Option(metavar="NAME", help="A method; repeatable. Default: all that are quick."),
    ] = ()
    splits: Annotated[
        int, Option(min=1, metavar="N", help="Random splits, the same for every method.")
    ] = 5
    test_fraction: HeldOut = 0.2
    seed: Annotated[
        int, Option(min=0, max=2**31, metavar="N", help="Fixes the splits and the fits.")
    ] = 0
    plot: Annotated[
        Path,
        Option(metavar="FILE", help="Where log-likelihood against time goes (.svg, .png)."),
    ] = Path("comparison.svg")
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class Suggest(Action):
    """Choose the rows of a table that the model would learn most from.

    Each is chosen as if those above it had been measured, so that no two say the same.
    """

    summary: ClassVar = "Choose which rows of a table to measure next, and say why."
    examples: ClassVar = (
        "bayesprop suggest m.bayesprop candidates.csv --n 5 --why",
        "bayesprop suggest m.bayesprop candidates.csv --cost price --where 'heat <= 80'",
        "bayesprop suggest m.bayesprop candidates.csv --n 20 --out next.csv --json",
    )

    model: ModelFile
    table: Annotated[
        str,
        Argument(
            metavar="CANDIDATES",
            help="Rows that could be measured: a .csv, .tsv or .parquet file, or - for CSV on "
            "stdin.",
            show_default=False,
        ),
    ]
    n: Annotated[int, Option("--n", "-n", min=1, metavar="N", help="Rows to choose.")] = 5
    why: Annotated[bool, Option("--why", help="Say of every row why, in words and numbers.")] = (
        False
    )
    acquisition: Annotated[
        str,
        Option(
            metavar="NAME",
            help="What makes a row worth measuring: mutual-information, epistemic-variance, "
            "predictive-variance, predictive-entropy, expected-entropy-reduction or random.",
        ),
    ] = "mutual-information"
    batch: Annotated[
        str,
        Option(
            metavar="NAME",
            help="How rows are kept from saying the same: fantasy, k-means++, top or auto.",
        ),
    ] = "auto"
    cost: Annotated[
        str | None,
        Option(metavar="COL", help="Column of what a measurement costs; score per cost."),
    ] = None
    where: Annotated[
        tuple[str, ...],
        Option(metavar="CONDITION", help="Only such rows: 'temperature <= 80'; repeatable."),
    ] = ()
    reference: Annotated[
        str | None,
        Option(metavar="TABLE", help="Rows whose predictions matter: expected-entropy-reduction."),
    ] = None
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FILE", help="A .csv, .tsv or .parquet file."),
    ] = None
    seed: Seed = 0
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class Update(Action):
    """Let a model learn rows that were measured since.

    It is judged on them first. Methods that learn row by row (pbp, ebp, linear, logistic) need
    nothing else; the others are fitted anew to all rows.
    """

    summary: ClassVar = "Let a model learn rows that were measured since."
    examples: ClassVar = (
        "bayesprop update m.bayesprop measured.csv",
        "bayesprop update m.bayesprop measured.csv --with houses.csv --out new.bayesprop",
    )

    model: ModelFile
    table: TableName
    known: Annotated[
        tuple[str, ...],
        Option(
            "--with",
            metavar="TABLE",
            help="Fit anew, to this table as well: first the one of `fit`, then any learnt since; "
            "repeatable. Default: learn the new rows alone.",
        ),
    ] = ()
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FILE", help="Where it goes. Default: MODEL itself."),
    ] = None
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class Evaluate(Action):
    """Judge a model on a table that holds the target."""

    examples: ClassVar = ("bayesprop evaluate houses.bayesprop later.csv --json",)

    model: ModelFile
    table: TableName
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class Report(Action):
    """Write one HTML page that judges a model on a table that holds the target."""

    summary: ClassVar = "Write an HTML page that judges a model on a table."
    examples: ClassVar = ("bayesprop report houses.bayesprop later.csv --out report.html",)

    model: ModelFile
    table: TableName
    out: Annotated[
        Path, Option("--out", "-o", metavar="FILE", help="Where the page goes (.html).")
    ] = Path("report.html")
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class Inspect(Action):
    """Say what a model file holds, how its fit went, and what command reproduces it."""

    summary: ClassVar = "Say what a model file holds and what reproduces it."
    examples: ClassVar = ("bayesprop inspect houses.bayesprop --json",)

    model: ModelFile
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class Methods(Action):
    """List the methods: what they do, what they cost, when to choose them."""

    summary: ClassVar = "List the methods and when to choose them."

    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class Datasets(Action):
    """List the known data sets: size, target, licence, where they would come from."""

    summary: ClassVar = "List the known data sets."

    as_json: AsJson = False

"""A model that knows its table: fitted just now or opened from a file, and asked by tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bayesprop.codec import are_plain_numbers
from bayesprop.evaluation.baselines import Baselines
from bayesprop.model.progress import current, following
from bayesprop.store import SavedModel, load_model, save_model
from bayesprop.table.division import WITHIN, Factors, labels_of
from bayesprop.table.encoded import Encoded
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import InputError, Message, refusals_of_estimator
from bayesprop.table.read import Check
from bayesprop.table_model.answers import Asked, Positive
from bayesprop.table_model.evaluate import Evaluation, beside, evaluation
from bayesprop.table_model.listener import current_listener
from bayesprop.table_model.predict import PredictRequest, predictive_of, write_predictions
from bayesprop.table_model.request import Notes, outside_support
from bayesprop.table_model.sources import (
    Table,
    column,
    fingerprint,
    in_groups,
    like,
    read_any,
    table_name,
)
from bayesprop.table_model.summary import as_html, as_text

if TYPE_CHECKING:
    from bayesprop.codec import JsonObject
    from bayesprop.distributions.categorical import Distribution
    from bayesprop.estimators.shell import EstimatorBase
    from bayesprop.table_model.conditions import Needed
    from bayesprop.table_model.explain import Explanations
    from bayesprop.table_model.learning import Fitted
    from bayesprop.table_model.monitor import Monitoring
    from bayesprop.table_model.suggest import Suggestions

_NO_BASELINES = "The model file does not hold the baselines, which need the training rows."


@dataclass(frozen=True, repr=False)
class TableModel:
    """A model that knows its table, and the notes of its fit.

    What a verb has to remark on a table comes as TableWarning.

    saved
        What its file holds, or would hold.
    allow_absent
        Whether tables may lack columns.
    std_of
        Of columns whose values have errors, as `predict` takes it.
    fitted
        The fit that made it, with its rows; None where it was opened from a file.
    """

    saved: SavedModel
    encoding: TableEncoding
    notes: Notes
    allow_absent: bool = False
    fitted: Fitted | None = None
    std_of: Mapping[str, str | float] = field(default_factory=dict)

    @classmethod
    def of(cls, saved: SavedModel, fitted: Fitted | None = None) -> TableModel:
        """Read the notes of what a file holds; InputError where it does not know its table."""
        if saved.table is None:
            raise InputError(Message.of("model.no_table"))
        return cls(saved, saved.table, Notes(saved), fitted=fitted)

    @property
    def estimator(self) -> EstimatorBase:
        """The fitted estimator."""
        return self.saved.estimator

    @property
    def positive(self) -> Positive | None:
        """The positive one of two classes."""
        return self.notes.positive

    @property
    def known_groups(self) -> Factors:
        """Columns of the groups whose effects the model has learnt; () of none."""
        learnt, factors = self.saved.fitted.encoding.groups or (), self.notes.group or ()
        return factors if len(learnt) == len(factors) else ()

    @property
    def group_columns(self) -> list[str]:
        """Names of these columns."""
        return list(dict.fromkeys(name for one in self.known_groups for name in one))

    @property
    def remarks(self) -> list[str]:
        """Sentences on what was decided about the table, and on the fit."""
        return [*map(str, self.notes.warnings)]

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def predict(
        self,
        table: Table,
        interval: float | Sequence[float] | None = None,
        quantiles: float | Sequence[float] = (),
        *,
        cost: str | Mapping[str, float] | None = None,
        rate: str | None = None,
        calibrate: Table | None = None,
        abstain_above: float | None = None,
        by: str | None = None,
        columns: str | Sequence[str] = (),
        out: str | Path | None = None,
        escape_formulas: bool = False,
        why: bool = False,
        std_of: Mapping[str, str | float] | None = None,
        allow_missing_columns: bool = False,
    ) -> Any:
        """Predict every row: the columns of `bayesprop predict`, as a frame of the table's kind.

        A number: `mean`, `std` in two parts, the bounds of intervals, quantiles. A class: the
        likeliest one, the probability of each, doubt in nats; and of two classes the decision, if
        the fit was told how. What is unlike the table of the fit comes as TableWarning.

        table
            A data frame, whose index is kept; or a file, a data set, a dict by column (one row) or
            a list of dicts, predicted into polars.
        interval
            Shares of new observations that intervals hold. None: 0.9; numbers only.
        quantiles
            Levels, 0 to 1; numbers only.
        cost, rate
            How two classes are decided, as `fit` takes them; a rate is reached on `calibrate`.
            None: as the fit was told.
        calibrate
            Rows with the target that the fit did not see, as `table`: they stretch the intervals to
            hold their share of such rows; of classes, they choose the threshold of `rate`.
        abstain_above, by
            Rows less sure than this have no prediction but the reason, in column `abstained`. By
            "std" (default) or "epistemic", in the target's unit; of classes by "entropy" (default)
            or "mutual-information", nats, or "error-probability".
        columns
            Columns of the table to repeat beside the predictions; "all" for all of them.
        out
            File (.csv, .tsv, .jsonl or .parquet) that predictions are written to, some rows at a
            time, beside their row numbers or `columns`; their number is returned.
        escape_formulas
            Whether text in a .csv or .tsv file that a spreadsheet would run as a formula, such as
            "=1+1" or "@name", gets an apostrophe in front.
        why
            Whether to add column `why`: sentences on what moves a prediction and what makes it
            uncertain, as `explain` gives them in figures; about a second a row.
        std_of
            Of columns of numbers whose values have errors: {"dose": "dose_sd"}, the column of
            their standard deviations, or {"dose": 0.5}, one number, in the unit of the column.
            Predictions are averaged over what the values may be, and column `gap_share` is the
            share of the variance that comes from there. A missing value needs none. A column that
            is not named has the errors that the fit was told; 0 where it has none.
        allow_missing_columns
            Whether columns that the table lacks count as missing in every row.
        """
        request = PredictRequest(
            interval=() if interval is None else np.atleast_1d(interval).tolist(),
            quantiles=np.atleast_1d(quantiles).tolist(),
            asked=Asked.of(cost, rate),
            calibrate=str(calibrate) if isinstance(calibrate, Path) else calibrate,
            abstain_above=abstain_above,
            by=by,
            columns=(columns,) if isinstance(columns, str) else tuple(columns),
            escape_formulas=escape_formulas,
            why=why,
        )
        model = self._for(allow_missing_columns, std_of)
        own = {name for name, source in self.notes.std_of.items() if source != 0.0}
        if remembered := sorted(own.difference(std_of or ())):
            current_listener().note(Message.of("std_of.remembered", *remembered))
        predicted = write_predictions(model, table, request, None if out is None else str(out))
        return predicted if isinstance(predicted, int) else like(table, predicted)

    def predict_dist(
        self,
        table: Table,
        *,
        std_of: Mapping[str, str | float] | None = None,
        allow_missing_columns: bool = False,
    ) -> Any:
        """Return the predictive distribution of every row, a `Predictive` or `ClassPredictive`.

        std_of, allow_missing_columns
            As of `predict`.
        """
        model = self._for(allow_missing_columns, std_of)
        return model._predicted(table)[2]

    def _for(
        self, allow_absent: bool, std_of: Mapping[str, str | float] | None = None
    ) -> TableModel:
        """Say how tables are read: columns have the errors of the fit, and those of `std_of`."""
        if not isinstance(std_of, Mapping | None):
            raise InputError(Message.of("std_of.mapping", got=repr(std_of)))
        own = self.notes.std_of | dict(std_of or {})
        return replace(self, allow_absent=allow_absent, std_of=own)

    def _predicted(
        self, table: Table, *, by_group: bool = True
    ) -> tuple[pl.DataFrame, Encoded, Distribution]:
        """Read, encode and predict a table, every row as one of its group, or of a new one."""
        frame = self.read(table)
        encoded = self.encode(frame)
        groups = encoded.groups if by_group else None
        if not len(encoded.X):
            raise InputError(Message.of("predict.no_rows", what=table_name(table)))
        numbers = range(1, 1 + len(encoded.X))
        predictive = predictive_of(self, encoded.X, numbers, encoded.X_std, groups)
        current_listener().warn(encoded.warnings)
        return frame, encoded, predictive

    def explain(self, table: Table, *, allow_missing_columns: bool = False) -> Explanations:
        """Explain every row: what each column adds to the prediction and to its uncertainty.

        Shapley values, exact for up to eight columns and along 32 orders of more. A column that is
        not known is drawn given the known ones, as the training rows have them together.

        table
            As `predict` takes it; about a second a row.
        allow_missing_columns
            As of `predict`.
        """
        from bayesprop.table_model.explain import explained

        model = replace(self, allow_absent=allow_missing_columns)
        frame, encoded, predictive = model._predicted(table, by_group=False)
        with current_listener().doing(f"explaining {len(frame)} rows"):
            return explained(model, frame, encoded.X, predictive, table)

    def evaluate(self, table: Table, *, allow_missing_columns: bool = False) -> Evaluation:
        """Return the metrics of the model and its baselines on a table that holds the target.

        `pandas.DataFrame` of it shows one column a model. Beside them: standard errors, of classes
        which was taken for which, and what a decision between two does on these rows.
        """
        model = self._for(allow_missing_columns)
        with current_listener().doing(f"evaluating {table_name(table)}"):
            rows = model.rows_to_judge(table)
            evaluated = evaluation(model, rows)
        current_listener().warn(rows.remarks)
        return evaluated

    def monitor(
        self, table: Table, alarm_rate: float = 0.01, *, allow_missing_columns: bool = False
    ) -> Monitoring:
        """Check whether new rows are like those of the fit, and whether the model still holds.

        Each column is compared with the rows of the fit, missing values too; where the table holds
        the target, also coverage and scores with those on held-out rows. Dates are not compared.

        table
            At least 20 rows, as `predict` takes them.
        alarm_rate
            Probability of any alarm where nothing has changed, at most.
        allow_missing_columns
            As of `predict`.
        """
        from bayesprop.table_model.monitor import monitor

        return monitor(self._for(allow_missing_columns), table, alarm_rate)

    def suggest(
        self,
        table: Table,
        n: int = 5,
        *,
        goal: str | None = None,
        target_value: float | None = None,
        measured: Table | None = None,
        requires: Needed | Sequence[Needed] = (),
        acquisition: str | None = None,
        batch: str = "auto",
        cost: str | None = None,
        where: str | Sequence[str] = (),
        reference: Table | None = None,
        seed: int = 0,
        allow_missing_columns: bool = False,
    ) -> Suggestions:
        """Choose the rows of a table that are worth measuring next, best first, and say why.

        Those that the model would learn most from, or with a goal those that may beat the best so
        far. Each is chosen as if those above it had been measured, so that no two say the same.

        table
            Rows that could be measured, as `predict` takes them.
        n
            Rows to choose.
        goal
            "max" or "min": seek the largest or smallest value of the target, its noise left out.
            None: seek information.
        target_value
            With a goal, the value to reach. None: the best mean that the model predicts at
            `measured`.
        measured
            With a goal, the rows measured so far, as `table`; they are not suggested again, nor are
            planned ones, which lack the target. None: those of the fit, while these are in memory.
        requires
            With a goal, conditions on further outputs, each with the model that predicts it:
            (purity, ">=", 0.95), or "purity.bayesprop >= 0.95" of a model file; of classes by "=="
            or "!=". The score counts times the probability that a row meets all.
        acquisition
            What makes a row worth measuring: "mutual-information" (default), "epistemic-variance",
            "predictive-variance", "predictive-entropy", "expected-entropy-reduction", "random".
            With a goal "log-expected-improvement" (default), "probability-of-improvement" (with
            `target_value` the default), "confidence-bound", "thompson", "random".
        batch
            How rows are kept from saying the same: "fantasy", "k-means++", "top" or "auto".
        cost
            Column of what a measurement costs; the score counts per cost.
        where
            Conditions that rows must meet: "temperature <= 80".
        reference
            Rows whose predictions matter, as `table`: for "expected-entropy-reduction".
        seed
            Fixes every random draw.
        allow_missing_columns
            As of `predict`.
        """
        from bayesprop.table_model.conditions import one_or_several, requirements
        from bayesprop.table_model.suggest import SuggestRequest, suggest

        where = one_or_several(where)
        asked = n, acquisition, batch, cost, where, reference, seed, goal, target_value, measured
        request = SuggestRequest(*asked, requirements(requires))
        return suggest(replace(self, allow_absent=allow_missing_columns), table, request)

    def update(
        self,
        table: Table,
        known: Any = (),
        half_life: float | None = None,
        *,
        allow_missing_columns: bool = False,
    ) -> TableModel:
        """Return a model updated with the rows of a table, after an evaluation on them.

        Methods that learn row by row (pbp, ebp, linear, logistic) need nothing else; the others are
        fitted anew to all rows. The notes hold the metrics before: `notes.updates[-1]["before"]`.

        table
            Rows with the target, as `fit` takes them.
        known
            Tables to fit anew to as well: first the one of `fit`, then any learnt since.
        half_life
            Rows learnt so many rows ago count half (pbp, linear, logistic). None: all count alike.
        allow_missing_columns
            As of `predict`.
        """
        from bayesprop.table_model.update import update

        tables = [*known] if isinstance(known, list | tuple) else [known]
        return update(self._for(allow_missing_columns), table, tables, half_life)

    def report(
        self, out: str | Path, table: Table | None = None, *, allow_missing_columns: bool = False
    ) -> int:
        """Write one HTML page that evaluates the model; return the number of rows used.

        table
            Holds the target. None: the rows that judged the fit, while these are in memory.
        """
        model, listener = self._for(allow_missing_columns), current_listener()
        if table is not None:
            from bayesprop.table_model.monitor import since_the_fit

            with listener.doing(f"reading {table_name(table)}"):
                rows = model.rows_to_judge(table)
            listener.warn(rows.remarks)
            with listener.doing("writing the report"):
                command = self.command_after(f"model.report({str(out)!r}, ...)")
                baselines = self.notes.baselines
                note = _NO_BASELINES if baselines is None else baselines.note
                about: JsonObject = {
                    "command": command,
                    "source": table_name(table),
                    "baseline_note": note,
                }
                models = beside(model, rows, baselines)
                if self.seen_before(rows.y, table) is None:
                    about["remarks"] = since_the_fit(model, rows, models["model"])
                model._write_page(out, about, None, rows, models)
            return len(rows.y)
        if self.fitted is None:
            raise InputError(Message.of("model.no_rows"))
        train, judged = self.fitted.train, self.fitted.judged
        with listener.doing("writing the report"):
            baselines = judged.baselines or Baselines.of(self.estimator, train.X, train.y)
            about = {
                "command": self.notes.command,
                "remarks": self.fitted.on_judging,
                "baseline_note": " ".join((baselines.note, *baselines.reference_notes)).strip(),
            }
            models = judged.models or beside(self, train, baselines)
            self._write_page(out, about, train, judged.rows, models)
        return len((judged.rows or train).y)

    def to_onnx(self, path: str | Path, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> None:
        """Write the model as a graph of ONNX, which predicts without Python.

        One input a column, (rows, 1). Outputs, in float64: `mean`, `epistemic_var`, `noise_var` and
        quantiles as `q_0.05`; of classes `proba` and `mutual_information`. Gaps are filled in 16
        ways, as `predict_dist` does; the file holds up to 128 values of every column for that.
        InputError for what has no graph.

        quantiles
            Levels, above 0 and below 1; numbers only.
        """
        from bayesprop.export.onnx_file import write_onnx

        about = {
            "bayesprop": self.notes.versions.get("bayesprop", ""),
            "method": self.saved.header["method"],
            "task": self.encoding.task,
            "target": self.encoding.target_name,
            "unit": self.notes.unit,
            "target_sha256": self.notes.target_sha256,
        }
        with refusals_of_estimator(ValueError, ImportError):
            write_onnx(path, self.saved.fitted, self.encoding, about, quantiles)

    def save(self, path: str | Path, since: tuple[int, ...] | None = None) -> None:
        """Write it to one file that loads without running code.

        since
            Version of the file that is replaced, of `atomic.version_of`; another one stays.
        """
        saved = self.saved
        about = {"table": self.encoding, "metadata": saved.metadata}
        save_model(path, saved.estimator, **about, since=since)

    def command_after(self, call: str) -> str:
        """Return the command of the model and, after it, what was typed; in Python the call."""
        return " && ".join(filter(None, (self.notes.command, current_listener().command or call)))

    def read(self, table: Table, check: Check | None = None) -> pl.DataFrame:
        """Take a frame, or read a table; what the model knows as text stays text."""
        labels, of_text = self.saved.fitted.encoding.groups or (), []
        for factor, names in zip(self.known_groups, labels, strict=False):
            if not are_plain_numbers(str(name).rsplit(WITHIN)[-1] for name in names):
                of_text.append(factor[-1])
        text = (*self.encoding.text_columns, *of_text)
        return read_any(table, text, check or self.encode, self.encoding.missing)

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """Return a table's rows as numbers."""
        allow, std_of, factors = self.allow_absent, self.std_of, self.known_groups
        encoded = self.encoding.encode(frame, allow_absent=allow, std_of=std_of)
        return encoded._replace(groups=labels_of(frame, factors)) if factors else encoded

    def rows_of(self, frame: pl.DataFrame, source: Table | None) -> EncodedRows:
        """Encode the rows that have a target; InputError if there are none."""
        column(frame, self.encoding.target_name, source)
        allow, std_of = self.allow_absent, self.std_of
        rows = self.encoding.rows(frame, allow_absent=allow, std_of=std_of)
        if not len(rows.y):
            target = self.encoding.target_name
            raise InputError(Message.of("model.no_target", target, where=table_name(source)))
        return rows

    def rows_to_judge(self, table: Table) -> EncodedRows:
        """Read and encode the rows that have a target; remark on those that the model knows."""
        frame = self.read(table, self.encoding.rows)
        rows = in_groups(self.rows_of(frame, table), frame, self.notes.group)
        bad = outside_support(self.saved.fitted.task, rows.y, self.encoding.target_name)
        rows = rows._replace(remarks=[*bad, *rows.remarks])
        seen = self.seen_before(rows.y, table)
        if seen is None:
            return rows
        where = "; `bayesprop inspect` shows the held-out ones" if self.notes.held_out else ""
        return rows._replace(remarks=[f"{seen}: the figures flatter it{where}", *rows.remarks])

    def seen_before(self, target: np.ndarray, source: Table) -> str | None:
        """Say what the model has learnt of a table, None where that is nothing that is known."""
        notes, mark = self.notes, fingerprint(target)
        these = f"these {len(target)} rows of {table_name(source)}"
        if any(update.get("target_sha256") == mark for update in notes.updates):
            return f"the model has learnt {these}"
        if mark != notes.target_sha256:
            return None
        n_fitted = "some" if notes.updates else notes.rows.get("train", "some")
        return f"the model was fitted on {n_fitted} of {these}"

    def _write_page(
        self,
        path: str | Path,
        about: JsonObject,
        train: EncodedRows | None,
        test: EncodedRows | None,
        models: Mapping[str, Distribution],
    ) -> None:
        """Collect the contents and write the page; `about` goes over the notes of the fit."""
        from bayesprop.report.contents import collect
        from bayesprop.report.page import write_report

        going = current()
        going.report(0.0, 1.0, "predictions")
        with following(going.part(0.0, 0.5)):
            contents = collect(
                estimator=self.estimator,
                encoding=self.encoding,
                train=train,
                test=test,
                models=models,
                metadata=self.notes.for_report() | about,
            )
        with following(going.part(0.5, 1.0)):
            write_report(path, contents)


def open_model(path: Path) -> TableModel:
    """Load a model file; refuse one that does not know its table."""
    saved = load_model(path)
    if saved.table is None:
        raise InputError(Message.of("model.file_without_table", path=path))
    return TableModel.of(saved)

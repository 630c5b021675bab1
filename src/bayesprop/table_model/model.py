"""A model that knows its table: fitted just now or opened from a file, and asked by tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.evaluation.thresholds import Rule
from bayesprop.model.progress import current, following
from bayesprop.report.baselines import Baselines
from bayesprop.store import SavedModel, load_model, save_model
from bayesprop.table.encoded import Encoded
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.read import Check
from bayesprop.table_model.answering import Answering, PredictRequest
from bayesprop.table_model.answers import (
    Answers,
    ClassAnswers,
    NumberAnswers,
    answers_of,
    free_name,
)
from bayesprop.table_model.deciding import Asked, Positive, decided
from bayesprop.table_model.listener import Listener
from bayesprop.table_model.notes import Notes
from bayesprop.table_model.predicting import predict_rows, scored
from bayesprop.table_model.refusals import InputError, in_python_words, python_words, warn_in_python
from bayesprop.table_model.sources import column, fingerprint, in_groups, like, read_any, table_name
from bayesprop.table_model.summary import as_html, as_text
from bayesprop.table_model.target_kind import outside_support

if TYPE_CHECKING:
    from bayesprop.table_model.learning import Fitted

CHUNK_ROWS = 65_536
_NO_BASELINES = "The model file does not hold the baselines, which need the training rows."


@dataclass(frozen=True, repr=False)
class TableModel:
    """A model that knows its table, and the notes of its fit.

    saved
        What its file holds, or would hold.
    allow_absent
        Whether tables may lack columns.
    fitted
        The fit that made it, with its rows; None where it was opened from a file.
    """

    saved: SavedModel
    encoding: TableEncoding
    notes: Notes
    allow_absent: bool = False
    fitted: Fitted | None = None

    @classmethod
    def of(cls, fitted: Fitted, command: str) -> TableModel:
        """Note of a fit what reproduces it: the command."""
        encoding = fitted.encoding
        saved = SavedModel.of(fitted.estimator, encoding, fitted.metadata(command))
        return cls(saved, encoding, Notes(saved), fitted=fitted)

    @property
    def estimator(self) -> Any:
        """The fitted estimator."""
        return self.saved.estimator

    @property
    def positive(self) -> Positive | None:
        """The positive one of two classes."""
        return self.notes.positive

    @property
    def remarks(self) -> list[str]:
        """Sentences on what was decided about the table, and on the fit."""
        return [python_words(sentence) for sentence in self.notes.warnings]

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def predict(
        self,
        table: Any,
        interval: float | Sequence[float] | None = None,
        quantiles: float | Sequence[float] = (),
        *,
        cost: str | Mapping[str, float] | None = None,
        rate: str | None = None,
        calibrate: Any = None,
        abstain_above: float | None = None,
        by: str | None = None,
        allow_missing_columns: bool = False,
    ) -> Any:
        """Predict every row: the columns of `bayesprop predict`, as a frame of the table's kind.

        A number: `mean`, `std` in two parts, the bounds of intervals, quantiles. A class: the
        likeliest one, the probability of each, doubt in nats; and of two classes the decision, if
        the fit was told how. What is unlike the table of the fit comes as TableWarning.

        table
            A data frame, whose index is kept; or a file or data set, predicted into polars.
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
        allow_missing_columns
            Whether columns that the table lacks count as missing in every row.
        """
        with in_python_words():
            request = PredictRequest(
                interval=() if interval is None else np.atleast_1d(interval).tolist(),
                quantiles=np.atleast_1d(quantiles).tolist(),
                asked=Asked.of(cost, rate),
                calibrate=str(calibrate) if isinstance(calibrate, Path) else calibrate,
                abstain_above=abstain_above,
                by=by,
            )
            listener = Listener()
            model = replace(self, allow_absent=allow_missing_columns)
            answering = Answering.of(model, request, listener)
            encoded = self._encoded(table, allow_missing_columns)
            answering = answering.of_table(has_gaps=bool(np.isnan(encoded.X).any()))
            parts = [answering.frame(some) for _, some in self.predictives(encoded.X)]
            answering.sum_up(listener)
        warn_in_python([*listener.warnings, *encoded.warnings])
        return like(table, answering.answers.rendered(pl.concat(parts)))

    def predict_dist(self, table: Any, *, allow_missing_columns: bool = False) -> Any:
        """Return the predictive distribution of every row, a `Predictive` or `ClassPredictive`."""
        with in_python_words():
            encoded = self._encoded(table, allow_missing_columns)
            predictive = self.predictive(encoded.X, range(1, 1 + len(encoded.X)))
        warn_in_python(encoded.warnings)
        return predictive

    def evaluate(
        self, table: Any, *, allow_missing_columns: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Return the metrics of the model and its baselines on a table that holds the target.

        `pandas.DataFrame` of it shows one column a model. Where the fit was told how to decide two
        classes, "decided" is what that does on these rows, as `bayesprop evaluate --json` has it.
        """
        with in_python_words():
            rows = replace(self, allow_absent=allow_missing_columns).rows_to_judge(table)
            models = self.predictions(rows, self.notes.baselines)
            scores: dict[str, dict[str, Any]] = {**scored(models, rows).scores}
            done = decided(self.notes.rule, self.positive, models["model"], rows.y)
        warn_in_python(rows.remarks)
        return scores if done is None else scores | {"decided": done}

    def report(
        self, path: str | Path, table: Any = None, *, allow_missing_columns: bool = False
    ) -> None:
        """Write one HTML page that judges the model, as `bayesprop report` does.

        table
            Holds the target. None: the rows that judged the fit, while these are in memory.
        """
        if table is None:
            self.report_fit(path)
            return
        with in_python_words():
            rows = replace(self, allow_absent=allow_missing_columns).rows_to_judge(table)
            self.report_rows(path, rows, self.notes.command, table_name(table))
        warn_in_python(rows.remarks)

    def _encoded(self, table: Any, allow_absent: bool) -> Encoded:
        encoded = replace(self, allow_absent=allow_absent).encode(self.read(table))
        if not len(encoded.X):
            raise InputError(f"{table_name(table)} has no rows to predict")
        return encoded

    def answers(
        self,
        intervals: Sequence[float],
        quantiles: Sequence[float],
        rule: Rule | None,
        others: Collection[str] = (),
    ) -> Answers:
        """Say how predictions are written; InputError where that is not for such a target.

        intervals, quantiles
            Levels; of numbers an interval of 0.9 where none is asked for.
        others
            Names of columns that stand beside.
        """
        encoding, order = self.encoding, self.saved.fitted.task.order
        for option, levels in (("--interval", intervals), ("--quantiles", quantiles)):
            if levels and encoding.classes and order is None:
                raise InputError(
                    f"{option} is for numbers and ordered classes; this model predicts classes "
                    "without order, with a probability for each"
                )
            if not all(0.0 < level < 1.0 for level in levels):
                got = ", ".join(f"{level:g}" for level in levels)
                raise InputError(f"{option} must be between 0 and 1, such as 0.9; got {got}")
        numbers = NumberAnswers(tuple(intervals) or (0.9,), tuple(quantiles))
        answers = answers_of(encoding, encoding.target_name, numbers, order)
        if not isinstance(answers, ClassAnswers):
            return answers
        if self.positive is not None and rule is not None:
            answers = replace(answers, positive=self.positive, rule=rule)
        taken = {*replace(answers, label="").names, *others}
        return replace(answers, label=free_name(answers.label, taken))

    def save(self, path: str | Path) -> None:
        """Write it to one file that loads without running code."""
        saved = self.saved
        save_model(path, saved.estimator, table=self.encoding, metadata=saved.metadata)

    def read(self, table: Any, check: Check | None = None) -> pl.DataFrame:
        """Take a frame, or read a table; what the model knows as text stays text."""
        return read_any(
            table, self.encoding.text_columns, check or self.encode, self.encoding.missing
        )

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """Return a table's rows as numbers."""
        return self.encoding.encode(frame, allow_absent=self.allow_absent)

    def rows_of(self, frame: pl.DataFrame, source: Any) -> EncodedRows:
        """Encode the rows that have a target; InputError if there are none."""
        column(frame, self.encoding.target_name, source)
        rows = self.encoding.rows(frame, allow_absent=self.allow_absent)
        if not len(rows.y):
            target = self.encoding.target_name
            raise InputError(f"no row of {table_name(source)} has a value of {target}")
        return rows

    def rows_to_judge(self, table: Any) -> EncodedRows:
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

    def predictive(self, X: Float[np.ndarray, "n k"], numbers: Sequence[Any] | np.ndarray) -> Any:
        """Predict some encoded rows; InputError where the prediction is not finite.

        numbers
            What the table calls the rows, for messages.
        """
        place = self.positive and self.positive.place
        return predict_rows(self.saved.fitted.predict, X, self.encoding, numbers, place)

    def predictions(self, rows: EncodedRows, baselines: Baselines | None) -> dict[str, Any]:
        """Predict some rows by the model, under "model", and by baselines."""
        model, inputs = self.predictive(rows.X, rows.numbers), self.saved.fitted.inputs
        return {"model": model, **(baselines.predict(rows.X, model, inputs) if baselines else {})}

    def predictives(self, X: Float[np.ndarray, "n k"], first: int = 0) -> Iterator[tuple[int, Any]]:
        """Predict the encoded rows of a table, some at a time, so that memory stays bounded.

        Yields the place of the first of them with what is predicted.

        first
            Place of the first row in its table, for messages.
        """
        going = current()
        for start in range(0, len(X), CHUNK_ROWS):
            part = X[start : start + CHUNK_ROWS]
            numbers = range(first + start + 1, first + start + 1 + len(part))
            with following(going.part(start / len(X), (start + len(part)) / len(X))):
                predicted = self.predictive(part, numbers)
            yield start, predicted

    def seen_before(self, target: np.ndarray, source: Any) -> str | None:
        """Say what the model has learnt of a table, None where that is nothing that is known."""
        notes, mark = self.notes, fingerprint(target)
        these = f"these {len(target)} rows of {table_name(source)}"
        if any(update.get("target_sha256") == mark for update in notes.updates):
            return f"the model has learnt {these}"
        if mark != notes.target_sha256:
            return None
        n_fitted = "some" if notes.updates else notes.rows.get("train", "some")
        return f"the model was fitted on {n_fitted} of {these}"

    def report_fit(self, path: str | Path) -> None:
        """Write the page of the fit that made it."""
        if self.fitted is None:
            raise InputError("the rows of the fit are gone: name a table to judge the model on")
        train, judged = self.fitted.train, self.fitted.judged
        baselines = judged.baselines or Baselines.of(self.estimator, train.X, train.y)
        about = {
            "command": self.notes.command,
            "remarks": self.fitted.on_judging,
            "baseline_note": " ".join((baselines.note, *baselines.peer_notes)).strip(),
        }
        models = judged.models or self.predictions(train, baselines)
        self._write_page(path, about, train, judged.rows, models)

    def report_rows(self, path: str | Path, rows: EncodedRows, command: str, source: str) -> None:
        """Write the page that judges it on other rows; InputError where one cannot be predicted."""
        baselines = self.notes.baselines
        note = _NO_BASELINES if baselines is None else baselines.note
        about = {"command": command, "source": source, "baseline_note": note}
        self._write_page(path, about, None, rows, self.predictions(rows, baselines))

    def _write_page(
        self,
        path: str | Path,
        about: dict[str, Any],
        train: EncodedRows | None,
        test: EncodedRows | None,
        models: Mapping[str, Any],
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


def open_model(path: Path, *, allow_absent: bool = False) -> TableModel:
    """Load a model file; refuse one that does not know its table."""
    saved = load_model(path)
    if saved.table is None:
        raise InputError(
            f"{path} was saved from Python without the encoding of its table; "
            "use bayesprop.load and its predict, or fit it with `bayesprop fit`"
        )
    return TableModel(saved, saved.table, Notes(saved), allow_absent)

"""One file a model, checked before it is believed.

Nothing in a file is executed or imported: the header names a method, and the method's class is
looked up in `bayesprop.catalogue`; `sealed.py` says what the header holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesprop import catalogue, codec
from bayesprop.codec import JsonObject
from bayesprop.estimators.scikit_learn import with_scikit_learn
from bayesprop.estimators.stored import method_and_task, restored, to_stored, with_params
from bayesprop.sealed import (
    SCHEMA,
    Refused,
    library_versions,
    model_header,
    naming,
    read_sealed,
    shown,
    write_sealed,
)

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase
    from bayesprop.model.task import Fitted
    from bayesprop.table.encoding import TableEncoding


@dataclass(frozen=True)
class SavedModel:
    """Contents of a model file.

    plain
        The fitted estimator; of a file, one that predicts without scikit-learn.
    table
        How tables become its inputs; None if it was fitted on a matrix.
    metadata
        What was stored with it.
    header
        Everything else that the file says about itself: schema, method, versions.
    """

    plain: EstimatorBase
    table: TableEncoding | None
    metadata: JsonObject
    header: JsonObject

    @classmethod
    def of(cls, estimator: EstimatorBase, table: TableEncoding, metadata: JsonObject) -> SavedModel:
        """Return the contents of the file of a model in memory."""
        method, _ = method_and_task(estimator)
        about = {"schema": SCHEMA, "method": method, "versions": library_versions()}
        return cls(estimator, table, metadata, about)

    @cached_property
    def fitted(self) -> Fitted:
        """All that a prediction needs."""
        return self.plain.fitted_

    @cached_property
    def estimator(self) -> EstimatorBase:
        """Fitted, as it was saved; of a file, it is built when it is first asked for."""
        plain = self.plain
        return plain if "plain" in vars(type(plain)) else with_scikit_learn(plain)


def save_model(
    path: str | Path,
    estimator: EstimatorBase,
    *,
    table: TableEncoding | None = None,
    metadata: JsonObject | None = None,
    since: tuple[int, ...] | None = None,
) -> None:
    """Write a fitted estimator to one file, whole or not at all.

    table
        How tables become the estimator's inputs, kept with it.
    metadata
        Anything that JSON can hold.
    since
        The `atomic.version_of` the file when it was read, if no other may be replaced.

    Raises ModelFileError if the file cannot be written (an older one then stays as it was), and
    TypeError for what the format cannot hold.
    """
    model, arrays = to_stored(estimator)
    header = model_header(model, codec.to_json(table, type(table)), metadata)
    write_sealed(path, header, arrays, since)


def load_model(path: str | Path) -> SavedModel:
    """Read a model file; ModelFileError, in one line, if it is not a whole and unaltered one."""
    with naming(f"model file {shown(path)}"):
        return _built(*read_sealed(path))


def estimator_from_stored(header: JsonObject, arrays: dict[str, np.ndarray]) -> EstimatorBase:
    """Rebuild an estimator from what its `to_stored` gave; any error where it is not that."""
    return with_scikit_learn(_restored(header, arrays))


def unfitted_from_stored(header: JsonObject) -> EstimatorBase:
    """Rebuild what `unfitted_to_stored` gave; any error where it is not that."""
    kind = catalogue.estimator_class(header["method"], header["task"])
    return with_params(kind, header["params"])


def _restored(header: JsonObject, arrays: dict[str, np.ndarray]) -> EstimatorBase:
    """Read a fitted estimator, without scikit-learn."""
    kind = catalogue.plain_class(header["method"], header["task"])
    return restored(kind, header["model"], arrays)


def _built(header: JsonObject, arrays: dict[str, np.ndarray]) -> SavedModel:
    """Turn checked bytes into objects; whatever goes wrong here is the file's fault."""
    schema, method = header.get("schema"), header.get("method")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise Refused(f"has no known schema: {str(schema)[:40]!r}")
    if schema > SCHEMA:
        raise Refused(
            f"has schema {schema}, and this bayesprop reads up to {SCHEMA}: upgrade bayesprop"
        )
    if not isinstance(method, str) or method not in catalogue.METHODS:
        known = ", ".join(catalogue.METHODS)
        raise Refused(f"is of an unknown method {str(method)[:40]!r}; this bayesprop has {known}")
    try:
        plain = _restored(header, arrays)
        table = _table(header["table"], plain.fitted_)
        metadata, _ = dict(header["metadata"]), dict(header["versions"])
    except Exception as error:  # contents chosen by a stranger can fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise Refused(f"does not describe a {method} model ({reason})") from error
    about = {key: header[key] for key in header if key not in ("table", "metadata")}
    return SavedModel(plain, table, metadata, about)


def _table(stored: JsonObject | None, fitted: Fitted) -> TableEncoding | None:
    if stored is None:
        return None
    from bayesprop.table.encoding import TableEncoding

    table, labels = (
        codec.from_json(TableEncoding, stored),
        getattr(fitted.task, "labels", np.array([])),
    )
    own, models = [len(table.feature_names), *table.classes], [fitted.n_inputs, *labels.tolist()]
    if own != models:
        raise ValueError(f"features and classes of the table are {own}, of the model {models}")
    return table

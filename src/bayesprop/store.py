"""One file a model: arrays and a JSON header in a safetensors file, checked before it is believed.

Nothing in a file is executed or imported: the header names a method, and the method's class is
looked up in `bayesprop.catalogue`. The header (under the key "bayesprop" of the file's metadata):

schema
    Version of this layout.
method
    Key of `METHODS`.
task
    "regression" or "classification".
versions
    Of bayesprop, Python and the numerical libraries that wrote the file.
model
    What the estimator needs beside its arrays: hyper-parameters, feature names, scaling.
table
    The TableEncoding, or null.
metadata
    Whatever the caller wanted to keep.

A second key, "sha256", is the digest of the whole file with that digest read as zeros.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop import catalogue, codec
from bayesprop.atomic import write_atomically
from bayesprop.codec import Stored

if TYPE_CHECKING:
    from bayesprop.model.fitted import Fitted
    from bayesprop.table.encoding import TableEncoding

SCHEMA = 1
_HEADER, _DIGEST, _NO_DIGEST = "bayesprop", "sha256", "0" * 64
_LENGTH = struct.Struct("<Q")
_LIBRARIES = ("bayesprop", "numpy", "scipy", "jax", "numba", "safetensors", "polars")
_MAX_HEADER = 100_000_000  # bytes, the limit of the format


class ModelFileError(ValueError):
    """A model file that cannot be read, believed or written; the message is one line."""


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds.

    fitted
        All that a prediction needs.
    origin
        The fitted estimator, or the part of a file that holds it.
    table
        How tables become its inputs; None if it was fitted on a matrix.
    metadata
        What was stored with it.
    header
        Everything else that the file says about itself: schema, method, versions.
    """

    fitted: Fitted
    origin: Any
    table: TableEncoding | None
    metadata: dict[str, Any]
    header: dict[str, Any]

    @classmethod
    def of(cls, estimator: Any, table: TableEncoding, metadata: dict[str, Any]) -> SavedModel:
        """Say of a model in memory what its file would say."""
        method, _ = catalogue.method_and_task(estimator)
        about = {"schema": SCHEMA, "method": method, "versions": _versions()}
        return cls(estimator.fitted_, estimator, table, metadata, about)

    @cached_property
    def estimator(self) -> Any:
        """Fitted, as it was saved; of a file, it is built when it is first asked for."""
        is_file = isinstance(self.origin, Stored)
        return estimator_from_stored(*self.origin) if is_file else self.origin


def save_model(
    path: str | Path,
    estimator: Any,
    *,
    table: TableEncoding | None = None,
    metadata: dict[str, Any] | None = None,
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
    model, arrays = estimator_to_stored(estimator)
    header = {
        "schema": SCHEMA,
        **model,
        "versions": _versions(),
        "table": codec.to_json(table, type(table)),
        "metadata": metadata or {},
    }
    write_sealed(path, header, arrays, since)


def load_model(path: str | Path) -> SavedModel:
    """Read a model file; ModelFileError, in one line, if it is not a whole and unaltered one."""
    with _naming(f"model file {_shown(path)}"):
        return _built(*read_sealed(path))


def estimator_to_stored(estimator: Any) -> Stored:
    """Return a fitted estimator as a header for JSON and named arrays; TypeError if not of ours."""
    method, task = catalogue.method_and_task(estimator)
    model, arrays = estimator.to_stored()
    return Stored({"method": method, "task": task, "model": model}, arrays)


def estimator_from_stored(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild an estimator from what `estimator_to_stored` gave; any error where it is not that."""
    kind: Any = catalogue.estimator_class(header["method"], header["task"])
    return kind.from_stored(header["model"], arrays)


def fitted_from_stored(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Fitted:
    """Rebuild all that a prediction needs, as `estimator_from_stored` does; no scikit-learn."""
    kind: Any = catalogue.hyper_parameters_class(header["method"], header["task"])
    return kind.fitted_from_stored(header["model"], arrays)


def write_sealed(
    path: str | Path,
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    since: tuple[int, ...] | None = None,
) -> None:
    """Write header and arrays to one file with their digest, whole or not at all.

    Raises ModelFileError if it cannot be written, TypeError for what the format cannot hold.
    """
    content = seal(header, arrays)
    try:
        write_atomically(path, lambda file: file.write(content), since)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"cannot write model file {_shown(path)}: {reason}") from error


def read_sealed(path: str | Path) -> Stored:
    """Read what `write_sealed` wrote; ModelFileError if it is not whole and unaltered."""
    with _naming(f"model file {_shown(path)}"):
        return _unpacked(_read(path))


def seal(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Return the bytes of a sealed file, with their digest in place."""
    from safetensors.numpy import save

    text = json.dumps(header, default=_plain)
    plain = {name: _storable(name, array) for name, array in arrays.items()}
    content = save(plain, metadata={_HEADER: text, _DIGEST: _NO_DIGEST})
    slot = f'"{_DIGEST}":"{_NO_DIGEST}"'.encode()
    before, found, after = content.partition(slot)
    if not found:
        raise RuntimeError("safetensors laid out its header in an unknown way")
    digest = hashlib.sha256(content).hexdigest()
    return before + slot.replace(_NO_DIGEST.encode(), digest.encode()) + after


def unseal(content: bytes, source: str) -> Stored:
    """Read what `seal` gave; ModelFileError names the source if it is not whole and unaltered."""
    with _naming(source):
        _check_start(content[: _LENGTH.size + len('{"')])
        return _unpacked(content)


@contextmanager
def believing(what: str) -> Iterator[None]:
    """Turn whatever goes wrong, as contents chosen by a stranger can in any way, into `what`."""
    try:
        yield
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ModelFileError(f"{what} ({reason})") from error


class _Refused(Exception):
    """Why a file is not believed, to follow "model file '...' "."""


@contextmanager
def _naming(source: str) -> Iterator[None]:
    try:
        yield
    except _Refused as refusal:
        raise ModelFileError(f"{source} {refusal}") from refusal.__cause__


def _versions() -> dict[str, str]:
    """Return versions from package metadata, without importing the packages."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a model file holds JSON and arrays only, got a {type(value).__name__}")


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """Return an array in C order and little-endian, which is how the format reads the memory."""
    array = np.require(array, requirements="C")
    if not _is_storable(array.dtype):
        raise TypeError(f"array {name!r} must be float32, float64 or integers, got {array.dtype}")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _is_storable(kind: np.dtype) -> bool:
    return kind.kind in "iu" or (kind.kind == "f" and kind.itemsize in (4, 8))


def _read(path: str | Path) -> bytes:
    """Return the bytes of a file, after a look at its beginning: it may be large and not ours."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(_LENGTH.size + len('{"'))
            _check_start(start)
            most = min(_LENGTH.unpack(start[: _LENGTH.size])[0], os.fstat(file.fileno()).st_size)
            head = start + file.read(most)  # no room for a length that is only claimed
            _layout(head)
            return head + file.read()
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no model file {_shown(path)}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"cannot read model file {_shown(path)}: {reason}") from error


def _check_start(start: bytes) -> None:
    if not start:
        raise _Refused("is empty")
    # The length of a header may begin with any byte, so look for the header before a pickle.
    if len(start) < _LENGTH.size + 2 or start[_LENGTH.size :] != b'{"':
        if start.startswith((b"\x80", b"PK\x03\x04")):
            raise _Refused("is a pickle or an archive, which is never opened: save the model again")
        raise _Refused("is not a bayesprop model")
    if _LENGTH.unpack(start[: _LENGTH.size])[0] > _MAX_HEADER:
        raise _Refused("is damaged: its header claims an impossible length")


def _unpacked(content: bytes) -> Stored:
    """Return header and arrays of a file whose digest is right."""
    texts = _layout(content)["__metadata__"]
    _check_digest(content, str(texts[_DIGEST]))
    return Stored(_json(str(texts[_HEADER])), _arrays(content))


def _layout(content: bytes) -> dict[str, Any]:
    """Return what the file says about its arrays and, under "__metadata__", about itself."""
    (length,) = _LENGTH.unpack(content[: _LENGTH.size])
    head = content[_LENGTH.size : _LENGTH.size + length]
    if len(head) < length:
        raise _Refused("is cut short: fetch or save it again")
    layout = _json(head)
    texts = layout.get("__metadata__")
    if not isinstance(texts, dict) or _HEADER not in texts or _DIGEST not in texts:
        raise _Refused("is not a bayesprop model: it has no bayesprop header")
    return layout


def _json(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Refused("has a damaged header: fetch or save it again") from error
    if not isinstance(value, dict):
        raise _Refused("has a damaged header: it is not an object")
    return value


def _check_digest(content: bytes, digest: str) -> None:
    as_hashed = content.replace(digest.encode(errors="replace"), _NO_DIGEST.encode(), 1)
    if hashlib.sha256(as_hashed).hexdigest() != digest:
        raise _Refused("is damaged or was altered: its checksum is wrong; fetch or save it again")


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as read_arrays

    try:
        arrays = {name: np.array(array) for name, array in read_arrays(content).items()}
    except (SafetensorError, KeyError, ValueError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split())[:100]
        raise _Refused(f"has arrays that do not fit: {reason}") from error
    for name, array in arrays.items():
        if not _is_storable(array.dtype):
            raise _Refused(
                f"has an array {name[:40]!r} of type {array.dtype}: not floats or integers"
            )
    return arrays


def _built(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> SavedModel:
    """Turn checked bytes into objects; whatever goes wrong here is the file's fault."""
    schema, method = header.get("schema"), header.get("method")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise _Refused(f"has no known schema: {str(schema)[:40]!r}")
    if schema > SCHEMA:
        raise _Refused(
            f"has schema {schema}, and this bayesprop reads up to {SCHEMA}: upgrade bayesprop"
        )
    if not isinstance(method, str) or method not in catalogue.METHODS:
        known = ", ".join(catalogue.METHODS)
        raise _Refused(f"is of an unknown method {str(method)[:40]!r}; this bayesprop has {known}")
    try:
        fitted = fitted_from_stored(header, arrays)
        table = _table(header["table"], fitted)
        metadata, _ = dict(header["metadata"]), dict(header["versions"])
    except Exception as error:  # contents chosen by a stranger can fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise _Refused(f"does not describe a {method} model ({reason})") from error
    about = {key: header[key] for key in header if key not in ("table", "metadata")}
    return SavedModel(fitted, Stored(header, arrays), table, metadata, about)


def _table(stored: dict[str, Any] | None, fitted: Fitted) -> TableEncoding | None:
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


def _shown(path: str | Path) -> str:
    return repr(str(path)[:200])

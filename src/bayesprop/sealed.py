"""Arrays and a JSON header in one safetensors file, checked before it is believed.

Nothing in a file is executed or imported. The header of a model (under the key "bayesprop" of the
file's metadata):

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

A large array most of whose numbers are one and the same, as of a pruned network, is stored in three
parts: that number and then the others, a bit an entry that says which are others, and its shape.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bayesprop.atomic import write_atomically
from bayesprop.codec import Json, JsonObject, Stored

SCHEMA = 1
_HEADER, _DIGEST, _NO_DIGEST = "bayesprop", "sha256", "0" * 64
_LENGTH = struct.Struct("<Q")
_LIBRARIES = ("bayesprop", "numpy", "scipy", "jax", "numba", "safetensors", "polars")
_RAISE = {"bayesprop", "numpy", "scipy", "sklearn", "polars", "jax", "jaxlib", "numba", "jaxtyping"}
"""Packages, beside Python's own, whose exceptions say that contents are bad."""
_MAX_HEADER = 100_000_000  # bytes, the limit of the format
_BITS = re.compile(r"(.*):bits((?:x\d+)+)", re.S)
"""Names of the bits of an array, and its shape: "w:bitsx31x200"."""
_LEAST_SAVED, _LOOKED_AT = 512, 4096  # bytes for which two parts are written; numbers


class ModelFileError(ValueError):
    """A model file that cannot be read, believed or written; the message is one line."""


def model_header(
    model: JsonObject,
    table: JsonObject | None = None,
    metadata: JsonObject | None = None,
) -> JsonObject:
    """Return the header of a model file, of what an estimator's `to_stored` gave."""
    about = {"versions": library_versions(), "table": table, "metadata": metadata or {}}
    return {"schema": SCHEMA, **model, **about}


def write_sealed(
    path: str | Path,
    header: JsonObject,
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
        raise ModelFileError(f"cannot write model file {shown(path)}: {reason}") from error


def read_sealed(path: str | Path) -> Stored:
    """Read what `write_sealed` wrote; ModelFileError if it is not whole and unaltered."""
    with naming(f"model file {shown(path)}"):
        return _unpacked(_read(path))


def seal(header: JsonObject, arrays: dict[str, np.ndarray]) -> bytes:
    """Return the bytes of a sealed file, with their digest in place."""
    from safetensors.numpy import save

    text = json.dumps(header, default=_plain)
    plain = {}
    for name, array in arrays.items():
        plain |= _packed(name, _storable(name, array))
    content = save(plain, metadata={_HEADER: text, _DIGEST: _NO_DIGEST})
    slot = f'"{_DIGEST}":"{_NO_DIGEST}"'.encode()
    before, found, after = content.partition(slot)
    if not found:
        raise RuntimeError("safetensors laid out its header in an unknown way")
    digest = hashlib.sha256(content).hexdigest()
    return before + slot.replace(_NO_DIGEST.encode(), digest.encode()) + after


def unseal(content: bytes, source: str) -> Stored:
    """Read what `seal` gave; ModelFileError names the source if it is not whole and unaltered."""
    with naming(source):
        _check_start(content[: _LENGTH.size + len('{"')])
        return _unpacked(content)


@contextmanager
def believing(what: str) -> Iterator[None]:
    """Turn whatever contents chosen by a stranger can raise into a ModelFileError that begins so.

    A time-out is none of that: an OSError, or an exception of the program around it, passes.
    """
    try:
        yield
    except Exception as error:
        root = type(error).__module__.partition(".")[0]
        if isinstance(error, OSError) or root not in (_RAISE | sys.stdlib_module_names):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ModelFileError(f"{what} ({reason})") from error


class Refused(Exception):
    """Why a file is not believed, to follow "model file '...' "."""


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Turn a Refused into a ModelFileError that names the source."""
    try:
        yield
    except Refused as refusal:
        raise ModelFileError(f"{source} {refusal}") from refusal.__cause__


def library_versions() -> dict[str, str]:
    """Return versions from package metadata, without importing the packages."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _plain(value: np.generic | np.ndarray) -> Json:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a model file holds JSON and arrays only, got a {type(value).__name__}")


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """Return an array in C order and little-endian, which is how the format reads the memory."""
    array = np.require(array, requirements="C")
    if not _is_storable(array.dtype):
        raise TypeError(f"array {name!r} must be float32, float64 or integers, got {array.dtype}")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _packed(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """Return an array; its two parts where many numbers, alike to the last bit, make it large."""
    flat = array.ravel()
    words = flat.view(f"u{flat.itemsize}")
    if words.nbytes < _LEAST_SAVED:
        return {name: array}
    some, counts = np.unique(words[:: 1 + flat.size // _LOOKED_AT], return_counts=True)
    usual = np.argmax(words == some[np.argmax(counts)])
    is_other = words != words[usual]
    n_saved = (flat.size - np.count_nonzero(is_other)) * flat.itemsize - flat.size / 8
    if n_saved < _LEAST_SAVED:
        return {name: array}
    numbers = np.concatenate([flat[[usual]], flat[is_other]])
    shape = "".join(f"x{size}" for size in array.shape)
    return {name: numbers, f"{name}:bits{shape}": np.packbits(is_other)}


def _whole(numbers: np.ndarray, bits: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Undo `_packed`; ValueError where the parts do not fit together."""
    size, is_other = math.prod(sizes), np.unpackbits(bits.astype(np.uint8)).astype(bool)
    if bits.size != -(-size // 8) or is_other[size:].any():
        raise ValueError("bits do not fit their shape")
    whole = np.full(size, numbers.ravel()[0])
    whole[is_other[:size]] = numbers.ravel()[1:]
    return whole.reshape(sizes)


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
        raise ModelFileError(f"there is no model file {shown(path)}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"cannot read model file {shown(path)}: {reason}") from error


def _check_start(start: bytes) -> None:
    if not start:
        raise Refused("is empty")
    # The length of a header may begin with any byte, so look for the header before a pickle.
    if len(start) < _LENGTH.size + 2 or start[_LENGTH.size :] != b'{"':
        if start.startswith((b"\x80", b"PK\x03\x04")):
            raise Refused("is a pickle or an archive, which is never opened: save the model again")
        raise Refused("is not a bayesprop model")
    if _LENGTH.unpack(start[: _LENGTH.size])[0] > _MAX_HEADER:
        raise Refused("is damaged: its header claims an impossible length")


def _unpacked(content: bytes) -> Stored:
    """Return header and arrays of a file whose digest is right."""
    texts = _layout(content)["__metadata__"]
    _check_digest(content, str(texts[_DIGEST]))
    return Stored(_json(str(texts[_HEADER])), _arrays(content))


def _layout(content: bytes) -> JsonObject:
    """Return what the file says about its arrays and, under "__metadata__", about itself."""
    (length,) = _LENGTH.unpack(content[: _LENGTH.size])
    head = content[_LENGTH.size : _LENGTH.size + length]
    if len(head) < length:
        raise Refused("is cut short: fetch or save it again")
    layout = _json(head)
    texts = layout.get("__metadata__")
    if not isinstance(texts, dict) or _HEADER not in texts or _DIGEST not in texts:
        raise Refused("is not a bayesprop model: it has no bayesprop header")
    return layout


def _json(text: str | bytes) -> JsonObject:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused("has a damaged header: fetch or save it again") from error
    if not isinstance(value, dict):
        raise Refused("has a damaged header: it is not an object")
    return value


def _check_digest(content: bytes, digest: str) -> None:
    as_hashed = content.replace(digest.encode(errors="replace"), _NO_DIGEST.encode(), 1)
    if hashlib.sha256(as_hashed).hexdigest() != digest:
        raise Refused("is damaged or was altered: its checksum is wrong; fetch or save it again")


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as read_arrays

    try:
        arrays = {name: np.array(array) for name, array in read_arrays(content).items()}
        for packed in list(filter(None, map(_BITS.fullmatch, arrays))):
            name, shape = packed.groups()
            sizes = [int(size) for size in shape[1:].split("x")]
            arrays[name] = _whole(arrays[name], arrays.pop(packed[0]), sizes)
    except (SafetensorError, LookupError, ValueError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split())[:100]
        raise Refused(f"has arrays that do not fit: {reason}") from error
    for name, array in arrays.items():
        if not _is_storable(array.dtype):
            raise Refused(
                f"has an array {name[:40]!r} of type {array.dtype}: not floats or integers"
            )
    return arrays


def shown(path: str | Path) -> str:
    """Return a path for a message."""
    return repr(str(path)[:200])

"""The data sets that can be named: where each one is, its checksum, columns, licence, splits.

A new data set is one entry of `sets.toml`. Places are tried in this order: the folder that the
environment variable BAYESPROP_DATA names, this package, scikit-learn, openml.org.
"""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tomllib
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped

from bayesprop.table.errors import TableError, quoted

if TYPE_CHECKING:
    import polars as pl
    from sklearn.utils import Bunch

    from bayesprop.codec import JsonObject

FOLDER_VARIABLE = "BAYESPROP_DATA"
_PATIENCE = 20.0  # seconds without a byte from the network
_UNSCALED = {"load_diabetes": {"scaled": False}}  # scikit-learn standardises these unless told


@dataclass(frozen=True)
class DataSet:
    """What is known about a data set before it is read.

    n, d
        Rows and input columns.
    target, unit
        Name of the target and its unit; "" for classes.
    y_mean, y_std
        Of the target, four decimals; what is loaded is checked against them. None: not known.
    sha256
        Of the file; None where nobody has published one.
    file
        Place in the folder of BAYESPROP_DATA; None: not there.
    packaged
        Name of the file in this package; None: not included.
    bundled
        Name of scikit-learn's loader; None: not included in scikit-learn.
    openml
        Number at openml.org; None: no copy there with these columns is known.
    n_splits
        Standard splits of the papers' tables; 0: there are none.
    n_train
        First rows that are for training where the one split is by position; None: random splits.
    features
        Names of the input columns where the source has none.
    classes
        Labels in the order of the source's codes 0, 1, ...; empty for regression.
    image_shape
        Height and width of a picture whose pixels are the input columns, row by row.
    """

    name: str
    n: int
    d: int
    target: str
    licence: str
    citation: str
    unit: str = ""
    y_mean: float | None = None
    y_std: float | None = None
    note: str = ""
    file: str | None = None
    sha256: str | None = None
    packaged: str | None = None
    bundled: str | None = None
    openml: int | None = None
    n_splits: int = 20
    n_train: int | None = None
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] | tuple[int, ...] = ()
    image_shape: tuple[int, int] | None = None

    @property
    def task(self) -> str:
        """What the target asks for: "regression" or "classification"."""
        return "classification" if self.classes else "regression"

    @property
    def pixel_names(self) -> list[str]:
        """Names of the input columns of pictures, row by row."""
        height, width = self.image_shape or (0, 0)
        return [f"pixel_{i}_{j}" for i in range(height) for j in range(width)]


@dataclass(frozen=True)
class Loaded:
    """A data set in memory, in its own units.

    X
        Numbers; text where the columns are categories.
    y
        Numbers; labels for classification.
    source
        Where it came from: a path, "bayesprop", "scikit-learn" or "openml.org".
    """

    X: Shaped[np.ndarray, "n d"]
    y: Shaped[np.ndarray, " n"]
    feature_names: list[str]
    target_name: str
    unit: str
    source: str

    def frame(self) -> pl.DataFrame:
        """Return the set as a table, its target last."""
        import polars as pl

        columns = dict(zip(self.feature_names, self.X.T, strict=True))
        return pl.DataFrame({**columns, self.target_name: self.y})


class NotThereError(Exception):
    """Why a place does not have a data set."""


def _from_folder(data: DataSet, file: str) -> Loaded:
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise NotThereError(f"{FOLDER_VARIABLE} is not set")
    path = Path(folder).expanduser() / file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotThereError(f"no file {path}") from None
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    digest = hashlib.sha256(content).hexdigest()
    if data.sha256 is not None and digest != data.sha256:
        raise TableError(
            f"{path} is not the published file: its SHA-256 should begin with {data.sha256[:12]},"
            f" got {digest[:12]}; fetch it again"
        )
    if path.suffix == ".csv":
        return _loaded_from_csv(data, content, str(path))
    return _loaded_from_npz(data, content, str(path))


def _loaded_from_npz(data: DataSet, content: bytes, path: str) -> Loaded:
    wanted = "X and y" if data.image_shape is None else "train_images, train_labels, test_..."
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            x, y = _pictures(arrays) if data.image_shape else (arrays["X"], arrays["y"])
            features = [str(name) for name in arrays.get("feature_names", ())]
    except (KeyError, ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise TableError(f"{path} must be an npz file with arrays {wanted}: {error}") from error
    return _checked(data, x, y, features, path)


def _pictures(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return all pictures as rows of pixels, those for training first, and their codes."""
    images = np.concatenate([arrays["train_images"], arrays["test_images"]])
    labels = np.concatenate([arrays["train_labels"], arrays["test_labels"]])
    return images.reshape(len(images), -1), labels


def _loaded_from_csv(data: DataSet, content: bytes, path: str) -> Loaded:
    """Return a published table of codes as it stands: "?" is a level there, not a gap."""
    import polars as pl

    frame = pl.read_csv(content, infer_schema=False)
    if data.target not in frame.columns:
        raise TableError(f"{path} must have a column {data.target}: fetch it again")
    features = frame.drop(data.target)
    return _checked(
        data, features.to_numpy().astype(str), frame[data.target].to_numpy(), features.columns, path
    )


def _from_package(data: DataSet, file: str) -> Loaded:
    with resources.files("bayesprop.datasets").joinpath(file).open(encoding="utf-8") as lines:
        names = lines.readline().strip().split(",")
        values = np.loadtxt(lines, delimiter=",")
    return _checked(data, values[:, :-1], values[:, -1], names[:-1], "bayesprop")


def _from_sklearn(data: DataSet, name: str) -> Loaded:
    from sklearn import datasets

    loader: Callable[..., Bunch] = getattr(datasets, name)
    try:
        bundle = loader(**_UNSCALED.get(name, {}))
    except OSError as error:
        why = f"scikit-learn's copy cannot be read: {error.strerror}"
        raise NotThereError(why) from error
    features = list(data.features) or [str(name) for name in bundle.feature_names]
    return _checked(data, bundle.data, bundle.target, features, "scikit-learn")


def _from_openml(data: DataSet, number: int) -> Loaded:
    try:
        fetched = _fetch(number)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:100]
        raise NotThereError(f"openml.org data {number} is out of reach: {reason}") from error
    features = [str(name) for name in fetched.feature_names]
    return _checked(data, fetched.data, fetched.target, features, "openml.org")


def _fetch(number: int) -> Any:
    """Ask openml.org once, and give up after a while where a firewall swallows the question."""
    from sklearn.datasets import fetch_openml

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A network error occurred")
            return fetch_openml(
                data_id=number, as_frame=False, parser="liac-arff", n_retries=1, delay=0.1
            )
    finally:
        socket.setdefaulttimeout(before)


def _checked(
    data: DataSet, x: np.ndarray, y: np.ndarray, features: list[str], source: str
) -> Loaded:
    """Build `Loaded` from what a source gave, or say how it differs from what it should be."""
    x, y = _labelled(data, x, y, source) if data.classes else _numeric(data, x, y, source)
    if x.shape != (data.n, data.d) or y.shape != (data.n,):
        raise TableError(
            f"{data.name} from {source} must have X {(data.n, data.d)} and y {(data.n,)}, got"
            f" {x.shape} and {y.shape}"
        )
    published = np.array([data.y_mean, data.y_std], np.float64)  # None is nan
    is_published = not np.isnan(published).any()
    if is_published and not np.allclose([y.mean(), y.std()], published, rtol=0.0, atol=1e-3):
        raise TableError(
            f"{data.name} from {source} has another target: its mean and std must be"
            f" {data.y_mean} and {data.y_std}, got {y.mean():.4f} and {y.std():.4f}"
        )
    features = data.pixel_names or features or list(data.features)
    features = features or [f"x{i + 1}" for i in range(data.d)]
    return Loaded(x, y, features, data.target, data.unit, source)


def _numeric(
    data: DataSet, x: np.ndarray, y: np.ndarray, source: str
) -> tuple[np.ndarray, np.ndarray]:
    try:
        return np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(f"{data.name} from {source} is not all numbers: {error}") from error


def _labelled(
    data: DataSet, x: np.ndarray, y: np.ndarray, source: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and labels; a source holds labels or their codes, possibly as text."""
    labels, given = np.array(data.classes), np.asarray(y)
    if not np.isin(given, labels).all():
        try:
            codes = given.astype(np.float64).astype(np.int64)
            given = labels[codes]
        except (TypeError, ValueError, IndexError) as error:
            raise TableError(f"{data.name} from {source} has other classes: {error}") from error
    if len(np.unique(given)) != len(labels):
        raise TableError(
            f"{data.name} from {source} must have {len(labels)} classes, got"
            f" {len(np.unique(given))}"
        )
    x = np.asarray(x)
    is_bytes = data.image_shape is not None and x.size and x.min() >= 0 and x.max() <= 255
    return x.astype(np.uint8) if is_bytes else x, given.astype(labels.dtype)


PLACES: dict[str, Callable[..., Loaded]] = {
    "file": _from_folder,
    "packaged": _from_package,
    "bundled": _from_sklearn,
    "openml": _from_openml,
}
"""What reads each place, by the field of a data set that says where it is there."""


def _read_sets() -> dict[str, DataSet]:
    content = resources.files("bayesprop.datasets").joinpath("sets.toml").read_text("utf-8")
    return {name: _data_set(name, fields) for name, fields in tomllib.loads(content).items()}


def _data_set(name: str, fields: JsonObject) -> DataSet:
    values: JsonObject = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return DataSet(name=name, **values)


_TABLE = _read_sets()


def names() -> list[str]:
    """Return the names that `load` knows."""
    return list(_TABLE)


def find(name: str) -> DataSet | None:
    """Return what is known about a data set; None where it is none."""
    return _TABLE.get(name)


def describe(name: str) -> DataSet:
    """Return what is known about a data set; TableError names those that exist."""
    if name not in _TABLE:
        raise TableError(f"no data set {quoted(name)}; there are {', '.join(_TABLE)}")
    return _TABLE[name]


def load(name: str) -> Loaded:
    """Read a data set from the first place that has it, and check it.

    Raises TableError, in one line, when no place has it or a copy is not what it should be.
    """
    data = describe(name)
    tried: list[str] = []
    for field, read in PLACES.items():
        if (where := getattr(data, field)) is not None:
            try:
                return read(data, where)
            except NotThereError as error:
                tried.append(str(error))
    remedy = f"; {data.note}" if data.sha256 is None and data.file else ""
    raise TableError(
        f"data set {quoted(name)} was not found ({'; '.join(tried)}): set {FOLDER_VARIABLE} to a"
        f" folder that holds {data.file or 'it'}{remedy}"
    )

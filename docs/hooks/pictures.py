"""Makes the pictures of the pages, by running the blocks of the page that shows them.

What a block saves by `savefig("NAME.svg")`, any page of a shelf may show as
`![text](../pictures/NAME.svg)`. What was made is kept in `.cache/` until the block or the package
changes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from blocks import blocks_of
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CACHE = REPOSITORY / ".cache" / "pictures"
SETTINGS = {
    "MPLBACKEND": "agg",
    "MATPLOTLIBRC": str(Path(__file__).with_name("matplotlibrc")),
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiling takes longer than these small fits
    "XLA_FLAGS": "--xla_cpu_parallel_codegen_split_count=1",
}
SAVED = re.compile(r'savefig\("([\w-]+\.svg)"\)')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures that the blocks of the pages save."""
    for page in list(files.documentation_pages()):
        for picture in drawn(Path(config.docs_dir, page.src_uri)):
            target = f"pictures/{picture.name}"
            files.append(File.generated(config, target, abs_src_path=str(picture)))
    return files


def drawn(page: Path) -> list[Path]:
    """Return the pictures that the blocks of a page save, after making those that are not there."""
    text = page.read_text(encoding="utf-8")
    names = [name for block in blocks_of(text) if block.runs for name in SAVED.findall(block.code)]
    if not names:
        return []
    folder = CACHE / f"{page.stem}-{_fingerprint(text)}"
    with _one_at_a_time():
        if not folder.exists():
            _draw(page, folder)
    return [folder / name for name in names]


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let a second build wait for the pictures of the first."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _draw(page: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        made = Path(temporary, "made")
        made.mkdir()
        done = subprocess.run(
            [sys.executable, Path(__file__).parent / "blocks.py", page, made],
            env=os.environ | SETTINGS,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PluginError(f"{page.name}: a block failed\n{done.stderr}")
        for other in (path for path in made.iterdir() if path.suffix != ".svg"):
            other.unlink() if other.is_file() else shutil.rmtree(other)
        for outdated in CACHE.glob(f"{page.stem}-*"):
            shutil.rmtree(outdated)
        made.replace(folder)


def _fingerprint(text: str) -> str:
    """Name what the pictures of a page depend on: its code, and the package's."""
    digest = hashlib.sha256()
    for block in blocks_of(text):
        digest.update(block.code.encode() if block.runs else b"")
    for module in sorted((REPOSITORY / "src" / "bayesprop").rglob("*.py")):
        digest.update(module.read_bytes())
    digest.update(Path(__file__).with_name("matplotlibrc").read_bytes())
    return digest.hexdigest()[:16]

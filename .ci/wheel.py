"""Build wheel and sdist, check their files, use the wheel from empty environments: `make wheel`.

Every Python named, by default those on the path, gets an empty environment and an empty folder,
where the front page's commands run. It prints a row a Python: seconds, and the size of the install.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = (sys.executable, "-m", "uv")
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
STEPS = {
    "import": 'python -c "import bayesprop"',
    "fit": "bayesprop fit concrete -t compressive_strength --seed 0 --quiet --out m.bayesprop",
    "predict": "bayesprop predict m.bayesprop concrete --interval 0.9 --out p.csv --quiet",
    "report": "bayesprop report m.bayesprop concrete --out report.html --quiet",
    "front page": "python front_page.py",  # the blocks of Python in README
}


def run(*command: object, cwd: Path = ROOT) -> str:
    """Return the output of a command; SystemExit with all of it if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_files(wheel: Path, sdist: Path) -> None:
    """Compare the files of wheel and sdist with those that git has."""
    tracked = set(run("git", "ls-files").splitlines())
    package = {name[len("src/") :] for name in tracked if name.startswith("src/")}
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        names = {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}
    wrong = sorted(inside ^ package | names - tracked - {"PKG-INFO"})
    if wrong:
        sys.exit(f"files that do not belong, or are missing: {wrong}")
    version = re.search(r"^version: (.*)", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    if version is None or not wheel.name.startswith(f"bayesprop-{version[1]}-"):
        sys.exit(f"CITATION.cff has another version than {wheel.name}")


def row(python: str, wheel: Path, folder: Path) -> str:
    """Install the wheel for one Python, run the steps and return their seconds."""
    environment, empty = folder / "env", folder / "empty"
    run(*UV, "venv", "--python", python, environment)
    empty.mkdir()
    readme = (ROOT / "README.md").read_text("utf-8")
    front = re.findall(r"^```python\n(.*?)^```", readme, re.S | re.M)
    (empty / "front_page.py").write_text("\n".join(front), "utf-8")
    begun = time.perf_counter()
    run(*UV, "pip", "install", "--python", environment, wheel)
    cells = [f"{time.perf_counter() - begun:.0f}"]
    run(*UV, "pip", "check", "--python", environment)
    size = sum(one.stat().st_size for one in environment.rglob("*") if one.is_file())
    programs = environment / ("Scripts" if sys.platform == "win32" else "bin")
    for program, *words in map(shlex.split, STEPS.values()):
        begun = time.perf_counter()
        run(programs / program, *words, cwd=empty)
        cells.append(f"{time.perf_counter() - begun:.2f}")
    return " | ".join([Path(python).name, *cells, f"{size / 2**20:.0f} MiB"])


def main(pythons: list[str]) -> None:
    """Build, check, and print the table."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    run(*UV, "build", "--out-dir", dist)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    run(*UV, "tool", "run", "twine", "check", "--strict", wheel, sdist)
    check_files(wheel, sdist)
    print(" | ".join(["Python", "install", *STEPS, "size"]), flush=True)
    for python in pythons or PYTHONS:
        if shutil.which(python) is None:
            print(f"{python} | not on this machine", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            print(row(python, wheel, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A command in unusual surroundings: what goes in and out, switches of Python, what is missing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TABLE = "x,größe€\n" + "".join(f"{k},{k + 3 * (k * 7 % 11)}\n" for k in range(40))
FIT = "fit t.csv -t größe€ --method linear -o m.bayesprop"
FULL = "error: cannot write the output: No space left on device\n"

CASES = {
    "without docstrings": (f"python -OO -m bayesprop {FIT} -q", 0, ""),
    "full": (f"python -m bayesprop {FIT} -q --json > /dev/full", 1, FULL),
    "full, of help": ("python -m bayesprop fit --help > /dev/full", 1, FULL),
    "closed": (f"python -m bayesprop {FIT} <&- >&- 2>&-", 0, ""),
    "closed input": (
        "python -m bayesprop fit - -t y -o m.bayesprop <&-",
        2,
        "error: standard input is empty: a header line and rows are required\n",
    ),
    "ascii": (f"PYTHONIOENCODING=ascii python -m bayesprop {FIT} -q", 0, ""),
    "ascii, for programs": (f"PYTHONIOENCODING=ascii python -m bayesprop {FIT} -q --json", 0, ""),
    "no home": (
        f"env -i LC_ALL=C HOME=/nowhere PYTHONPATH=$PYTHONPATH python -m bayesprop {FIT} -q",
        0,
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_command_ends_with_its_code_and_one_sentence(case, tmp_path):
    words, code, said = CASES[case]
    (tmp_path / "t.csv").write_text(TABLE)
    command = words.replace("python ", f"{sys.executable} ")
    paths = os.pathsep.join(filter(None, sys.path))
    how = {"shell": True, "cwd": tmp_path, "env": os.environ | {"PYTHONPATH": paths}}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert (done.returncode, done.stderr) == (code, said)
    assert (tmp_path / "m.bayesprop").exists() == ("fit t.csv" in words)
    if case == "ascii":
        assert "gr??e?" in done.stdout
    if case == "ascii, for programs":
        assert "gr\\u00f6\\u00dfe\\u20ac" in done.stdout

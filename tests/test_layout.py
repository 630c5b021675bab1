"""The house keeps its shape: arrows one way, small modules, nothing heavy on import."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from bayesprop import catalogue

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "src" / "bayesprop"
MODULES = sorted(SOURCE.rglob("*.py"))
PAPERS = sorted((REPOSITORY / "papers").rglob("*.py"))

# What each part may import. `table` is a second root; the families never see each other.
ALLOWED = {
    "numerics": set(),
    "atomic": set(),
    "codec": set(),
    "table": {"atomic"},
    "datasets": {"table"},
    "targets": {"numerics"},
    "distributions": {"numerics", "targets"},
    "model": {"numerics", "targets", "distributions"},
    "networks": {"numerics", "distributions", "model"},
    "moments": {"numerics", "distributions", "model", "networks"},
    "sampling": {"numerics", "distributions", "model", "networks"},
    "linear": {"numerics", "distributions", "model"},
    "tabular_default": {"numerics", "distributions", "model"},
    "metrics": {"distributions"},
    "sealed": {"atomic"},
    "export": {"numerics", "distributions", "model", "table", "atomic"},
    "estimators": {
        "sealed", "metrics", "targets", "distributions", "model", "networks", "moments",
        "sampling", "linear", "tabular_default", "numerics",
    },
    "catalogue": {"estimators"},
    "store": {"catalogue", "estimators", "sealed", "table", "model"},
    "active_learning": {
        "estimators", "store", "sealed", "distributions", "targets", "numerics",
    },
    "bandits": {
        "estimators", "store", "sealed", "catalogue", "model", "targets", "networks", "numerics",
    },
    "conformal": {"estimators", "store", "sealed", "distributions"},
    "abstention": {"estimators", "metrics", "distributions"},
    "evaluation": {"metrics", "model", "targets", "distributions", "table"},
    "report": {
        "catalogue", "conformal", "evaluation", "metrics", "model", "targets", "distributions",
        "table", "atomic",
    },
    "scale": {
        "estimators", "numerics", "model", "targets", "distributions", "store", "sealed", "table",
    },
    "table_model": {
        "export", "numerics", "targets", "distributions",
        "scale", "report", "store", "estimators", "catalogue", "metrics", "model", "table",
        "datasets", "abstention", "conformal", "evaluation", "active_learning",
    },
    "cli": {
        "scale", "table_model", "report", "store", "estimators", "catalogue", "metrics", "model",
        "targets", "distributions", "table", "datasets", "atomic",
        "active_learning", "evaluation",
    },
    "__main__": {"cli"},
}  # fmt: skip
HOMES_OF_HEAVY_IMPORTS = {
    # of table it makes the folds, of evaluation its models are rivals
    "sklearn": {
        "estimators",
        "datasets",
        "table",
        "evaluation",
        "scale",
        "active_learning",
        "bandits",
        "conformal",
        "abstention",
        "table_model",
    },
    "matplotlib": {"report", "distributions"},  # of these what a notebook asks for
    "numba": {"numerics"},
    "typer": {"cli"},
    "polars": {"table", "datasets", "scale", "table_model", "cli", "active_learning"},
    "optax": {"networks", "moments", "sampling", "estimators"},
}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def imports_of(path: Path) -> set[str]:
    found = set()
    if path.name == "catalogue.py":
        homes = (home for method in catalogue.METHODS.values() for home in method.homes.values())
        found |= {home.partition(":")[0] for home in homes}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and re.fullmatch(
            r"bayesprop[.\w]+:\w+", str(node.value)
        ):
            found.add(str(node.value).partition(":")[0])
    return found


def test_arrows_point_one_way():
    for path in MODULES:
        part = part_of(path)
        if part == "__init__":
            continue
        parts = {name.split(".")[1] for name in imports_of(path) if name.startswith("bayesprop.")}
        wrong = {p for p in parts if (SOURCE / p).exists() or (SOURCE / f"{p}.py").exists()}
        wrong -= ALLOWED[part] | {part, "codec"}
        assert not wrong, f"{path}: {part} must not import {sorted(wrong)}"


def test_papers_use_all_and_nothing_uses_papers():
    users = [p for p in MODULES if any(n.split(".")[0] == "papers" for n in imports_of(p))]
    assert not users, "what is installed must not import what is not"


def test_figures_alone_draw():
    drawing = {
        p.parent.name for p in PAPERS if any(n.startswith("matplotlib") for n in imports_of(p))
    }
    assert drawing <= {"figures"}


def test_heavy_libraries_stay_where_they_belong():
    for path in MODULES:
        for library in HOMES_OF_HEAVY_IMPORTS.keys() & {n.split(".")[0] for n in imports_of(path)}:
            homes = HOMES_OF_HEAVY_IMPORTS[library]
            assert part_of(path) in homes, f"{path}: {library} belongs in {sorted(homes)}"


def test_no_module_uses_what_numba_does_not_promise():
    private = "numba.core", "numba._", "llvmlite.binding"
    users = [p for p in MODULES if any(n.startswith(private) for n in imports_of(p))]
    assert not users, "numba, numba.extending and llvmlite.ir are public"


def test_modules_are_short_and_named_after_their_subject():
    for path in [*MODULES, *PAPERS]:
        assert path.stem not in {"utils", "helpers", "common", "misc", "base"}, path
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 600, path


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"jax", "sklearn", "matplotlib", "numba", "scipy", "polars", "pandas", "numpy"}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import bayesprop; dir(bayesprop)", HEAVY),
        ("from papers.command import main; main(['--list'], name='papers')", HEAVY),
        ("import bayesprop.store, bayesprop.datasets.registry", {"jax", "sklearn", "polars"}),
        ("from bayesprop.moments.pbp import engine, network", {"jax", "sklearn", "matplotlib"}),
        ("from bayesprop import PBPRegressor, BayesianRegressor", {"jax"}),
        ("import bayesprop.cli.predict", {"jax", "sklearn", "pandas", "matplotlib", "scipy.stats"}),
    ],
)
def test_heavy_libraries_wait_until_they_are_used(statement: str, absent: set[str]):
    assert not loaded_by(statement) & absent


WITHOUT_JAX = ("default", "pbp", "linear", "logistic")
"""Begin the names of files of methods that predict without it."""
PREDICT = """
from pathlib import Path
import numpy as np
from bayesprop.store import load_model
for path in sorted(Path("tests/golden/methods-v1").glob("*.bayesprop")):
    if path.stem.startswith({names}) is {are_they}:
        fitted = load_model(path).fitted
        assert fitted.predict(np.zeros((2, fitted.n_inputs))).is_finite.all()
"""


@pytest.mark.parametrize("are_they", [True, False])
def test_a_saved_model_predicts_without_scikit_learn(are_they: bool):
    loaded = loaded_by(PREDICT.format(names=WITHOUT_JAX, are_they=are_they))
    assert not loaded & {"sklearn", "pandas", "matplotlib", "polars"}
    assert ("jax" in loaded) is not are_they


def test_unknown_public_name_is_an_attribute_error():
    import bayesprop

    misspelt = "PBPRegresor"
    with pytest.raises(AttributeError, match=misspelt):
        getattr(bayesprop, misspelt)
    assert set(bayesprop.__all__) <= set(dir(bayesprop))
    assert all(getattr(bayesprop, name) is not None for name in bayesprop.__all__)


def test_few_classes_stand_above_an_estimator():
    """Its hyper-parameters, alone and where both tasks have them, and two shells with theirs."""
    for name, method in catalogue.METHODS.items():
        for task in method.homes:
            above = catalogue.estimator_class(name, task).__mro__[1:]
            ours = [kind for kind in above if kind.__module__.startswith("bayesprop")]
            assert len(ours) <= 7, ours


def test_benchmarks_can_be_imported():
    for file in (REPOSITORY / "benchmarks").rglob("*.py"):
        name = ".".join(file.relative_to(REPOSITORY).with_suffix("").parts)
        try:
            importlib.import_module(name.removesuffix(".__init__"))
        except ModuleNotFoundError as error:
            if error.name not in ("torch", "autogluon", "scoringbench"):  # peers
                raise

"""Settings for the whole suite."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from method_settings import STOOD_FOR

REPOSITORY = Path(__file__).resolve().parent.parent

CONTRACT = "tests/estimators/test_sklearn_contract.py::test_contract"
MINUTES = (
    "tests/docs/test_blocks.py::test_blocks_run",
    "tests/docs/test_notebooks.py",
    "tests/papers/test_experiments_",
    "tests/papers/test_runner_",
    "tests/report/test_report_browser.py",
    f"{CONTRACT}[ClosedFormVI",
    f"{CONTRACT}[EBP",
    f"{CONTRACT}[BayesianRegressor(n_epochs=5,n_members=2)-check_regressors_train(readonly",
    f"{CONTRACT}[BayesianClassifier(n_epochs=5,n_members=2)-check_classifiers_train(readonly",
    "tests/estimators/test_mcmc_estimators.py",
    "tests/estimators/test_bayes_by_backprop_estimators.py",
    "tests/estimators/test_point_and_dropout_networks.py",
    "tests/estimators/test_laplace_estimators.py",
    "tests/networks/test_mesh.py",
    "tests/sampling/test_bayes_by_backprop.py",
    "tests/sampling/test_mcmc.py",
    "tests/sampling/test_dropout.py",
    "tests/test_examples.py",
    "src/bayesprop/estimators/mcmc.py",
    "src/bayesprop/estimators/batch_ep.py",
)
"""Where the minutes of the suite go: `make test` leaves them to `make test-all`, and so to CI."""
EXAMPLES = {"quick": 100, "thorough": 120}
"""Of every property, in `make test` and in `make test-all`: the same ones in each run."""
for name, n_examples in EXAMPLES.items():
    settings.register_profile(
        name,
        max_examples=n_examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Try more examples of every property where exhaustive tests are asked for."""
    is_quick = config.getoption("markexpr") == "not exhaustive"
    settings.load_profile("quick" if is_quick else "thorough")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes minutes as exhaustive."""
    for item in items:
        if item.nodeid.startswith(MINUTES) or _is_stood_for(item):
            item.add_marker(pytest.mark.exhaustive)


def _is_stood_for(item: pytest.Item) -> bool:
    """Whether a test of a contract is put to a method that others stand for."""
    from bayesprop.catalogue import METHODS

    given = getattr(item, "callspec", None)
    if given is None or not item.nodeid.startswith("tests/estimators/"):
        return False
    homes = {home for name in STOOD_FOR for home in METHODS[name].homes.values()}
    params = [one if isinstance(one, tuple) else (one,) for one in given.params.values()]
    for value in chain.from_iterable(params):
        kind = value if isinstance(value, type) else type(value)
        is_name = isinstance(value, str) and value in STOOD_FOR
        if is_name or f"{kind.__module__}:{kind.__qualname__}" in homes:
            return True
    return False


@pytest.fixture(scope="session", autouse=True)
def _strict_shapes():
    """Let (n,) - (n, 1) be an error in JAX code, as in a careful user's session."""
    import jax

    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="session")
def uci_folder() -> Path:
    """Folder of the UCI sets; tests that need it are skipped where there is none."""
    for candidate in (os.environ.get("BAYESPROP_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (Path(candidate) / "uci" / "yacht.npz").exists():
            return Path(candidate)
    pytest.skip("no UCI data: set BAYESPROP_DATA to the folder that holds uci/")


@pytest.fixture
def published(uci_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the registry read the published files; skip where there are none."""
    monkeypatch.setenv("BAYESPROP_DATA", str(uci_folder))
    return uci_folder

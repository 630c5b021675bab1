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
    "tests/active_learning/test_acquisition.py::test_draws_of_a_network_keep_the_variances",
    "tests/bandits/test_bandit_files.py::test_a_loaded_bandit_goes_on_as_if_never_interrupted",
    "tests/bandits/test_rewards.py::test_the_unit_of_rewards_does_not_matter",
    "tests/cli/test_cli_end_to_end.py::test_inspect_shows_what_the_recipe_chose",
    "tests/cli/test_cli_update.py::test_updates_at_once_are_all_learnt",
    "tests/combinations/test_second_fits.py",
    "tests/distributions/test_transformed_predictive.py::test_numbers_with_limits_are_integrated",
    "tests/docs/test_blocks.py::test_blocks_run",
    "tests/docs/test_first_pages.py::test_blocks_run",
    "tests/docs/test_notebooks.py",
    "tests/papers/test_experiments_",
    "tests/papers/test_runner_",
    "tests/report/test_report_browser.py",
    f"{CONTRACT}[ClosedFormVI",
    f"{CONTRACT}[EBP",
    f"{CONTRACT}[BayesianRegressor(n_epochs=5,n_members=2)-check_regressors_train(readonly",
    f"{CONTRACT}[BayesianClassifier(n_epochs=5,n_members=2)-check_classifiers_train(readonly",
    "tests/estimators/test_every_method.py::test_an_epoch_is_compiled_once",
    "tests/estimators/test_every_method.py::test_arviz_gets_draws_at_rows",
    "tests/estimators/test_every_method.py::test_drawn_functions_have_the_moments",
    "tests/estimators/test_every_method.py::test_rows_without_weight_leave_no_trace",
    "tests/estimators/test_linear_regressor.py::test_intervals_of_few_rows_hold_their_share",
    "tests/estimators/test_pbp_regressor.py::test_what_the_compiled_engine_does_not_run",
    "tests/estimators/test_skpro.py",
    "tests/evaluation/test_calibration.py::test_of_calibrated_groups_that_err_alike",
    "tests/evaluation/test_who_is_better.py::test_sentences_claim_what_the_figures_show",
    "tests/estimators/test_mcmc_estimators.py",
    "tests/estimators/test_bayes_by_backprop_estimators.py",
    "tests/estimators/test_point_and_dropout_networks.py",
    "tests/estimators/test_laplace_estimators.py",
    "tests/linear/test_measured_inputs.py::test_slopes_are_not_attenuated",
    "tests/networks/",
    "tests/estimators/test_batch_ep_regressor.py",
    "tests/estimators/test_closed_form_vi_estimators.py",
    "tests/estimators/test_hard_tables.py",
    "tests/estimators/test_order_of_classes.py",
    "tests/estimators/test_streaming_classifiers.py",
    "tests/bandits/test_replayed_rewards.py",
    "tests/cli/test_environments.py",
    "tests/docs/test_walks.py",
    "tests/estimators/test_default.py::test_every_parameter_changes_something",
    "tests/tabular_default/test_network_ensemble.py",
    "tests/export/test_onnx.py::test_classes_are_those_of_python",
    "tests/export/test_onnx.py::test_numbers_are_those_of_python",
    "tests/moments/batch_ep/",
    "tests/moments/pbp/test_engine.py::test_weight_zero_is_an_absent_row",
    "tests/moments/pbp/test_pbp_classes.py::test_the_largest_of_several_outputs",
    "tests/moments/pbp/test_updates.py",
    "tests/moments/test_closed_form_vi.py",
    "tests/moments/test_ebp.py",
    "tests/numerics/test_activation_moments.py",
    "tests/numerics/test_loops.py",
    "tests/numerics/test_softmax_expectations.py",
    "tests/sampling/",
    "tests/scale/test_large_tables.py",
    "tests/scale/test_shards.py",
    "tests/tabular_default/test_class_ensemble.py::test_slopes_are_on_average",
    "tests/tabular_default/test_ensemble_training.py::test_a_step_follows_the_gradient_of_the_loss",
    "tests/tabular_default/test_ensemble_training.py::test_steps_are_those_of_optax",
    "tests/tabular_default/test_joint_covariance.py",
    "tests/tabular_default/test_left_out_rows.py::test_a_process_stays_where_few_rows",
    "tests/tabular_default/test_parts.py",
    "tests/tabular_default/test_twins.py",
    "tests/table_model/test_groups_in_tables.py::test_columns_are_nested_or_crossed",
    "tests/table_model/test_kinds_in_tables.py::test_ordered_classes_are_asked_for",
    "tests/table_model/test_scikit_learn.py::test_contract",
    "tests/table/test_rendered_files.py",
    "tests/table/test_rendered_values.py",
    "tests/table/test_stored_encodings.py",
    "tests/test_examples.py",
    "tests/test_forged_files.py",
    "tests/test_layout.py::test_a_saved_model_predicts_without_scikit_learn",
    *(
        f"src/bayesprop/estimators/{name}.py"
        for name in (
            "batch_ep",
            "bayes_by_backprop",
            "closed_form_vi",
            "graves_vi",
            "laplace",
            "mc_dropout",
            "mcmc",
            "point_network",
        )
    ),
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
    """Mark what takes minutes as exhaustive; run examples of docstrings once a class."""
    items[:] = [item for item in items if not item.nodeid.endswith(".plain")]
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

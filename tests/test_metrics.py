import numpy as np
import pytest
from scipy import stats

from bayesprop import metrics
from bayesprop.model.predictive import GaussianPredictive

RNG = np.random.default_rng()  # tolerances come from standard errors, so that no seed is needed


def prediction(n, *outputs):
    shape = (n, *outputs)
    return GaussianPredictive(
        RNG.normal(3.0, 5.0, shape), RNG.uniform(0.1, 2.0, shape), RNG.uniform(0.1, 4.0, shape)
    )


def observed(pred):
    return pred.mean + pred.std * RNG.standard_normal(pred.mean.shape)


def test_errors_of_the_mean():
    pred = GaussianPredictive(np.array([1.0, 2.0]), np.ones(2), np.ones(2))
    y = np.array([4.0, -2.0])
    assert metrics.rmse(pred, y) == pytest.approx(np.sqrt((9.0 + 16.0) / 2.0))
    assert metrics.mae(pred, y) == pytest.approx(3.5)


def test_log_likelihood_is_nats_a_row_in_the_units_of_y():
    pred = prediction(50)
    y = observed(pred)
    expected = stats.norm(pred.mean, pred.std).logpdf(y).mean()
    assert metrics.mean_log_likelihood(pred, y) == pytest.approx(expected, rel=1e-12)
    in_grams = GaussianPredictive(1e3 * pred.mean, 1e6 * pred.epistemic_var, 1e6 * pred.noise_var)
    assert metrics.mean_log_likelihood(in_grams, 1e3 * y) == pytest.approx(
        expected - np.log(1e3), rel=1e-12
    )


def test_log_likelihood_of_several_outputs_adds_them_up():
    pred = prediction(40, 3)
    y = observed(pred)
    expected = stats.norm(pred.mean, pred.std).logpdf(y).sum(axis=1).mean()
    assert metrics.mean_log_likelihood(pred, y) == pytest.approx(expected, rel=1e-12)
    assert metrics.pit(pred, y).shape == (40, 3)
    assert 0.0 <= metrics.coverage(pred, y, 0.5) <= 1.0


def test_crps_agrees_with_scoringrules():
    import scoringrules

    pred = prediction(200)
    y = observed(pred) + 3.0 * RNG.standard_normal(200)
    expected = scoringrules.crps_normal(y, pred.mean, pred.std)
    np.testing.assert_allclose(pred.crps(y), expected, rtol=1e-9)
    assert metrics.mean_crps(pred, y) == pytest.approx(float(np.mean(expected)), rel=1e-9)


def test_crps_of_a_sure_prediction_is_the_absolute_error():
    pred = GaussianPredictive(np.array([1.0, 2.0]), np.zeros(2), np.full(2, 1e-20))
    y = np.array([1.5, -2.0])
    assert metrics.mean_crps(pred, y) == pytest.approx(metrics.mae(pred, y), rel=1e-8)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.99])
def test_coverage_and_width_of_an_honest_prediction(level):
    n = 20_000
    pred = prediction(n)
    se = np.sqrt(level * (1.0 - level) / n)
    assert abs(metrics.coverage(pred, observed(pred), level) - level) < 5 * se
    half = stats.norm.ppf(0.5 + level / 2.0)
    assert metrics.mean_width(pred, level) == pytest.approx(2 * half * pred.std.mean(), rel=1e-9)


def test_pit_of_an_honest_prediction_is_uniform():
    pred = prediction(20_000)
    assert stats.kstest(metrics.pit(pred, observed(pred)), "uniform").pvalue > 1e-6


def test_calibration_error_of_an_honest_prediction_is_at_its_floor():
    n = 20_000
    pred = prediction(n)
    level = np.linspace(0.05, 0.95, 19)
    floor = np.mean(np.sqrt(2.0 / np.pi * level * (1.0 - level) / n))
    assert metrics.calibration_error(pred, observed(pred)) < 6 * floor
    assert floor == pytest.approx(0.33 / np.sqrt(n), rel=0.02)  # as its docstring says


def test_calibration_error_is_the_mean_gap_between_nominal_and_actual_coverage():
    pred = prediction(300)
    y = pred.mean + 2.0 * pred.std * RNG.standard_normal(300)
    level = np.linspace(0.05, 0.95, 19)
    gaps = [abs(metrics.coverage(pred, y, one) - one) for one in level]
    assert metrics.calibration_error(pred, y) == pytest.approx(np.mean(gaps), abs=1e-12)


@pytest.mark.parametrize(("shift", "worst"), [(0.0, 0.5), (1e6, 0.5)])
def test_calibration_error_of_the_worst_predictions(shift, worst):
    pred = prediction(20)
    assert metrics.calibration_error(pred, pred.mean + shift) == pytest.approx(worst)


def test_summary_repeats_the_single_figures():
    pred = prediction(100)
    y = observed(pred)
    summary = metrics.summarise(pred, y)
    assert summary["rmse"] == metrics.rmse(pred, y)
    assert summary["log_likelihood"] == metrics.mean_log_likelihood(pred, y)
    assert summary["crps"] == metrics.mean_crps(pred, y)
    assert summary["coverage_90"] == metrics.coverage(pred, y, 0.9)
    assert summary["width_90"] == metrics.mean_width(pred, 0.9)
    assert summary["calibration_error"] == metrics.calibration_error(pred, y)
    assert summary["epistemic_share"] == pred.epistemic_share
    assert all(type(value) is float for value in summary.values())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(4), r"shape of the prediction, \(5,\), got \(4,\)"),
        (np.zeros((5, 1)), r"got \(5, 1\)"),
        (np.array([1.0, np.nan, 1.0, 1.0, 1.0]), "must be finite"),
    ],
)
def test_observations_that_do_not_fit_are_refused(y, message):
    pred = prediction(5)
    for metric in (metrics.rmse, metrics.mae, metrics.mean_crps, metrics.pit):
        with pytest.raises(ValueError, match=message):
            metric(pred, y)


def test_no_observations_are_refused():
    with pytest.raises(ValueError, match="at least one observation"):
        metrics.rmse(prediction(0), np.zeros(0))


def test_a_level_outside_zero_and_one_is_refused():
    pred = prediction(3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        metrics.coverage(pred, pred.mean, 1.0)

"""The experiments of the closed-form VI paper, as small as they go."""

from __future__ import annotations

import numpy as np
import pytest

from papers import closed_form_averaging, closed_form_mnist


def test_relu(reproduce):
    found = reproduce("closed-form-relu")
    for row in found:
        m, v, result = row.cell["mean"], row.cell["var"], row.result
        se = np.sqrt(v / 1e6)
        assert abs(result["relu_mean"] - result["drawn_mean"]) < 4.5 * se
        assert result["relu_var"] == pytest.approx(result["drawn_var"], rel=0.02)
        assert 0.0 < result["share_at_zero"] < 1.0, m


def test_toy(reproduce):
    found = reproduce("closed-form-toy")
    assert len(found) == 2
    assert all(row.result["std_beyond"] > row.result["std_inside"] for row in found)
    assert all(row.result["converged"] == 1.0 for row in found)


def test_averaging(reproduce, monkeypatch):
    monkeypatch.setattr(closed_form_averaging, "N_DRAWS", (1, 4))
    (row,) = reproduce("closed-form-averaging")
    errors = np.asarray(row.result["errors"])
    assert errors.shape == (2, 25)
    assert 0.0 < row.result["closed_form_error"] < 0.3
    assert errors[1].mean() <= errors[0].mean() + 0.01


@pytest.mark.exhaustive
def test_mnist_on_the_bundled_digits(reproduce, tmp_path, monkeypatch):
    settings = {method: given[3:4] for method, given in closed_form_mnist._SETTINGS.items()}
    monkeypatch.setattr(closed_form_mnist, "_SETTINGS", settings)
    monkeypatch.setattr(closed_form_mnist, "_CHOSEN", {"digits": dict.fromkeys(settings, (0,))})
    found = reproduce(closed_form_mnist.EXPERIMENT)
    assert {row.cell["method"] for row in found} == set(closed_form_mnist.METHODS)
    for row in found:
        assert len(row.result["valid_errors"]) == row.result["n_epochs"] == 3
        assert row.result["valid_error"] == min(row.result["valid_errors"])
        assert 0.0 < row.result["test_error"] < 0.9
    text = (tmp_path / "closed-form-mnist.md").read_text()
    assert text.count("| digits |") == 3 + 3  # and again, each with three seeds
    estimates = [line for line in text.splitlines() if "±" in line and "|" in line]
    assert [line.count("| 3 |") for line in estimates] == [1] * 3
    assert reproduce(closed_form_mnist.EXPERIMENT) == found


def test_falling_steps_are_whole_for_half_of_the_epochs():
    shares = [closed_form_mnist._share(epoch, 60) for epoch in range(60)]
    assert shares == [1.0] * 30 + [0.5] * 10 + [0.25] * 10 + [0.1] * 10

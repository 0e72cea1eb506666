"""The comparing helper must itself fail on a wrong pair."""

import numpy as np
import pytest


@pytest.fixture
def pair(rng):
    values = rng.normal(size=(2, 3, 5)).astype("float32")
    return values, values.copy()


def test_equal_arrays_pass_and_the_difference_is_returned(assert_close, pair):
    actual, expected = pair
    assert assert_close(actual, expected, atol=0) == 0
    actual[1, 2, 3] += 0.25
    assert assert_close(actual, expected, atol=0.3) == pytest.approx(0.25, abs=1e-6)


def test_one_wrong_value_is_found_and_located(assert_close, pair):
    actual, expected = pair
    actual[1, 2, 3] += 1e-3
    with pytest.raises(AssertionError, match=r"max abs difference 0\.001 at \(1, 2, 3\) is above 0\.0001"):
        assert_close(actual, expected, atol=1e-4)


def test_a_shape_that_would_broadcast_is_refused(assert_close, pair):
    actual, expected = pair
    with pytest.raises(AssertionError, match=r"shape \(1, 3, 5\) is not the expected \(2, 3, 5\)"):
        assert_close(actual[:1], expected, atol=1e9)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["actual", "expected"])
def test_values_that_are_not_finite_are_refused_on_both_sides(assert_close, pair, side, value):
    arrays = dict(zip(("actual", "expected"), pair))
    arrays[side][0, 1, 2] = value
    with pytest.raises(AssertionError, match=rf"{side} holds 1 values of 30 that are not finite"):
        assert_close(arrays["actual"], arrays["expected"], atol=np.inf)


def test_nan_on_both_sides_is_not_equality(assert_close):
    with pytest.raises(AssertionError, match="not finite"):
        assert_close(np.full((2,), np.nan), np.full((2,), np.nan), atol=1)


def test_another_kind_of_dtype_is_refused(assert_close, pair):
    actual, expected = pair
    with pytest.raises(AssertionError, match="dtype int32 is not of the expected kind, float32"):
        assert_close(actual.astype("int32"), expected, atol=1e9)


def test_half_and_double_precision_are_one_kind(assert_close):
    assert_close(np.ones(3, "float16"), np.ones(3, "float64"), atol=0)


def test_empty_arrays_prove_nothing(assert_close):
    with pytest.raises(AssertionError, match="nothing to compare"):
        assert_close(np.zeros((0, 3)), np.zeros((0, 3)), atol=0)


def test_golden_loads_by_name_with_or_without_the_suffix(golden):
    assert golden("posembed_golden").keys() == golden("posembed_golden.npz").keys()
    assert golden.path("vit_gap").is_file()


def test_shared_data_absent_skips_with_the_reason(monkeypatch, tmp_path):
    # In a fresh pytest run, because the fixture is cached for the session.
    import os
    import subprocess
    import sys

    test = tmp_path / "test_needs_data.py"
    test.write_text("def test_it(test_data):\n    assert False\n")
    conftest = os.path.join(os.path.dirname(__file__), "conftest.py")
    (tmp_path / "conftest.py").write_text(
        "import importlib.util as u\n"
        f"spec = u.spec_from_file_location('shared_conftest', {conftest!r})\n"
        "module = u.module_from_spec(spec)\nspec.loader.exec_module(module)\ntest_data = module.test_data\n"
    )
    environment = {**os.environ, "VITKERAS_TEST_DATA": str(tmp_path / "nowhere")}
    command = [sys.executable, "-m", "pytest", "-rs", "-q", "-p", "no:cacheprovider", str(test)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stdout
    assert "1 skipped" in result.stdout and "set VITKERAS_TEST_DATA" in result.stdout

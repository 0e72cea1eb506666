import numpy as np
import pytest

from vitkeras.evaluation import calibration_error, reliability_bins

CONFIDENCES = [0.05, 0.2, 0.21, 0.62, 0.68, 0.95, 1.0]
HITS = np.array([False, True, False, True, True, True, False])


def test_five_bins_by_hand():
    table = reliability_bins(CONFIDENCES, HITS, bins=5)
    # 0.2 is the upper edge of the first bin and belongs to it
    assert table["count"].tolist() == [2, 1, 0, 2, 2]
    np.testing.assert_allclose(table["lower"], [0, 0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(table["upper"], [0.2, 0.4, 0.6, 0.8, 1])
    np.testing.assert_allclose(table["confidence"], [0.125, 0.21, np.nan, 0.65, 0.975])
    np.testing.assert_allclose(table["accuracy"], [0.5, 0, np.nan, 1, 0.5])
    # (2 * 0.375 + 0.21 + 2 * 0.35 + 2 * 0.475) / 7
    assert calibration_error(CONFIDENCES, HITS, bins=5) == pytest.approx(2.61 / 7)


def test_adaptive_bins_by_hand():
    table = reliability_bins(CONFIDENCES, HITS, bins=3, adaptive=True)
    assert table["count"].tolist() == [3, 2, 2]
    np.testing.assert_allclose(table["lower"], [0.05, 0.62, 0.95])
    np.testing.assert_allclose(table["upper"], [0.21, 0.68, 1.0])
    # (|1 - 0.46| + |2 - 1.3| + |1 - 1.95|) / 7
    assert calibration_error(CONFIDENCES, HITS, bins=3, adaptive=True) == pytest.approx((0.54 + 0.7 + 0.95) / 7)


def test_more_adaptive_bins_than_images():
    assert reliability_bins([0.5, 0.25], np.array([True, False]), 15, adaptive=True)["count"].tolist() == [1, 1]
    assert calibration_error([0.5, 0.25], np.array([True, False]), 15, adaptive=True) == pytest.approx(0.375)


def test_the_ends_of_the_range():
    table = reliability_bins([0.0, 1.0], np.array([False, True]))
    assert table["count"].tolist() == [1] + [0] * 13 + [1]
    assert calibration_error([0.0, 1.0], np.array([False, True])) == 0.0


def test_every_image_is_in_one_bin_whose_edges_hold_it(rng):
    confidences = np.concatenate([rng.uniform(size=997), np.linspace(0, 1, 16)])
    hits = rng.uniform(size=len(confidences)) < confidences
    for adaptive in (False, True):
        table = reliability_bins(confidences, hits, adaptive=adaptive)
        assert table["count"].sum() == len(confidences)
        assert (table["confidence"] >= table["lower"]).all() and (table["confidence"] <= table["upper"]).all()
    assert np.ptp(table["count"]) <= 1
    assert calibration_error(confidences, hits) < 0.06  # calibrated by construction, up to chance


def test_one_bin_is_the_whole_gap():
    assert calibration_error(CONFIDENCES, HITS, bins=1) == pytest.approx(abs(HITS.mean() - np.mean(CONFIDENCES)))


@pytest.mark.parametrize(
    "confidences, hits, bins, message",
    [
        ([], np.array([], bool), 15, r"confidences must be numbers of shape \(images,\)"),
        ([0.5, 1.5], HITS[:2], 15, "confidences must be in 0...1, received 0.5...1.5"),
        ([0.5, np.nan], HITS[:2], 15, "confidences must be in 0...1, received nan"),
        ([0.5], HITS[:2], 15, r"hits must be bools of shape \(1,\), received bool \(2,\)"),
        ([0.5], [1], 15, r"hits must be bools of shape \(1,\), received int64"),
        ([0.5], [True], 0, "bins must be an int >= 1, received 0"),
        ([0.5], [True], 2.0, "bins must be an int >= 1, received 2.0"),
    ],
)
def test_bad_input(confidences, hits, bins, message):
    with pytest.raises(ValueError, match=message):
        calibration_error(confidences, hits, bins)

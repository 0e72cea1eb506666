import pytest

from vitkeras.evaluation import real_accuracy


def test_any_of_the_labels_is_right_and_images_without_one_do_not_count():
    assert real_accuracy([3, 5, 7, 1], [[3, 4], [], [6], [0, 1, 2]]) == (2 / 3, 3)


@pytest.mark.parametrize(
    "predictions, real, message",
    [
        ([3], [[3], [4]], "real_labels must have an entry for each of 1 predictions, received 2"),
        ([3], [[]], "real_labels must have a label for at least one of 1 images, received none"),
        ([0.5], [[3]], r"predictions must be ints of shape \(n,\), received float64"),
    ],
)
def test_bad_input(predictions, real, message):
    with pytest.raises(ValueError, match=message):
        real_accuracy(predictions, real)

import numpy as np
import pytest

from vitkeras.evaluation import confusion_figure, reliability_figure

pytest.importorskip("matplotlib")


def texts(axis):
    return [label.get_text() for label in axis.get_yticklabels()]


def test_few_classes_are_shown_as_a_matrix():
    figure = confusion_figure(np.array([[3, 1, 0], [0, 0, 0], [0, 299, 1]]), ("elm", "ash", "$oak$"))
    axis, _ = figure.axes
    np.testing.assert_allclose(axis.images[0].get_array(), [[75, 25, 0], [0, 0, 0], [0, 100 * 299 / 300, 100 / 300]])
    assert texts(axis) == ["elm (4)", "ash (0)", r"\$oak\$ (300)"]
    assert sorted(text.get_text() for text in axis.texts) == ["100", "25", "75", "<1"]


def test_other_classes_are_a_column_of_their_own():
    figure = confusion_figure(np.array([[3, 1, 2], [0, 5, 0]]), ("elm", "ash"))
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["elm", "ash", "another class"]


def test_many_classes_are_shown_by_their_worst_pairs(rng):
    matrix = np.diag(np.full(1000, 50))
    matrix[7, 9], matrix[500, 3] = 40, 20
    figure = confusion_figure(matrix, [f"a class of a very long name, number {k}" for k in range(1000)])
    left, right = figure.axes
    assert len(texts(left)) == 2 and texts(left)[0].startswith("a class of a very long name…")
    assert [bar.get_width() for bar in left.patches] == [40, 20]
    assert [text.get_text() for text in left.texts] == ["44 %", "29 %"]
    assert sum(bar.get_height() for bar in right.patches) == 1000


def test_many_classes_without_a_mistake():
    left, _ = confusion_figure(np.eye(41, dtype=int), [str(k) for k in range(41)]).axes
    assert left.get_title() == "no mistakes"


def test_the_reliability_diagram(tmp_path):
    figure = reliability_figure([0.2, 0.7, 0.9], np.array([False, True, True]), bins=2)
    upper, lower = figure.axes
    assert [bar.get_height() for bar in upper.patches] == [0.0, 1.0]
    assert [bar.get_height() for bar in lower.patches] == [1, 2]
    assert upper.get_title() == "calibration error (ECE) 20.00 %"  # (0.2 + 2 * 0.2) / 3


def test_names_are_as_many_as_classes():
    with pytest.raises(ValueError, match="class_names must hold 2 names, received 1"):
        confusion_figure(np.eye(2, dtype=int), ("elm",))

import importlib.util

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.export import activation_ranges, learn_ranges, prepare_qat

if importlib.util.find_spec("tensorflow_model_optimization") is None:
    pytest.skip('tensorflow-model-optimization is absent: pip install "vitkeras[qat]"', allow_module_level=True)


def noise(student, model, inputs):
    a, b = (keras.ops.convert_to_numpy(m(inputs, training=False)) for m in (student, model))
    return float(np.square(a - b).sum())


def test_outliers_are_cut_off_where_that_pays(make, pixels):
    """Ranges five times too wide, as one outlier makes them, come back; those that fit stay or shrink."""
    model, inputs = make(), vitkeras.preprocess_input(pixels).astype("float32")
    student = prepare_qat(model, inputs)
    measured = activation_ranges(student)
    wide = {"encoder_block_00/hidden", "encoder_block_01/value"}
    stretched = {name: tuple((5 if name in wide else 1) * end for end in pair) for name, pair in measured.items()}
    student = prepare_qat(model, ranges=stretched)
    before = noise(student, model, inputs)
    rows = learn_ranges(student, inputs, batch_size=7)
    assert [row.block for row in rows] == ["encoder_block_00", "encoder_block_01"]
    assert all(row.after_db > row.before_db + 0.5 for row in rows)
    learned = activation_ranges(student)
    assert noise(student, model, inputs) < before / 2
    for name, (least, greatest) in learned.items():
        assert stretched[name][0] <= least <= 0 <= greatest <= stretched[name][1]
        if name in wide:
            assert greatest < 0.4 * stretched[name][1]
        if name.endswith(("key", "value")):
            assert np.isclose(least / greatest, -128 / 127)
    outside = {name for name in learned if "block" not in name}
    assert all(learned[name] == stretched[name] for name in outside)
    changed = {f"{row.block}/{name}" for row in rows for name in row.ranges}
    assert changed == {name for name in learned if learned[name] != stretched[name]} >= wide


def test_only_for_a_prepared_model(make, pixels):
    with pytest.raises(ValueError, match="must come from prepare_qat"):
        learn_ranges(make(), pixels)

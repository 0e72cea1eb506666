import importlib.util
import sys

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.export import activation_ranges, learn_ranges, prepare_qat
from vitkeras.export.fake_quant import fake_quantizers

if importlib.util.find_spec("tensorflow_model_optimization") is None:
    pytest.skip('tensorflow-model-optimization is absent: pip install "vitkeras[qat]"', allow_module_level=True)


def noise(student, model, inputs):
    a, b = (keras.ops.convert_to_numpy(m(inputs, training=False)) for m in (student, model))
    return float(np.square(a - b).sum())


def test_outliers_are_cut_off_where_that_pays(make, pixels):
    """Ranges twelve times too wide, as one outlier makes them, come back; those that fit stay or shrink.

    At five times the model's own gain can be small enough to depend on how a processor sums.
    """
    model, inputs = make(), vitkeras.preprocess_input(pixels).astype("float32")
    student = prepare_qat(model, inputs)
    measured = activation_ranges(student)
    wide = {"encoder_block_00/hidden", "encoder_block_01/value"}
    stretched = {name: tuple((12 if name in wide else 1) * end for end in pair) for name, pair in measured.items()}
    for name, quantizer in fake_quantizers(student).items():
        quantizer.set_range(*stretched[name])
    before = noise(student, model, inputs)
    rows = learn_ranges(student, inputs, batch_size=7)
    assert [row.block for row in rows] == ["encoder_block_00", "encoder_block_01"]
    assert all(row.after_db > row.before_db + 0.5 for row in rows)
    assert rows[0].model_db < rows[1].model_db
    exact = keras.ops.convert_to_numpy(model(inputs, training=False))
    after = noise(student, model, inputs)
    assert (
        abs(10 * np.log10(np.square(exact).sum() / after) - rows[1].model_db) < 0.5
    )  # single levels differ between eager and compiled
    learned = activation_ranges(student)
    assert noise(student, model, inputs) < before / 2
    for name, (least, greatest) in learned.items():
        assert stretched[name][0] <= least <= 0 <= greatest <= stretched[name][1]
        if name in wide:
            assert greatest < 2 * measured[name][1]
        if name.endswith(("key", "value")):
            assert np.isclose(least / greatest, -128 / 127)
    outside = {name for name in learned if "block" not in name}
    assert all(learned[name] == stretched[name] for name in outside)
    changed = {f"{row.block}/{name}" for row in rows for name in row.ranges}
    assert changed == {name for name in learned if learned[name] != stretched[name]} >= wide


def test_only_for_a_prepared_model(make, pixels):
    with pytest.raises(ValueError, match="must come from prepare_qat"):
        learn_ranges(make(), pixels)
    with pytest.raises(
        ValueError, match=r"images must be what the model takes .vitkeras.preprocess_input., received 0"
    ):
        learn_ranges(prepare_qat(make(), vitkeras.preprocess_input(pixels)), pixels)


def test_a_block_whose_gain_the_model_does_not_share_keeps_its_ranges(make, pixels, monkeypatch):
    model, inputs = make(), vitkeras.preprocess_input(pixels).astype("float32")
    student = prepare_qat(model, inputs)
    before = activation_ranges(student)

    def spoils(block, inputs, outputs):
        for quantizer in block.fake_quantizers:
            quantizer.maximum.assign(0.1 * quantizer.maximum)
        return 20.0, 30.0, {"key": (0.0, 1.0)}

    monkeypatch.setattr(sys.modules["vitkeras.export.range_search"], "_learn", spoils)
    rows = learn_ranges(student, inputs)
    assert [(row.before_db, row.after_db, row.ranges) for row in rows] == 2 * [(20.0, 20.0, {})]
    assert rows[0].model_db == rows[1].model_db and activation_ranges(student) == before

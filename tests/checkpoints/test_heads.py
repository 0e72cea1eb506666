"""The head of a file and that of the model: other classes, `pre_logits`, no head, a head of zeros."""

import warnings

import keras
import numpy as np
import pytest

import vitkeras


def numpy(variable):
    return keras.ops.convert_to_numpy(variable)


def test_classes_that_contradict_the_file(refused, save, arrays, make):
    message = "classes must be 7, the head of checkpoint"
    assert "received 5;" in refused(save(arrays), message, make(classes=5))


def test_other_classes_keep_the_backbone_and_make_a_zero_head(save, arrays, make):
    model = make(classes=1000, weights=save(arrays))
    assert model.output_shape == (None, 1000) and not numpy(model.get_layer("head").kernel).any()
    np.testing.assert_array_equal(numpy(model.get_layer("class_token").token), arrays["cls"])


def test_classes_left_alone_are_the_files(save, arrays, make):
    model = make(classes=None, weights=save(arrays))
    np.testing.assert_array_equal(numpy(model.get_layer("head").kernel), arrays["head/kernel"])


def test_a_file_without_head(refused, save, arrays):
    del arrays["head/kernel"], arrays["head/bias"]
    refused(save(arrays), "has no head; use include_top=False, or load_checkpoint(..., load_head=False).")


@pytest.mark.parametrize("has_head", [True, False])
@pytest.mark.parametrize("has_pre_logits", [True, False])
def test_without_the_head_every_backbone_loads(save, golden, make, has_head, has_pre_logits):
    arrays = golden("vit_token_rep24" if has_pre_logits else "vit_token_32x32")
    if not has_head:
        arrays = {k: v for k, v in arrays.items() if not k.startswith("head/")}
    path = save(arrays)
    headless = make(include_top=False, weights=path)
    kept = vitkeras.load_checkpoint(make(classes=5), path, load_head=False)
    for model in (headless, kept):
        np.testing.assert_array_equal(numpy(model.get_layer("class_token").token), arrays["cls"])
    assert not numpy(kept.get_layer("head").kernel).any()


def test_load_head_false_ignores_only_the_head(refused, save, arrays):
    refused(save({**arrays, "tail/kernel": arrays["cls"]}), "(1 fault): unexpected 'tail/kernel'.", load_head=False)


def test_pre_logits_of_the_file_need_a_place(refused, golden):
    refused(
        golden.path("vit_token_rep24"),
        "has pre_logits before its head: build with representation_size=24 to keep it, or drop both with "
        "include_top=False or load_head=False.",
    )


def test_pre_logits_of_the_model_need_an_array(refused, save, arrays, make):
    model = make(representation_size=48)
    refused(save(arrays), "(2 faults): missing 'pre_logits/kernel'; missing 'pre_logits/bias'.", model)


def test_pre_logits_of_another_width(refused, golden, make):
    text = refused(
        golden.path("vit_token_rep24"), "'pre_logits/kernel' must have shape (48, 23)", make(representation_size=23)
    )
    assert "'head/kernel' must have shape (23, 7), received (24, 7)" in text


def test_an_all_zero_head_is_loaded_with_a_warning(save, arrays, make):
    arrays["head/kernel"] = np.zeros((48, 7), "float32")
    with pytest.warns(
        UserWarning, match="has an all-zero head: every class gets the same score. Use include_top=False"
    ):
        model = make(weights=save(arrays))
    np.testing.assert_array_equal(
        numpy(model.get_layer("encoder_norm").scale), arrays["Transformer/encoder_norm/scale"]
    )


def test_a_zero_head_as_an_error_still_leaves_a_whole_model(save, arrays, make):
    arrays["head/kernel"] = np.zeros((48, 7), "float32")
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="all-zero head"):
            vitkeras.load_checkpoint(model, save(arrays))
    np.testing.assert_array_equal(numpy(model.get_layer("head").bias), arrays["head/bias"])

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.evaluation import feature_model, fewshot_features

SIZES = dict(patch_size=(16, 8), num_layers=3, hidden_dim=26, num_heads=2, mlp_dim=37, classes=7)


def vit(**kwargs):
    keras.utils.set_random_seed(4)
    return vitkeras.VisionTransformer((32, 40, 3), **(SIZES | kwargs))


def batches(rng):
    images, labels = rng.normal(size=(9, 32, 40, 3)).astype("float32"), np.arange(9) % 7
    weights = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0], "float32")
    return [(images[i : i + 3], labels[i : i + 3], weights[i : i + 3]) for i in (0, 3, 6)]


@pytest.mark.parametrize("classifier", ["token", "gap"])
def test_features_are_what_enters_the_head_or_leaves_a_block(classifier, rng, assert_close):
    model = vit(classifier=classifier)
    x = batches(rng)[0][0]
    tokens = vitkeras.features(model, (1,), as_maps=False)(x)
    tokens = keras.ops.convert_to_numpy(tokens)
    block = tokens[:, 0] if classifier == "token" else tokens.mean(axis=1)
    assert_close(feature_model(model, layer=1)(x), block, atol=2e-6)
    assert_close(feature_model(model, layer=-2)(x), block, atol=2e-6)
    assert_close(feature_model(model, layer="encoder_block_01")(x), block, atol=2e-6)
    head = keras.Model(model.input, model.get_layer("head").input)
    assert_close(feature_model(model)(x), head(x), atol=1e-6)
    assert feature_model(vit(representation_size=11)).output_shape == (None, 11)


def test_maps_of_a_resnet_are_averaged(rng, assert_close):
    model = vitkeras.models.ResNet((32, 64, 3), blocks=(1, 1), width_factor=0.5, classes=7)
    x = rng.normal(size=(2, 32, 64, 3)).astype("float32")
    unit = [layer.name for layer in model.layers if "unit" in layer.name][-1]
    maps = keras.ops.convert_to_numpy(keras.Model(model.input, model.get_layer(unit).output)(x))
    assert_close(feature_model(model, unit)(x), maps.mean(axis=(1, 2)), atol=1e-5)


def test_every_example_once_and_no_padding(rng, assert_close):
    model, data = feature_model(vit()), batches(rng)
    features, labels = fewshot_features(model, data)
    assert features.shape == (7, 26) and features.dtype == "float32"
    np.testing.assert_array_equal(labels, np.arange(7))
    assert_close(features, model(np.concatenate([b[0] for b in data])[:7]), atol=2e-6)
    again, _ = fewshot_features(model, [batch[:2] for batch in data])
    assert again.shape == (9, 26)


def test_the_cache_is_found_by_weights_layer_and_key(rng, tmp_path):
    model, data = vit(), batches(rng)
    features, labels = fewshot_features(feature_model(model), data, cache=tmp_path, key="a")
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 1 and names[0].endswith(".npz")

    def no_data():
        raise AssertionError("the data set was read again")
        yield

    for found, expected in zip(fewshot_features(feature_model(model), no_data(), tmp_path, "a"), (features, labels)):
        np.testing.assert_array_equal(found, expected)
    other_key, _ = fewshot_features(feature_model(model), data, tmp_path, "b")
    other_layer, _ = fewshot_features(feature_model(model, 0), data, tmp_path, "a")
    model.get_layer("encoder_norm").bias.assign(np.ones(26))
    other_weights, _ = fewshot_features(feature_model(model), data, tmp_path, "a")
    assert len(list(tmp_path.iterdir())) == 4
    assert np.abs(other_layer - features).max() > 0.1 and np.allclose(other_weights, features + 1, atol=1e-5)


def test_refusals(rng, tmp_path):
    model = vit()
    with pytest.raises(ValueError, match="layer must be one of the model's 12, such as 'pool', received 'block'"):
        feature_model(model, "block")
    with pytest.raises(ValueError, match="number of one of 3 blocks, received 3"):
        feature_model(model, 3)
    with pytest.raises(ValueError, match=r"model must give \(batch, features\), received output shape"):
        fewshot_features(vit(include_top=False), batches(rng))
    with pytest.raises(ValueError, match="dataset must hold at least one example, received none"):
        fewshot_features(feature_model(model), [])
    with pytest.raises(ValueError, match="cache needs a key that names the data, received key=''"):
        fewshot_features(feature_model(model), batches(rng), cache=tmp_path)
    fewshot_features(feature_model(model), batches(rng), cache=tmp_path, key="a")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cached features .* are damaged .* delete the file"):
        fewshot_features(feature_model(model), batches(rng), cache=tmp_path, key="a")

import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import vitkeras
from vitkeras.training import (
    Engine,
    MaskedPatchPrediction,
    WarmupDecay,
    make_optimizer,
    masked_patch_batches,
    masked_patch_model,
    pretrained_backbone,
)
from vitkeras.training.masked_patch_batches import corruption_counts, draw_corruption
from vitkeras.training.patch_targets import patch_targets

SCRIPT = pathlib.Path(__file__).with_name("masked_patch_run.py")
TARGETS = ("mean_color", "color_4x4", "pixels")
H, W, P, Q = 21, 55, 7, 5  # a 3 x 11 grid
N, M = 33, 16
D = 26


def backbone(**kwargs):
    keras.utils.set_random_seed(3)
    arguments = dict(num_layers=2, hidden_dim=D, num_heads=2, mlp_dim=37, include_top=False)
    return vitkeras.VisionTransformer((H, W, 3), (P, Q), **(arguments | kwargs))


def model_for(target="mean_color", seed=5, **kwargs):
    """A model whose weights, the head's and the mask embedding included, are all random."""
    model = masked_patch_model(backbone(**kwargs), target)
    rng = np.random.default_rng(seed)
    for name in ("kernel", "bias"):
        weight = getattr(model.get_layer("patch_predictions"), name)
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    return model


def images(count=6, seed=8):
    return np.random.default_rng(seed).uniform(-1, 1, (count, H, W, 3)).astype("float32")


def dataset(target="mean_color", count=6, batch=6, **kwargs):
    x = tf.data.Dataset.from_tensor_slices((images(count), np.zeros(count, "int32"))).batch(batch, drop_remainder=True)
    return masked_patch_batches(x.repeat(), (P, Q), target, **kwargs)


def first(batches, step=0):
    inputs, targets = next(iter(batches.skip(step)))
    return {name: x.numpy() for name, x in inputs.items()}, targets.numpy()


# What becomes of which patch


@pytest.mark.parametrize(
    "patches, rate, counts",
    [
        (196, 0.5, (78, 10, 10)),
        (196, 0.15, (23, 3, 3)),
        (64, 0.5, (26, 3, 3)),
        (33, 0.5, (13, 2, 1)),
        (2, 0.1, (1, 0, 0)),
    ],
)
def test_counts_are_80_10_and_10_percent_of_the_corrupted(patches, rate, counts):
    assert corruption_counts(patches, rate) == counts
    assert sum(counts) == max(1, round(rate * patches))
    for index in range(5):
        sources, positions = (x.numpy() for x in draw_corruption(1, tf.constant(index), patches, rate))
        own = np.arange(patches)
        masked, replaced, kept = np.split(positions, np.cumsum(counts)[:2])
        assert len(set(positions)) == len(positions) == sum(counts)
        assert (sources[masked] == -1).all() and (sources == -1).sum() == counts[0]
        assert (sources[replaced] != replaced).all() and (sources[replaced] >= 0).all()
        assert ((sources != own) & (sources >= 0)).sum() == counts[1]
        assert (sources[kept] == kept).all() and len(kept) == counts[2]
        untouched = np.setdiff1d(own, positions)
        assert (sources[untouched] == untouched).all()


def test_every_patch_is_as_likely_and_every_other_one_replaces_it():
    patches, draws = 13, 4000

    @tf.function  # an eager loop of so many draws takes minutes
    def draw():
        spec = tf.TensorSpec((patches,), tf.int32)
        return tf.map_fn(lambda i: draw_corruption(5, i, patches)[0], tf.range(draws), fn_output_signature=spec)

    rows = draw().numpy()
    masked, replaced, _ = corruption_counts(patches)
    share = (rows == -1).mean(axis=0)
    np.testing.assert_allclose(share, masked / patches, atol=4 * np.sqrt(0.25 / draws))
    pairs = [(p, s) for row in rows for p, s in enumerate(row) if s not in (-1, p)]
    counts = np.zeros((patches, patches))
    np.add.at(counts, tuple(np.transpose(pairs)), 1)
    expected = draws * replaced / patches / (patches - 1)
    assert (np.diag(counts) == 0).all()
    off = counts[~np.eye(patches, dtype=bool)]
    assert np.abs(off - expected).max() < 5 * np.sqrt(expected)


def test_masks_are_a_function_of_seed_and_global_index_alone():
    one = dataset(seed=11)
    late = dataset(seed=11, start_step=3)
    halves = [dataset(seed=11, batch=3, start_step=3, num_hosts=2, host=host) for host in range(2)]
    sources = first(one, 3)[0]["sources"]
    np.testing.assert_array_equal(first(late)[0]["sources"], sources)
    np.testing.assert_array_equal(np.concatenate([first(half)[0]["sources"] for half in halves]), sources)
    smaller = dataset(seed=11, batch=2)  # the same examples in other batches
    np.testing.assert_array_equal(first(smaller, 10)[0]["sources"], sources[2:4])
    assert len({row.tobytes() for row in sources}) == 6
    assert (first(dataset(seed=12), 3)[0]["sources"] != sources).any(axis=1).all()
    assert (first(one, 2)[0]["sources"] != sources).any(axis=1).all()


# What has to be predicted


def numpy_targets(image, target):
    """Patch by patch, pixel by pixel."""
    found = []
    for top in range(0, H, P):
        for left in range(0, W, Q):
            patch = image[top : top + P, left : left + Q].astype("float64")
            if target == "pixels":
                found.append(patch.reshape(-1))
                continue
            cells = [(0, P, 0, Q)]
            if target == "color_4x4":
                cells = [(r * P / 4, (r + 1) * P / 4, c * Q / 4, (c + 1) * Q / 4) for r in range(4) for c in range(4)]
            classes = []
            for y0, y1, x0, x1 in cells:
                color, area = np.zeros(3), 0.0
                for y in range(P):
                    for x in range(Q):
                        part = max(0, min(y + 1, y1) - max(y, y0)) * max(0, min(x + 1, x1) - max(x, x0))
                        color, area = color + part * patch[y, x], area + part
                red, green, blue = (int((v + 1) / 2 * 8) for v in color / area)
                classes.append(64 * red + 8 * green + blue)
            found.append(classes[0] if target == "mean_color" else classes)
    return np.array(found)


@pytest.mark.parametrize("target", TARGETS)
def test_targets_equal_numpy(target):
    x = images(2)
    y = patch_targets(tf.constant(x), (P, Q), target).numpy()
    assert y.shape == {"mean_color": (2, N), "color_4x4": (2, N, 16), "pixels": (2, N, P * Q * 3)}[target]
    for image, found in zip(x, y):
        np.testing.assert_array_equal(found, numpy_targets(image, target).astype(found.dtype))


def test_a_16_pixel_patch_is_downsized_by_means_of_4_by_4_and_white_is_the_last_class():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (1, 16, 16, 3)).astype("float32")
    means = x.reshape(4, 4, 4, 4, 3).mean(axis=(1, 3)).reshape(16, 3)
    levels = np.floor((means + 1) * 4).astype(int)
    y = patch_targets(tf.constant(x), (16, 16), "color_4x4").numpy()
    np.testing.assert_array_equal(y[0, 0], levels @ [64, 8, 1])
    for value, color in ((1.0, 511), (-1.0, 0), (0.0, 292)):
        flat = tf.fill((1, 7, 5, 3), value)
        assert patch_targets(flat, (7, 5), "mean_color").numpy().tolist() == [[color]]
        assert set(patch_targets(flat, (7, 5), "color_4x4").numpy().ravel()) == {color}


@pytest.mark.parametrize("target", TARGETS)
def test_batches_hold_the_targets_of_the_corrupted_patches_in_order(target):
    inputs, targets = first(dataset(target, rate=0.15))
    assert inputs["positions"].shape == (6, 5)
    for image, positions, found in zip(inputs["image"], inputs["positions"], targets):
        expected = numpy_targets(image, target)[positions]
        np.testing.assert_array_equal(found, expected.astype(found.dtype))


def test_weights_of_evaluation_batches_pass():
    x = tf.data.Dataset.from_tensors((images(2), np.zeros(2, "int32"), np.array([1.0, 0.0], "float32")))
    _, _, weights = next(iter(masked_patch_batches(x, (P, Q))))
    assert weights.numpy().tolist() == [1.0, 0.0]


# The model


@pytest.mark.parametrize(
    "kwargs",
    [
        dict(classifier="token"),
        dict(classifier="gap"),
        dict(position_embedding="learned_2d"),
        dict(position_embedding="relative", classifier="gap"),
        dict(position_embedding="none"),
        dict(position_embedding_at="every_layer"),
        dict(position_embedding_at="every_layer_shared"),
    ],
    ids=str,
)
def test_forward_equals_the_backbone_with_patches_exchanged_by_hand(kwargs, assert_close):
    model, plain = model_for(**kwargs), backbone(**kwargs)
    for layer in plain.layers:
        for weight, trained in zip(layer.weights, model.get_layer(layer.name).weights if layer.weights else ()):
            weight.assign(trained)
    inputs, _ = first(dataset())
    patches = keras.Model(plain.input, plain.get_layer("patch_tokens").output)(inputs["image"]).numpy()
    token = model.get_layer("corrupt_patches").mask_token.numpy()
    for patch, source in zip(patches, inputs["sources"]):
        before = patch.copy()
        for i, other in enumerate(source):
            patch[i] = token if other < 0 else before[other]
    encode = keras.Model(plain.get_layer("patch_tokens").output, plain.output)
    tokens = encode(patches).numpy()[:, int(kwargs.get("classifier") != "gap") :]
    head = model.get_layer("patch_predictions")
    picked = np.stack([row[position] for row, position in zip(tokens, inputs["positions"])])
    assert_close(model(inputs), picked @ head.kernel.numpy() + head.bias.numpy(), atol=2e-5)


def test_a_masked_patch_is_not_seen_and_keeps_its_position():
    model, (inputs, _) = model_for(), first(dataset())
    before = model(inputs).numpy()
    patch = int(inputs["positions"][0, 0])
    assert patch not in inputs["sources"][0]
    row, column = divmod(patch, W // Q)
    inputs["image"][0, row * P : (row + 1) * P, column * Q : (column + 1) * Q] = 0.9
    np.testing.assert_array_equal(model(inputs).numpy(), before)
    masked = before[0, : corruption_counts(N)[0]]
    assert np.abs(masked - masked[0]).max(axis=1)[1:].min() > 1e-3  # only positions tell masked patches apart


def test_backbone_and_model_share_weights_and_the_backbone_still_works():
    plain = backbone()
    model = masked_patch_model(plain)
    x, before = images(2), plain(images(2)).numpy()
    model.get_layer("encoder_norm").bias.assign(np.ones(D))
    np.testing.assert_allclose(plain(x).numpy(), before + 1, atol=1e-5)
    assert vitkeras.features(plain, (0, 1)).outputs[0].shape == (None, 3, 11, D)


# The loss


def numpy_loss(outputs, targets, target):
    outputs = outputs.astype("float64")
    if target == "pixels":
        right = np.clip(np.floor((outputs + 1) * 4), 0, 7) == np.clip(np.floor((targets + 1) * 4), 0, 7)
        return ((outputs - targets) ** 2).mean(axis=(1, 2)), right.mean(axis=(1, 2))
    logits = outputs.reshape(*targets.shape, 512)
    chosen = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    loss = np.log(np.exp(logits).sum(axis=-1)) - chosen
    axes = tuple(range(1, loss.ndim))
    return loss.mean(axis=axes), (logits.argmax(axis=-1) == targets).mean(axis=axes)


@pytest.mark.parametrize("target", TARGETS)
def test_loss_equals_numpy(target, assert_close):
    inputs, targets = first(dataset(target))
    outputs = model_for(target)(inputs)
    loss, correct = MaskedPatchPrediction(target)(outputs, tf.constant(targets))
    expected = numpy_loss(outputs.numpy(), targets, target)
    assert loss.shape == correct.shape == (6,)
    assert_close(loss, expected[0], atol=2e-6)
    assert_close(correct, expected[1], atol=1e-6)


def test_only_corrupted_patches_enter_the_loss(assert_close):
    model, (inputs, targets) = model_for(), first(dataset())
    loss = MaskedPatchPrediction()(model(inputs), tf.constant(targets))[0].numpy()
    all_patches = inputs | {"positions": np.tile(np.arange(N, dtype="int32"), (6, 1))}
    outputs = model(all_patches).numpy()
    every = patch_targets(tf.constant(inputs["image"]), (P, Q), "mean_color").numpy()
    per_patch = np.stack([numpy_loss(outputs[:, [i]], every[:, [i]], "mean_color")[0] for i in range(N)], axis=1)
    corrupted = np.zeros((6, N), bool)
    np.put_along_axis(corrupted, inputs["positions"], True, axis=1)
    assert corrupted.sum() == 6 * M
    assert_close(loss, (per_patch * corrupted).sum(axis=1) / M, atol=5e-6)
    assert np.abs(loss - per_patch.mean(axis=1)).min() > 1e-3  # the mean over all patches is another number
    with tf.GradientTape() as tape:
        logits = tf.Variable(outputs)
        picked = tf.gather(logits, inputs["positions"], batch_dims=1)
        value = tf.reduce_sum(MaskedPatchPrediction()(picked, tf.constant(targets))[0])
    gradient = tf.convert_to_tensor(tape.gradient(value, logits)).numpy()
    np.testing.assert_array_equal(np.abs(gradient).max(axis=2) > 0, corrupted)


@pytest.mark.parametrize("target", TARGETS)
def test_a_new_model_knows_nothing(target):
    engine = Engine(masked_patch_model(backbone(), target), task=MaskedPatchPrediction(target))
    x = tf.data.Dataset.from_tensors((images(), np.zeros(6), np.ones(6, "float32")))
    metrics = engine.evaluate(masked_patch_batches(x, (P, Q), target))
    expected = np.log(512) if target != "pixels" else (first(dataset(target))[1].astype("float64") ** 2).mean()
    assert abs(metrics["loss"] - expected) < 2e-6 and metrics["count"] == 6


# Training


def engine_for(model, target="mean_color", **kwargs):
    optimizer = make_optimizer("adamw", WarmupDecay(3e-3, 40, 3), clip_norm=1.0)
    return Engine(model, optimizer, task=MaskedPatchPrediction(target), **kwargs)


@pytest.mark.parametrize("target, falls_to", [("mean_color", 0.8), ("color_4x4", 0.97), ("pixels", 0.99)])
def test_it_learns(target, falls_to):
    engine = engine_for(masked_patch_model(backbone(), target), target)
    loss = engine.run(engine.iterator(dataset(target)), 25)["loss"]
    assert loss[-1] < falls_to * loss[0]


@pytest.mark.parametrize("classifier", ["token", "gap"])
def test_every_weight_gets_a_gradient(classifier):
    model = model_for(classifier=classifier)
    inputs, targets = next(iter(dataset()))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(MaskedPatchPrediction()(model(inputs), targets)[0])
    for weight, gradient in zip(
        model.trainable_variables, tape.gradient(loss, [v.value for v in model.trainable_variables])
    ):
        if not weight.path.endswith("key/bias"):  # moves all scores of a row alike, which softmax does not see
            assert np.abs(tf.convert_to_tensor(gradient).numpy()).max() > 1e-6, weight.path


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_step_compiles_with_xla_and_gives_the_same_losses(target):
    runs = []
    for jit_compile in (False, True):
        engine = engine_for(masked_patch_model(backbone(), target), target, jit_compile=jit_compile)
        runs.append(engine.run(engine.iterator(dataset(target)), 3)["loss"])
    np.testing.assert_allclose(*runs, rtol=0, atol=2e-5)


def test_bfloat16_with_dropout_and_rematerialisation():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = masked_patch_model(backbone(dropout_rate=0.1, stochastic_depth_rate=0.1))
    assert {v.dtype for v in model.trainable_variables} == {"float32"} and model.output.dtype == "float32"
    engine = engine_for(model, remat=True)
    loss = engine.run(engine.iterator(dataset()), 12)["loss"]
    assert np.isfinite(loss).all() and loss[-1] < loss[0]


@pytest.fixture(scope="module")
def runs():
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_one_device_two_replicas_and_two_micro_batches_agree(runs):
    assert len(runs) == 9 and {r["replicas"] for r in runs} == {1, 2}
    for target in TARGETS:
        own = [r for r in runs if r["target"] == target]
        assert [(r["replicas"], r["accumulate"]) for r in own] == [(1, 1), (2, 1), (1, 2)]
        for other in own[1:]:
            np.testing.assert_allclose(other["losses"], own[0]["losses"], rtol=0, atol=1e-6)
            assert abs(other["metrics"]["loss"] - own[0]["metrics"]["loss"]) < 1e-6
        assert abs(own[0]["losses"][-1] - own[0]["losses"][0]) > 1e-3


# The backbone afterwards


@pytest.mark.parametrize("classifier", ["token", "gap"])
def test_the_backbone_is_a_plain_vit_with_the_trained_weights(classifier, tmp_path, assert_close):
    model = model_for(classifier=classifier)
    model.save(tmp_path / "masked.keras")
    model = keras.saving.load_model(tmp_path / "masked.keras")
    x = images(3)
    inputs = {
        "image": x,
        "sources": np.tile(np.arange(N, dtype="int32"), (3, 1)),
        "positions": np.tile(np.arange(N, dtype="int32"), (3, 1)),
    }
    tokens = keras.Model(model.input, model.get_layer("encoder_norm").output)(inputs).numpy()
    features = pretrained_backbone(model)
    assert_close(features(x), tokens[:, 0] if classifier == "token" else tokens.mean(axis=1), atol=2e-6)
    with_head = pretrained_backbone(model, classes=7)
    names = [layer.name for layer in with_head.layers]
    plain = backbone(classifier=classifier, include_top=True, classes=7)
    assert names == [layer.name for layer in plain.layers]
    np.testing.assert_allclose(with_head(x).numpy(), 1 / 7, atol=1e-6)
    path = vitkeras.save_checkpoint(features, tmp_path / "backbone.npz")
    vitkeras.load_checkpoint(plain, path, load_head=False)
    for weight, other in zip(plain.weights, with_head.weights):
        np.testing.assert_array_equal(weight.numpy(), other.numpy(), err_msg=weight.path)
    model.get_layer("encoder_norm").bias.assign(np.ones(D))
    assert not features.get_layer("encoder_norm").bias.numpy().all()  # its own copy


# Refusals


def test_refused_arguments():
    with pytest.raises(ValueError, match=r"rate must be in \(0, 1\], received 0"):
        dataset(rate=0)
    with pytest.raises(ValueError, match=r"an image must have at least 2 patches, received 1"):
        corruption_counts(1)
    with pytest.raises(ValueError, match=r"target must be one of \('mean_color', .* received 'colour'"):
        dataset("colour")
    with pytest.raises(ValueError, match=r"target must be one of \('mean_color', .* received 'colour'"):
        MaskedPatchPrediction("colour")
    with pytest.raises(ValueError, match="seed must be an int in"):
        dataset(seed=-1)
    x = tf.data.Dataset.from_tensors((images(2), np.zeros(2)))
    with pytest.raises(ValueError, match="image width must be a multiple of the patch width 7, received 55"):
        masked_patch_batches(x, 7)
    with pytest.raises(ValueError, match="images .* of static size, received"):
        masked_patch_batches(tf.data.Dataset.from_tensor_slices((images(5), np.zeros(5))).batch(2), 7)
    grey = tf.data.Dataset.from_tensors((np.zeros((2, 7, 14, 1), "float32"), np.zeros(2)))
    with pytest.raises(ValueError, match="'mean_color' is a colour of 3 channels, received images of 1; use 'pixels'"):
        masked_patch_batches(grey, 7)
    assert first(masked_patch_batches(grey, 7, "pixels"))[1].shape == (2, 1, 49)


def test_refused_models():
    hybrid = vitkeras.VisionTransformer((64, 96, 3), 1, 1, 12, 2, 24, stem_blocks=(1, 1), stem_width_factor=0.5)
    with pytest.raises(ValueError, match="must cut its patches from the image itself, 'vision_transformer' has a stem"):
        masked_patch_model(hybrid)
    with pytest.raises(ValueError, match="backbone must have a fixed image size, received input shape"):
        masked_patch_model(vitkeras.VisionTransformer((None, None, 3), 7, 1, 12, 2, 24, include_top=False))
    with pytest.raises(ValueError, match="backbone must be a Vision Transformer of this library"):
        masked_patch_model(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    with pytest.raises(ValueError, match="must come from masked_patch_model, 'vision_transformer' has no"):
        pretrained_backbone(backbone())
    with pytest.raises(ValueError, match="must come from masked_patch_model, 'vision_transformer' has no"):
        Engine(backbone(), task=MaskedPatchPrediction())
    with pytest.raises(ValueError, match="must predict 8192 values a patch for target 'color_4x4', received 512"):
        Engine(masked_patch_model(backbone()), task=MaskedPatchPrediction("color_4x4"))
    with pytest.raises(ValueError, match=r"targets of 'mean_color' must have shape \(2, 7\) .* received \(2, 5\)"):
        MaskedPatchPrediction()(tf.zeros((2, 7, 512)), tf.zeros((2, 5), tf.int32))

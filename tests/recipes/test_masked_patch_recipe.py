import json

import keras
import numpy as np
import pytest

import vitkeras
from vitkeras.recipes import finetune, masked_patch
from vitkeras.recipes.config import as_dict, override

TOY = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(24,32)"]
TOY += ["train.batch_size=8", "train.epochs=1"]


def sets(*texts):
    return [part for text in (*TOY, *texts) for part in ("--set", text)]


def pretrain(workdir, *texts):
    arguments = ["--config", "cifar_small", "--data", "mock:24x32x5", "--workdir", str(workdir), "--debug"]
    return masked_patch.main([*arguments, *sets(*texts)])


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "masked"
    assert pretrain(folder, "train.steps=6", "train.save_every=3") == 0
    return folder


def test_paper_appendix_b_1_2():
    for name, function in masked_patch.CONFIGS.items():
        config = function()
        json.dumps(as_dict(config))
        if name == "cifar_small":
            continue
        assert config.train.batch_size == 4096 and config.model.variant == "vit_b16"
        assert (config.optimizer.name, config.optimizer.learning_rate) == ("adamw", 2e-4)
        assert (config.optimizer.decay, config.optimizer.warmup_steps) == ("cosine", 10_000)
        assert config.data.image_size == (224, 224)
        assert "B.1.2" in function.__doc__
    configs = {name: function() for name, function in masked_patch.CONFIGS.items()}
    assert configs["b16"].train.steps == 1_000_000 and configs["b16_100k"].train.steps == 100_000
    assert configs["b16"].mask == configs["b16_imagenet"].mask and configs["b16"].mask.rate == 0.5
    assert configs["b16_rate_15"].mask.rate == 0.15
    assert [configs[f"b16{kind}"].mask.target for kind in ("", "_color_4x4", "_pixels")] == [
        "mean_color",
        "color_4x4",
        "pixels",
    ]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "b16_pixels" else pytest.mark.slow) for n in masked_patch.CONFIGS]
)
def test_smoke(name, capsys):
    assert masked_patch.main(["--config", name, "--smoke", "--debug"]) == 0
    out, err = capsys.readouterr()
    assert "smoke: passed" in out and "backbone.npz" in out and "step 2/2" in err


def test_files_and_metrics(pretrained):
    metrics = json.loads((pretrained / "metrics.json").read_text())
    assert metrics["steps"] == 6 and metrics["count"] == 16 and 5 < metrics["loss"] < 6.3
    assert not (pretrained / "classes.txt").exists()
    model = keras.saving.load_model(pretrained / "model.keras")
    assert model.output_shape == (None, 24)
    again = vitkeras.VisionTransformer((24, 32, 3), 4, 1, 24, 2, 48, include_top=False, pooling="token")
    vitkeras.load_checkpoint(again, pretrained / "backbone.npz")
    x = np.random.default_rng(2).uniform(-1, 1, (3, 24, 32, 3)).astype("float32")
    np.testing.assert_allclose(model(x), again(x), rtol=0, atol=2e-6)


@pytest.mark.parametrize("file", ["backbone.npz", "model.keras"])
def test_fine_tuning_starts_from_these_weights(pretrained, tmp_path, file):
    arguments = ["--config", "cifar_small", "--data", "mock:24x32x5", "--workdir", str(tmp_path), "--debug"]
    # One step of next to no length: what is saved is what it began with.
    step = sets("train.steps=1", "optimizer.learning_rate=1e-12", "optimizer.warmup_steps=0")
    assert finetune.main([*arguments, "--weights", str(pretrained / file), *step]) == 0
    tuned, before = (keras.saving.load_model(folder / "model.keras") for folder in (tmp_path, pretrained))
    compared = 0
    for layer in before.layers:
        for weight, other in zip(layer.weights, tuned.get_layer(layer.name).weights):
            np.testing.assert_allclose(other.numpy(), weight.numpy(), rtol=0, atol=1e-9, err_msg=weight.path)
            compared += 1
    assert compared == 22 and tuned.output_shape == (None, 5)
    assert np.abs(before.get_layer("position_embedding").embedding.numpy()).max() > 0.01


def stop_after_a_chunk(patch):
    """The next run is asked to stop the second time it looks."""
    from vitkeras.training import StopSignal

    asked = []

    def requested(self):
        asked.append(True)
        return len(asked) == 2

    patch.setattr(StopSignal, "requested", property(requested))


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(pretrained, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after_a_chunk(patch)
        assert pretrain(tmp_path, "train.steps=6", "train.save_every=3") == 0
    assert not (tmp_path / "model.keras").exists() and (tmp_path / "checkpoints" / "LAST").exists()
    assert pretrain(tmp_path, "train.steps=6", "train.save_every=3") == 0
    one, other = (keras.saving.load_model(folder / "model.keras") for folder in (pretrained, tmp_path))
    for a, b in zip(one.weights, other.weights):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=a.path)


@pytest.mark.slow
@pytest.mark.parametrize("before, now", [("false", "true"), ("true", "false")])
def test_a_run_does_not_go_on_with_another_compiler(tmp_path, monkeypatch, capsys, before, now):
    """XLA draws other masks from the same seeds (decision 0007)."""
    texts = ("train.steps=6", "train.save_every=3", "model.dropout_rate=0.3")
    with monkeypatch.context() as patch:
        stop_after_a_chunk(patch)
        assert pretrain(tmp_path, *texts, f"train.jit_compile={before}") == 0
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    arguments = ["--config", "cifar_small", "--data", "mock:24x32x5", "--workdir", str(tmp_path)]
    assert masked_patch.main([*arguments, *sets(*texts, f"train.jit_compile={now}")]) == 2
    names = {"true": True, "false": False}
    difference = f"train.jit_compile ({names[before]}, now {names[now]})"
    assert f"holds another run: {difference}; choose another folder" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == kept
    # Nor does it by way of the checkpoint alone.
    (tmp_path / "config.json").unlink()
    assert masked_patch.main([*arguments, *sets(*texts, f"train.jit_compile={now}")]) == 2
    assert f"is of a run with another configuration: {difference}" in capsys.readouterr().err
    (tmp_path / "config.json").unlink()
    assert pretrain(tmp_path, *texts, f"train.jit_compile={before}") == 0


@pytest.mark.parametrize(
    "change, message",
    [
        ("model.variant=r50_b16", "model.variant must be a plain Vision Transformer for masked patches, .* 'r50_b16'"),
        ("model.variant=vit_b15", "vit_b16"),
        ("mask.target=colour", "target must be one of"),
        ("mask.rate=1.5", "rate must be in"),
        ("mask.ratio=0.5", "nearest: 'rate'"),
        ("data.augment=light1", "takes neither data.augment nor data.service"),
        ("data.image_size=(24,30)", "image width must be a multiple of the patch width 4, received 30"),
    ],
)
def test_bad_input_is_one_sentence(change, message, tmp_path, capsys):
    arguments = ["--config", "cifar_small", "--data", "mock:24x32x5", "--workdir", str(tmp_path)]
    assert masked_patch.main([*arguments, *sets(change)]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and "Traceback" not in error
    import re

    assert re.search(message, error), error


def test_override_knows_the_sections():
    assert override(masked_patch.CONFIGS["b16"](), ["mask.rate=0.15"]).mask.rate == 0.15

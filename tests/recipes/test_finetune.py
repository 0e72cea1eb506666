import csv
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from PIL import Image

from vitkeras.models.variants import VARIANTS, AxialVariant, ResNetVariant, Variant
from vitkeras.recipes import finetune
from vitkeras.recipes.building import IMAGENET_STD, build_model
from vitkeras.recipes.config import FinetuneConfig, override

TINY = ["model.num_layers=1", "model.hidden_dim=24", "model.mlp_dim=48", "data.image_size=(32, 48)"]


def run(workdir, *arguments, config="digits", sets=()):
    sets = [part for text in (*TINY, *sets) for part in ("--set", text)]
    return finetune.main(["--config", config, "--workdir", str(workdir), *arguments, *sets])


def make_folder(root, classes=("ash", "beech", "elm"), train=5, test=3):
    """Classes differ in colour, so that a few steps separate them."""
    rng = np.random.default_rng(11)
    for index, name in enumerate(classes):
        for part, count in (("train", train), ("test", test)):
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 60, (37, 53, 3)) + np.eye(3, dtype=int)[index % 3] * 180
                Image.fromarray(pixels.astype("uint8")).save(folder / f"{i}.png")
    return f"folder:{root}"


def test_digits_end_to_end(tmp_path, capsys):
    workdir = tmp_path / "run"
    assert run(workdir, sets=("train.steps=7", "train.log_every=3", "train.evaluate_every=5")) == 0
    out, err = capsys.readouterr()
    assert "1437 training and 360 test images, 10 classes" in err and "7 steps" in err
    assert "of 360 images; model.keras, classes.txt" in out
    names = {"classes.txt", "config.json", "curve.png", "log.csv", "metrics.json", "model.keras", "tensorboard"}
    names |= {"checkpoints"}
    assert set(os.listdir(workdir)) == names
    with open(workdir / "log.csv") as file:
        rows = [(row["step"], row["split"]) for row in csv.DictReader(file)]
    assert rows == [("3", "train"), ("5", "train"), ("5", "test"), ("6", "train"), ("7", "train"), ("7", "test")]
    metrics = json.loads((workdir / "metrics.json").read_text())
    assert metrics["count"] == 360 and metrics["steps"] == 7
    model = keras.saving.load_model(workdir / "model.keras")
    assert model.input_shape == (None, 32, 48, 3) and model.count_params() == metrics["parameters"]
    assert (workdir / "classes.txt").read_text().split() == list("0123456789")
    config = json.loads((workdir / "config.json").read_text())
    assert config["config"]["train"]["steps"] == 7 and config["versions"]["keras"] == keras.__version__


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path):
    losses = []
    for index, seed in enumerate((3, 3, 4)):
        workdir = tmp_path / str(index)
        assert run(workdir, sets=("train.steps=4", f"train.seed={seed}")) == 0
        losses.append(json.loads((workdir / "metrics.json").read_text())["loss"])
    assert losses[0] == losses[1] != losses[2]


def test_a_folder_of_photos_is_learnt(tmp_path):
    data = make_folder(tmp_path / "photos")
    sets = ("train.batch_size=5", "train.steps=40", "optimizer.learning_rate=0.003")
    assert run(tmp_path / "run", "--data", data, sets=sets) == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["count"] == 9 and metrics["accuracy"] == 1.0
    assert (tmp_path / "run" / "classes.txt").read_text().split() == ["ash", "beech", "elm"]


def test_weights_are_loaded_and_the_head_starts_at_zero(golden):
    config = finetune.CONFIGS["digits"]()
    sets = ["model.patch_size=16", "model.num_layers=2", "model.hidden_dim=48", "model.mlp_dim=96"]
    path = str(golden.path("vit_token_32x32"))
    config = override(config, [*sets, "data.image_size=(48, 64)", f"model.weights={path}"])
    model = build_model(config, classes=5)
    arrays = golden("vit_token_32x32")
    np.testing.assert_array_equal(model.get_layer("patch_embedding").projection.kernel, arrays["embedding/kernel"])
    assert model.get_layer("position_embedding").embedding.shape == (1, 1 + 3 * 4, 48)
    assert not np.asarray(model.get_layer("head").kernel.numpy()).any() and model.output_shape == (None, 5)
    normalised = override(config, ["model.weights_input=imagenet"])
    kernel = build_model(normalised, classes=5).get_layer("patch_embedding").projection.kernel
    expected = arrays["embedding/kernel"] * (0.5 / np.array(IMAGENET_STD)[:, None])
    np.testing.assert_allclose(kernel, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "variant, row",
    [
        pytest.param("bit_r50x1", ResNetVariant((1,), 0.5), marks=pytest.mark.slow),
        pytest.param("axial_vit_b32", AxialVariant(16, 1, 24, 3, 48), marks=pytest.mark.slow),
        ("r50_b16", Variant(2, 1, 24, 3, 48, stem_blocks=(1,))),
    ],
)
def test_other_families_are_fine_tuned_too(tmp_path, monkeypatch, variant, row):
    """A row of the family's own kind, small: a named variant has the sizes of the paper."""
    monkeypatch.setitem(VARIANTS, variant, row)
    sets = (f"model.variant={variant}", "data.image_size=(32, 48)", "train.steps=2", "train.batch_size=7")
    sets += tuple(f"model.{key}=none" for key in ("patch_size", "num_layers", "hidden_dim", "num_heads", "mlp_dim"))
    arguments = [part for text in sets for part in ("--set", text)]
    assert finetune.main(["--config", "digits", "--workdir", str(tmp_path / "run"), *arguments]) == 0
    model = keras.saving.load_model(tmp_path / "run" / "model.keras")
    assert model.name == variant and model.input_shape == (None, 32, 48, 3) and model.output_shape == (None, 10)


def test_the_real_baseline_builds():
    config = override(FinetuneConfig(), ["model.variant=bit_r50x1", "data.image_size=(32, 48)"])
    with keras.StatelessScope(initialize_variables=False):
        model = build_model(config, classes=5)
    assert model.count_params() == 25_557_032 - 995 * 2049
    keras.utils.clear_session()


def test_dropout_of_a_variant_is_off_unless_asked_for(monkeypatch):
    monkeypatch.setitem(VARIANTS, "vit_l16", Variant(16, 1, 24, 3, 48, dropout_rate=0.1))
    sets = ["model.variant=vit_l16", "data.image_size=(32, 48)"]
    for value, expected in (("0.0", 0.0), ("none", 0.1), ("0.2", 0.2)):
        config = override(FinetuneConfig(), [*sets, f"model.dropout_rate={value}"])
        assert build_model(config, 5).get_layer("encoder_block_00").dropout_rate == expected


def test_mixed_precision_and_accumulation(tmp_path):
    sets = ("train.steps=2", "train.mixed_precision=true", "train.accumulate=2")
    assert run(tmp_path / "run", sets=sets) == 0
    assert keras.config.dtype_policy().name == "float32"
    model = keras.saving.load_model(tmp_path / "run" / "model.keras")
    assert model.get_layer("encoder_block_00").compute_dtype == "bfloat16"


@pytest.mark.parametrize(
    "arguments, sets, message",
    [
        (["--data", "nothing"], (), "nothing"),
        (["--data", "folder:/no/such/folder"], (), "/no/such/folder"),
        (["--weights", "augrag"], (), "nearest: 'augreg'"),
        (["--weights", "/no/such.npz"], (), "there is no such file"),
        ([], ("train.batch_size=5000",), "train.batch_size must be at most the 1437 training images, received 5000"),
        ([], ("data.image_size=(30, 48)",), "image height must be a multiple of the patch height 8, received 30"),
        ([], ("optimizer.name=adam",), "optimizer must be 'sgd' or 'adamw', received 'adam'; nearest: 'adamw'"),
        ([], ("train.accumulate=5", "train.batch_size=12"), "multiple of replicas x accumulate = 5, received 12"),
        ([], ("data.crop_area=(0.9, 0.1)",), "crop_area must be a pair (least, largest)"),
        ([], ("data.augment=strong",), "augment must be an Augmentation or one of none, light1"),
        ([], ("optimizer.momentum=1.0",), "optimizer.momentum must be in [0, 1), received 1.0."),
        ([], ("model.variant=vit_b15",), "vit_b15"),
        ([], ("model.variant=bit_r50x1",), "model.patch_size is not for model.variant=bit_r50x1, received 8."),
        (
            [],
            ("model.variant=axial_vit_b16", "model.classifier=gap"),
            "model.classifier is not for model.variant=axial_vit_b16, received 'gap'.",
        ),
        (
            [],
            ("model.variant=axial_vit_b16", "model.position_embedding=none"),
            "model.position_embedding is not for model.variant=axial_vit_b16, received 'none'.",
        ),
        ([], ("model.position_embedding=2d",), "position_embedding must be one of"),
        ([], ("model.activation=relu",), "activation must be 'gelu_tanh'"),
        ([], ("model.weights_input=x", "model.weights=augreg"), "weights_input must be one of"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(tmp_path, capsys, arguments, sets, message):
    assert run(tmp_path / "run", *arguments, sets=("train.steps=2", *sets)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert not (tmp_path / "run").exists()


def test_unknown_configuration_and_missing_arguments(tmp_path, capsys):
    assert run(tmp_path / "run", config="digit") == 2
    assert (
        "--config must be one of photos, photos_s14, digits, imagenet, " in (error := capsys.readouterr().err)
        and "received 'digit'; nearest: 'digits'" in error
    )
    assert finetune.main(["--config", "photos", "--workdir", str(tmp_path / "run")]) == 2
    assert "--data is needed" in capsys.readouterr().err
    assert finetune.main([]) == 2
    assert "--config is needed: one of photos, photos_s14, digits, imagenet, " in capsys.readouterr().err
    assert finetune.main(["--config", "digits"]) == 2
    assert "--workdir is needed" in capsys.readouterr().err


def test_another_runs_folder_is_refused(tmp_path, capsys):
    assert run(tmp_path / "run", sets=("train.steps=1",)) == 0
    (tmp_path / "run" / "notes.txt").write_text("mine")
    before = (tmp_path / "run" / "model.keras").read_bytes()
    assert run(tmp_path / "run", sets=("train.steps=2",)) == 2
    assert "holds another run: train.steps (1, now 2); choose another folder, or" in capsys.readouterr().err
    assert (tmp_path / "run" / "model.keras").read_bytes() == before
    assert run(tmp_path / "run", "--overwrite", sets=("train.steps=2",)) == 0
    assert "going on" not in capsys.readouterr().err  # not from the checkpoint of the other run
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_a_finished_run_says_so(tmp_path, capsys):
    assert run(tmp_path / "run", sets=("train.steps=1",)) == 0
    first = capsys.readouterr().out
    before = (tmp_path / "run" / "model.keras").stat()
    assert run(tmp_path / "run", sets=("train.steps=1", "train.keep=2")) == 0
    again = capsys.readouterr().out
    assert again.startswith("this run is finished: test accuracy") and first.split(";")[0] in again
    assert (tmp_path / "run" / "model.keras").stat() == before


def test_a_diverging_run_stops_and_names_the_step(tmp_path, capsys):
    sets = ("train.steps=50", "optimizer.name=sgd", "optimizer.weight_decay=0", "optimizer.learning_rate=1e38")
    assert run(tmp_path / "run", sets=(*sets, "optimizer.clip_norm=none", "optimizer.warmup_steps=0")) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(("error: loss is nan at step 2", "error: loss is inf at step 2"))
    assert not (tmp_path / "run" / "model.keras").exists()


def test_debug_shows_the_traceback(tmp_path, capsys):
    assert run(tmp_path / "run", "--data", "nothing", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err


def test_dump_config(capsys):
    assert finetune.main(["--config", "digits", "--set", "train.epochs=3", "--dump-config"]) == 0
    assert json.loads(capsys.readouterr().out)["train"]["epochs"] == 3.0


def test_help_lists_the_configurations():
    done = subprocess.run(
        [sys.executable, "-m", "vitkeras.recipes.finetune", "--help"], capture_output=True, text=True, check=True
    )
    for name in finetune.CONFIGS:
        assert f"  {name} " in done.stdout

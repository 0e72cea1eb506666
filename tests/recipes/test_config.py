import dataclasses
import json

import pytest

from vitkeras.recipes.config import FinetuneConfig, as_dict, override
from vitkeras.recipes.configs.finetune import CONFIGS


@pytest.mark.parametrize(
    "assignment, path, expected",
    [
        ("train.batch_size=7", ("train", "batch_size"), 7),
        ("optimizer.learning_rate=3", ("optimizer", "learning_rate"), 3.0),
        ("optimizer.clip_norm=None", ("optimizer", "clip_norm"), None),
        ("optimizer.clip_norm=none", ("optimizer", "clip_norm"), None),
        ("optimizer.warmup_steps=0", ("optimizer", "warmup_steps"), 0),
        ("data.image_size=(48, 64)", ("data", "image_size"), (48, 64)),
        ("data.image_size=[48, 64]", ("data", "image_size"), (48, 64)),
        ("data.crop_area=(0.5, 1)", ("data", "crop_area"), (0.5, 1.0)),
        ("data.crop_area=none", ("data", "crop_area"), None),
        ("data.flip=false", ("data", "flip"), False),
        ("data.spec=folder:a=b", ("data", "spec"), "folder:a=b"),
        ("model.weights=007.npz", ("model", "weights"), "007.npz"),
        ("model.weights='12'", ("model", "weights"), "12"),
        ("model.weights=none", ("model", "weights"), None),
        ("data.augment=none", ("data", "augment"), "none"),
        ("sweep.learning_rates=(1, 0.5, 2)", ("sweep", "learning_rates"), (1.0, 0.5, 2.0)),
        ("model.stage_blocks=none", ("model", "stage_blocks"), None),
        ("train.epochs = 2.5", ("train", "epochs"), 2.5),
    ],
)
def test_override_is_typed(assignment, path, expected):
    config = override(FinetuneConfig(), [assignment])
    value = getattr(getattr(config, path[0]), path[1])
    assert value == expected and type(value) is type(expected)
    others = dataclasses.replace(config, **{path[0]: getattr(FinetuneConfig(), path[0])})
    assert others == FinetuneConfig()


@pytest.mark.parametrize(
    "assignment, message",
    [
        ("train.batch_size", "--set takes section.key=value, received 'train.batch_size'"),
        ("trian.batch_size=7", "--set trian.batch_size: no field 'trian'; nearest: 'train'"),
        ("train.batchsize=7", "no field 'batchsize'; nearest: 'batch_size'"),
        ("train=7", "--set train: is a section; set one of its fields, such as train.batch_size"),
        ("train.batch_size.x=7", "'batch_size' has no fields"),
        ("train.batch_size=7.5", "--set train.batch_size must be int, received '7.5'"),
        ("train.batch_size=true", "must be int, received 'true'"),
        ("data.flip=1", "must be bool, received '1'"),
        ("data.image_size=(1, 2, 3)", r"must be tuple.int, int., such as \(1, 2\), received"),
        ("optimizer.clip_norm=x", "must be float or none, received 'x'"),
        ("data.spec=None", "must be str, received 'None'"),
    ],
)
def test_bad_overrides(assignment, message):
    with pytest.raises(ValueError, match=message):
        override(FinetuneConfig(), [assignment])


@pytest.mark.parametrize(
    "assignment, message",
    [
        ("optimizer.learning_rate=nan", "--set optimizer.learning_rate must be float, received 'nan'"),
        ("optimizer.learning_rate=1e400", "optimizer.learning_rate must be above 0 and finite, received inf"),
        ("optimizer.learning_rate=0", "optimizer.learning_rate must be above 0 and finite, received 0.0"),
        ("optimizer.clip_norm=-1", "optimizer.clip_norm must be above 0 and finite, received -1.0"),
        ("optimizer.weight_decay=-0.1", "optimizer.weight_decay must be at least 0 and finite, received -0.1"),
        ("optimizer.warmup_steps=-2", "optimizer.warmup_steps must be at least 0 and finite, received -2"),
        ("train.epochs=1e400", "train.epochs must be above 0 and finite, received inf"),
        ("train.save_minutes=1e400", "train.save_minutes must be above 0 and finite, received inf"),
        ("train.seed=5000000000", r"train.seed must be >= 0 and below 2\*\*31, received 5000000000"),
        ("sweep.learning_rates=(0.1, -1)", r"sweep.learning_rates must be above 0 and finite, received \(0.1, -1.0\)"),
        ("sweep.learning_rates=(0.1, nan)", "--set sweep.learning_rates must be tuple.*, received '.0.1, nan.'"),
    ],
)
def test_numbers_that_no_run_can_have(assignment, message):
    with pytest.raises(ValueError, match=message):
        override(FinetuneConfig(), [assignment])


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_are_frozen_and_plain(name):
    config = CONFIGS[name]()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.train = None
    assert json.loads(json.dumps(as_dict(config)))["model"]["variant"] == config.model.variant
    assert CONFIGS[name].__doc__


@pytest.mark.parametrize("name", ["batch_size", "epochs", "steps", "accumulate", "log_every", "evaluate_every"])
@pytest.mark.parametrize("value", [0, -3])
def test_lengths_are_positive(name, value):
    with pytest.raises(ValueError, match=rf"train.{name} must be above 0 and finite, received {value}"):
        override(CONFIGS["digits"](), [f"train.{name}={value}"])

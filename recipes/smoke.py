"""`--smoke`: two steps of any configuration on made-up images, by the same code path, with tiny stand-ins."""

import dataclasses

from .config import ModelConfig

CLASSES = 5
STEPS = 2


def smoke(config):
    """Returns a configuration of the same recipe that takes seconds, and what it replaces.

    Data become noise, sides two and three patches, every stack one block and the widths those of a toy; steps become 2.
    Optimizer, schedule, loss, augmentation, dropout, average and head stay.

    Args:
        config: a configuration with sections data, model and train.

    Returns:
        (configuration, list of str such as "data.spec=mock:64x96x5 for tfds:cifar10").
    """
    from vitkeras.models import VARIANTS

    if config.model.variant not in VARIANTS:
        return config, []  # refused by whatever builds it
    row = VARIANTS[config.model.variant]
    stride = row.stride
    if config.model.patch_size is not None and hasattr(row, "patch_size"):
        stride = stride // row.patch_size * config.model.patch_size
    size = (2 * stride, 3 * stride)
    accumulate = config.train.accumulate
    data = {"spec": f"mock:{size[0]}x{size[1]}x{CLASSES}", "image_size": size, "service": None}
    if config.data.limit is not None:
        data["limit"] = 40
    train = {"batch_size": 4 * accumulate, "steps": STEPS, "log_every": 1, "evaluate_every": None, "save_every": None}
    optimizer = {"warmup_steps": 1} if config.optimizer.warmup_steps is not None else {}
    suite = {"suite": {"tasks": ("cifar100", "eurosat", "dmlab")}} if hasattr(config, "suite") else {}
    suite |= {"qat": {"model": "random", "calibration_images": 8}} if hasattr(config, "qat") else {}
    changes = suite | {"data": data, "model": _tiny(config.model, row), "optimizer": optimizer, "train": train}
    smaller, said = config, []
    for section, values in changes.items():
        before = getattr(config, section)
        smaller = dataclasses.replace(smaller, **{section: dataclasses.replace(before, **values)})
        said += [
            f"{section}.{key}={_text(value)} for {_text(getattr(before, key), section)}"
            for key, value in values.items()
            if value != getattr(before, key)
        ]
    return smaller, said


def _tiny(choice, row):
    changes = {"weights": None}
    if hasattr(row, "hidden_dim"):
        changes |= {"num_layers": 1, "hidden_dim": 24, "num_heads": 3, "mlp_dim": 48}
        if choice.representation_size is not None:
            changes["representation_size"] = 24
    stages = getattr(row, "stem_blocks", None) if hasattr(row, "stem_blocks") else getattr(row, "blocks", None)
    if stages is not None:
        changes |= {"stage_blocks": (1,) * len(stages), "width_factor": 0.5}
    fields = {field.name for field in dataclasses.fields(ModelConfig)}
    return {key: value for key, value in changes.items() if key in fields}


def _text(value, section=""):
    if value is None and section == "model":
        return "the variant's own"
    return str(value).replace(" ", "") or "none"

"""Pre-trains a Vision Transformer without labels, by masked-patch prediction (paper appendix B.1.2).

    python -m recipes.masked_patch --config cifar_small --workdir runs/masked
    python -m recipes.finetune --config cifar_small --weights runs/masked/backbone.npz --workdir runs/tuned

The folder gets `model.keras` and `backbone.npz` (the ViT without head, the latter in the original's layout), and
`metrics.json`, `config.json`, `log.csv`, `curve.png`, `tensorboard/` and `checkpoints/`, whose model has the prediction
head. Accuracy is the share of colours, or of pixel values at 3 bits, that are predicted right. The same command again
goes on from the last checkpoint.
"""

import os
import sys

from . import cli, runner
from .building import build_engine
from .configs import MASKED_PATCH as CONFIGS

SHORTCUTS = {"data": "data.spec", "weights": "model.weights", "on_bad_image": "data.on_bad_image"}


def masked_patch(config, workdir, device="auto"):
    """Runs one pre-training.

    Args:
        config: `MaskedPatchConfig`.
        workdir: str, existing folder for the results.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker".

    Returns:
        dict, see `runner.run`.
    """
    strategy = runner.make_strategy(device)
    return runner.run(config, problem(config, runner.open_splits(config)), workdir, strategy)


def problem(config, splits):
    """The `Problem` of masked-patch prediction on opened data, whose labels are not used."""
    from vitkeras import data, training

    choice, mask = config.data, config.mask
    if choice.augment != "none" or choice.service is not None:
        raise ValueError(
            "masked_patch takes neither data.augment nor data.service, received "
            f"{choice.augment!r} and {choice.service!r}."
        )
    images, patch_size = runner.train_images(splits, config), patch_size_of(config.model)
    task = training.MaskedPatchPrediction(mask.target)

    def masked(batches, **where):
        return training.masked_patch_batches(
            batches, patch_size, mask.target, mask.rate, seed=config.train.seed, **where
        )

    def batches(start_step, **hosts):
        shown = data.train_batches(
            images,
            config.train.batch_size,
            choice.image_size,
            seed=config.train.seed,
            start_step=start_step,
            crop_area=choice.crop_area,
            flip=choice.flip,
            **hosts,
        )
        return masked(shown, start_step=start_step, **hosts)

    def build(config, steps, strategy):
        def around(backbone):
            return training.masked_patch_model(backbone, mask.target)

        return build_engine(config, 1, steps, strategy, task, around)

    part = "dev" if choice.train_part == "without_dev" else "test"
    held_out = getattr(splits, part)
    return runner.Problem(
        splits.name,
        images.num_examples,
        {part: held_out.num_examples},
        (),
        batches,
        evaluations={part: masked(runner.eval_dataset(held_out, config))},
        build=build,
        result=training.pretrained_backbone,
        write=write_backbone,
    )


def write_backbone(backbone, workdir):
    """Writes `backbone.npz`, the Vision Transformer without head in the original's layout."""
    import vitkeras

    vitkeras.save_checkpoint(backbone, os.path.join(workdir, "backbone.npz"), overwrite=True)


def patch_size_of(choice):
    """int, the patch of a `ModelConfig`, or a ValueError if it isn't a plain Vision Transformer."""
    from vitkeras import models

    if choice.variant not in models.VARIANTS:
        models.build_variant(choice.variant)  # refuses it and gives the nearest names
    row = models.VARIANTS[choice.variant]
    if getattr(row, "stem_blocks", None) is not None or row.builder is not models.VisionTransformer:
        raise ValueError(
            f"model.variant must be a plain Vision Transformer for masked patches, received {choice.variant!r}."
        )
    return choice.patch_size or row.patch_size


def _main(argv):
    parse = cli.parser("Pre-train a Vision Transformer without labels, by masked-patch prediction.", CONFIGS)
    parse.add_argument("--weights", metavar="W", help="weights to start from (model.weights)")
    parse.add_argument("--on-bad-image", choices=("refuse", "skip"), help="unreadable images (data.on_bad_image)")

    def execute(config, workdir, arguments):
        return masked_patch(config, workdir, arguments.device)

    cli.launch("masked_patch", parse, CONFIGS, SHORTCUTS, execute, argv)


def main(argv=None):
    """Entry point of `vitkeras-masked-patch`; returns the exit code."""
    return cli.run(_main, argv)


if __name__ == "__main__":
    sys.exit(main())

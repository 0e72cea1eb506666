"""Trains a model from scratch on labelled images (paper section 4.1, Table 3; AugReg, arXiv 2106.10270).

    python -m recipes.pretrain --config imagenet_vit_b16 --workdir runs/b16
    python -m recipes.pretrain --config large_vit_l16 --data folder:many_photos --workdir runs/l16 --device tpu

The folder gets what `recipes.finetune` writes; `--weights runs/b16/model.keras` then fine-tunes from it. The same
command again goes on from the last checkpoint.
"""

import sys

from . import cli, runner
from .configs import PRETRAIN as CONFIGS

SHORTCUTS = {"data": "data.spec", "on_bad_image": "data.on_bad_image"}


def pretrain(config, workdir, device="auto"):
    """Runs one training.

    Args:
        config: `PretrainConfig`.
        workdir: str, existing folder for the results.
        device: "auto" (default), "cpu", "gpu", "tpu" or "multiworker".

    Returns:
        dict, see `runner.run`.
    """
    strategy = runner.make_strategy(device)
    return runner.run(config, runner.classification(config, runner.open_splits(config)), workdir, strategy)


def _main(argv):
    parse = cli.parser("Train a model from scratch on labelled images.", CONFIGS)
    parse.add_argument("--on-bad-image", choices=("refuse", "skip"), help="unreadable images (data.on_bad_image)")

    def execute(config, workdir, arguments):
        return pretrain(config, workdir, arguments.device)

    cli.launch("pretrain", parse, CONFIGS, SHORTCUTS, execute, argv)


def main(argv=None):
    """Entry point of `vitkeras-pretrain`; returns the exit code."""
    return cli.run(_main, argv)


if __name__ == "__main__":
    sys.exit(main())

"""ImageNet at the highest resolutions of paper Table 2, with Polyak averaging of 0.9999 (Polyak & Juditsky, 1992)."""

import dataclasses

from .table4 import CONFIGS as TABLE_4


def _high(variant, side):
    config = TABLE_4["imagenet"]()
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, image_size=(side, side)),
        model=dataclasses.replace(config.model, variant=variant),
        train=dataclasses.replace(config.train, ema_decay=0.9999),
    )


def imagenet_512():
    """Table 2: vit_l16 on tfds:imagenet2012 at 512 px, 20,000 steps, weights averaged with 0.9999."""
    return _high("vit_l16", 512)


def imagenet_518():
    """Table 2: vit_h14 on tfds:imagenet2012 at 518 px, 20,000 steps, weights averaged with 0.9999."""
    return _high("vit_h14", 518)


CONFIGS = {function.__name__: function for function in (imagenet_512, imagenet_518)}

"""VTAB-1k, 19 tasks (paper section 4.1, appendix B.1.1 and Table 2's last rows)."""

from ..config import DataConfig, ModelConfig, OptimizerConfig, SuiteConfig, TrainConfig, VtabConfig


def _vtab(part):
    return VtabConfig(
        data=DataConfig(image_size=(384, 384), crop_area=None, flip=False, limit=1000, dev_fraction=0.2),
        model=ModelConfig("vit_b16", weights="imagenet21k"),
        optimizer=OptimizerConfig("sgd", 0.01, "cosine", warmup_steps=500),
        train=TrainConfig(batch_size=512, steps=2500, log_every=50),
        suite=SuiteConfig(part=part),
    )


def vtab():
    """Section 4.1: vit_b16, 1,000 images a task, 2,500 steps, LR 0.01; results on the test parts."""
    return _vtab("all")


def vtab_dev():
    """Section 4.1: the same on 800 images, evaluated on the other 200, to choose settings with."""
    return _vtab("train")


CONFIGS = {function.__name__: function for function in (vtab, vtab_dev)}

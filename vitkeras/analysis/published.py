"""Numbers of the paper's appendix C that calculations are held against."""

from typing import NamedTuple

JFT_IMAGES = 303_000_000  # section 4.1

# Table 5: ImageNet top-1 in percent after fine-tuning at 384 pixels, a pre-training set a row; its images from section
# 4.1. H/14 was not trained on ImageNet alone.
TABLE_5 = {
    "ImageNet": {
        "images": 1_300_000,
        "top1": {"ViT-B/16": 77.91, "ViT-B/32": 73.38, "ViT-L/16": 76.53, "ViT-L/32": 71.16},
    },
    "ImageNet-21k": {
        "images": 14_000_000,
        "top1": {"ViT-B/16": 83.97, "ViT-B/32": 81.28, "ViT-L/16": 85.15, "ViT-L/32": 80.99, "ViT-H/14": 85.13},
    },
    "JFT-300M": {
        "images": JFT_IMAGES,
        "top1": {"ViT-B/16": 84.15, "ViT-B/32": 80.73, "ViT-L/16": 87.12, "ViT-L/32": 84.37, "ViT-H/14": 88.04},
    },
}


class PretrainingRun(NamedTuple):
    """A row of Table 6: model, family ("vit", "hybrid" or "resnet"), epochs of JFT-300M, exaflops, ImageNet top-1."""

    name: str
    family: str
    variant: str
    epochs: int
    exaflops: int
    top1: float


TABLE_6 = tuple(
    PretrainingRun(*row)
    for row in (
        ("ViT-B/32", "vit", "vit_b32", 7, 55, 80.73),
        ("ViT-B/16", "vit", "vit_b16", 7, 224, 84.15),
        ("ViT-L/32", "vit", "vit_l32", 7, 196, 84.37),
        ("ViT-L/16", "vit", "vit_l16", 7, 783, 86.30),
        ("ViT-L/16", "vit", "vit_l16", 14, 1567, 87.12),
        ("ViT-H/14", "vit", "vit_h14", 14, 4262, 88.08),
        ("R50x1", "resnet", "bit_r50x1", 7, 50, 77.54),
        ("R50x2", "resnet", "bit_r50x2", 7, 199, 82.12),
        ("R101x1", "resnet", "bit_r101x1", 7, 96, 80.67),
        ("R152x1", "resnet", "bit_r152x1", 7, 141, 81.88),
        ("R152x2", "resnet", "bit_r152x2", 7, 563, 84.97),
        ("R152x2", "resnet", "bit_r152x2", 14, 1126, 85.56),
        ("R200x3", "resnet", "bit_r200x3", 14, 3306, 87.22),
        ("R50x1+ViT-B/32", "hybrid", "r50_b32", 7, 106, 84.90),
        ("R50x1+ViT-B/16", "hybrid", "r50_b16", 7, 274, 85.58),
        ("R50x1+ViT-L/32", "hybrid", "r50_l32", 7, 246, 85.68),
        ("R50x1+ViT-L/16", "hybrid", "r50_l16", 7, 859, 86.60),
        ("R50x1+ViT-L/16", "hybrid", "r50_l16", 14, 1668, 87.12),
    )
)

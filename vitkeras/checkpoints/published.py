"""The table of published files.

Sources: the tables of github.com/google-research/vision_transformer (paper weights; AugReg, arXiv 2106.10270; SAM,
arXiv 2106.01548). No hashes are published for these files. The AugReg files of the table are those that its authors
recommend at 384 pixels, with the ImageNet top-1 that they give, and the like at 224 pixels.
"""

from dataclasses import dataclass
from urllib.parse import quote

BASE_URL = "https://storage.googleapis.com/vit_models/"


@dataclass(frozen=True)
class PublishedFile:
    """One file on the original's server.

    Attributes:
        collection: the short name that `weights=` takes, such as "imagenet21k+imagenet2012".
        variant: the model it belongs to, such as "vit_b16".
        path: path below `BASE_URL`.
        image_size: int, the resolution in pixels that it was trained or tuned at.
        classes: int, width of its head.
        has_pre_logits: bool, whether a tanh layer `pre_logits` precedes its head.
        imagenet_top1: float or None, percent on ImageNet's validation set as its authors give it for this file.
    """

    collection: str
    variant: str
    path: str
    image_size: int
    classes: int
    has_pre_logits: bool = False
    imagenet_top1: float | None = None

    @property
    def name(self):
        """The exact name that `weights=` takes for this one file."""
        return self.path.removesuffix(".npz")

    @property
    def url(self):
        """The address, with `+` sent as `%2B` as the server wants it."""
        return BASE_URL + quote(self.path)


_PLAIN = ("ViT-B_16", "ViT-B_32", "ViT-B_8", "ViT-L_16", "ViT-L_32")


def _imagenet21k():
    for size in (*_PLAIN, "ViT-H_14", "R50+ViT-B_16", "R26+ViT-B_32", "R50+ViT-L_32"):
        yield PublishedFile("imagenet21k", _variant(size), f"imagenet21k/{size}.npz", 224, 21843, has_pre_logits=True)


def _imagenet2012():
    collection = "imagenet21k+imagenet2012"
    for size in ("ViT-B_16-224", "ViT-L_16-224", *_PLAIN, "R50+ViT-B_16"):
        image_size = 224 if size.endswith("-224") else 384
        yield PublishedFile(collection, _variant(size), f"{collection}/{size}.npz", image_size, 1000)


def _sam():
    for size in ("ViT-B_16", "ViT-B_32", "ViT-L_16", "ViT-L_32", "ViT-S_16"):
        yield PublishedFile("sam", _variant(size), f"sam/{size}.npz", 224, 1000)


# ImageNet-21k AugReg pre-training, then ImageNet-1k: model, augmentation, weight decay, dropout,
# stochastic depth, fine-tuning rate, resolution, ImageNet top-1.
_AUGREG = (
    ("Ti_16", "none", 0.03, 0.0, 0.0, 0.03, 224, None),
    ("Ti_16", "none", 0.03, 0.0, 0.0, 0.03, 384, 78.22),
    ("S_32", "light1", 0.03, 0.0, 0.0, 0.03, 224, None),
    ("S_32", "none", 0.1, 0.0, 0.0, 0.01, 384, 79.58),
    ("S_16", "light1", 0.03, 0.0, 0.0, 0.03, 224, None),
    ("S_16", "light1", 0.03, 0.0, 0.0, 0.03, 384, 83.73),
    ("B_32", "medium1", 0.03, 0.0, 0.0, 0.03, 224, None),
    ("B_32", "light1", 0.1, 0.0, 0.0, 0.01, 384, 83.59),
    ("B_16", "medium1", 0.1, 0.0, 0.0, 0.01, 224, None),
    ("B_16", "medium1", 0.1, 0.0, 0.0, 0.03, 384, 85.49),
    ("B_8", "medium2", 0.1, 0.0, 0.0, 0.03, 224, 85.58),
    ("L_16", "medium1", 0.1, 0.1, 0.1, 0.01, 224, None),
    ("L_16", "strong1", 0.1, 0.0, 0.0, 0.01, 384, 85.59),
    ("R_Ti_16", "none", 0.03, 0.0, 0.0, 0.03, 224, None),
    ("R_Ti_16", "none", 0.03, 0.0, 0.0, 0.03, 384, 75.40),
    ("R26_S_32", "light0", 0.03, 0.1, 0.1, 0.03, 224, None),
    ("R26_S_32", "light1", 0.1, 0.0, 0.0, 0.01, 384, 83.85),
    ("R50_L_32", "medium1", 0.1, 0.1, 0.1, 0.01, 224, None),
    ("R50_L_32", "medium1", 0.1, 0.1, 0.1, 0.01, 384, 85.99),
)


def _augreg():
    for size, augmentation, decay, dropout, depth, rate, image_size, top1 in _AUGREG:
        path = (
            f"augreg/{size}-i21k-300ep-lr_0.001-aug_{augmentation}-wd_{decay}-do_{dropout}-sd_{depth}"
            f"--imagenet2012-steps_20k-lr_{rate}-res_{image_size}.npz"
        )
        yield PublishedFile("augreg", _variant(size), path, image_size, 1000, imagenet_top1=top1)


def _variant(size):
    """ "ViT-B_16-224" -> "vit_b16", "R50+ViT-B_16" -> "r50_b16", "R_Ti_16" -> "r_ti16"."""
    *stem, letters, patch = size.removesuffix("-224").replace("+ViT-", "_").replace("ViT-", "").lower().split("_")
    return f"{stem[0] if stem else 'vit'}_{letters}{patch}"


PUBLISHED = (*_imagenet2012(), *_imagenet21k(), *_augreg(), *_sam())

"""The table of published files.

Sources: the tables of github.com/google-research/vision_transformer (paper weights; AugReg, arXiv 2106.10270; SAM,
arXiv 2106.01548). No hashes are published for these files. The AugReg files of the table are those that its authors
recommend at 384 pixels, with the ImageNet top-1 that they give, and the like at 224 pixels. The top-1 of the paper's
weights is that of the paper's Table 5 at 384 pixels, and what the tables expect of the two files for 224.
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
        imagenet_top1: float or None, percent on ImageNet's validation set as its authors give it.
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

    @property
    def parameters(self):
        """int, how many numbers the model's arrays hold."""
        count, width, stride = _SIZES[self.variant]
        positions = (self.image_size // stride) ** 2 - (_SIDE // stride) ** 2
        head = (width + 1) * (self.classes - _CLASSES)
        return count + width * positions + head + (width * (width + 1) if self.has_pre_logits else 0)

    @property
    def mebibytes(self):
        """float, the size of its float32 arrays in MiB; a SAM file may hold its optimizer's too."""
        return 4 * self.parameters / 2**20


# Parameters with a head of 1000 classes at 224 pixels, width, pixels between two tokens.
_SIDE, _CLASSES = 224, 1000
_SIZES = {
    "vit_ti16": (5_717_416, 192, 16),
    "vit_s16": (22_050_664, 384, 16),
    "vit_s32": (22_878_952, 384, 32),
    "vit_b8": (86_576_872, 768, 8),
    "vit_b16": (86_567_656, 768, 16),
    "vit_b32": (88_224_232, 768, 32),
    "vit_l16": (304_326_632, 1024, 16),
    "vit_l32": (306_535_400, 1024, 32),
    "vit_h14": (632_045_800, 1280, 14),
    "r_ti16": (6_337_704, 192, 32),
    "r26_s32": (36_431_912, 384, 32),
    "r26_b32": (101_383_976, 768, 32),
    "r50_b16": (98_659_112, 768, 16),
    "r50_l32": (328_994_856, 1024, 32),
}

_PLAIN = ("ViT-B_16", "ViT-B_32", "ViT-B_8", "ViT-L_16", "ViT-L_32")


def _imagenet21k():
    for size in (*_PLAIN, "ViT-H_14", "R50+ViT-B_16", "R26+ViT-B_32", "R50+ViT-L_32"):
        yield PublishedFile("imagenet21k", _variant(size), f"imagenet21k/{size}.npz", 224, 21843, has_pre_logits=True)


def _imagenet2012():
    collection = "imagenet21k+imagenet2012"
    top1 = {"ViT-B_16-224": 81.2, "ViT-L_16-224": 82.7}
    top1 |= {"ViT-B_16": 83.97, "ViT-B_32": 81.28, "ViT-L_16": 85.15, "ViT-L_32": 80.99}  # paper Table 5
    for size in ("ViT-B_16-224", "ViT-L_16-224", *_PLAIN, "R50+ViT-B_16"):
        image_size = 224 if size.endswith("-224") else 384
        path = f"{collection}/{size}.npz"
        yield PublishedFile(collection, _variant(size), path, image_size, 1000, imagenet_top1=top1.get(size))


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

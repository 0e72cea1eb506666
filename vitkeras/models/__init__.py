"""The models: `VisionTransformer`, its named variants, and rebuilding at another size or head."""

from vitkeras.models.rebuild import at_resolution, with_new_head
from vitkeras.models.variants import (
    VARIANTS,
    ViTB8,
    ViTB16,
    ViTB32,
    ViTH14,
    ViTL16,
    ViTL32,
    ViTS16,
    ViTS32,
    ViTTi16,
    build_variant,
)
from vitkeras.models.vit import VisionTransformer

__all__ = [
    "VARIANTS",
    "ViTB8",
    "ViTB16",
    "ViTB32",
    "ViTH14",
    "ViTL16",
    "ViTL32",
    "ViTS16",
    "ViTS32",
    "ViTTi16",
    "VisionTransformer",
    "at_resolution",
    "build_variant",
    "with_new_head",
]

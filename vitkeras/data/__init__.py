"""Images from folders and data sets to batches, as a pure function of (seed, step). Needs TensorFlow."""

from vitkeras._tensorflow import tf as _tf  # noqa: F401  (names the extra if TensorFlow is missing)
from vitkeras.data.augment import Augmentation
from vitkeras.data.distribute import distribute_batches
from vitkeras.data.duplicates import NearDuplicates, near_duplicates
from vitkeras.data.evaluation import eval_batches, raw_images
from vitkeras.data.image_set import DatasetSplits, ImageSet
from vitkeras.data.perceptual_hash import perceptual_hashes
from vitkeras.data.pipeline import train_batches
from vitkeras.data.sources import open_dataset

__all__ = [
    "Augmentation",
    "DatasetSplits",
    "ImageSet",
    "NearDuplicates",
    "distribute_batches",
    "eval_batches",
    "near_duplicates",
    "open_dataset",
    "perceptual_hashes",
    "raw_images",
    "train_batches",
]

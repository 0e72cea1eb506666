"""The training engine: one loop for one device and for `tf.distribute`, with the paper's optimizers and schedules."""

from vitkeras._tensorflow import tf as _tf  # noqa: F401  (names the extra if TensorFlow is missing)
from vitkeras.training.checkpointing import Checkpointer, CheckpointError
from vitkeras.training.devices import make_strategy
from vitkeras.training.distillation import Distillation
from vitkeras.training.engine import Engine, TrainingError
from vitkeras.training.interrupt import StopSignal
from vitkeras.training.logs import RunLog
from vitkeras.training.loop import Outcome, resume, train
from vitkeras.training.masked_patch import MaskedPatchPrediction
from vitkeras.training.masked_patch_batches import masked_patch_batches
from vitkeras.training.masked_patch_model import masked_patch_model, pretrained_backbone
from vitkeras.training.optimizers import AdamW, MomentumSGD, make_optimizer
from vitkeras.training.pruning import MagnitudePruning, measured_sparsity
from vitkeras.training.schedules import WarmupDecay
from vitkeras.training.tasks import Classification

__all__ = [
    "AdamW",
    "CheckpointError",
    "Checkpointer",
    "Classification",
    "Distillation",
    "Engine",
    "MagnitudePruning",
    "MaskedPatchPrediction",
    "MomentumSGD",
    "Outcome",
    "RunLog",
    "StopSignal",
    "TrainingError",
    "WarmupDecay",
    "make_optimizer",
    "make_strategy",
    "masked_patch_batches",
    "masked_patch_model",
    "measured_sparsity",
    "pretrained_backbone",
    "resume",
    "train",
]

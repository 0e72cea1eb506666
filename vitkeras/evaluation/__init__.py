"""How good a model's features are: the paper's few-shot accuracy."""

from vitkeras.evaluation.features import feature_model, fewshot_features
from vitkeras.evaluation.fewshot import fewshot_accuracy, select_shots

__all__ = ["feature_model", "fewshot_accuracy", "fewshot_features", "select_shots"]

"""How good a model is: accuracy, calibration and confusions; the paper's few-shot accuracy of features."""

from vitkeras.evaluation.calibration import calibration_error, reliability_bins
from vitkeras.evaluation.class_table import class_table
from vitkeras.evaluation.confusion import confusion_matrix, most_confused
from vitkeras.evaluation.confusion_figure import confusion_figure
from vitkeras.evaluation.features import feature_model, fewshot_features
from vitkeras.evaluation.fewshot import fewshot_accuracy, select_shots
from vitkeras.evaluation.likelihood import brier_score, negative_log_likelihood
from vitkeras.evaluation.probabilities import head_probabilities
from vitkeras.evaluation.ranking import label_ranks, topk_accuracy
from vitkeras.evaluation.real_labels import real_accuracy
from vitkeras.evaluation.reliability_figure import reliability_figure

__all__ = [
    "brier_score",
    "calibration_error",
    "class_table",
    "confusion_figure",
    "confusion_matrix",
    "feature_model",
    "fewshot_accuracy",
    "fewshot_features",
    "head_probabilities",
    "label_ranks",
    "most_confused",
    "negative_log_likelihood",
    "real_accuracy",
    "reliability_bins",
    "reliability_figure",
    "select_shots",
    "topk_accuracy",
]

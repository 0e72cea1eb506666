"""What is measured of each image.

Legend: n images of a batch, C classes of the data, K outputs of the model.
"""

from dataclasses import dataclass

import numpy as np

from vitkeras.evaluation import head_probabilities, label_ranks
from vitkeras.evaluation.likelihood import log_losses, squared_losses

from .class_map import ClassMap

TOP = 5


@dataclass(frozen=True)
class Measures:
    """Measures batches of scores.

    Attributes:
        mapping: `ClassMap`.
        among: "model", all outputs are possible answers; or "data", only those of the data's classes, each class with
            the highest score of its outputs.
        head: one of `vitkeras.evaluation.probabilities.HEADS`, or "top_k" where only the best outputs are known.
    """

    mapping: ClassMap
    among: str
    head: str

    @property
    def choices(self):
        """int, how many answers are possible."""
        return len(self.mapping.covered) if self.among == "data" else self.mapping.outputs

    @property
    def other(self):
        """The same with the other answers, or None where both are the same ones."""
        if self.mapping.is_whole and self.mapping.is_single:
            return None
        return Measures(self.mapping, {"data": "model", "model": "data"}[self.among], self.head)

    @property
    def calibrates(self):
        """Whether a class has a probability."""
        return self.head != "top_k" and self.mapping.is_single

    def __call__(self, scores, labels):
        """dict of arrays with a row for each image.

        Args:
            scores: float array (n, K), finite.
            labels: int array (n,) of classes with outputs.

        Returns:
            "label" and "predicted" (classes of the data; -1 for another output), "rank" of the label among the answers,
            "best" (output with the highest score), "top" and "top_scores" (the best answers); where `calibrates`,
            "confidence" of the answer, "nll" and "brier".
        """
        if self.among == "data":
            found, answers = self._among_data(scores, labels)
        else:
            found, answers = self._among_all(scores, labels)
        top = np.argsort(-answers, axis=1, kind="stable")[:, :TOP]
        found |= {
            "label": labels,
            "best": scores.argmax(axis=1),
            "top": self.mapping.covered[top] if self.among == "data" else top,
            "top_scores": np.take_along_axis(answers, top, axis=1),
        }
        return found | (self._calibration(answers, labels) if self.calibrates else {})

    def ranks(self, scores, labels):
        """int array (n,), "rank" alone."""
        return (self._among_data if self.among == "data" else self._among_all)(scores, labels)[0]["rank"]

    def _among_all(self, scores, labels):
        rank = np.min([label_ranks(scores, column[labels]) for column in self.mapping.columns], axis=0)
        # An output may answer for several classes: then it is right for each of them.
        predicted = np.where(rank == 0, labels, self.mapping.owners[scores.argmax(axis=1)])
        return {"rank": rank, "predicted": predicted}, scores

    def _among_data(self, scores, labels):
        covered = self.mapping.covered
        answers = np.max([scores[:, column[covered]] for column in self.mapping.columns], axis=0)  # (n, covered)
        rank = label_ranks(answers, np.searchsorted(covered, labels))
        return {"rank": rank, "predicted": covered[answers.argmax(axis=1)]}, answers

    def _calibration(self, answers, labels):
        probabilities = head_probabilities(answers, self.head)
        if self.among == "data":
            places = np.searchsorted(self.mapping.covered, labels)
            if self.head == "softmax":  # what the left-out classes got is shared out
                probabilities /= np.maximum(probabilities.sum(axis=1, keepdims=True), np.finfo("float64").tiny)
        else:
            places = self.mapping.columns[0][labels]
        independent = self.head in ("sigmoid", "sigmoid_logits")
        return {
            "confidence": probabilities.max(axis=1),
            "nll": log_losses(probabilities, places, independent),
            "brier": squared_losses(probabilities, places),
        }

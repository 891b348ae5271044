"""Classifiers by scores of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from rangebound.values.array_types import Floats


class ScoredClassifier(ClassifierMixin, ABC):  # type: ignore[misc]
    """A classifier by scores: logs of probabilities, up to a number for each row."""

    classes_: npt.NDArray[np.generic]

    @abstractmethod
    def _scores(self, X: object) -> Floats:
        """The score of each class, for each row."""

    def predict(self, X: object) -> npt.NDArray[np.generic]:
        """The most likely class of each row."""
        scores = self._scores(X)
        found: npt.NDArray[np.generic] = self.classes_[np.argmax(scores, axis=1)]
        return found

    def predict_log_proba(self, X: object) -> Floats:
        """The log of each class's probability, for each row."""
        scores = self._scores(X)
        top = scores.max(axis=1, keepdims=True)
        result: Floats = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        return result

    def predict_proba(self, X: object) -> Floats:
        """Each class's probability, for each row."""
        result: Floats = np.exp(self.predict_log_proba(X))
        return result

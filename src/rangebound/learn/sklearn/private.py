"""What the estimators have in common."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from rangebound.bounding import Bounding
from rangebound.errors import ArgumentError
from rangebound.noise import Noise

Floats = npt.NDArray[np.float64]

_REFUSED = (
    "partial_fit: would release numbers about the same people again with every call, at the full price each time; "
    "collect the data and call fit once"
)


class Private(BaseEstimator):  # type: ignore[misc]
    """An estimator whose every fit is a fresh draw, and that cannot be fitted in parts."""

    noise: type[Noise]
    bounding: Bounding | str
    smallest_count: int

    @property
    def partial_fit(self) -> NoReturn:
        """Refused: see the error."""
        raise AttributeError(_REFUSED)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _settings(self, lower: Floats, upper: Floats, *more: object) -> str:
        """What the released numbers mean, in words."""
        kinds = self.noise.__name__, Bounding(self.bounding).value
        return repr((type(self).__name__, lower.tolist(), upper.tolist(), int(self.smallest_count), *kinds, *more))

    def _checked(self, X: Any, *y: Any, reset: bool = True) -> Any:
        """The rows as doubles, and the labels if there are any."""
        try:
            return validate_data(self, X, *y, dtype=np.float64, reset=reset)
        except ValueError as error:
            if "array=" not in str(error):
                raise
            rule = "must have two dimensions, rows and features. Reshape your data, as by X[:, None]"
            raise ArgumentError(f"X: {rule}") from None  # the other error shows them

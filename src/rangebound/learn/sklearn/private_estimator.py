"""What the estimators have in common."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from rangebound.bounding import Bounding
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.noise import Noise

Floats = npt.NDArray[np.float64]

_REFUSED = (
    "partial_fit: every call would release numbers about the same people again, at the full cost each time; "
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
        tags.input_tags.allow_nan = True  # a missing value
        tags.input_tags.string = True  # a cell that is not a number is missing, too
        return tags

    def _settings(self, lower: Floats, upper: Floats, *more: object) -> str:
        """What the released numbers mean, in words."""
        kinds = self.noise.__name__, Bounding(self.bounding).value
        return self._meaning(lower.tolist(), upper.tolist(), int(self.smallest_count), *kinds, *more)

    def _meaning(self, *facts: object) -> str:
        """The settings that released numbers depend on, in words."""
        return repr((type(self).__name__, *facts))

    def _rows(self, X: object, y: object = "no_validation", *, reset: bool = True) -> Floats:
        """The rows as doubles, NaN where a cell is missing or not a number.

        The value of one cell never causes an error, and no error message shows a cell.
        """
        table = cells(X)
        try:
            rows = check_array(
                table, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0, estimator=self, input_name="X"
            )
        except ValueError as error:
            if "array=" not in str(error):
                raise
            rule = "must have two dimensions, rows and features. Reshape your data, as by X[:, None]"
            raise ArgumentError(f"X: {rule}") from None  # the original error shows cells
        validate_data(self, X if hasattr(X, "columns") else rows, y, skip_check_array=True, reset=reset)
        found: Floats = rows
        return found

    def _asked(self, X: object) -> Floats:
        """Rows to predict; here infinities are an error, since no range clips them."""
        rows = self._rows(X, reset=False)
        if not len(rows):
            raise ArgumentError("X: Found array with 0 sample(s) while a minimum of 1 is required")
        if np.isinf(rows).any():
            raise ArgumentError("X: must not contain infinities")
        return rows


def cells(X: object) -> object:
    """A table as an array of numbers, NaN where a cell is missing or not a number; other objects are unchanged."""
    if issparse(X):
        return X
    try:
        table = np.asarray(X)
        if table.dtype.kind in "US" and not isinstance(X, np.ndarray):  # one text has turned all cells into texts
            table = np.asarray(X, dtype=object)
    except Exception:  # whatever it raises, the message may show cells
        raise ArgumentError("X: must be a table, with as many cells in each row as there are features") from None
    if table.dtype.kind == "c":
        raise ArgumentError("X: Complex data not supported")
    if table.dtype.kind in "mMV":
        raise ArgumentTypeError(f"X: must contain numbers, not {table.dtype.name}")
    if table.dtype.kind not in "OUS":
        return table
    return np.array([_number(each) for each in table.reshape(-1)], dtype=np.float64).reshape(table.shape)


def _number(cell: object) -> float:
    try:
        return float(cell)  # type: ignore[arg-type]  # anything else is refused, and so missing
    except OverflowError:
        return math.inf if cell > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # a cell whose conversion raises anything has no number
        return math.nan

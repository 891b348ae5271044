"""What the estimators have in common."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.boundings import TRUNCATE, Bounding
from rangebound.laws.family import Noise
from rangebound.laws.laplace import Laplace
from rangebound.learn.sklearn import row_sums, statistics
from rangebound.learn.sklearn.budget import LedgerBudget, Released, spend
from rangebound.values import arguments
from rangebound.values.array_types import Floats

_REFUSED = (
    "partial_fit: every call would release numbers about the same people again, at the full cost each time; "
    "collect the data and call fit once"
)
_OTHERS = (complex, np.complexfloating, np.datetime64, np.timedelta64)
_NO_TABLE = "X: must be a table, with as many cells in each row as there are features"


@dataclass(kw_only=True, eq=False, repr=False)
class Private(BaseEstimator):  # type: ignore[misc]
    """An estimator whose every fit is a fresh draw, and that cannot be fitted in parts."""

    epsilon: float = 1.0
    delta: float = 0.0
    bounds: object = None
    budget: LedgerBudget | None = None

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


@dataclass(kw_only=True, eq=False, repr=False)
class RowSumEstimator(Private):
    """An estimator that releases sums over rows with Gaussian noise of one account, see `row_sums`."""

    delta: float = 1e-6

    def _released(self, what: str, draw: Callable[[float], Released], *facts: object) -> tuple[Released, float]:
        """What `draw` releases for the largest mu that (epsilon, delta) has room for, and mu; facts are settings."""
        epsilon, delta, mu = row_sums.budget_mu(self.epsilon, self.delta)
        return spend(self.budget, epsilon, delta, what, self._meaning(*facts), lambda: draw(mu), mu), mu


@dataclass(kw_only=True, eq=False, repr=False)
class StatisticsEstimator(Private):
    """An estimator that releases statistics, each with bounded noise and a share of the budget, see `statistics`."""

    smallest_count: int = 30
    noise: type[Noise] = Laplace
    bounding: Bounding | str = TRUNCATE.value

    def _released(
        self, what: str, draw: Callable[[], Released], lower: Floats, upper: Floats, *facts: object
    ) -> Released:
        """What `draw` releases, paid for first; the facts are settings besides those of all statistics."""
        kinds = self.noise.__name__, Bounding(self.bounding).value
        meaning = self._meaning(lower.tolist(), upper.tolist(), int(self.smallest_count), *kinds, *facts)
        return spend(self.budget, float(self.epsilon), float(self.delta), what, meaning, draw)

    def _shares(self, epsilons: int, deltas: int) -> tuple[float, float]:
        """Epsilon and delta of one of so many releases."""
        epsilon, delta = arguments.positive("epsilon", self.epsilon), arguments.probability("delta", self.delta)
        return statistics.share(epsilon, epsilons), statistics.share(delta, deltas)


def cells(X: object) -> object:
    """A table as an array of numbers, NaN where a cell is missing or not a number; other objects are unchanged.

    Edge cases: in a list of rows any object may be a cell, and none causes an error or a warning. A table of nothing
    but complex numbers, days or durations is refused, as an array of them is.
    """
    if issparse(X):
        return X
    table = _listed(X) if isinstance(X, (list, tuple)) else _array(X)
    if table.dtype.kind == "c":
        raise ArgumentError("X: Complex data not supported")
    if table.dtype.kind in "mMV":
        raise ArgumentTypeError(f"X: must contain numbers, not {table.dtype.name}")
    return _numbers(table)


def _array(X: object) -> npt.NDArray[np.generic]:
    try:
        table = np.asarray(X)
        if table.dtype.kind in "US" and not isinstance(X, np.ndarray):  # one text has turned all cells into texts
            table = np.asarray(X, dtype=object)
        return table
    except Exception:  # whatever it raises, the message may show cells
        raise ArgumentError(_NO_TABLE) from None


def is_row(value: object) -> bool:
    """Whether a part of a list has parts itself: lists, tuples, arrays with an axis; texts and the like have none."""
    return isinstance(value, (list, tuple)) or (hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0)


def _listed(X: list[object] | tuple[object, ...]) -> npt.NDArray[np.generic]:
    """A list as an array of numbers, or of objects where one of its cells is anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = np.asarray(X)
    except Exception:  # whatever it raises, the message may show cells
        table = np.empty(0, dtype=object)
    if table.dtype.kind in "biuf":
        return table
    found = _objects(X)
    if len(found) and all(is_row(each) for each in X):
        rows = [_objects(each) for each in X]  # type: ignore[arg-type]  # it is a row
        if len({len(each) for each in rows}) > 1:
            raise ArgumentError(_NO_TABLE)
        found = np.stack(rows)
    return table if found.size and all(isinstance(each, _OTHERS) for each in found.flat) else found


def _objects(values: Iterable[object]) -> npt.NDArray[np.generic]:
    given = list(values)
    found = np.empty(len(given), dtype=object)
    for at, each in enumerate(given):
        found[at] = each
    return found


def _numbers(table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    if table.dtype.kind in "OUS":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [_number(each) for each in table.reshape(-1)]
        return np.array(found, dtype=np.float64).reshape(table.shape)
    if table.dtype.kind == "f" and table.dtype.itemsize > np.dtype(np.float64).itemsize:
        with np.errstate(over="ignore"):  # what has no double is infinite
            return table.astype(np.float64)
    return table


def _number(cell: object) -> float:
    try:
        return math.nan if is_row(cell) else float(cell)  # type: ignore[arg-type]  # anything else is refused: missing
    except OverflowError:
        return math.inf if cell > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # a cell whose conversion raises anything has no number
        return math.nan

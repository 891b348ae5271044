"""Labels of rows and targets, as numbers: no odd one causes an error where the classes or the range are public."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from rangebound.errors import ArgumentError
from rangebound.learn.sklearn import statistics
from rangebound.learn.sklearn.private_estimator import cells, is_row
from rangebound.values.array_types import Integers

Labels = npt.NDArray[np.generic]


def labelled(y: object, classes: object, rows: int) -> tuple[Labels, Integers]:
    """The classes in order, and the index of each row's class, or -1 for a label that is not among them."""
    found, codes = _classes(y, classes)
    if len(codes) != rows:
        raise ArgumentError("y: must have one label for each row of X")
    if not len(found):
        raise ArgumentError("classes: must be given where there are no labels, such as classes=[0, 1]")
    return found, codes


def targets(y: object, rows: int) -> npt.NDArray[np.float64]:
    """The target of each row as a double, NaN where it is missing or not a number."""
    try:
        found = column_or_1d(np.asarray(cells(_column(y)), dtype=np.float64), warn=True)
    except (ValueError, TypeError):
        raise ArgumentError("y should be a 1d array, of one number for each row") from None
    if len(found) != rows:
        raise ArgumentError("y: must have one number for each row of X")
    numbers: npt.NDArray[np.float64] = found
    return numbers


def target_ends(bounds: object) -> tuple[float, float]:
    """The public range of a target."""
    if bounds is None:
        raise ArgumentError(
            "target_bounds=None: the range of the target must be given, from public knowledge; a range taken from the "
            "data leaks its extremes"
        )
    try:
        lower, upper = statistics.ranges(bounds, 1)
    except (ArgumentError, TypeError) as error:
        raise type(error)(f"target_{error}") from None
    return float(lower[0]), float(upper[0])


def _classes(y: object, classes: object) -> tuple[Labels, Integers]:
    """The classes in order, and the index of each label's class, or -1 for a label that is not among them."""
    if classes is None:
        try:
            labels = column_or_1d(y, warn=True)
        except ValueError:
            raise ArgumentError("y should be a 1d array, of one label for each row") from None
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        known, codes = np.unique(labels, return_inverse=True)
        return known, codes.astype(np.int64)
    known = np.unique(np.asarray(classes))
    numbers = {each: i for i, each in enumerate(known.tolist())}
    labels = np.asarray(_column(y), dtype=object).reshape(-1)  # one odd label must not turn all of them into texts
    return known, np.array([_code(each, numbers) for each in labels.tolist()], dtype=np.int64)


def _column(y: object) -> object:
    """A list with entries that are lists: one of a single value is that value, one of none or several is missing.

    Otherwise a single longer entry would turn all others into lists, which are unknown labels.
    """
    if not isinstance(y, (list, tuple)) or not any(is_row(each) and len(each) == 1 for each in y):
        return y
    return [each if not is_row(each) else each[0] if len(each) == 1 else None for each in y]


def _code(label: object, numbers: dict[object, int]) -> int:
    try:
        return numbers.get(label, -1)
    except Exception:  # a list, say, which cannot be a class; or whatever else has no hash
        return -1

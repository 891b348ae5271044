"""What the estimators have in common: where the budget comes from, rows and labels as numbers, and what is released.

The budget of a fit is given with the estimator, or charged to an account of a ledger first. No odd cell, label or
target causes an error where the classes and the ranges are public.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.learn.sklearn import row_sums
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import AnyCost, Cost, GaussianCost
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers

Released = dict[str, Floats]
Labels = npt.NDArray[np.generic]

_LARGEST_MU = 1000.0  # that a ledger can charge
_RELATIONS = {"add-remove": (False, 1), "zero-out": (True, 1), "replace-one": (True, 2)}
_REFUSED = (
    "partial_fit: every call would release numbers about the same people again, at the full cost each time; "
    "collect the data and call fit once"
)
_OTHERS = (complex, np.complexfloating, np.datetime64, np.timedelta64)
_NO_TABLE = "X: must be a table, with as many cells in each row as there are features"


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class LedgerBudget:
    """An account that each fit is charged to before anything is drawn.

    Each fit is a request of its own, `request` or the first of `request`, fit k, that nobody was charged for yet, also
    where a budget is made again. So each fold of a cross-validation is charged, and no fit has the numbers of another:
    to look whether its rows are the same would tell whether somebody is among them. To keep a fit, keep the estimator.

    Edge cases: a copy of an estimator keeps the same budget; it cannot be pickled. A fit that is refused, or that waits
    for an approval, takes no request.
    """

    ledger: Ledger
    account: str
    request: str
    _fits: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        arguments.instance("ledger", self.ledger, Ledger, "a Ledger")

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ArgumentTypeError("budget: is an open ledger, which is not pickled; set_params(budget=None) first")


@arguments.brief
@dataclass(kw_only=True, eq=False, repr=False)
class Private(BaseEstimator):  # type: ignore[misc]
    """An estimator whose every fit is a fresh draw, and that cannot be fitted in parts.

    `neighbours` says which tables are hard to tell apart. "add-remove": one has a row more. "zero-out": the number of
    rows is public, and one has a row with nothing in it, which adds nothing to a sum. "replace-one": the number of rows
    is public, and one row is another; sums move by the difference of two rows, no more than twice as far.
    """

    epsilon: float = 1.0
    delta: float = 0.0
    bounds: object = None
    neighbours: str = "add-remove"
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

    def _spend(
        self, epsilon: float, delta: float, what: str, draw: Callable[[], Released], mu: float = math.inf
    ) -> Released:
        """The numbers that `draw` releases, under (epsilon, delta): paid for and stored first if there is a ledger.

        Where all noise is Gaussian, `mu` is what an account of Gaussian differential privacy is charged instead.
        """
        if self.budget is None:
            return draw()
        budget = arguments.instance(
            "budget", self.budget, LedgerBudget, "a LedgerBudget, or None if the caller keeps the account"
        )
        costs: list[AnyCost] = [GaussianCost(mu=Fraction(mu))] if mu <= _LARGEST_MU else []
        costs.append(Cost(epsilon=epsilon, delta=delta) if delta else Cost(epsilon=epsilon))
        what = what if self.neighbours == "add-remove" else f"{what}, {self.neighbours}"
        made: list[bytes] = []

        def compute(cost: object) -> bytes:
            numbers = {name: each.tolist() for name, each in draw().items()}
            made.append(json.dumps({"fit": os.urandom(16).hex(), "numbers": numbers}).encode())
            return made[-1]

        found = b""
        while found not in made:  # what another process was charged for meanwhile has the numbers of that
            fit = len(budget._fits) + 1
            request = budget.request if fit == 1 else f"{budget.request}, fit {fit}"
            if budget.ledger.paid(request) is None:
                found = budget.ledger.release(
                    account=budget.account, request=request, what=what, cost=tuple(costs), compute=compute
                )
            budget._fits.append(request)
        return {name: np.asarray(each, dtype=np.float64) for name, each in json.loads(found)["numbers"].items()}

    def _known(self, x: Floats) -> tuple[int | None, int]:
        """The number of rows where it is public, and how many rows' numbers the sums of two neighbours differ by."""
        if str(self.neighbours) not in _RELATIONS:
            shown = arguments.shown(self.neighbours)
            raise ArgumentError(f"neighbours={shown}: must be one of {', '.join(map(repr, _RELATIONS))}")
        public, changed = _RELATIONS[self.neighbours]
        return len(x) if public else None, changed

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

    def _named(self, name: str, old: str, most: int) -> int:
        """A whole number by scikit-learn's name, or by ours where that is given instead."""
        new, given = getattr(self, name), getattr(self, old)
        if given is not None and new not in (given, type(self).__dataclass_fields__[name].default):
            raise ArgumentError(f"{name}={new}, {old}={given}: are two names of one setting; give {name} alone")
        return row_sums.whole(*((name, new) if given is None else (old, given)), most)

    def _asked(self, X: object) -> Floats:
        """Rows to predict, after a fit; here infinities are an error, since no range clips them."""
        check_is_fitted(self)
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

    def _filled(self, X: object) -> Floats:
        """Rows to predict, with the middle of its range for a missing value."""
        x = self._asked(X)
        return np.where(np.isnan(x), self._middle, x)

    def _released(
        self, what: str, draw: Callable[[float], Released], lower: Floats, upper: Floats, width: int | None = None
    ) -> tuple[Released, float]:
        """What `draw` releases for the largest mu that (epsilon, delta) has room for, and mu.

        The mu that `draw` gets, and that is returned, is that of one row's numbers: two are twice as far apart, or as
        `row_sums.apart` says where all that is released are sums of this many numbers with no obtuse angles.
        """
        epsilon, delta, mu = row_sums.budget_mu(self.epsilon, self.delta)
        _, changed = self._known(lower[:0])
        squares = Fraction(changed**2) if width is None else row_sums.apart(changed, width)
        one = row_sums.part(mu, 1 / squares)
        found = self._spend(epsilon, delta, what, lambda: draw(one), mu)
        self._middle: Floats = (lower + upper) / 2.0  # not before: where nothing is released, the last fit stays
        return found, one


def cells(X: object) -> object:
    """A table as an array of numbers, NaN where a cell is missing or not a number; other objects are unchanged.

    Edge cases: in a list of rows any object may be a cell, and none causes an error or a warning. A table of nothing
    but complex numbers, days or durations is refused, as an array of them is.
    """
    if issparse(X):
        return X
    listed = isinstance(X, (list, tuple))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error" if listed else "default")
            table = np.asarray(X)
            if table.dtype.kind in "US" and not isinstance(X, np.ndarray):  # one text has turned all cells into texts
                table = np.asarray(X, dtype=object)
    except Exception:  # whatever it raises, the message may show cells
        if not listed:
            raise ArgumentError(_NO_TABLE) from None
        table = np.empty(0, dtype=object)
    if isinstance(X, (list, tuple)) and table.dtype.kind not in "biuf":
        table = _listed(X, table)
    if table.dtype.kind == "c":
        raise ArgumentError("X: Complex data not supported")
    if table.dtype.kind in "mMV":
        raise ArgumentTypeError(f"X: must contain numbers, not {table.dtype.name}")
    return _numbers(table)


def is_row(value: object) -> bool:
    """Whether a part of a list has parts itself: lists, tuples, arrays with an axis; texts and the like have none."""
    return isinstance(value, (list, tuple)) or (hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0)


def _listed(X: list[object] | tuple[object, ...], table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A list with cells that are no numbers as an array of objects; as the table where all of them are refused."""
    found: npt.NDArray[np.generic] = np.fromiter(X, dtype=object)
    if len(found) and all(is_row(each) for each in X):
        rows = [np.fromiter(each, dtype=object) for each in X]  # type: ignore[call-overload]  # it is a row
        if len({len(each) for each in rows}) > 1:
            raise ArgumentError(_NO_TABLE)
        found = np.stack(rows)
    return table if found.size and all(isinstance(each, _OTHERS) for each in found.flat) else found


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


def labelled(y: object, classes: object, rows: int) -> tuple[Labels, Integers]:
    """The classes in order, and the index of each row's class, or -1 for a label that is not among them."""
    if classes is None:
        try:
            labels = column_or_1d(y, warn=True)
        except ValueError:
            raise ArgumentError("y should be a 1d array, of one label for each row") from None
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        found, codes = np.unique(labels, return_inverse=True)
    else:
        found = np.unique(np.asarray(classes))
        numbers = {each: i for i, each in enumerate(found.tolist())}
        labels = np.asarray(_column(y), dtype=object).reshape(-1)  # one odd label must not turn all of them into texts
        codes = np.array([_code(each, numbers) for each in labels.tolist()], dtype=np.int64)
    if len(codes) != rows:
        raise ArgumentError("y: must have one label for each row of X")
    if not len(found):
        raise ArgumentError("classes: must be given where there are no labels, such as classes=[0, 1]")
    return found, codes.astype(np.int64)


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
        lower, upper = row_sums.ranges(bounds, 1)
    except (ArgumentError, TypeError) as error:
        raise type(error)(f"target_{error}") from None
    return float(lower[0]), float(upper[0])


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

"""The number of rows by two or more columns, with all margins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Literal

from pydantic import model_validator

from rangebound.release.noise.crosstab_measurements import crosstab_measurements, margins
from rangebound.release.noise.draw import Columns, Key, Label
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.workload_publisher import Measurements
from rangebound.release.plan.kinds.workload_kind import WorkloadKind

_MOST_COLUMNS = 8
_MOST_ADDED_UP = 10_000  # of three or more columns: to make so many add up takes 6 s, and 69,000 took over 140


class Crosstab(WorkloadKind):
    """The number of rows in every cell of two or more columns and, with `margins`, all their sums down to the total.

    A number that is summed over a column has no key there. All of them add up exactly, in whole numbers.

    >>> [key for group in Crosstab(name="t", by=("sex", "age")).labels([("f", "1"), ("m", "1")]) for key, _ in group]
    [('f', '1'), ('m', '1'), ('f', None), ('m', None), (None, '1'), (None, None)]
    """

    kind: Literal["crosstab"] = "crosstab"
    margins: bool = True

    @model_validator(mode="after")
    def _columns_fit(self) -> Crosstab:
        if not 2 <= len(self.by) <= _MOST_COLUMNS:
            raise ValueError(f"by: must name 2 to {_MOST_COLUMNS} columns; a count takes fewer")
        return self

    def misfit_of_keys(self, columns: Columns) -> str:
        """Its numbers are not too many to be made to add up."""
        said = super().misfit_of_keys(columns)
        if not said and self.margins and len(columns) > 2 and self.numbers(columns, 0.0) > _MOST_ADDED_UP:
            return f"by: has over {_MOST_ADDED_UP} numbers, with all margins; take fewer keys or columns, or no margins"
        return said

    def numbers(self, columns: Columns, groups: float) -> float:
        """Each column has one value more where sums are taken over it."""
        return math.prod(len(keys) + self.margins for keys in columns)

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """The cells, then the margins with fewer and fewer columns."""
        columns = [tuple(dict.fromkeys(column)) for column in zip(*keys, strict=True)]
        wanted = margins(self.by, [len(each) for each in columns], every=self.margins).wanted
        found: list[Label] = []
        for attributes in wanted:
            values = [each if at in attributes else (None,) for at, each in enumerate(columns)]
            found += [(key, "") for key in product(*values)]
        return [found]

    def measurements(
        self, columns: Columns, account: NoiseAccount, budget: Fraction, contributions: Contributions
    ) -> Measurements:
        """Residuals in a Gaussian account, Laplace noise in a pure one."""
        wanted = margins(self.by, [len(each) for each in columns], every=self.margins)
        return crosstab_measurements(wanted, account, budget, contributions)

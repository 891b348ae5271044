"""Workloads of whole tables: what is asked, what is true, and the least error of any Gaussian strategy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from benchmarks.datasets import Table
from rangebound.privacy import gdp

EPSILON, DELTA = 1.0, 1e-6
BUDGET = {"epsilon": EPSILON, "delta": DELTA}

Truths = dict[tuple[int, tuple[str | None, ...], str], float]


class Errors:
    """Squared errors, added up."""

    def __init__(self) -> None:
        self.square, self.numbers = 0.0, 0

    def add(self, values: Sequence[float], truths: Sequence[float]) -> None:
        """Those of some values."""
        self.square += math.fsum((value - true) ** 2 for value, true in zip(values, truths, strict=True))
        self.numbers += len(values)

    @property
    def root(self) -> float:
        """The root of the mean squared error."""
        return math.sqrt(self.square / self.numbers) if self.numbers else math.nan


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A plan for a table, and the true answer to every number of it: by question, key and part."""

    plan: Mapping[str, Any]
    truths: Truths

    def of_question(self, at: int) -> list[float]:
        """The true answers to one question, in order."""
        return [true for (question, _, _), true in self.truths.items() if question == at]


def mu() -> float:
    """What Gaussian noise may cost: the largest mu at (epsilon, delta)."""
    return gdp.largest_mu(EPSILON, DELTA)


def cells(table: Table, by: Sequence[str], rows: int = 0) -> dict[tuple[str, ...], float]:
    """The true count of every public group, with at most this many rows of a plane in it."""
    names = ", ".join(f'"{each}"' for each in by)
    every = f"SELECT {names}, count(*) n FROM read_parquet('{table.path}') GROUP BY ALL"
    if rows:
        every = f"SELECT {names}, tailnum, least(count(*), {rows}) n FROM read_parquet('{table.path}') GROUP BY ALL"
    found = duckdb.execute(f"SELECT {names}, sum(n) FROM ({every}) GROUP BY ALL").fetchall()
    known = {tuple(each[:-1]): float(each[-1]) for each in found}
    return {key: known.get(key, 0.0) for key in itertools.product(*(table.keys[each] for each in by))}


def counts(table: Table, groupings: Sequence[Sequence[str]], unit: Mapping[str, Any] | None = None) -> Workload:
    """One count a grouping, by public keys; rows with other keys do not count, as where others join with the keys."""
    columns = sorted({name for by in groupings for name in by})
    asked = [{"name": "n " + " ".join(by), "kind": "count", "by": list(by)} for by in groupings]
    plan: dict[str, Any] = {
        "budget": BUDGET,
        "keys": {name: list(table.keys[name]) for name in columns},
        "query": asked,
    }
    rows = unit["rows"] if unit else 0
    truths = {(at, key, ""): true for at, by in enumerate(groupings) for key, true in cells(table, by, rows).items()}
    return Workload(plan={**plan, **({"unit": unit} if unit else {"only_listed": True})}, truths=truths)


def all_marginals(names: Sequence[str], orders: Sequence[int]) -> list[tuple[str, ...]]:
    """All groupings by this many of the columns."""
    return [by for order in orders for by in itertools.combinations(names, order)]


def with_margins(cells: Truths) -> Truths:
    """Cells of a crosstab and all their sums; a column that is summed over has no key."""
    found: Truths = {}
    for (at, key, part), value in cells.items():
        for summed in itertools.product((False, True), repeat=len(key)):
            place = (at, tuple(None if gone else each for each, gone in zip(key, summed, strict=True)), part)
            found[place] = found.get(place, 0.0) + value
    return found


def with_running_totals(cells: Truths) -> Truths:
    """Days, in order, and their running totals in every group; the day is the last part of a key."""
    found, totals = dict(cells), {}
    for (at, key, _), value in cells.items():
        totals[key[:-1]] = totals.get(key[:-1], 0.0) + value
        found[at, key, "running"] = totals[key[:-1]]
    return found


def crosstab(table: Table, by: Sequence[str], unit: Mapping[str, Any] | None = None) -> Workload:
    """A crosstab with all its margins."""
    cells = counts(table, [by], unit)
    question = {"name": "t", "kind": "crosstab", "by": list(by)}
    return Workload(plan={**cells.plan, "query": [question]}, truths=with_margins(cells.truths))


def series(table: Table, by: Sequence[str], unit: Mapping[str, Any] | None = None) -> Workload:
    """Days with running totals; the day is the last column."""
    cells = counts(table, [by], unit)
    question = {"name": "t", "kind": "series", "by": list(by), "totals": ["running"]}
    return Workload(plan={**cells.plan, "query": [question]}, truths=with_running_totals(cells.truths))


def hierarchy(sizes: tuple[int, int], column: str, leaves: Sequence[float]) -> Workload:
    """A tree of three levels with this many nodes below each."""
    groups = {f"g{at}": [f"{at}-{leaf}" for leaf in range(sizes[1])] for at in range(sizes[0])}
    keys = [leaf for some in groups.values() for leaf in some]
    level = {"name": "group", "members": groups}
    plan = {"budget": BUDGET, "keys": {column: keys}}
    truths: Truths = {(0, (key,), ""): true for key, true in zip(keys, leaves, strict=True)}
    for name, some in groups.items():
        truths[0, (name,), "group"] = math.fsum(truths[0, (each,), ""] for each in some)
    truths[0, (None,), ""] = math.fsum(leaves)
    question = {"name": "t", "kind": "hierarchy", "by": [column], "levels": [level]}
    return Workload(plan={**plan, "query": [question]}, truths=truths)


def limit_of_marginals(sizes: Mapping[str, int], groupings: Sequence[Sequence[str]]) -> float:
    """The least root mean square error of unbiased Gaussian answers, which ResidualPlanner attains, one row per unit.

    The total variance of a strategy is at least the square of the nuclear norm of the workload over the number of cells
    of the whole table and over mu^2 (Li and Miklau). Each set of columns has an eigenspace of dimension prod (n - 1),
    whose singular value squared, over the cells, is the sum of 1 / prod n over the wanted groupings that contain it.
    """
    within = {frozenset(part) for by in groupings for k in range(len(by) + 1) for part in itertools.combinations(by, k)}
    norm = 0.0
    for part in within:
        square = math.fsum(1 / math.prod(sizes[each] for each in by) for by in groupings if part <= set(by))
        norm += math.prod(sizes[each] - 1 for each in part) * math.sqrt(square)
    numbers = sum(math.prod(sizes[each] for each in by) for by in groupings)
    return norm / mu() / math.sqrt(numbers)


def limit_of(matrix: Any) -> float:
    """The same bound for a workload that is small enough to be a matrix; no strategy may attain it."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values.sum()) / math.sqrt(matrix.shape[1] * matrix.shape[0]) / mu()


def limit_of_tree(sizes: tuple[int, int]) -> float:
    """The same bound for a regular tree of three levels, whose eigenspaces are the root, the groups and the leaves."""
    groups, leaves = sizes
    cells = groups * leaves
    norm = math.sqrt(1 + leaves + cells) + (groups - 1) * math.sqrt(1 + leaves) + groups * (leaves - 1)
    return norm / math.sqrt(cells * (cells + groups + 1)) / mu()

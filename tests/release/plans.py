"""Plans and tables that several tests use."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import pyarrow as pa

from rangebound.release.noise.allocation import Allocation, BudgetShare
from rangebound.release.prepare import prepared
from rangebound.release.sql import aggregate as aggregation
from rangebound.release.sql.aggregate import Statement, statements
from rangebound.release.sql.relation import Salt

SALT = Salt(numbers=(123456789, 87654321, 555555555, 98765432), letters="a salt for tests")
OTHER_SALT = Salt(numbers=(1000003, 5, 77777777, 1), letters="another")

WAIT: dict[str, Any] = {"column": "wait", "range": [0, 100]}
KINDS: list[dict[str, Any]] = [
    {"kind": "count"},
    {"kind": "count of units"},
    {"kind": "sum", "column": "wait", "range": [-20, 100]},
    {"kind": "mean", **WAIT},
    {"kind": "variance", **WAIT},
    {"kind": "standard deviation", **WAIT, "where": [{"column": "age", "is": ">=", "value": 18}]},
    {"kind": "share", "of": [{"column": "wait", "is": ">", "value": 50}]},
    {"kind": "quantiles", **WAIT, "levels": [0.25, 0.75], "step": 5.0},
    {"kind": "median", **WAIT, "step": 10.0},
    {"kind": "minimum", **WAIT, "step": 10.0},
    {"kind": "maximum", **WAIT, "step": 10.0, "where": [{"column": "age", "is": "<", "value": 60}]},
    {"kind": "histogram", **WAIT, "bins": 4},
    {"kind": "central range", **WAIT, "step": 10.0, "share": 0.8},
]

SUPPORTED: list[dict[str, Any]] = [
    *KINDS,
    {"kind": "count", "support": [[0, 5], [10, 20]]},
    {
        "kind": "sum",
        "column": "wait",
        "range": [0, 9.75],
        "support": [0, 30],
        "step": 0.5,
        "mechanism": "truncate Laplace",
    },
    {"kind": "mean", "column": "wait", "range": [0, 100], "support": [[0, 30], [60, 70]], "step": 2.5},
    {"kind": "median", "column": "wait", "range": [0, 100], "support": [[0, 30], [60, 70]], "step": 7.0},
    {"kind": "histogram", "column": "wait", "range": [0, 100], "bins": 3, "support": [0, 10]},
]


def plan_data(by: list[str], kinds: list[dict[str, Any]] | None = None, **parts: Any) -> dict[str, Any]:
    """A plan that asks every kind of question, as plain data."""
    queries = [{"name": f"{each['kind']} {at}", "by": by, **each} for at, each in enumerate(kinds or KINDS)]
    return {"budget": {"epsilon": 1.0, "delta": 1e-6}, "query": queries, **parts}


def table_of(kinds: dict[str, Any], rows: list[Any]) -> Any:
    """A table of rows that are tuples; `kinds` gives each column its type."""
    return pa.table({name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds.items())})


def prepared_with(plan: Any, share: Callable[[Any, Any], dict[str, float]]) -> Any:
    """A plan with other shares than its budget has: `share` gives that of a question with its sensitivity."""
    found = {at: each.sensitivity(plan.unit_of(each), plan.groups(each.by)) for at, each in enumerate(plan.query)}
    none = {"epsilon": 0.0, "delta": 0.0, "groups": 1, "parts": 1}
    shares = {at: BudgetShare(**{**none, **share(plan.query[at], each)}) for at, each in found.items()}
    return prepared(plan, Allocation(questions=shares, selections={}, sensitivities=found))


class Written:
    """A statement whose text is made once."""

    def __init__(self, tree: Any) -> None:
        self.sql, self.find_all = cache(tree.sql), tree.find_all


@contextlib.contextmanager
def written_once() -> Iterator[None]:
    """A block in which the statements of a plan on tables of one schema are written once.

    To write them takes longer than to run them on a small table. They depend on nothing else.
    """
    known: dict[tuple[object, ...], tuple[Any, tuple[Statement, ...]]] = {}

    def once(plan: Any, schema: Any, salt: Salt, *, source: Any, dialect: Any, also: Any) -> tuple[Statement, ...]:
        key = (id(plan), *schema.items(), salt, source.name, dialect, tuple(also))
        if key not in known:
            found = statements(plan, schema, salt, source=source, dialect=dialect, also=also)
            known[key] = plan, tuple(replace(each, tree=Written(each.tree)) for each in found)
        return known[key][1]

    with mock.patch.object(aggregation, "statements", once):
        yield

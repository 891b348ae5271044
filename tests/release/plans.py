"""Plans and tables that several tests use."""

from typing import Any

from rangebound.release.sql.group_order import Salt

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

"""Random plans of every kind, for tests that must hold for all of them."""

import datetime
import random
from typing import Any

import pyarrow as pa

_MECHANISMS = ("truncate Laplace", "rectify Laplace", "truncate Gaussian", "rectify Gaussian")
_NUMBERS = ("mean", "variance", "standard deviation", "quantiles", "median", "minimum", "maximum", "histogram", "sum")
_DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)]


def random_table(source: random.Random) -> Any:
    """Up to 60 rows with an owner, two groups, numbers with gaps, whole numbers and days."""
    rows = range(source.randint(1, 60))
    days = [_DAYS[0] + datetime.timedelta(days=source.randint(0, 365)) for _ in rows]
    return pa.table(
        {
            "owner": [source.randint(1, 20) for _ in rows],
            "clinic": [source.choice("ab") for _ in rows],
            "floor": [source.randint(1, 3) for _ in rows],
            "x": pa.array([source.choice([None, 0.0, 1.0, 2.5, source.uniform(-5, 15)]) for _ in rows], pa.float64()),
            "day": days,
        }
    )


def random_plan(source: random.Random) -> dict[str, Any]:
    """A plan as plain data: one to three questions of any kind, with or without groups, owners, supports and steps."""
    owners = source.random() < 0.5
    unit: dict[str, Any] = {}
    if owners:
        unit |= {"column": "owner", "rows": source.randint(1, 12), "groups": source.randint(1, 3)}
    if source.random() < 0.4:
        unit |= {"neighbours": "replace", "size": source.choice([1, 7, 50, 10**6])}
    keys: dict[str, Any] = {}
    queries = [_question(source, at, owners=owners) for at in range(source.randint(1, 3))]
    used = {column for each in queries for column in each["by"]}
    if "clinic" in used and source.random() < 0.6:
        keys["clinic"] = ["b", "a", "nobody's"]
    if "floor" in used:
        keys["floor"] = [1, 2, 3]
    consistent = source.random() < 0.5
    if consistent and source.random() < 0.5:
        queries = [{"name": "total", "kind": "count", "by": []}, *queries]
    return {
        "budget": {"epsilon": source.choice([0.1, 1.0, 2.7, 40.0]), "delta": source.choice([1e-6, 0.01])},
        "unit": unit,
        "keys": keys,
        "level": source.choice([0.5, 0.95, 0.999]),
        "consistent": consistent,
        "selection": source.choice([1.0, 0.3]),
        "query": queries,
    }


def _question(source: random.Random, at: int, *, owners: bool) -> dict[str, Any]:
    kinds = ("count", "share", *_NUMBERS, *(("count of units",) if owners else ()))
    kind = source.choice(kinds)
    by: list[str] = source.choice([[], [], ["clinic"], ["floor"], ["clinic", "floor"]])
    found: dict[str, Any] = {"name": f"q{at}", "kind": kind, "by": by, "weight": source.choice([1.0, 0.25, 3.0])}
    if source.random() < 0.3:
        met = source.choice([{"is": ">", "value": 1.0}, {"is": "present"}])
        found["where"] = [{"column": "x", **met}]
    if kind in _NUMBERS:
        found |= _column(source, kind)
    if kind == "share":
        found |= {"of": [{"column": "x", "is": ">", "value": 2.0}]}
        if source.random() < 0.3:
            found["partition"] = "halves"
    if kind == "quantiles":
        found["levels"] = source.choice([[0.25, 0.75], [0.1, 0.5, 0.9], [0.5]])
    if kind in ("quantiles", "median", "minimum", "maximum"):
        found["interval_share"] = source.choice([0.0, 0.25, 0.5])
    if kind == "histogram":
        found["bins"] = source.randint(2, 5)
    if kind in ("count", "count of units", "sum") and source.random() < 0.3:
        found["mechanism"] = source.choice(_MECHANISMS)
    return found | _support(source, found)


def _column(source: random.Random, kind: str) -> dict[str, Any]:
    if kind not in ("sum", "variance", "standard deviation") and source.random() < 0.2:
        return {"column": "day", "range": list(_DAYS)}
    return {"column": "x", "range": source.choice([[0.0, 10.0], [-5.0, 15.0], [-5.0, -1.0], [0.0, 0.3]])}


def _support(source: random.Random, question: dict[str, Any]) -> dict[str, Any]:
    """A support with or without a gap inside the natural one, and a step: for some questions."""
    kind, found = question["kind"], {}
    whole = kind in ("count", "count of units", "histogram")
    if whole and source.random() < 0.4:
        gap = question.get("mechanism", "truncate").startswith("truncate")
        found["support"] = source.choice([[0, 5], [3, 40], *([[[0, 5], [20, 90]]] if gap else [])])
    elif kind == "sum" and question["range"][0] >= 0 and source.random() < 0.4:
        found["support"] = [0, source.choice([3.0, 100.0])]
    elif kind in ("mean", "quantiles", "median") and question["column"] == "x" and source.random() < 0.4:
        lower, upper = question["range"]
        width = upper - lower
        found["support"] = [[lower, lower + width / 4], [lower + width / 2, upper]]
    if whole and source.random() < 0.2:
        found["step"] = 2.0
    elif kind in ("sum", "mean", "median") and question["column"] == "x" and source.random() < 0.3:
        found["step"] = source.choice([0.01, 0.05, 0.3])
    return found

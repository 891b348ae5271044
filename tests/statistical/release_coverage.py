"""How often the intervals of a release hold the true answer of the plan's question, on real tables.

The true answer is computed by numpy from the words of `docs/tables.md`, not from the SQL: the rows that the question
asks for and that have an owner and a value; a share `rows / n` of each row of an owner with n > `rows` of them; values
clipped to the range; the answer moved into the hull of the support. The aggregates are computed once, and the noise is
drawn many times.

    python -m tests.statistical.release_coverage [draws]     prints that of benchmarks/results/coverage.md
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rangebound.release import Plan, make_plan
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.prepare import answers, prepare
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import SALT

LEVEL = 0.95
RANKS = ("quantiles", "median", "minimum", "maximum")
COVERED = ("count", "count of units", "sum", "mean", "variance", "standard deviation", "share", "histogram", *RANKS)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A real table, what is public of it, and what is asked."""

    name: str
    table: Callable[[], pd.DataFrame]
    value: dict[str, Any]
    of: dict[str, Any]
    unit: dict[str, Any]
    step: float
    by: str | None = None
    where: dict[str, Any] | None = None

    def plan(self, epsilon: float) -> Plan:
        """Every kind of question, each with the same part of epsilon."""
        where = {"where": [self.where]} if self.where else {}
        group = {"by": [self.by]} if self.by else {}
        extra: dict[str, dict[str, Any]] = {
            "share": {"of": [self.of]},
            "quantiles": {"levels": [0.1, 0.25, 0.9]},
            "histogram": {"bins": 6},
        }
        queries = []
        for kind in COVERED:
            if kind == "count of units" and "column" not in self.unit:
                continue
            column = self.value if kind not in ("count", "count of units", "share") else {}
            step = {"step": self.step} if kind in RANKS else {}
            queries.append({"name": kind, "kind": kind, **column, **step, **extra.get(kind, {}), **where, **group})
        keys = {"keys": {self.by: sorted(set(self.table()[self.by].tolist()))}} if self.by else {}
        return make_plan({"unit": self.unit, "budget": {"epsilon": epsilon}, "level": LEVEL, "query": queries, **keys})


def fair() -> pd.DataFrame:
    """6,366 women: statsmodels, Fair (1978)."""
    import statsmodels.api as sm

    return sm.datasets.fair.load_pandas().data


def anes96() -> pd.DataFrame:
    """944 voters: statsmodels, American National Election Study of 1996."""
    import statsmodels.api as sm

    return sm.datasets.anes96.load_pandas().data.assign(vote=lambda table: table["vote"].astype(int))


def cancer() -> pd.DataFrame:
    """569 tumours: scikit-learn, Breast Cancer Wisconsin."""
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    return frame[["mean area", "mean radius", "target"]]


def fertility() -> pd.DataFrame:
    """219 countries with 54 years each, many without a value: statsmodels, World Bank fertility."""
    import statsmodels.api as sm

    wide = sm.datasets.fertility.load_pandas().data
    years = [name for name in wide.columns if str(name).isdigit()]
    long = wide.melt(id_vars=["Country Name"], value_vars=years, var_name="year", value_name="births")
    return long.rename(columns={"Country Name": "country"}).assign(year=lambda table: table["year"].astype(int))


CASES = (
    Case(
        name="fair",
        table=fair,
        value={"column": "age", "range": [15, 45]},
        of={"column": "affairs", "is": ">", "value": 0},
        unit={},
        step=0.5,
    ),
    Case(
        name="anes96, by vote",
        table=anes96,
        value={"column": "age", "range": [18, 80]},
        of={"column": "educ", "is": ">=", "value": 4},
        unit={},
        step=1.0,
        by="vote",
    ),
    Case(
        name="breast cancer, public size",
        table=cancer,
        value={"column": "mean area", "range": [0, 2000], "missing": 0},
        of={"column": "target", "is": "==", "value": 1},
        unit={"neighbours": "replace", "size": 569},
        step=25.0,
    ),
    Case(
        name="fertility, 20 rows a country",
        table=fertility,
        value={"column": "births", "range": [0, 7]},
        of={"column": "births", "is": "<", "value": 3},
        unit={"column": "country", "rows": 20},
        step=0.1,
        where={"column": "year", "is": ">=", "value": 1980},
    ),
)


def _answer(case: Case, question: Any, table: pd.DataFrame) -> list[float]:
    """The true answers of a question in one group, one for each number that it publishes."""
    rows = table[table[case.where["column"]] >= case.where["value"]] if case.where else table
    valued = hasattr(question, "column")
    rows = rows[rows[case.value["column"]].notna()] if valued else rows
    owner = case.unit.get("column")
    weight = np.ones(len(rows))
    if owner:
        size = rows.groupby(owner)[owner].transform("size").to_numpy()
        weight = np.minimum(1.0, case.unit["rows"] / size)
    if question.kind == "count":
        return [weight.sum()]
    if question.kind == "count of units":
        return [float(rows[owner].nunique())]
    if question.kind == "share":
        sign = {"<": np.less, ">": np.greater, ">=": np.greater_equal, "==": np.equal}[case.of["is"]]
        return [float((weight * sign(rows[case.of["column"]], case.of["value"])).sum() / weight.sum())]
    x = np.clip(rows[case.value["column"]].to_numpy(), question.bounds.lower, question.bounds.upper)
    mean = float(np.average(x, weights=weight))
    variance = float(np.average((x - mean) ** 2, weights=weight))
    whole = {"sum": float(weight @ x), "mean": mean, "variance": variance, "standard deviation": variance**0.5}
    if question.kind in whole:
        return [whole[question.kind]]
    if question.kind == "histogram":
        return list(np.histogram(x, bins=question.bins, range=question.range, weights=weight)[0])
    return [float(np.quantile(x, level, weights=weight, method="inverted_cdf")) for level in question.asked]


def coverage(case: Case, epsilon: float, draws: int, *, narrow: float = 1.0) -> dict[str, tuple[int, int]]:
    """For every kind, how many of its published intervals hold the true answer, and how many there were.

    `narrow` makes the intervals so much narrower around their middle: a control.
    """
    plan, table = case.plan(epsilon), case.table()
    ready = prepare(plan)
    with DuckDB(pa.Table.from_pandas(table, preserve_index=False)) as engine:
        found = aggregate(plan, engine, SALT)
    truths: dict[tuple[int, tuple[str, ...]], list[float]] = {}
    for index, question in enumerate(plan.query):
        groups = table.groupby(case.by) if case.by else [(None, table)]
        for key, part in groups:
            hull = question.allowed.hull
            exact = [min(max(each, hull.lower), hull.upper) for each in _answer(case, question, part)]
            truths[index, () if key is None else (str(key),)] = exact
    result = dict.fromkeys(dict.fromkeys(each.kind for each in plan.query), (0, 0))
    for _ in range(draws):
        cells = [cell for block in found for cell in answers(ready, block)]
        seen: dict[tuple[int, tuple[str, ...]], int] = {}
        for cell in cells:
            place = (cell.question, cell.key)
            exact = truths[place][seen.get(place, 0)]
            seen[place] = seen.get(place, 0) + 1
            middle, half = (cell.lower + cell.upper) / 2, narrow * (cell.upper - cell.lower) / 2
            slack = 1e-6 * max(1.0, abs(exact))  # sums are of values in fixed point
            kind = plan.query[cell.question].kind
            held, all_ = result[kind]
            result[kind] = (held + (abs(exact - middle) <= half + slack), all_ + 1)
    return result


EPSILONS = (1.0, 10.0)


def table(draws: int) -> str:
    """The coverage of every kind on every table, in Markdown: in percent, at each epsilon."""
    found = {case.name: [coverage(case, epsilon, draws) for epsilon in EPSILONS] for case in CASES}
    lines = [f"| kind | {' | '.join(found)} |", "| --- |" + " ---: |" * len(found)]
    for kind in COVERED:
        cells = [
            ", ".join(f"{100 * e[kind][0] / e[kind][1]:.1f}" for e in each if kind in e) for each in found.values()
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))

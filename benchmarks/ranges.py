"""How many published numbers make sense when there are few people and little epsilon, beside other libraries.

    python -m benchmarks.ranges [--json FILE] [--quick]

Three rows of 9.9, the public range 0 to 10, epsilon 0.1 for each number, one row as the unit. Nothing here is a test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow

from benchmarks import peers
from benchmarks.report import Row, parser, publish
from rangebound.release import make_plan, release
from rangebound.release.engine.duckdb import DuckDB

TEXT = (
    "Three rows of 9.9, the public range 0 to 10, epsilon 0.1 for each number, one row as the unit: the share of "
    "published numbers that could be true. rangebound, diffprivlib and PipelineDP with 300 numbers, OpenDP with 200, "
    "SmartNoise with 100; all as they come, without a further step by the user."
)
ROWS = [9.9, 9.9, 9.9]
LOW, HIGH = 0.0, 10.0
SENSE = {"count": (0.0, float("inf")), "sum": (0.0, float("inf")), "mean": (LOW, HIGH)}


def ours(times: int) -> dict[str, list[float]]:
    found = {}
    for kind in SENSE:
        column = {} if kind == "count" else {"column": "x", "range": [LOW, HIGH]}
        plan = make_plan({"budget": {"epsilon": 0.1}, "query": [{"name": "q", "kind": kind, **column}]})
        with DuckDB(pyarrow.table({"x": ROWS})) as engine:
            found[kind] = [float(release(plan, engine, ledger=None).cells[0].value) for _ in range(times)]
    return found


def with_diffprivlib(rows: list[float], times: int) -> dict[str, list[float]]:
    import numpy as np
    from diffprivlib import tools

    array = np.array(rows)
    return {
        "count": [float(tools.count_nonzero(array, epsilon=0.1)) for _ in range(times)],
        "sum": [float(tools.sum(array, epsilon=0.1, bounds=(0, 10))) for _ in range(times)],
        "mean": [float(tools.mean(array, epsilon=0.1, bounds=(0, 10))) for _ in range(times)],
    }


def with_opendp(rows: list[float], times: int) -> dict[str, list[float]]:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    data, x = pl.LazyFrame({"x": rows}), pl.col("x").fill_null(0.0).fill_nan(0.0)
    asked = {"count": dp.len(), "sum": x.dp.sum((0.0, 10.0)), "mean": x.dp.mean((0.0, 10.0))}
    found = {}
    for kind, expression in asked.items():
        context = dp.Context.compositor(
            data=data,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=0.1),
            split_evenly_over=1,
            margins=[dp.polars.Margin(max_length=1000)],
        )
        measurement = context.query().select(expression).resolve()
        found[kind] = [float(measurement(data).collect().item()) for _ in range(times)]
    return found


def with_pipeline_dp(rows: list[float], times: int) -> dict[str, list[float]]:
    import pipeline_dp

    metrics = pipeline_dp.Metrics
    read = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: "all",
        value_extractor=lambda row: row[1],
    )
    found = {}
    for kind, metric in (("count", metrics.COUNT), ("sum", metrics.SUM), ("mean", metrics.MEAN)):
        found[kind] = []
        for _ in range(times):
            accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=0.1, total_delta=1e-6)
            engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
            asked = pipeline_dp.AggregateParams(
                metrics=[metric],
                max_partitions_contributed=1,
                max_contributions_per_partition=1,
                min_value=0,
                max_value=10,
                noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            )
            result = engine.aggregate(list(enumerate(rows)), asked, read, public_partitions=["all"])
            accountant.compute_budgets()
            ((_, answer),) = list(result)
            found[kind].append(float(getattr(answer, kind)))
    return found


def with_smartnoise(rows: list[float], times: int) -> dict[str, list[float]]:
    import pandas as pd
    import snsql

    column = {"name": "x", "type": "float", "lower": 0.0, "upper": 10.0}
    table = {"rows": len(rows), "row_privacy": True, "censor_dims": False, "x": column}
    found = {}
    for kind, asked in (("count", "COUNT(*)"), ("sum", "SUM(x)"), ("mean", "AVG(x)")):
        # A mean is a sum over a count there, and each of the two is charged.
        privacy = snsql.Privacy(epsilon=0.05 if kind == "mean" else 0.1, delta=1e-6)
        reader = snsql.from_df(pd.DataFrame({"x": rows}), privacy=privacy, metadata={"": {"t": {"t": table}}})
        query = f"SELECT {asked} AS answer FROM t.t"
        found[kind] = [float(reader.execute(query)[1][0]) for _ in range(times)]
    return found


BESIDE = {
    "diffprivlib": (with_diffprivlib, 300),
    "opendp": (with_opendp, 200),
    "pipeline_dp": (with_pipeline_dp, 300),
    "smartnoise": (with_smartnoise, 100),
}


def share(kind: str, answers: dict[str, list[float]]) -> float:
    """The percentage of answers that could be true."""
    low, high = SENSE[kind]
    return 100.0 * sum(low <= x <= high for x in answers[kind]) / len(answers[kind])


def rows(*, quick: bool) -> Iterator[Row]:
    answers, found = ours(5 if quick else 300), {}
    for name, (function, times) in ({} if quick else BESIDE).items():
        try:
            found[name] = peers.call(name, function, ROWS, times)
        except peers.Absent as why:
            found[name] = str(why)
    for kind, (_, high) in SENSE.items():
        others = {name: each if isinstance(each, str) else share(kind, each) for name, each in found.items()}
        what = f"{kind}, 0 or more" if high == float("inf") else f"{kind}, from 0 to {high:g}"
        yield Row(what=what, ours=share(kind, answers), unit="%", others=others, bar=100.0, more=True)


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(options, "Numbers that make sense", TEXT, rows(quick=options.quick))


if __name__ == "__main__":
    main()

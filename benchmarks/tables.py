"""Private tables beside other libraries, each on its own assumptions: errors of single numbers, times of tables.

diffprivlib takes the size of the table as public: beside it rangebound runs with `neighbours = "replace"` and the size
in the plan. OpenDP and PipelineDP protect the size; beside them rangebound does too. Functions that ask a peer run in
the peer's environment and import there what they need.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from benchmarks.peers import Absent, call
from rangebound.release import Plan, make_plan
from rangebound.release import demo as clinic
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.draw import Reading
from rangebound.release.noise.forms import form_of
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.prepare import prepare
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.sql.relation import Salt
from rangebound.sampling.entropy import secure_bits

TOP, LONG = 120.0, 30.0


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Root mean square errors of one number at epsilon 1: ours, and those of a peer with the same assumptions."""

    kind: str
    public_size: bool
    ours: float
    others: Mapping[str, float | str]


def errors(turns: int, *, peers: bool = True) -> Iterator[Errors]:
    """Every number of the demo table that a peer can answer, one visit a unit, epsilon 1."""
    waits = [min(float(row["waiting"]), TOP) for row in clinic.rows()]
    n = len(waits)
    truths = {
        "count": float(n),
        "filtered count": float(sum(wait > LONG for wait in waits)),
        "sum": math.fsum(waits),
        "mean": statistics.fmean(waits),
        "variance": statistics.pvariance(waits),
        "median": statistics.median(waits),
    }
    for peer, public in (("opendp", False), ("diffprivlib", True)):
        for kind, truth in truths.items():
            ours = our_error(kind, waits, truth, n if public else None, draws=25 * turns)
            others = _theirs(peer, kind, waits, truth, turns) if peers else {}
            yield Errors(kind=kind, public_size=public, ours=ours, others=others)


def _theirs(peer: str, kind: str, waits: list[float], truth: float, turns: int) -> dict[str, float | str]:
    """The error of a peer: that of the law of its noise, where its answers agree with one, else as measured."""
    try:
        measured = rmse(call(peer, PEERS[peer], kind, waits, turns), truth)
    except Absent as why:
        return {peer: str(why)}
    law = _laws(len(waits))[peer].get(kind)
    if law is not None and abs(measured / law - 1.0) < 5.0 * math.sqrt(1.25 / turns):  # Laplace: five standard errors
        return {f"{peer}, exact": law}
    return {peer: measured}


def _laws(rows: int) -> dict[str, dict[str, float]]:
    """What is known of the peers' noise: two-sided geometric of scale 1, clamped at the size or not, and Laplace."""
    whole, total = math.sqrt(0.5) / math.sinh(0.5), TOP * math.sqrt(2)
    return {
        "opendp": {"count": whole, "filtered count": whole, "sum": total},
        "diffprivlib": {"count": whole / math.sqrt(2), "filtered count": whole, "sum": total, "mean": total / rows},
    }


def rmse(values: Any, truth: float) -> float:
    """The root of the mean squared error."""
    return math.sqrt(float(np.mean((np.asarray(values) - truth) ** 2)))


def our_error(kind: str, waits: list[float], truth: float, size: int | None, *, draws: int = 1000) -> float:
    """Our error: from the law where a number is published as it is drawn, else over many draws."""
    query: dict[str, Any] = {"name": "q", "kind": kind.removeprefix("filtered ")}
    if kind == "filtered count":
        query["where"] = [{"column": "waiting", "is": ">", "value": LONG}]
    elif kind != "count":
        query |= {"column": "waiting", "range": [0, TOP]}
    unit = {} if size is None else {"neighbours": "replace", "size": size}
    if size is not None and "column" in query:
        query["missing"] = TOP / 2  # every row counts, as where the size is public elsewhere
    plan = make_plan({"budget": {"epsilon": 1.0}, "unit": unit, "query": [query]})
    with DuckDB(pyarrow.table({"waiting": waits})) as engine:
        (found,) = aggregate(plan, engine, Salt.draw(secure_bits))
    publisher = prepare(plan).publishers[0]
    exact = found.answers[0][()]
    if isinstance(publisher, QuantilePublisher):
        return _of_quantile(publisher, exact, truth)
    if isinstance(publisher, DiscreteLaplacePublisher):
        return math.sqrt(publisher.mechanism.mse)
    if not isinstance(publisher, MechanismPublisher):
        return 0.0  # a public constant
    if len(exact) == 1:
        (only,) = exact
        each = 1.0 if kind == "sum" else TOP / len(waits)
        return each * math.sqrt(publisher.mechanism.error(float(only)).mse)
    return _of_estimate(plan, publisher, exact, truth, draws)


def _of_quantile(publisher: QuantilePublisher, counts: Any, truth: float) -> float:
    scores = exponential.scores(counts, publisher.levels[0])
    weights = np.array(exponential.weights(scores, publisher.rates[0]), dtype=np.float64)
    return math.sqrt(float(weights @ (np.array(publisher.grid.points) - truth) ** 2 / weights.sum()))


def _of_estimate(plan: Plan, publisher: MechanismPublisher, exact: Any, truth: float, draws: int) -> float:
    drawn = publisher.mechanism.release(np.tile([publisher.exact(each) for each in exact], (draws, 1)))
    form = form_of(plan.query[0], plan.unit)
    unknown = ((0.0, math.inf),) * len(exact)
    readings = [Reading(values=tuple(each), intervals=unknown) for each in drawn.tolist()]
    return rmse([form.estimate(each).value for each in readings], truth)


def with_diffprivlib(kind: str, waits: list[float], turns: int) -> list[float]:
    """diffprivlib's answers to the same question."""
    import numpy as np
    from diffprivlib import tools

    array = np.array(waits)
    calls = {
        "count": lambda: tools.count_nonzero(np.ones_like(array), epsilon=1.0),
        "filtered count": lambda: tools.count_nonzero(array > 30.0, epsilon=1.0),
        "sum": lambda: tools.sum(array, epsilon=1.0, bounds=(0, 120)),
        "mean": lambda: tools.mean(array, epsilon=1.0, bounds=(0, 120)),
        "variance": lambda: tools.var(array, epsilon=1.0, bounds=(0, 120)),
        "median": lambda: tools.median(array, epsilon=1.0, bounds=(0, 120)),
    }
    return [float(calls[kind]()) for _ in range(turns if kind != "median" else max(turns // 10, 1))]


def with_opendp(kind: str, waits: list[float], turns: int) -> list[float]:
    """OpenDP's answers to the same question; its variance takes the size of the table as public, the rest do not.

    A mean of a table of unknown size is a sum over a count, with half of the budget each.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    clamped = dp.t.then_clamp((0.0, 120.0))
    found = {
        "count": dp.t.then_count(),
        "sum": clamped >> dp.t.then_sum(),
        "variance": clamped >> dp.t.then_resize(len(waits), constant=60.0) >> dp.t.then_variance(ddof=0),
    }

    def drawn(name, rows, epsilon):
        then = space >> found[name]
        scale = dp.binary_search_param(lambda scale: then >> dp.m.then_laplace(scale), d_in=1, d_out=epsilon)
        exact = then(rows)  # once: the table takes longer to hand over than the noise to draw
        kind = type(exact)
        noise = dp.m.make_laplace(dp.atom_domain(T=kind, nan=False), dp.absolute_distance(T=kind), scale)
        return [float(noise(exact)) for _ in range(turns)]

    if kind == "median":
        candidates = [120.0 * at / 1000 for at in range(1001)]
        measure = dp.binary_search_chain(
            lambda scale: dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, 0.5, scale),
            d_in=1,
            d_out=1.0,
        )
        return [float(measure(waits)) for _ in range(max(turns // 10, 1))]
    if kind == "mean":
        pairs = zip(drawn("sum", waits, 0.5), drawn("count", waits, 0.5), strict=True)
        return [total / max(count, 1.0) for total, count in pairs]
    rows = [wait for wait in waits if wait > 30.0] if kind == "filtered count" else waits
    return drawn(kind.removeprefix("filtered "), rows, 1.0)


PEERS = {"diffprivlib": with_diffprivlib, "opendp": with_opendp}


def opendp_seconds(path: str, person: bool, groups: int, threads: int) -> float:
    """A count and a sum by group from Parquet; a person counts with ten rows in all, its fastest way to bound them."""
    import os
    import time

    os.environ["POLARS_MAX_THREADS"] = str(threads)
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib", "honest-but-curious")
    start = time.perf_counter()
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=10, identifier=pl.col("person_id"))
        if person
        else dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[], max_length=10**9, max_groups=groups)],
    )
    query = context.query().truncate_per_group(10) if person else context.query()
    wait = pl.col("wait").fill_nan(50.0).fill_null(50.0).dp.sum((0.0, 100.0))
    keys = pl.LazyFrame({"clinic": [f"g{each}" for each in range(groups)]})
    query.group_by("clinic").agg(dp.len(), wait).with_keys(keys).release().collect()
    return time.perf_counter() - start


def pipeline_dp_seconds(path: str, person: bool, groups: int) -> float:
    """Count, sum and mean by group, from rows in memory, which is where its local engine wants them."""
    import csv
    import time

    import pipeline_dp

    with open(path, encoding="utf-8") as file:
        rows = [(person_id, key, float(wait)) for person_id, key, wait in csv.reader(file)]
    if not person:
        rows = [(at, key, wait) for at, (_, key, wait) in enumerate(rows)]
    start = time.perf_counter()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-9)
    metrics = [pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN]
    asked = pipeline_dp.AggregateParams(
        metrics=metrics,
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=5 if person else 1,
        max_contributions_per_partition=2 if person else 1,
        min_value=0,
        max_value=100,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    keys = [f"g{each}" for each in range(groups)]
    result = engine.aggregate(rows, asked, extractors, public_partitions=keys)
    accountant.compute_budgets()
    list(result)
    return time.perf_counter() - start


def pipeline_dp(path: Path, *, person: bool, groups: int) -> float | str:
    """Seconds of PipelineDP for a Parquet table, or the reason why there are none."""
    import duckdb

    rows = path.with_suffix(".csv")
    if not rows.exists():
        duckdb.connect().execute(
            f"COPY (SELECT person_id, clinic, wait FROM read_parquet('{path}')) TO '{rows}' (HEADER false)"
        )
    try:
        return float(call("pipeline_dp", pipeline_dp_seconds, str(rows.resolve()), person, groups))
    except Absent as why:
        return str(why)


def opendp(path: Path, *, person: bool, groups: int, threads: int) -> float | str:
    """Seconds of OpenDP for a Parquet table, or the reason why there are none."""
    try:
        return float(call("opendp", opendp_seconds, str(path.resolve()), person, groups, threads))
    except Absent as why:
        return str(why)

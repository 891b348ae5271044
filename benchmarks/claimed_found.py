"""What libraries claim and what an audit finds at 95 %: `python -m benchmarks.claimed_found [LIBRARY [LINE]]`.

It makes their environments, draws from two neighbouring tables, audits, and writes the results and their table in
docs/audit.md; `--page` writes the table again. Functions of a library run in its environment and return what the
library claims, and a row of numbers for each release. Where a query takes long, one query publishes a number for each
of many groups, all alike and each with noise of its own; they are audited as that many releases of one group.
"""

from __future__ import annotations

import argparse
import json
import math
import sysconfig
from collections.abc import Callable
from typing import Any

import numpy as np

import rangebound as rb
from benchmarks import peers
from benchmarks.audits import DELTA, sampled
from benchmarks.page import placed, table
from rangebound.audit import Reading, training, trainings
from rangebound.values.array_types import Bools, Floats

ROOT = peers.FOLDER.parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "claimed_found.json", ROOT / "docs" / "audit.md"
CONFIDENCE, DRAWS, CANARIES = 0.95, 4_000, 2_000
STEPS = {"noise_multiplier": 1.0, "rate": 0.5, "steps": 4}

KEYS = [*"abbc"]
PAIRS: dict[str, tuple[list[Any], list[Any]]] = {
    "group counts": (KEYS, [*KEYS, "c"]),
    "mean": ([0.0] * 10, [0.0] * 9 + [10.0]),
    "Gaussian count": (KEYS, [*KEYS, "c"]),
    "noisy max": ([1, 1, 1], [2, 0, 1]),
}
"""Neighbouring tables, but of the last: three scores, each of which a person moves by at most 1."""
SHORT = ([0.0] * 9, PAIRS["mean"][1])
"""For the mean where the number of rows is not public."""

Found = tuple[list[float], list[list[float]]]
"""Epsilon and delta, and a row of numbers for each release."""


def opendp(line: str, rows: list[Any], draws: int) -> Found:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    keys = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    ten = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0), nan=False), size=10), dp.symmetric_distance()
    scores = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    grouped = dp.t.make_count_by_categories(*keys, ["a", "b", "c"], null_category=False, MO=dp.L1Distance[int])
    count = keys >> dp.t.then_count() >> dp.m.then_gaussian(scale=2.5)
    made, far = {
        "group counts": (grouped >> dp.m.then_laplace(scale=1.0), 1),
        "mean": (ten >> dp.t.then_mean() >> dp.m.then_laplace(scale=1.0), 2),
        "Gaussian count": (dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(count), 0.01), 1),
        "noisy max": (dp.m.make_noisy_max(*scores, dp.max_divergence(), scale=2.0), 1),
    }[line]
    claim, drawn = made.map(far), [made(rows) for _ in range(draws)]
    rows = [each if isinstance(each, list) else [float(each)] for each in drawn]
    return list(claim) if isinstance(claim, tuple) else [claim, 0.0], rows


def diffprivlib(line: str, rows: list[Any], draws: int) -> Found:
    import numpy
    from diffprivlib import mechanisms, tools

    numbers = ["abc".index(each) for each in rows] if "count" in line else rows
    gaussian = mechanisms.GaussianDiscrete(epsilon=1.0, delta=0.01)
    draw = {
        "group counts": lambda: tools.histogram(numbers, epsilon=1.0, bins=3, range=(-0.5, 2.5))[0].tolist(),
        "mean": lambda: [float(tools.mean(numpy.array(numbers), epsilon=1.0, bounds=(0, 10)))],
        "Gaussian count": lambda: [float(gaussian.randomise(len(numbers)))],
        "noisy max": lambda: [float(mechanisms.Exponential(epsilon=1.0, sensitivity=1, utility=numbers).randomise())],
    }[line]
    return [1.0, 0.01 if line == "Gaussian count" else 0.0], [draw() for _ in range(draws)]


def pipeline_dp(line: str, rows: list[Any], draws: int) -> Found:
    import pipeline_dp as p

    keys, values = (rows, [0.0] * len(rows)) if "count" in line else (["a"] * len(rows), rows)
    data = list(zip(range(len(rows)), keys, values, strict=True))
    read = p.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    own = {"metrics": [p.Metrics.MEAN if line == "mean" else p.Metrics.COUNT], "min_value": 0, "max_value": 10}
    asked = p.AggregateParams(max_partitions_contributed=1, max_contributions_per_partition=1, **own)
    claim, found = [1.0, 1e-9], []
    for _ in range(draws):
        account = p.NaiveBudgetAccountant(*claim)
        released = p.DPEngine(account, p.LocalBackend()).aggregate(data, asked, read, public_partitions=["a", "b", "c"])
        account.compute_budgets()
        found.append([dict(released)[key][0] for key in ("abc" if "count" in line else "a")])
    return claim, found


def smartnoise(line: str, rows: list[Any], draws: int) -> Found:
    import pandas
    import snsql

    number = {"type": "float", "lower": 0.0, "upper": 10.0}
    own = {"row_privacy": True, "censor_dims": False, "clamp_counts": False, "g": {"type": "int"}, "x": number}
    private = snsql.Privacy(epsilon=1.0, delta=1e-6)
    data = pandas.DataFrame([(at, 0.0 if "count" in line else each) for at in range(draws) for each in rows])
    data.columns = ["g", "x"]
    asked = f"SELECT g, {'AVG(x)' if line == 'mean' else 'COUNT(*)'} AS n FROM d.t GROUP BY g"
    reader = snsql.from_df(data, privacy=private, metadata={"": {"d": {"t": own}}})
    claim = reader.get_privacy_cost(asked)
    return [float(each) for each in claim], [[float(row[1])] for row in reader.execute(asked)[1:]]


def tumult(line: str, rows: list[Any], draws: int) -> Found:
    import os
    import sys

    import pandas
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    frame = pandas.DataFrame([(at, 0.0 if "count" in line else each) for at in range(draws) for each in rows])
    data = spark.createDataFrame(frame.set_axis(["g", "x"], axis=1))
    keys = KeySet.from_dataframe(data.select("g").distinct())
    grouped, budget = QueryBuilder("t").groupby(keys), PureDPBudget(1)
    asked = grouped.average("x", 0, 10) if line == "mean" else grouped.count()
    found = Session.from_dataframe(budget, "t", data, protected_change=AddOneRow()).evaluate(asked, budget).toPandas()
    return [1.0, 0.0], [[float(each)] for each in found.iloc[:, 1]]


def canaries(library: str, coins: list[bool], given: dict[str, Any], paths: list[str]) -> list[list[float]]:
    import sys

    sys.path += paths
    import numpy

    from rangebound.audit import trainings

    return getattr(trainings, library)(**given)(numpy.asarray(coins)).tolist()


TABLES: dict[str, tuple[Callable[[str, list[Any], int], Found], tuple[str, ...]]] = {
    "opendp": (opendp, tuple(PAIRS)),
    "diffprivlib": (diffprivlib, tuple(PAIRS)),
    "pipeline_dp": (pipeline_dp, tuple(PAIRS)[:2]),
    "smartnoise": (smartnoise, tuple(PAIRS)[:2]),
    "tumult": (tumult, tuple(PAIRS)[:2]),
}
TRAININGS = ("opacus", "jax_privacy", "opake")
TRAINING = "training"
OURS = {
    "group counts": {"keys": {"g": [*"abc"]}, "query": [{"name": "n", "kind": "count", "by": ["g"]}]},
    "mean": {"query": [{"name": "m", "kind": "mean", "column": "x", "range": [0, 10]}]},
    "Gaussian count": {"query": [{"name": "n", "kind": "count", "mechanism": "rectify Gaussian"}]},
    "noisy max": {"keys": {"g": [*"abc"]}, "query": [{"name": "m", "kind": "mode", "column": "g"}]},
}
"""The questions of plans; what is published of a mean is its ratio of two numbers."""
US = "rangebound"


def bound_of(library: str, line: str) -> Any:
    """The audit of one line."""
    if line == TRAINING:
        event = sampled(STEPS["noise_multiplier"], STEPS["rate"], int(STEPS["steps"]))
        paths = [str(ROOT / "src"), *{sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}]

        def asked(coins: Bools) -> Floats:
            return np.asarray(peers.call(library, canaries, library, coins.tolist(), STEPS, paths), dtype=np.float64)

        run = trainings.rangebound(**STEPS) if library == US else asked
        claim = rb.accounting.compose(event).epsilon(DELTA).upper, DELTA
        return training(run, canaries=CANARIES, claim=claim, event=event, reading=Reading.EACH, confidence=CONFIDENCE)
    if library == US:
        budget = {"epsilon": 1.0, "delta": 0.01 if line == "Gaussian count" else 0.0}
        return rb.audit.table({"budget": budget, **OURS[line]}, draws=DRAWS, confidence=CONFIDENCE)
    draw = TABLES[library][0]
    pair = SHORT if line == "mean" and library not in ("opendp", "diffprivlib") else PAIRS[line]
    (claim, first), (_, second) = (peers.call(library, draw, line, rows, DRAWS) for rows in pair)
    left = iter(first), iter(second)
    epsilon, delta = claim
    return rb.audit.table(
        lambda side: next(left[side]), pair=(0, 1), epsilon=epsilon, delta=delta, draws=DRAWS, confidence=CONFIDENCE
    )


def lines() -> list[tuple[str, str]]:
    ours = [(US, line) for line in (*OURS, TRAINING)]
    tables = [(library, line) for library, (_, own) in TABLES.items() for line in own]
    return [*ours, *tables, *((library, TRAINING) for library in TRAININGS)]


def measured(library: str, line: str) -> dict[str, Any]:
    row: dict[str, Any] = {"library": library, "line": line}
    try:
        if library != US:
            peers.make(library)
        row["version"] = rb.__version__ if library == US else peers.version(library)
        found = bound_of(library, line)
    except peers.Absent as why:
        return {**row, "reason": str(why)}
    event = found.reading.value if line == TRAINING else found.event
    numbers = {name: float(getattr(found, name)) for name in ("claimed", "delta", "epsilon")}
    return {**row, **numbers, "refutes": found.refutes, "event": event}


def page(rows: list[dict[str, Any]]) -> str:
    """The table of these results: what was found of what is claimed."""
    known = {(row["library"], row["line"]): row for row in rows}
    columns, names = (*PAIRS, TRAINING), {f"{row['library']} {row['version']}": row["library"] for row in rows}
    cells = [(name, *(cell(known.get((own, line))) for line in columns)) for name, own in names.items()]
    return table(("library", *columns), cells)


def cell(row: dict[str, Any] | None) -> str:
    if row is None or "reason" in row:
        return "" if row is None else f"not run: {row['reason']}"
    found = f"{math.floor(100 * row['epsilon']) / 100:.2f}/{math.floor(100 * row['claimed'] + 0.5) / 100:g}"
    return f"**{found}**" if row["refutes"] else found


def stored() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", help=f"of {', '.join(dict(lines()))}; without one all")
    parser.add_argument("line", nargs="?", help=f"of {', '.join((*PAIRS, TRAINING))}; without one all of the library")
    parser.add_argument("--page", action="store_true", help="only write the table again, from the results there are")
    options = parser.parse_args()
    for library, line in lines():
        if not options.page and options.library in (None, library) and options.line in (None, line):
            row = measured(library, line)
            print(library, line, cell(row), row.get("event", ""), sep=" | ", flush=True)
            known = {(each["library"], each["line"]): each for each in stored()} | {(library, line): row}
            text = json.dumps([known[each] for each in lines() if each in known], indent=1)
            RESULTS.write_text(text + "\n", encoding="utf-8")
    placed(PAGE, "benchmarks.claimed_found", page(stored()))


if __name__ == "__main__":
    main()

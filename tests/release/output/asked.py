"""Plans of some questions and their releases, in as few words as most tests need."""

import csv
import io

import pyarrow as pa

from rangebound.release import make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.output import report as page
from rangebound.release.prepare import answers, prepare
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import SALT


def asked(*questions, epsilon=1.0, delta=0.0, **parts):
    """A plan of questions, which are named q0, q1 and so on where they have no name of their own."""
    query = [{"name": f"q{at}", **each} for at, each in enumerate(questions)]
    return make_plan({"budget": {"epsilon": epsilon, "delta": delta}, "query": query, **parts})


def released(plan, rows):
    """The release of a plan on a table, which may be given by its columns."""
    return release(plan, rows if isinstance(rows, pa.Table) else pa.table(rows), ledger=None)


def drawn(plan, rows, times):
    """The first number of a plan, drawn this many times from rows that are read once."""
    with DuckDB(rows, threads=1) as engine:
        (found,) = aggregate(plan, engine, SALT)
    ready = prepare(plan)
    return [answers(ready, found)[0] for _ in range(times)]


def report(found):
    """The page about a release."""
    return page.report(found.table_facts, found.to_csv())


def forms(found):
    """The rows of a release by every form that it has."""
    return [
        found.rows(),
        list(csv.DictReader(io.StringIO(found.to_csv()))),
        found.to_arrow().to_pylist(),
        found.to_pandas().to_dict("records"),
        found.to_polars().to_dicts(),
    ]

"""Tables of two columns of numbers with all that counts as missing, and published numbers with the noise gone."""

import math
import random

import numpy as np
import pandas
import pyarrow as pa
from scipy import stats

from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.forms import form_of
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.plan.unit import Unit
from rangebound.release.prepare import answers
from rangebound.release.sql.aggregate import aggregate
from rangebound.sampling.entropy import secure_bits
from tests.release.plans import SALT, prepared_with
from tests.release.sources import table

ODD = [None, math.nan, math.inf, -math.inf, -1e300, 1e300, -0.0]
TYPES = {
    "who": (pa.int64(), "bigint"),
    "place": (pa.string(), "string"),
    "x": (pa.float64(), "double"),
    "y": (pa.float64(), "double"),
    "w": (pa.float64(), "double"),
    "code": (pa.string(), "string"),
    "ward": (pa.int64(), "bigint"),
}
PLACES = ["a", "b", "nobody is here"]


def odd_rows(seed, count=400):
    """Random rows: values at and beyond the ends of their ranges, ties, and all that counts as missing."""
    pick = (chance := random.Random(seed)).choice

    def row():
        x = pick([*ODD, -5.0, 15.0, 0.0, 10.0, *(chance.uniform(-1, 11) for _ in range(12))])
        return {
            "who": pick([None, *range(1, 40)]),
            "place": pick(["a", "a", "b", "elsewhere", None]),
            "x": x,
            "y": pick([None, 0.0, 4.0, chance.uniform(0, 4), 1.0 + (x or 0.0) / 10 if x and abs(x) < 20 else 2.0]),
            "w": pick([*ODD, 0.0, 5.0, 7.0, -1.0, 1.0, 1.0, *(chance.uniform(0, 5) for _ in range(9))]),
            "code": pick([None, "", "é", "e\u0301", "x", "X", "x ", "17", "long " * 9]),
            "ward": pick([None, *range(-3, 4), 2**60]),
        }

    return [row() for _ in range(count)]


def arrow(rows):
    return table(rows, TYPES)


def frame(rows):
    """As a frame of pandas in which infinities are missing."""
    return pandas.DataFrame(rows, columns=list(TYPES)).replace([math.inf, -math.inf], np.nan)


def plan_of(questions, unit=None, by=(), **more):
    asked = [{"name": str(at), "by": list(by), **each} for at, each in enumerate(questions)]
    keys = {"keys": {"place": PLACES}} if by else {}
    return make_plan({"unit": unit or {}, "budget": {"epsilon": 1.0}, "query": asked, **keys, **more})


def exact_of(plan, engine):
    check_schema(plan, engine.schema())
    blocks = aggregate(plan, engine, SALT)
    return {(index, key): own[key] for each in blocks for index, own in each.answers.items() for key in each.keys}


def noiseless(plan, rows, epsilon=500.0):
    """What is published for every question, key and part, with so large an epsilon that the noise is nearly gone."""
    ready = prepared_with(plan, lambda *_: {"epsilon": epsilon})
    with DuckDB(arrow(rows), threads=1) as engine:
        check_schema(plan, engine.schema())
        cells = [cell for block in aggregate(plan, engine, SALT) for cell in answers(ready, block)]
    return {(cell.question, cell.key, cell.part): cell for cell in cells}


def drawn(question, columns, times, *, epsilon, mu=0.0, read_as=1.0):
    """Numbers of one group, drawn this many times by themselves; `read_as` reads them as if the share were larger."""
    unit = Unit()
    rows = pa.table({name: pa.array(each) for name, each in columns.items()})
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [question]})
    with DuckDB(rows, threads=1) as engine:
        exact = exact_of(plan, engine)[0, ()]
    found, form = question.sensitivity(unit, 1), form_of(question, unit)

    def publisher(factor):
        share = BudgetShare(
            epsilon=0.0 if mu else factor * epsilon, delta=0.0, groups=1, parts=1, mu=factor * mu, loss=form.loss
        )
        return form.publisher(found, share, level=0.95, columns=())

    draws = publisher(1.0).draw([exact] * times, secure_bits)
    return [[form.estimate(each) for each in group] for group in publisher(read_as).read(draws)]


def assert_mostly(held):
    """That something held in 95 % of many draws, as an interval at that level promises; by chance it fails in 1e-11."""
    found = list(held)
    assert sum(found) >= stats.binom.ppf(1e-11, len(found), 0.95)

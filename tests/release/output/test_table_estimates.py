"""Estimates of one question of a published table: less error, the published numbers beside them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rangebound as rb
from rangebound.release import Release, make_plan
from rangebound.release.budget_split import allocations
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.output import reliability
from rangebound.release.prepare import answers, prepared
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import SALT

PRIOR = {float(each): 1.0 for each in range(60)}


def sparse(delta=0.0, **more):
    chance = np.random.default_rng(6)
    true = np.where(chance.random(400) < 0.7, 0, chance.geometric(0.2, 400))
    rows = pd.DataFrame({"cell": np.repeat(np.arange(400), true)})
    plan = {
        "budget": {"epsilon": 0.1, "delta": delta},
        "keys": {"cell": list(range(400))},
        "query": [{"name": "visits", "kind": "count", "by": ["cell"], **more}],
    }
    return rb.release_table(plan, rows, ledger=None), {str(key): count for key, count in enumerate(true.tolist())}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("delta", "more"),
    [(0.0, {}), (0.0, {"unbiased": True}), (1e-6, {"mechanism": "rectify Gaussian", "support": [0, 500]})],
    ids=["whole noise", "moved into the range when read", "Gaussian noise"],
)
def test_estimates_of_sparse_counts_are_nearer_than_the_published_ones(delta, more):
    table, true = sparse(delta, **more)
    rows = table.estimate("visits", prior="fit")
    assert [row["published"] for row in rows] == [cell.value for cell in table.cells]
    lost = {name: np.mean([(row[name] - true[row["cell"]]) ** 2 for row in rows]) for name in ("published", "estimate")}
    assert lost["estimate"] < 0.6 * lost["published"]
    assert all(0.0 <= row["lower"] <= row["estimate"] <= row["upper"] for row in rows)


def test_a_prior_of_ones_own_is_taken():
    table, _ = sparse()
    rows = table.estimate("visits", prior={0.0: 1.0, 1.0: 0.0})
    assert {row["estimate"] for row in rows} == {0.0}


def test_estimates_are_made_with_the_noise_that_the_numbers_were_drawn_with():
    """However the budget was split: another version may have taken another way."""
    query = [{"name": name, "kind": "count", "by": ["cell"]} for name in ("visits", "others")]
    plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6}, "keys": {"cell": ["0", "1"]}, "query": query})
    scales, (found,) = set(), aggregated_rows(plan)
    for way in allocations(plan):
        ready = prepared(plan, way)
        made = Release(plan=plan, cells=tuple(answers(ready, found)), mechanisms=ready.mechanisms)
        drawn = [cell.draws[0] for cell in made.cells if cell.question == 0]
        noise, ends = reliability._law(ready.publishers[0], None, "visits")
        again = rb.estimate(noise, np.clip(drawn, ends.lower, ends.upper), prior=PRIOR)
        assert [row["estimate"] for row in made.estimate("visits", prior=PRIOR)] == again.estimate.tolist()
        scales.add(str(noise))
    assert len(scales) > 1  # the control: the ways have unlike noise
    unlike = tuple(replace(cell, epsilon=0.123) for cell in made.cells)
    with pytest.raises(rb.Unsatisfiable, match="is not known to this version"):
        replace(made, cells=unlike).estimate("visits", prior=PRIOR)


def aggregated_rows(plan):
    with DuckDB(pd.DataFrame({"cell": ["0"] * 30 + ["1"] * 3}), threads=1) as engine:
        return aggregate(plan, engine, SALT)


def test_what_has_no_noise_of_its_own_is_refused():
    data = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    plan = {"budget": {"epsilon": 1.0}, "query": [{"name": "middle", "kind": "median", "column": "x", "range": [0, 9]}]}
    table = rb.release_table(plan, data, ledger=None)
    with pytest.raises(rb.Unsatisfiable, match="must be one whose numbers have noise of their own"):
        table.estimate("middle", prior="fit")
    with pytest.raises(rb.ArgumentError, match="must be a question of the table: middle"):
        table.estimate("median", prior="fit")

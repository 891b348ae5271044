"""What prompts and notebooks show of public objects: short lines, and tables in which every text is only text."""

import dataclasses
import importlib
import inspect
import re
from enum import Enum

import pyarrow as pa

import rangebound as rb
from rangebound.accounting import PerInstance
from rangebound.learn.torch.training_plan import PlannedRun, TrainingPlan
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.fields import Part
from tests.test_public_api import PUBLIC, offered

LONGEST = 300
SHORT = {"float", "int", "bool", "float | None", "int | None", "bool | None", "tuple[float, float]", "torch.Generator"}
SHORT |= {"Notion", "Interval", "Interval | None", "Interval | Grid | None", "Amount", "Enclosure"}  # in themselves
THEIRS = ("torch", "sklearn", "enum")  # a class of another library is shown in its own way
TAGS = r"</?(table|caption|tr|th|td|p|pre)( class=(n|scope))?( data-name=\"[^<>\"]*\")?>"
HOSTILE = "<script>alert(1)</script>\u202e"


class Long:
    def __repr__(self):
        return "x" * 1000


def public_classes():
    found = {getattr(importlib.import_module(module), name) for module in PUBLIC for name in offered(module)}
    return sorted((each for each in found if inspect.isclass(each)), key=lambda each: each.__qualname__)


def long_one(kind):
    """An object of a class, with fields that nobody would like to see whole."""
    if issubclass(kind, Part):
        return kind.model_construct(**dict.fromkeys(kind.model_fields, Long()))
    if not dataclasses.is_dataclass(kind):
        return PerInstance(1.0, notion="epsilon") if kind is PerInstance else Long()
    made = object.__new__(kind)
    for each in dataclasses.fields(kind):
        object.__setattr__(made, each.name, 1.0 if str(each.type) in SHORT else Long())
    return made


def made():
    """Objects of the classes that are shown by parts of theirs, with more of these than a line has room for."""
    spans = rb.Union(*((3.000000000000001 * at, 3.000000000000001 * at + 1.5) for at in range(8)))
    query = rb.Query(range=spans, sensitivity=1.0)
    table = rb.Table.from_probabilities(
        query=query, inputs=[0.0, 3.0], outputs=[0.0, 1.0], probabilities=[[0.6, 0.4]] * 2
    )
    keys = [f"key {at}" for at in range(100)]
    asked = [{"name": name, "kind": "count", "by": ["place"]} for name in keys[:40]]
    plan = rb.release.make_plan({"budget": {"epsilon": 90.0}, "keys": {"place": keys}, "query": asked})
    select = "SELECT place, COUNT(*) AS n FROM t GROUP BY place"
    data = pa.table({"place": keys})
    runs = [PlannedRun(noise_multiplier=1.0, expected_batch=64.0, epochs=at, steps=1, epsilon=1.0) for at in range(40)]
    training = TrainingPlan(delta=1e-6, runs=tuple(runs))
    published = rb.release_table(plan, data, ledger=None)
    counts = rb.estimate(rb.DiscreteLaplace(scale=1.0), [1.0] * 100, prior={1.0: 1.0})
    made = [spans, query, table, plan, training, rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query)]
    return [*made, counts, rb.remap(table, at="average"), published, rb.sql(select, data, plan=plan, ledger=None)]


def test_no_public_object_takes_a_page_of_a_prompt():
    own = {type(each): each for each in made()}
    checked, long = set(), []
    for kind in public_classes():
        theirs = getattr(kind.__repr__, "__module__", "").startswith(THEIRS)
        if issubclass(kind, BaseException | Enum) or theirs or kind.__repr__ is object.__repr__:
            continue
        checked.add(kind)
        if len(repr(own.get(kind) or long_one(kind))) > LONGEST:
            long.append(kind)
    assert long == []
    assert len(checked) > 90
    assert len(repr(Long())) > LONGEST  # the control


def test_no_name_is_markup_in_a_notebook():
    data = pa.table({HOSTILE: ["a", HOSTILE], "n": [1, 2]})
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    asked = [{"name": HOSTILE, "kind": "count", "by": [HOSTILE]}]
    plan = rb.Plan(title=HOSTILE, budget={"epsilon": 50.0}, keys={HOSTILE: ["a", HOSTILE]}, query=asked)
    mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
    hostile = [plan, rb.release_table(plan, data, ledger=None), DuckDB(data)]
    limit = rb.limit(query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), epsilon=1.0)
    use = rb.compose((mechanism, 52))
    for each in (
        *hostile,
        mechanism,
        made()[2],
        rb.certify(mechanism),
        use,
        limit,
        rb.choose(query=query, epsilon=1.0),
    ):
        shown = each._repr_html_()
        assert not re.sub(TAGS, "", shown).count("<")
        assert ("alert(1)" in shown) == (each in hostile)
        assert "\u202e" not in shown
    assert re.sub(TAGS, "", f"<td>{HOSTILE}</td>").count("<")  # the control
    assert "Laplace(scale=" in mechanism._repr_html_()
    assert "(1, 0)-differential privacy" in mechanism._repr_html_()
    assert "<td>52</td>" in use._repr_html_()
    assert "<th>n</th><td>integer</td>" in DuckDB(data)._repr_html_()
    assert str(limit.value)[:5] in limit._repr_html_()

"""A kind that is defined here and listed nowhere works in a whole release; one that lacks a member is an error."""

import json
import math
from fractions import Fraction
from typing import Literal

import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, explain, make_plan, parse_plan, plan_schema, release
from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import LossForm, Sensitivity
from rangebound.release.noise.estimate import held, nearest
from rangebound.release.output.report import report
from rangebound.release.plan.kinds.kind import KINDS, Agreement, Kind, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import ONE, Counted, GroupSums, Met, Rows
from rangebound.release.plan.sensitivity import touched
from rangebound.support import Interval

PLAN = """
unit = {column = "person", rows = 2, groups = 1}
budget = {epsilon = 60.0}
keys = {clinic = ["a", "b"]}
report_clipping = true

[[query]]
name = "surplus"
kind = "surplus"
by = ["clinic"]
of = [{column = "age", is = ">=", value = 18}]

[[query]]
name = "visits"
kind = "count"
"""


def surplus_members():
    """All members of a toy kind: how many more rows meet some conditions than do not."""

    def natural(self):
        return Interval(-math.inf, math.inf)

    def measures(self, unit, groups):
        both = (*self.where, *self.of)
        return GroupSums(rows=Rows(where=self.where), of={"all": Counted(), "met": Met(conditions=both)})

    def coordinates(self, found, unit):
        return (Fraction(2 * found.get("met", 0), ONE) - found.get("all", 0),)

    def sensitivity(self, unit, groups):
        """A row adds 1 or -1: r in each group, and 2 r where a unit is replaced."""
        _, most = touched(unit, groups)
        cell = Fraction(unit.rows * (2 if unit.replaced else 1))
        return Sensitivity(cell=cell, groups=most, square=cell**2 * most)

    def publisher(self, unit, found, share, *, level, columns):
        return publishers.real_number(self.allowed, found, share, step=self.step, mechanism=None, confidence=level)

    def estimate(self, reading, unit):
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(nearest(value, self.allowed, self.step), lower, upper, self.allowed)

    def scope(self, unit, groups):
        return [*truncation_scope(self, unit, groups, rows=True), *owner_scope(unit)]

    return {
        "natural": property(natural),
        "answers_dated": property(lambda self: False),
        "reads": property(lambda self: None),
        "conditions": property(lambda self: (*self.where, *self.of)),
        "misfit": lambda self, unit: "",
        "measures": measures,
        "coordinates": coordinates,
        "sensitivity": sensitivity,
        "known_rows": lambda self, unit: None,
        "parts": property(lambda self: ("",)),
        "draws": property(lambda self: 1),
        "interval_part": property(lambda self: 0.0),
        "uses_delta": property(lambda self: True),
        "loss": property(lambda self: LossForm.GAUSSIAN),
        "publisher": publisher,
        "estimate": estimate,
        "unclamped_number": lambda self, draws: None,
        "bias": lambda self, publisher, unit, lower, upper: publisher.bias(
            lower, upper, self.allowed, self.step, whole=True
        ),
        "effort": property(lambda self: (self.name, 50.0)),
        "subject": property(lambda self: (" of rows that meet conditions", "")),
        "no_margin": lambda self, unit: "must not be asked of a surplus",
        "half_width": lambda self, publisher, unit: publisher.half_width,
        "expected_error": lambda self, publisher: publisher.expected_error(),
        "scope": scope,
        "agreement": property(lambda self: Agreement()),
        "truncated": lambda self, *, choosing: Truncation(),
        "clipping": property(lambda self: None),
    }


def define(members, name="surplus"):
    """Execute the class body of a kind."""
    from rangebound.release.plan.condition import Conditions

    fields = {"kind": Literal[name], "of": Conditions}
    return type(Kind)("Surplus", (Kind,), {"__annotations__": fields, "__module__": __name__, "kind": name, **members})


@pytest.fixture
def surplus():
    made = define(surplus_members())
    yield made
    del KINDS["surplus"]


def table():
    """Ten people with two visits each: in clinic a all are of age, in clinic b two of five."""
    rows = [(person, "a" if person < 5 else "b", 30 if person < 7 else 5) for person in range(10) for _ in range(2)]
    return pa.table(dict(zip(("person", "clinic", "age"), map(list, zip(*rows, strict=True)), strict=True)))


def test_a_kind_that_is_listed_nowhere_goes_through_a_whole_release(surplus, tmp_path):
    plan = parse_plan(PLAN)
    assert type(plan.query[0]) is surplus
    assert [each.kind for each in plan.query] == ["surplus", "count", "share dropped", "share dropped"]
    said = explain(plan)
    assert "surplus: surplus of rows that meet conditions, by clinic." in said
    assert "rows per 'person' and group cut at 2" in said
    found = release(plan, table(), ledger=None)
    first, second = (row for row in found.rows() if row["query"] == "surplus")
    assert (first["clinic"], second["clinic"]) == ("a", "b")
    assert first["value"] == pytest.approx(10.0, abs=3.0)  # e^-40 at epsilon 28 for each
    assert second["value"] == pytest.approx(-2.0, abs=3.0)
    assert first["lower"] <= first["value"] <= first["upper"]
    assert "surplus: surplus" in report(found)
    assert "surplus" in str(found)
    assert "surplus" in found.to_csv()
    checked = check_certificate(found.certificate, found.to_bytes())
    assert checked.numbers == 5
    damaged = json.loads(found.to_bytes())
    damaged["cells"][0]["value"] += 1.0
    with pytest.raises(CertificateInvalid):
        check_certificate(found.certificate, json.dumps(damaged).encode())


def test_a_kind_that_is_listed_nowhere_is_in_the_schema_and_its_faults_have_lines(surplus):
    schema = plan_schema()
    assert schema["properties"]["query"]["items"]["discriminator"]["mapping"]["surplus"] == "#/$defs/Surplus"
    assert schema["$defs"]["Surplus"]["properties"]["of"]["anyOf"][1]["items"] == {"$ref": "#/$defs/Condition"}
    with pytest.raises(PlanError, match=r"plan:11: query\[0\].off=.*: unknown field; did you mean 'of'") as caught:
        parse_plan(PLAN.replace("of = ", "off = "))
    assert caught.value.line == 11
    with pytest.raises(PlanError, match=r"'median', 'minimum', .*'quantiles', .*'series', 'share', .*'sum', 'surplus'"):
        parse_plan(PLAN.replace('"surplus"\nby', '"deficit"\nby'))


def test_control_a_kind_that_is_not_defined_is_refused():
    assert "surplus" not in KINDS
    with pytest.raises(PlanError, match=r"query\[0\].kind='surplus': must be one of '.*'count', "):
        parse_plan(PLAN)
    assert "Surplus" not in plan_schema()["$defs"]


@pytest.mark.parametrize("missing", sorted(surplus_members()))
def test_control_a_kind_that_lacks_a_member_cannot_be_defined(missing):
    members = surplus_members()
    del members[missing]
    with pytest.raises(TypeError, match=f"Surplus: kind 'surplus' lacks {missing}$"):
        define(members)
    assert "surplus" not in KINDS


def test_the_toy_has_every_abstract_member_and_no_other():
    assert surplus_members().keys() == Kind.__abstractmethods__


def test_two_kinds_have_two_names():
    with pytest.raises(TypeError, match="Surplus: kind 'count' is taken by Count"):
        define(surplus_members(), "count")


def test_every_kind_of_the_folder_is_listed_under_its_own_name():
    assert len(KINDS) == 25
    for name, kind in KINDS.items():
        assert kind.model_fields["kind"].default == name
    assert {name for name, each in KINDS.items() if each.made} == {"share dropped", "share clipped"}


def test_what_the_ledger_kept_of_a_kind_is_read_again(surplus, tmp_path):
    plan = parse_plan(PLAN.replace("epsilon = 60.0", 'epsilon = 60.0, account = "people"'))
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("people", epsilon=100)
        first = release(plan, table(), ledger=ledger, request="one")
        again = release(plan, table(), ledger=ledger, request="one")
    assert first.to_bytes() == again.to_bytes()
    assert make_plan(plan.model_dump(by_alias=True, exclude_none=True)) == plan

"""A kind that is defined here and listed nowhere works in a whole release; one that lacks a member is an error."""

import datetime
import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.release import check_certificate, explain, make_plan, parse_plan, plan_schema, release
from rangebound.release.plan.kinds.facts import FormName
from rangebound.release.plan.kinds.kind import KINDS, Kind
from rangebound.release.plan.measure import ONE, Counted, GroupSums, Met, Rows
from rangebound.release.plan.statistic import Sensitivity, Statistic, touched
from rangebound.release.prepare import prepare
from rangebound.values.support import Interval
from tests.release.odd_tables import PLACES, arrow, odd_rows, plan_of
from tests.release.output.asked import report
from tests.release.plan.kinds.second_routes import certified

PLAN = """
unit = {column = "person", rows = 2, groups = 1}
budget = {epsilon = 60.0}
keys = {clinic = ["a", "b"]}
report_clipping = true
query = [
    {name = "surplus", kind = "surplus", by = ["clinic"], of = [{column = "age", is = ">=", value = 18}]},
    {name = "visits", kind = "count"},
]
"""


def surplus_members():
    """All that a toy kind needs beside its fields: how many more rows meet some conditions than do not."""

    def natural(self):
        return Interval(-math.inf, math.inf)

    def measures(asked, unit, groups):
        both = (*asked.where, *asked.of)
        return GroupSums(rows=Rows(where=asked.where), of={"all": Counted(), "met": Met(conditions=both)})

    def coordinates(asked, found, unit):
        return (Fraction(2 * found.get("met", 0), ONE) - found.get("all", 0),)

    def sensitivity(asked, unit, groups):
        """A row adds 1 or -1: r in each group, and 2 r where a unit is replaced."""
        _, most = touched(unit, groups)
        cell = Fraction(unit.rows * (2 if unit.replaced else 1))
        return Sensitivity(cell=cell, groups=most, square=cell**2 * most)

    return {
        "form": FormName.SCALAR,
        "natural": property(natural),
        "statistic": Statistic(measures=measures, coordinates=coordinates, sensitivity=sensitivity),
    }


def define(members, name="surplus"):
    """Execute the class body of a kind."""
    from rangebound.release.plan.condition import Conditions

    named = {"__annotations__": {"kind": Literal[name], "of": Conditions}, "__module__": __name__, "kind": name}
    words = {"subject": property(lambda self: (" of rows that meet conditions", ""))}
    return type(Kind)("Surplus", (Kind,), {**named, **words, **members})


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
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 5
    damaged = replace(found.cells[0], value=found.cells[0].value + 1.0)
    with pytest.raises(CertificateInvalid):
        certified(found, [damaged, *found.cells[1:]])


def test_a_kind_that_is_listed_nowhere_is_in_the_schema_and_its_faults_have_lines(surplus):
    schema = plan_schema()
    assert schema["properties"]["query"]["items"]["discriminator"]["mapping"]["surplus"] == "#/$defs/Surplus"
    assert schema["$defs"]["Surplus"]["properties"]["of"]["anyOf"][1]["items"] == {"$ref": "#/$defs/Condition"}
    with pytest.raises(PlanError, match=r"plan:6: query\[0\].off=.*: unknown field; did you mean 'of'"):
        parse_plan(PLAN.replace("of = ", "off = "))
    with pytest.raises(PlanError, match=r"'median', 'minimum', .*'quantiles', .*'series', 'share', .*'sum', 'surplus'"):
        parse_plan(PLAN.replace('kind = "surplus"', 'kind = "deficit"'))


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


def test_two_kinds_have_two_names():
    with pytest.raises(TypeError, match="Surplus: kind 'count' is taken by Count"):
        define(surplus_members(), "count")


X, Y = {"column": "x", "range": [-2.0, 10.0]}, {"column": "y", "range": [0.0, 3.0]}
CODES = {"kind": "distinct count", "column": "code"}
CORRELATION, LINE = ({"kind": kind, "x": X, "y": Y} for kind in ("correlation", "line"))
RATIO = {"kind": "ratio", "numerator": X, "denominator": Y, "support": [-10, 50]}
SHARE = {"kind": "share", "of": [{"column": "x", "is": ">", "value": 3.0}]}
RANGE, MEAN = {"kind": "central range", **X}, {"kind": "mean", **X}
TOP, MODE = {"kind": "top k", "column": "code", "k": 3}, {"kind": "mode", "column": "code"}
W = {"weighted_by": {"column": "w", "range": [0.5, 4.0]}}
PEOPLE = {"column": "who", "rows": 2, "groups": 2}
KEYS, SELECTED = {"keys": {"code": ["x", "X", "<b>"]}}, {"budget": {"epsilon": 1.0, "delta": 1e-2}}
DAYS = [datetime.date(2025, 1, 1), datetime.date(2025, 1, 4)]
DAILY = {"column": "d", "each": "day", "range": DAYS}
MARGIN, BEST = {"kind": "count", "margin": 25.0}, {"mechanism": "optimal"}
GAUSSIAN, COUNT, TINY = {"mechanism": "rectify Gaussian"}, {"kind": "count"}, (5e-324, 1e-100, 9.9e-25)
SIZED, REMOTE = {"neighbours": "replace", "size": 12}, {"spark": "sc://127.0.0.1:1", "table": "visits"}
ONE_ROW = {"unit": {"column": "who"}, "per_unit": {"a": "COUNT(*)"}}


def weighted(**fields):
    return {"kind": "count", "weighted_by": {"column": "w", "range": [0, 5], **fields}}


REFUSED = [
    ({"kind": "bounds", "column": "x", "support": [0, 1]}, {}, "support: is not"),
    *(({**RANGE, "share": share}, {}, "share") for share in (0.0, 1.0, -1.0, 0.995)),
    ({**CODES, "values": 2}, {}, "values is 1 where the unit is the row"),
    ({**CODES, "values": 0}, {"unit": PEOPLE}, "values"),
    ({**CODES, "step": 0.5}, {"unit": PEOPLE}, "whole number"),
    ({**LINE, "support": [0, 1]}, {}, "support: a line has two numbers; state slopes"),
    ({**LINE, "slopes": [1, -1]}, {}, "slopes"),
    ({**LINE, "y": {"column": "d", "range": DAYS}}, {}, "not dates"),
    ({**CORRELATION, "support": [0, 2]}, {}, "support: must lie within"),
    ({**CORRELATION, "margin": 0.1}, {}, "must not be asked of 'correlation'"),
    ({"kind": "ratio", "numerator": X, "denominator": Y}, {}, "support: must be stated where the denominator may be 0"),
    ({**RATIO, "denominator": {**Y, "range": [-1, 3]}}, {}, "denominator.*: the lower end of its range must not"),
    ({**RATIO, "numerator": {"column": "x"}}, {}, "numerator.range"),
    ({**RATIO, "margin": 2.0}, {}, r"margin: must not be asked of 'ratio'"),
    (weighted(range=[-1, 5]), {}, r"weighted_by.range=.*: the lower end must not be negative"),
    (weighted(range=None), {}, r"weighted_by.range"),
    (weighted(range=["2025-01-01", "2025-01-02"]), {}, "weighted_by.range"),
    (weighted(missing=1), {}, r"weighted_by.missing.*unknown field"),
    *(({**MEAN, "kind": kind, **W}, {}, "unknown field") for kind in ("median", "variance")),
    ({"kind": "count of units", **W}, {"unit": PEOPLE}, "unknown field"),
    ({**TOP, "k": 4}, KEYS, r"k: must be at most 3, the number of keys of 'code'"),
    ({**TOP, "k": 0}, KEYS, "k"),
    ({**TOP, "by": ["code"]}, KEYS, "'code' is one of the grouping columns"),
    ({**MODE, "step": 1.0}, KEYS, "step: is not for this kind"),
    ({**MODE, "margin": 1.0}, KEYS, "margin: must not be asked of 'mode'"),
    ({**MODE, "bins": 4}, KEYS, "range: is missing"),
    ({**MODE, "range": DAYS, "bins": 4}, {}, "bins: must be at most 3, so that each has a day"),
    (TOP, {}, "budget.delta: must be positive to select the keys of 'code' privately"),
    ({**TOP, "margin": 2.0}, SELECTED, "margin: must not be asked of 'top k', whose answers are keys"),
    ({**TOP, "rows": 2}, {**SELECTED, "unit": PEOPLE}, "rows: a unit counts once at each key"),
    ({**TOP, "support": [1, 2]}, SELECTED, "support: is not for this kind"),
    ({**TOP, "mechanism": "rectify Laplace"}, SELECTED, "mechanism"),
    (TOP, {**SELECTED, "joint": True}, "joint: how many intervals there are must be public"),
    (TOP, {**SELECTED, "keys": {"codes": ["x"]}}, "query.0..column: 'code' has no keys"),
    (MODE, SELECTED, "or ask for 'top k' with k = 1"),
    ({**MARGIN, "weight": 1.0}, {}, "margin: cannot be combined with weight"),
    ({**MARGIN, "support": [[0, 5], [9, 100]]}, {}, "margin: cannot be combined with gaps in support"),
    ({**MARGIN, "margin": 0.0}, {}, r"query\[0\].margin=0.0: must be greater than 0"),
    ({**MARGIN, "mechanism": "truncate Laplace"}, {}, "must not stand beside the mechanism 'truncate Laplace'"),
    ({**MARGIN, "mechanism": "rectify TruncatedLaplacian"}, {}, "take 'rectify Laplace' or 'rectify Gaussian'"),
    ({**MEAN, "margin": 1.0}, {}, r"\].margin: must not be asked of 'mean', since the width of its interval depends "),
    ({**MEAN, "kind": "median", "margin": 1.0}, {}, "'median', since the width of its interval depends on the v"),
    ({**MEAN, "kind": "variance", "margin": 1.0}, {}, r"query\[0\].margin: .*'variance'"),
    ({**SHARE, "margin": 0.1}, {}, r"query\[0\].margin: .*'share'"),
    ({"kind": "count", "mechanism": "truncate Laplace", "unbiased": True}, {}, "has no unbiased number"),
    ({"kind": "count", "mechanism": "truncate Gaussian", "signed": True}, {}, "name 'rectify Gaussian'"),
    ({"kind": "count", "support": [0, 5], "signed": True}, {}, "signed: cannot be combined with support"),
    ({"kind": "count", "signed": True}, {"consistent": True}, "counts that agree are not negative"),
    *(({**each, "unbiased": True}, {}, "unbiased") for each in (MEAN, SHARE, {**MEAN, "kind": "median"})),
    ({**MEAN, "kind": "variance", "signed": True}, {}, "signed"),
    ({**BEST, "kind": "count"}, {}, r"\[0\].mechanism: 'optimal' needs a public range with two ends; state a support"),
    ({**MEAN, **BEST, "kind": "sum"}, {}, "needs a public range with two ends"),
    ({**BEST, "kind": "count", "support": [0, 9000]}, {}, "no table here.*401 whole numbers.*narrower support"),
    ({**SHARE, **BEST}, {}, "number of rows is not public; leave it out"),
    ({**BEST, "kind": "count", "support": [0, 9], "unbiased": True}, {}, "'optimal' has no unbiased number"),
    ({**MARGIN, **BEST, "support": [0, 9]}, {}, "must not stand beside the mechanism 'optimal'"),
    ({**MEAN, **BEST, "kind": "median"}, {}, "a single unit can move a quantile from one end"),
    ({**MEAN, **BEST, "kind": "maximum"}, {}, "exponential mechanism is used"),
    *(({**MEAN, **BEST, "kind": kind}, {}, "unknown field") for kind in ("variance", "histogram")),
    ({**BEST, "kind": "count", "support": [[0, 4], [6, 9]], "step": 2}, {}, "gaps"),
    ({**MEAN, **BEST, "missing": 0.0, "margin": 1.0}, {"unit": SIZED}, "different widths"),
    ({**MARGIN, "margin": 0.5, **GAUSSIAN}, SELECTED, r"margin=0\.5: cannot be met; at mu 100 .* still 1\.0"),
    ({**MARGIN, **GAUSSIAN}, {}, r"query\[0\]\.mechanism: .*Gaussian noise has no finite pure epsilon"),
    *((COUNT, {"budget": {"epsilon": 1.0, "delta": each}}, "delta=.*must be 0, or at least 1e-24") for each in TINY),
    (COUNT, {"report_clipping": True}, "report_clipping: nothing is cut"),
    (COUNT, {"report_clipping": True, "clipping_share": 0.0}, "clipping_share=0.0: must be greater than"),
    (COUNT, {"report_clipping": True, "clipping_share": 0.6}, "clipping_share=0.6: must be less than"),
    (COUNT, {"source": {}}, "needs one of path, postgres"),
    (COUNT, {"source": {"spark": "sc://host"}}, "goes with the name of a table"),
    (COUNT, {"source": {**REMOTE, "spark": "sc://host/;token=secret"}}, "must hold no token"),
    (COUNT, {"source": {**REMOTE, "spark": "spark://host"}}, "source.spark"),
    (COUNT, {**ONE_ROW, "unit": {}}, "the unit is the row already"),
    (COUNT, {**ONE_ROW, "unit": {"column": "who", "rows": 2}}, "unit.rows: every unit has one row"),
    (COUNT, {**ONE_ROW, "unit": {"column": "who", "groups": 2}}, "unit.groups: every unit has one row"),
    (COUNT, {**ONE_ROW, "unit": {"column": "who", "period": DAILY}}, "unit.period: every unit has one row"),
    (COUNT, {**ONE_ROW, "columns": {"A": "x > 1"}}, "per_unit.a: another column of the plan has this name"),
    (COUNT, {**ONE_ROW, "per_unit": {"a": "COUNT(*)", "A": "COUNT(*)"}}, "per_unit.A: another column"),
    ({"kind": "count of units"}, ONE_ROW, "the unit is the row; ask for a count"),
    ({"kind": "count", "rows": 2}, ONE_ROW, "rows: is not needed where the unit is the row"),
    ({"kind": "mean", "column": "a"}, ONE_ROW, r"query\[0\].range: is missing for 'a'; .* in \[per_unit\]"),
    ({"kind": "count", "rows": 2}, {}, r"query\[0\]\.rows: is not needed where the unit is the row"),
    ({"kind": "count", "groups": 2, "by": ["place"]}, SELECTED, r"query\[0\]\.groups: is not needed"),
    ({"kind": "count", "period": DAILY}, {}, r"query\[0\]\.period: is not needed"),
    ({"kind": "count"}, {"unit": {"period": DAILY}}, "where the unit is the row"),
    ({"kind": "count", "groups": 2}, {"unit": PEOPLE}, r"query\[0\]\.groups: the query has no groups"),
    ({"kind": "count of units", "rows": 2}, {"unit": PEOPLE}, "a unit counts once"),
    ({**CODES, "rows": 2}, {"unit": PEOPLE}, "`values` says how many"),
    ({**MODE, "rows": 2}, {"unit": PEOPLE, **KEYS}, "a unit counts once"),
    ({"kind": "count", "rows": 0}, {"unit": PEOPLE}, r"query\[0\]\.rows"),
    ({"kind": "count", "rows": 250_001, "period": DAILY}, {"unit": PEOPLE}, "must be at most 1000000"),
    ({"kind": "count", "period": {**DAILY, "each": "year"}}, {"unit": PEOPLE}, r"period\.each"),
    ({"kind": "count", "period": {**DAILY, "range": DAYS[::-1]}}, {"unit": PEOPLE}, "must not be after"),
    ({"kind": "count", "period": {"column": "d", "each": "day"}}, {"unit": PEOPLE}, r"period\.range"),
]


@pytest.mark.parametrize(("question", "parts", "words"), REFUSED)
def test_what_cannot_be_asked_is_refused(question, parts, words):
    with pytest.raises(PlanError, match=words):
        prepare(plan_of([question], **parts))


MISFITS = [
    ({**CODES, "column": "x"}, {}, r"query\[0\].column='x': .*distinct values, which are compared as keys"),
    ({**CODES, "column": "no"}, {}, r"query\[0\].column='no': .*no such"),
    ({**RATIO, "numerator": {**X, "column": "code"}}, {}, r"query\[0\].numerator.column='code': is of type text"),
    ({**RATIO, "denominator": {**Y, "column": "code"}}, {}, r"query\[0\].denominator.column='code': is of type text"),
    (weighted(column="nothing"), {}, r"query\[0\].weighted_by.column='nothing': .*no such column"),
    (weighted(column="code"), {}, r"query\[0\].weighted_by.column='code': .*is of type text"),
    ({**TOP, "column": "town"}, {}, r"query\[0\].column='town': the table has no such column"),
    ({"kind": "bounds", "column": "x", "dates": True}, {}, "does not serve for dates"),
    ({**MEAN, "column": "code"}, {}, r"query\[0\].column='code': .*numbers"),
    ({"kind": "count", "by": ["x"]}, {}, r"query\[0\].by='x': .*key"),
    ({"kind": "count", "where": [{"column": "x", "is": "==", "value": "a"}]}, {}, r"query\[0\].where='x': .*condition"),
    ({"kind": "count", "period": DAILY}, {"unit": PEOPLE}, r"query\[0\].period.column='d'"),
    ({"kind": "count"}, {"unit": {**PEOPLE, "period": {**DAILY, "column": "x"}}}, "unit.period.column='x'"),
    ({"kind": "count"}, {"unit": {"column": "nobody"}}, "unit.column='nobody': .*no such column"),
    ({"kind": "count"}, {"unit": {"column": "x"}}, "unit.column='x': .*privacy unit"),
]


@pytest.mark.few(8)
@pytest.mark.parametrize(("question", "parts", "words"), MISFITS)
def test_a_column_that_does_not_serve_is_named_before_the_charge(question, parts, words):
    with pytest.raises(PlanError, match=words):
        release(plan_of([question], **SELECTED, **parts), arrow(odd_rows(8)), ledger=None)


REPLACED = {"neighbours": "replace", "size": 40}
STATED = {**LINE, "slopes": [-1, 1], "intercepts": [0, 3]}
BOTH = "'x' clipped to -2 to 10, 'y' clipped to 0 to 3, rows without 'x' or 'y' left out"
WHOLE = {
    "distinct count": (
        [{**CODES, "values": 2}, {**CODES, "column": "ward", "where": SHARE["of"]}],
        [
            "0: distinct count of 'code', by place.",
            "values per 'who' and group cut at 2, missing values left out, rows w",
        ],
    ),
    "line": (
        [CORRELATION, LINE, STATED],
        [
            "1: line through y = 'y', which lies in [0, 3], over x = 'x', which lies in [-2, 10], by place.",
            f"{BOTH}, rows without 'who' left out, slope moved into -1 to 1, intercept moved into 0 to 3",
        ],
    ),
    "ratio": (
        [RATIO, {**RATIO, "denominator": {**Y, "range": [0.5, 3.0]}, "support": None}, {**RATIO, "step": 0.5}],
        ["0: ratio of 'x', which lies in [-2, 10], to 'y', which lies in [0, 3], by place.", BOTH],
    ),
    "weights": (
        [{**each, **W} for each in ({"kind": "count"}, {**MEAN, "kind": "sum"}, MEAN, SHARE)],
        ["weighted by 'w', which lies in [0.5, 4]", "weights clipped to 0.5 to 4, rows without a weight left out"],
    ),
}


@pytest.mark.few(2)
@pytest.mark.claim("answer")
@pytest.mark.parametrize(
    ("size", "budget", "more"),
    [
        ({}, {"epsilon": 1.0}, {}),
        (REPLACED, {"epsilon": 1.0, "delta": 1e-3}, {"joint": True, "level": 0.9999}),
        ({}, {"epsilon": 1.0, "delta": 1e-3}, {"joint": True, "level": 0.9999}),
        (REPLACED, {"epsilon": 1.0}, {}),
    ],
)
@pytest.mark.parametrize("name", WHOLE)
def test_a_release_has_a_certificate_lies_in_its_range_and_says_what_was_left_out(name, size, budget, more):
    asked, words = WHOLE[name]
    cut = {"report_clipping": name == "weights"}
    plan = plan_of(asked, {**PEOPLE, **size}, by=["place"], budget=budget, **cut, **more)
    assert [each for each in words if each not in explain(plan)] == []
    assert make_plan(plan.model_dump(by_alias=True, exclude_none=True)) == plan
    found = release(plan, arrow(odd_rows(6)), ledger=None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    for cell in found.cells:
        question = plan.query[cell.question]
        ends = question.supports[cell.part == "intercept"] if question.kind == "line" else question.allowed.hull
        assert ends.lower <= cell.value <= ends.upper
        assert cell.lower <= cell.value <= cell.upper
        stated = question.kind != "line" or (question.slopes, question.intercepts)[cell.part == "intercept"] is not None
        assert not stated or (ends.lower <= cell.lower and cell.upper <= ends.upper)  # a line may be steeper else
        assert question.kind != "distinct count" or cell.value.is_integer()
    if name == "weights":
        cuts = {"0: w clipped", "1: values clipped", "0: rows dropped"}  # one for each column
        assert cuts == {each.name for each in plan.query if each.made}


BOTH_KEYS = {"by": ["place"], "keys": {**KEYS["keys"], "place": PLACES}}
TOLD = [
    ({**RANGE, "share": 0.8}, SELECTED, "quantiles at levels 0.1 and 0.9", "0: central range"),
    (LINE, {"by": ["place"]}, "by place", "<p class=panel>slope</p>"),
    (TOP, BOTH_KEYS, "0: top k of 'code', k = 3, of 3 keys, by place.", "<p class=panel>a</p><ol><li>"),
    (TOP, BOTH_KEYS, "for all ranks of a group together, by joint exponential mechanism", "&lt;b&gt;"),
    (TOP, SELECTED, "0: top k of 'code', k = 3, of keys that are selected privately.", "<ol><li>"),
    (TOP, SELECTED, "The keys of code are those whose noisy number of '0' is at least", "<ol><li>"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("question", "parts", "said", "shown"), TOLD)
def test_questions_are_explained_and_reported(question, parts, said, shown):
    plan = plan_of([question], **parts)
    assert said in explain(plan)
    page = report(release(plan, arrow(odd_rows(6, 2000)), ledger=None))
    assert shown in page
    assert "<b>" not in page
    assert ("<svg" in page) == (question is not TOP)

"""Crosstabs, hierarchies and series in whole releases: from a plan to a checked certificate, in both accounts."""

import datetime
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.optimize import nnls

from rangebound.errors import PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, check_entry, explain, parse_plan, release
from rangebound.release.noise import workload_publisher
from rangebound.release.noise.joint_loss import Contributions, NoiseAccount
from rangebound.release.noise.strategies.crosstab import LaplaceStrategy, Margins, design_crosstab
from rangebound.release.noise.strategies.marginal_strategy import cell_count
from rangebound.release.noise.strategies.strategy import laplace_radius, wholes
from rangebound.release.output.table import Release
from rangebound.release.plan.groupings import blocks
from rangebound.release.plan.kinds.summed_counts import marginals
from rangebound.release.prepare import prepare, rehearse
from rangebound.sampling.entropy import secure_bits
from tests.release.noise.refusals import refusal
from tests.release.noise.strategies.neighbours import moves
from tests.release.noise.test_projection import leaves_of
from tests.release.output.asked import asked, report
from tests.release.output.test_certificate_fields import refuses
from tests.thinning import crossed

DAYS = [datetime.date(2025, 1, 25) + datetime.timedelta(days=at) for at in range(12)]
KEYS = {"sex": ["f", "m"], "age": [1, 2, 3], "city": ["a", "b", "c", "d"], "day": DAYS}
REGIONS = {"west": ["a", "d"], "east": ["b"], "south": ["c"]}
LANDS = {"one": ["west", "south"], "two": ["east"]}
STAGES = {"young": [1, 2], "old": [3]}
WORKLOADS = {
    "two columns": {"kind": "crosstab", "by": ["sex", "city"]},
    "three columns": {"kind": "crosstab", "by": ["sex", "age", "city"]},
    "no margins": {"kind": "crosstab", "by": ["age", "city"], "margins": False},
    "tree": {
        "kind": "hierarchy",
        "by": ["city"],
        "levels": [{"name": "region", "members": REGIONS}, {"name": "land", "members": LANDS}],
    },
    "ages": {"kind": "hierarchy", "by": ["age"], "levels": [{"name": "stage", "members": STAGES}]},
    "days": {"kind": "series", "by": ["day"]},
    "days of both": {"kind": "series", "by": ["sex", "day"], "totals": ["running", "month"]},
}
ACCOUNTS = {"pure": {"epsilon": 1.0}, "gaussian": {"epsilon": 1.0, "delta": 0.01}}
TENS = {str(at): list(range(10 * at, 10 * at + 10)) for at in range(100)}
EMPTY = {
    "crosstab": ({"a": list(range(32)), "b": list(range(32))}, {}),
    "hierarchy": ({"a": list(range(1000))}, {"levels": [{"name": "ten", "members": TENS}]}),
    "series": ({"a": {"days": [datetime.date(2025, 1, 1), datetime.date(2025, 12, 31)]}}, {}),
}
PEOPLE = {"column": "person", "rows": 2, "groups": 8}
"""With this many groups, and such a delta, a Gaussian account has less error."""


def table(rows=600):
    """People with some rows each, in cells of very different size: city d is empty, and c nearly so."""
    chance = np.random.default_rng(5)
    city = chance.choice(["a", "b", "c", "elsewhere"], rows, p=[0.6, 0.35, 0.01, 0.04])
    return pa.table(
        {
            "person": np.arange(rows) // 3,
            "sex": chance.choice(["f", "m"], rows),
            "age": chance.choice([1, 2, 3], rows, p=[0.8, 0.15, 0.05]),
            "city": city,
            "day": [DAYS[0] + datetime.timedelta(days=int(at)) for at in chance.choice(10, rows)],  # the last are empty
        }
    )


def finest(query, key, part, keys):
    """Which of the finest keys a published number is the sum of, by its definition."""
    if query["kind"] == "crosstab":
        return [own for own in keys if all(a in (None, b) for a, b in zip(key, own, strict=True))]
    if query["kind"] == "hierarchy":
        if not part:
            return [own for own in keys if key[0] in (None, own[0])]
        below, levels = {key[0]}, query["levels"]
        for level in levels[[each["name"] for each in levels].index(part) :: -1]:
            below = {str(each) for member in below for each in level["members"][member]}
        return [own for own in keys if own[0] in below]
    at = query["by"].index("day")
    day = pd.Timestamp(key[at])
    span = {"": "D", "week": "W", "month": "M"}.get(part)
    same = [own for own in keys if own[:at] == key[:at] and own[at + 1 :] == key[at + 1 :]]
    if part == "running":
        return [own for own in same if pd.Timestamp(own[at]) <= day]
    return [own for own in same if pd.Timestamp(own[at]).to_period(span) == day.to_period(span)]


def plan_of(name, budget, unit=PEOPLE):
    question = WORKLOADS[name]
    return asked(question, unit=unit, budget=budget, keys={column: KEYS[column] for column in question["by"]})


NUMBERS = {"two columns": 15, "three columns": 60, "no margins": 12, "tree": 10, "ages": 6}
NUMBERS |= {"days": 12 + 3 + 2 + 12, "days of both": 2 * (12 + 12 + 2)}
LAST = dict.fromkeys(WORKLOADS, "total") | {"no margins": "by age, city", "days": "running", "days of both": "month"}


@pytest.mark.few(2)
@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_whole_release_adds_up_and_has_a_certificate_with_unbiased_answers_beside(name, account, tmp_path):
    plan = plan_of(name, {**ACCOUNTS[account], "account": "people"})
    assert not plan.query[0].unbiased
    plan = plan.model_copy(update={"query": (plan.query[0].model_copy(update={"unbiased": True}),)})
    ledger = Ledger.create(tmp_path / "ledger")
    ledger.open_account("people", epsilon=2.0, delta=0.1)
    made = release(plan, table(), ledger=ledger, request="one")
    checked = check_certificate(made.certificate, made.to_bytes())
    check_entry(checked, made.to_bytes(), ledger)
    found = made.to_pandas()
    assert len(found) == checked.numbers == NUMBERS[name]
    assert (found["value"] >= 0).all()
    assert (found["value"] % 1 == 0).all()
    assert ((found["lower"] <= found["value"]) & (found["value"] <= found["upper"])).all()
    assert found["mu"].notna().all() == (account == "gaussian")
    assert found["bias"].isna().all() if name == "three columns" else found["bias"].min() >= 0.5
    publisher = prepare(plan).publishers[0]
    value, unbiased, sums = found["value"].to_numpy(), found["unbiased"].to_numpy(), publisher.workload.sums
    assert (
        unbiased.tolist() == publisher.unclamped([each.draws for each in made.cells]).tolist()
    )  # before the projection
    assert (np.abs(unbiased - value) <= 20 * np.sqrt(publisher.variances) + 20).all()
    for at, total in enumerate(sums.totals):
        parts = sums.parts[sums.starts[at] : sums.starts[at + 1]]
        assert unbiased[parts].sum() == pytest.approx(unbiased[total], abs=1e-6)
    query, (block,) = WORKLOADS[name], blocks(plan)
    numbers = {(tuple(row[column] for column in query["by"]), row["part"]): row["value"] for row in made.rows()}
    for (key, part), number in numbers.items():
        assert number == sum(numbers[own, ""] for own in finest(query, key, part, block.keys))
    assert Release.from_bytes(made.to_bytes()).rows() == made.rows()
    said = explain(plan)
    assert "for all its numbers together" in said
    assert "projected so that all sums agree" in said
    assert LAST[name] in said.split("expected error")[1]
    assert WORKLOADS[name]["kind"] in report(made)


def test_measurements_that_stand_elsewhere_are_refused():
    made = release(plan_of("two columns", ACCOUNTS["gaussian"]), table(), ledger=None)
    damaged = json.loads(made.to_bytes())
    drawn, damaged["cells"][0]["draws"] = damaged["cells"][0]["draws"], []
    assert refuses(made, damaged)
    damaged["cells"][1]["draws"] = drawn + damaged["cells"][1]["draws"]
    assert refuses(made, damaged)


def with_margins(*sizes):
    return Margins(sizes=sizes, wanted=marginals(len(sizes), every=True), names=tuple("abcd"[: len(sizes)]))


@crossed({"account": list(NoiseAccount), "bounds": [(1, 1), (2, 2), (1, 3)], "replaced": [False, True]})
def test_no_unit_costs_more_than_the_strategy_says(account, bounds, replaced):
    contributions = Contributions(rows=bounds[0], cells=bounds[1], replaced=replaced)
    wanted = with_margins(2, 3)
    found = design_crosstab(wanted, budget=Fraction(1), account=account, contributions=contributions)
    if account is NoiseAccount.PURE and bounds == (1, 3):  # so small a table is measured by its cells alone
        found = replace(found, scales=tuple(each * (2 if replaced else 1) for each in (6.0, 18.0, 0.0, 9.0)))
    costs = [spent(wanted, found, each) for each in moves(6, contributions)]
    assert max(costs) <= float(found.cost) * (1 + 1e-9)
    assert found.cost <= 1
    assert max(costs) >= 0.5  # the bound is of the right size


def spent(wanted, found, move):
    """epsilon or mu^2 of one difference of the finest cells: in L1, or in L2 of the residuals."""
    tables = wanted.tables(move.astype(object))
    if found.account is NoiseAccount.PURE:
        return sum(np.sum(np.abs(each)) / scale for each, scale in zip(tables, found.scales, strict=True) if scale)
    total = 0.0
    for residual, scale in zip(found.residuals, found.scales, strict=True):
        table = tables[wanted.wanted.index(residual)].astype(float)
        for axis in range(table.ndim):
            table = table - table.mean(axis=axis, keepdims=True)
        total += (table**2).sum() * (table.size / scale) ** 2
    return total


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("name", ["two columns", "tree", "days"])
def test_a_strategy_for_less_than_a_unit_can_do_is_refused(name, account):
    ready = prepare(plan_of(name, ACCOUNTS[account]))
    assert bool(ready.allocation.mu) == (account == "gaussian")
    (publisher,) = ready.publishers
    found, share = ready.allocation.sensitivities[0], ready.allocation.questions[0]
    publisher.check(found, share)
    assert "sensitivity" in refusal(publisher, replace(found, cell=found.cell * 2, square=found.square * 4), share)
    less = replace(share, epsilon=share.epsilon * 0.999, mu=share.mu * 0.999)
    assert "less private" in refusal(publisher, found, less)
    other = replace(share, epsilon=1.0, mu=0.0 if share.mu else 1.0)
    assert "another account" in refusal(publisher, found, other)


TREE = 'kind = "hierarchy"\nby = '
FAULTS = {
    'kind = "crosstab"\nby = ["sex"]': "by: must name 2 to 8 columns",
    'kind = "crosstab"\nby = ["sex", "shoe"]': "keys of 'shoe' must be public",
    'kind = "crosstab"\nby = ["sex", "city"]\nsupport = [0, 9]': "support: is not for this kind",
    'kind = "crosstab"\nby = ["sex", "city"]\nstep = 5': "step: is not for this kind",
    f'{TREE}["sex", "city"]\nlevels = [{{name = "l", members = {{x = ["f"]}}}}]': "by: must name one column",
    f'{TREE}["sex"]\nlevels = [{{name = "l", members = {{x = ["f"]}}}}]': "key 'm' has no l",
    f'{TREE}["sex"]\nlevels = [{{name = "l", members = {{x = ["f"], y = ["m", "f"]}}}}]': "'f' is in more than one l",
    f'{TREE}["sex"]\nlevels = [{{name = "l", members = {{x = ["f", "m", "o"]}}}}]': "'o' is listed in a l, but",
    'kind = "series"\nby = ["day"]': "consecutive days",
    'kind = "series"\nby = ["sex"]\ntotals = ["week", "week"]': "named twice",
    'kind = "series"\nby = ["sex"]\ntotals = ["year"]': "totals",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_plan_that_cannot_be_is_refused(text):
    head = "budget = {epsilon = 1.0, delta = 1e-6}\n"
    head += 'keys = {sex = ["f", "m"], city = ["a"], day = [2025-01-01, 2025-01-03]}\n'
    other = '[[query]]\nname = "n"\nkind = "count"\nby = ["sex", "city", "day"]\n'
    with pytest.raises(PlanError, match=FAULTS[text].split(":", maxsplit=1)[-1].strip()):
        parse_plan(f'{head}{other}[[query]]\nname = "t"\n{text}\n')


def test_too_many_numbers_are_refused():
    query = {"kind": "crosstab", "by": ["a", "b", "c"]}
    with pytest.raises(PlanError, match="over"):
        asked(query, keys={name: list(range(60)) for name in "abc"})
    keys = {name: list(range(30)) for name in "abc"}  # whole numbers that add up would take minutes
    with pytest.raises(PlanError, match="over 10000 numbers, with all margins"):
        asked(query, keys=keys)
    assert asked({**query, "margins": False}, keys=keys)


@pytest.mark.parametrize("what", ["draw", "radii"])
def test_what_cannot_be_drawn_is_refused_before_the_charge(monkeypatch, what):
    def fails(*_):
        raise ArithmeticError("no such noise")

    ready = prepare(plan_of("tree", ACCOUNTS["pure"]))
    owner = workload_publisher.WorkloadPublisher
    monkeypatch.setattr(owner, what, fails if what == "draw" else property(fails))
    with pytest.raises(PlanError, match="no such noise"):
        rehearse(ready)


@pytest.mark.parametrize("sizes", [(2, 3), (4, 3), (3, 2, 4), (2, 1, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_pure_crosstabs_are_answered_by_least_squares(sizes, seed):
    """Second route: generalised least squares with matrices, for any choice of measured margins."""
    chance = np.random.default_rng(seed)
    found = with_margins(*sizes)
    scales = np.where(chance.random(len(found.wanted)) < 0.6, chance.uniform(0.5, 20.0, len(found.wanted)), 0.0)
    scales[0] = 5.0
    measured = LaplaceStrategy(margins=found, contributions=Contributions(), scales=tuple(scales.tolist()))
    cells = np.eye(int(found.counts[0]))
    ones = [np.concatenate([each.ravel() for each in found.tables(wholes(one))]) for one in cells]
    wanted = np.array(ones, dtype=np.float64).T  # all numbers of the cells, by adding up
    strategy = wanted[np.repeat(scales > 0, found.counts)]  # those that are measured
    noise = np.concatenate([np.full(cell_count(sizes, each), one.variance) for each, one in measured.measured.items()])
    weighed = strategy.T / noise
    solved = wanted @ np.linalg.solve(weighed @ strategy, weighed)
    drawn = chance.integers(-50, 500, len(strategy)).astype(float).tolist()
    assert measured.size == len(drawn)
    assert measured.answers(drawn).values == pytest.approx(solved @ drawn, abs=1e-6)
    assert measured.variances == pytest.approx((solved**2 * noise).sum(axis=1), rel=1e-9)
    scales = np.concatenate([np.full(cell_count(sizes, at), one.scale) for at, one in measured.measured.items()])
    reach = np.abs(solved) * scales
    exact = laplace_radius((reach**2).sum(axis=1), reach.max(axis=1), 0.95)
    linked = slice(found.counts[0] if len(measured.noises) == 1 else 0, None)  # cells that are measured alone have less
    assert (measured.radii(0.95)[linked] >= exact[linked] * (1 - 1e-9)).all()
    assert (measured.radii(0.95) <= 2.0 * exact + 1.0).all()


def empty_totals(kind, runs, project_again=None):
    """The published total of a table of empty cells at epsilon 0.1, in its standard errors."""
    keys, more = EMPTY[kind]
    plan = asked({"kind": kind, "by": list(keys), **more}, epsilon=0.1, keys=keys)
    publisher = prepare(plan).publishers[0]
    cells = math.prod(len(each) for each in plan.columns(plan.query[0].by))
    spread = math.sqrt(publisher.variances[-1])
    found = []
    for _ in range(runs):
        drawn = publisher.draw([(Fraction(0),)] * cells, secure_bits)
        if project_again is None:
            found.append(publisher.read(drawn)[0][-1].values[0] / spread)
        else:
            answers = publisher.unclamped(drawn[0])
            found.append(project_again(publisher, answers)[-1] / spread)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EMPTY)
def test_the_total_of_empty_cells_is_near_zero(kind):
    """A total is never negative: on average it is too large by less than a normal number that is cut at zero, twice."""
    totals = empty_totals(kind, 25)
    assert totals.max() < 6.0
    assert totals.mean() < 0.8 + 5.0 * 0.7 / 5.0


def weighted(publisher, answers):
    """The nearest numbers that are not negative and add up, by weights of 1 / variance."""
    sums, roots = publisher.workload.sums, publisher.variances**-0.5
    parts = [sums.parts[first:stop].tolist() for first, stop in itertools.pairwise(sums.starts)]
    rows = leaves_of(len(answers), list(zip(sums.totals.tolist(), parts, strict=True)))
    return rows @ nnls(roots[:, None] * rows, roots * answers)[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["crosstab", "hierarchy"])
def test_control_weights_of_one_over_variance_raise_the_total_of_empty_cells(kind):
    assert empty_totals(kind, 5, weighted).mean() > 4.0


@pytest.mark.long
@pytest.mark.parametrize("kind", EMPTY)
def test_the_total_of_empty_cells_is_within_three_standard_errors(kind):
    totals = empty_totals(kind, 1000)
    most = {"crosstab": 35}.get(kind, 15)  # 2.7 are expected of normal noise; a crosstab's total has one Laplace number
    assert (np.abs(totals) > 3.0).sum() <= most
